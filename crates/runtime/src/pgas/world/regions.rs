//! Memory that the program adds to its checkpoints, or excludes from them.
//!
//! Private memory (a loop counter on the stack, a C++ object) can be registered: its bytes are part
//! of the manifest, and are restored by name (`store::private`). Symmetric memory that can be
//! recomputed can be excluded, until it is freed.
//!
//! A region that was registered after the restored checkpoint is not in it. It gets the bytes that
//! it had at registration, so that a survivor continues like a substitute that registers it anew.
//! Those bytes are kept until a checkpoint holds the region.

use std::ops::Range;

use raidshmem_core::store::coverage::without;
use raidshmem_core::store::private::{self, Misfit, Saved};
use raidshmem_core::store::readonly::ReadOnly;

/// The name of a region. Names of different kinds never collide.
#[derive(Debug, Clone, Copy)]
pub enum Name<'a> {
    /// Given by the program.
    Given(&'a str),
    /// The place in the program that registers it; regions of one place are counted.
    Place(&'a str),
    /// A table of this library.
    Library(&'static str),
}

/// A registered region of private memory.
#[derive(Debug)]
struct Region {
    name: String,
    addr: usize,
    len: usize,
    /// The contents at registration; None once a checkpoint holds the region.
    first: Option<Box<[u8]>>,
}

impl Region {
    fn bytes(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the promise made to `register`: readable, and unchanged meanwhile.
        unsafe { std::slice::from_raw_parts(self.addr as *const u8, self.len) }
    }

    fn restore(&self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.len, "{}", self.name);
        // SAFETY: the promise made to `register`: writable, and not used by any other code
        // meanwhile. The bytes are a copy that the library owns.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.addr as *mut u8, self.len) };
    }
}

/// The memory that a program registered and excluded.
#[derive(Debug, Default)]
pub struct Regions {
    private: Vec<Region>,
    /// Segment offsets that no checkpoint covers: sorted, and not empty.
    pub(in crate::pgas) excluded: Vec<Range<usize>>,
    /// Read-only ranges, which are protected separately since the program does not write them.
    pub(in crate::pgas) readonly: Vec<ReadOnly>,
}

impl Regions {
    /// Registers private memory. A name that is registered again refers to the new region from then
    /// on; at a place, memory that is already registered is left alone.
    ///
    /// # Safety
    /// `[addr, addr + len)` must be readable and writable until the job ends, or its name is
    /// registered again. No other code may use it during a checkpoint, a restart or this call.
    pub unsafe fn register(&mut self, name: Name, addr: usize, len: usize) {
        let name = match name {
            Name::Given(name) => format!("`{name}`"),
            Name::Library(name) => format!("the library's {name}"),
            Name::Place(place) => {
                let begins = format!("{place}, call ");
                let of_place = || self.private.iter().filter(|of| of.name.starts_with(&begins));
                if of_place().any(|region| (region.addr, region.len) == (addr, len)) {
                    return;
                }
                format!("{begins}{}, {len} bytes", of_place().count() + 1)
            }
        };
        let mut region = Region { name, addr, len, first: None };
        let before = self.private.iter().position(|before| before.name == region.name);
        if before.is_none_or(|at| self.private[at].first.is_some()) {
            region.first = Some(region.bytes().into());
        }
        match before {
            Some(at) => self.private[at] = region,
            None => self.private.push(region),
        }
    }

    /// Returns the registered bytes with their names.
    pub(in crate::pgas) fn gather<'a>(&'a self) -> Vec<u8> {
        let saved = |region: &'a Region| Saved { name: &region.name, contents: region.bytes() };
        private::encode(self.private.iter().map(saved))
    }

    /// Notes that a checkpoint holds every region.
    pub(in crate::pgas) fn saved(&mut self) {
        self.private.iter_mut().for_each(|region| region.first = None);
    }

    /// Restores every region from a checkpoint; a region that is not in it gets its contents at
    /// registration.
    pub(in crate::pgas) fn scatter(&self, saved: &[Saved]) -> Result<(), Misfit> {
        let registered: Vec<(&str, usize)> =
            self.private.iter().map(|region| (region.name.as_str(), region.len)).collect();
        let found = private::fit(saved, &registered)?;
        for (region, contents) in self.private.iter().zip(found) {
            contents.or(region.first.as_deref()).into_iter().for_each(|held| region.restore(held));
        }
        Ok(())
    }

    /// Excludes a range from every later checkpoint.
    pub(in crate::pgas) fn exclude(&mut self, range: Range<usize>) {
        self.include(range.clone());
        if !range.is_empty() {
            let at = self.excluded.partition_point(|before| before.start < range.start);
            self.excluded.insert(at, range);
        }
    }

    /// Includes a range in every later checkpoint again.
    pub(in crate::pgas) fn include(&mut self, range: Range<usize>) {
        let excluded = std::mem::take(&mut self.excluded);
        self.excluded = excluded.into_iter().flat_map(|piece| without(piece, &range)).collect();
    }

    /// Copies the exclusions in `from` to the range of the same length at `to`.
    pub(in crate::pgas) fn moved(&mut self, from: Range<usize>, to: usize) {
        let inside = |piece: &Range<usize>| {
            let (start, end) = (piece.start.max(from.start), piece.end.min(from.end));
            (start < end).then(|| start - from.start + to..end - from.start + to)
        };
        let there: Vec<Range<usize>> = self.excluded.iter().filter_map(inside).collect();
        there.into_iter().for_each(|piece| self.exclude(piece));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(regions: &mut Regions, name: Name, bytes: &mut [u8]) {
        // SAFETY: locals that outlive the registry.
        unsafe { regions.register(name, bytes.as_mut_ptr() as usize, bytes.len()) };
    }

    fn names(regions: &Regions) -> Vec<&str> {
        regions.private.iter().map(|region| region.name.as_str()).collect()
    }

    #[test]
    pub(in crate::pgas) fn gathered_bytes_are_restored_by_name() {
        let (mut a, mut b) = ([1u8, 2, 3], [9u8; 5]);
        let mut regions = Regions::default();
        register(&mut regions, Name::Given("a"), &mut a);
        register(&mut regions, Name::Given("b"), &mut b);
        let bytes = regions.gather();
        let (mut c, mut d) = ([0u8; 3], [0u8; 5]);
        let mut other = Regions::default();
        register(&mut other, Name::Given("b"), &mut d);
        let misfit = other.scatter(&private::decode(&bytes).unwrap()).unwrap_err();
        assert_eq!(misfit, Misfit::Missing { name: "`a`".into(), saved: 3 });
        register(&mut other, Name::Given("a"), &mut c);
        other.scatter(&private::decode(&bytes).unwrap()).unwrap();
        assert_eq!((c, d), (a, b));
    }

    #[test]
    fn a_region_missing_in_a_checkpoint_is_restored_from_its_registration() {
        let mut bytes = [1u8; 4];
        let mut regions = Regions::default();
        register(&mut regions, Name::Given("late"), &mut bytes);
        bytes.fill(2);
        regions.scatter(&[]).unwrap();
        assert_eq!(bytes, [1; 4]);
        bytes.fill(3);
        register(&mut regions, Name::Given("late"), &mut bytes);
        bytes.fill(4);
        regions.scatter(&[]).unwrap();
        assert_eq!(bytes, [3; 4]);
        regions.saved();
        bytes.fill(5);
        let gathered = regions.gather();
        bytes.fill(6);
        regions.scatter(&private::decode(&gathered).unwrap()).unwrap();
        assert_eq!(bytes, [5; 4]);
    }

    #[test]
    fn regions_of_a_place_are_numbered_and_repeats_count_once() {
        let (mut a, mut b) = ([0u8; 3], [0u8; 5]);
        let mut regions = Regions::default();
        register(&mut regions, Name::Place("x+0x10"), &mut a);
        register(&mut regions, Name::Place("x+0x1"), &mut a);
        register(&mut regions, Name::Place("x+0x10"), &mut b);
        register(&mut regions, Name::Place("x+0x10"), &mut a);
        let places = ["x+0x10, call 1, 3 bytes", "x+0x1, call 1, 3 bytes"];
        assert_eq!(names(&regions)[..2], places);
        assert_eq!(names(&regions)[2..], ["x+0x10, call 2, 5 bytes"]);
        register(&mut regions, Name::Given("x"), &mut a);
        register(&mut regions, Name::Given("x"), &mut b);
        register(&mut regions, Name::Library("x"), &mut b);
        assert_eq!(names(&regions)[3..], ["`x`", "the library's x"]);
        assert_eq!(regions.private[3].len, 5);
    }

    #[test]
    fn attributes_of_memory_are_cut_and_moved_with_it() {
        let mut regions = Regions::default();
        regions.exclude(100..200);
        regions.exclude(150..250);
        regions.exclude(10..20);
        assert_eq!(regions.excluded, [10..20, 100..150, 150..250]);
        regions.include(120..160);
        assert_eq!(regions.excluded, [10..20, 100..120, 160..250]);
        regions.moved(110..170, 1000);
        assert_eq!(regions.excluded[3..], [1000..1010, 1050..1060]);
        regions.include(0..500);
        assert_eq!(regions.excluded, [1000..1010, 1050..1060]);
    }
}
