//! Loading of a PE's memory from a file that another build of its program wrote: the heap is
//! unchanged, and each variable moves to its location in this build. Other variables of this build
//! keep their initial values.
//!
//! Invariant: data that may be an address in the program is never taken as plain data, unless that
//! was requested.

#![forbid(unsafe_code)]

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use raidshmem_archive::part::{Area, Extent, Object};
use raidshmem_archive::program::Program;
use raidshmem_archive::rebuilt::{address_in, pair};
use raidshmem_core::layout::Layout;
use raidshmem_segment::statics::{self, Statics};
use raidshmem_sys::pool::WorkerPool;

use super::input::{Input, Line, LoadError, LoadTarget, place};
use super::variables;

/// Bytes that are scanned at a time.
const PIECE: u64 = 16 << 20;

/// Returns the contents of the snapshot in this build of the program, `own`; with `all`, possible
/// addresses in the other build are accepted as data.
///
/// # Errors
/// This build lacks some of the saved variables, or some saved data may be an address.
pub fn line(
    input: &Input,
    target: &LoadTarget,
    own: &Program,
    all: bool,
) -> Result<Line, LoadError> {
    let other = Other { input, pool: target.pool, all };
    other.is_named(&variables::name_of(Path::new("/proc/self/exe")))?;
    let found = statics::find().map_err(|error| other.refused(&error.to_string()))?;
    let (image, ranges) = match &found {
        Some(statics) => (other.variables(statics, own)?, ranges(statics)),
        None => (Vec::new(), Vec::new()),
    };
    other.heap_is_data()?;
    let at = |range: &Range<usize>| {
        target.own.layout().statics + range.start..target.own.layout().statics + range.end
    };
    let statics = ranges.iter().map(at).collect::<Vec<_>>();
    let (coverage, begin) = input.build(target, &statics, true)?;
    let end = ranges.into_iter().flat_map(|range| image[range].iter().copied()).collect();
    let line = Line { coverage, begin, end };
    match has_its_heap(input, target.own.layout(), &line) {
        true => Ok(line),
        false => Err(input.misfit("its extents are not those of its heap")),
    }
}

/// Returns the program's own bytes of the statics, as offsets from their first.
fn ranges(statics: &Statics) -> Vec<Range<usize>> {
    let (mut ranges, mut from) = (Vec::new(), 0);
    for hole in &statics.excluded {
        ranges.push(from..hole.start - statics.start);
        from = hole.end - statics.start;
    }
    ranges.push(from..statics.len);
    ranges.retain(|range| !range.is_empty());
    ranges
}

/// Returns true if the contents between `begin` and `end` are the heap of the file, which comes
/// first there.
fn has_its_heap(input: &Input, layout: &Layout, line: &Line) -> bool {
    let Line { coverage, begin, end } = line;
    let covered = coverage.pieces(begin.len()..coverage.len() - end.len());
    let heap = input.file.head.extents.iter().take_while(|extent| extent.area == Area::Heap);
    let saved: Vec<Range<usize>> = heap.map(|extent| place(layout, extent)).collect();
    let rest = &input.file.head.extents[saved.len()..];
    let is_heap = |extent: &Extent| extent.area == Area::Heap;
    covered.map(|piece| piece.range()).eq(saved) && !rest.iter().any(is_heap)
}

/// A file of another build.
struct Other<'a> {
    input: &'a Input,
    pool: &'a WorkerPool,
    /// True if possible addresses are data.
    all: bool,
}

impl Other<'_> {
    fn refused(&self, why: &str) -> LoadError {
        LoadError::Build { path: self.input.file.path.clone(), why: why.to_owned() }
    }

    fn is_named(&self, name: &str) -> Result<(), LoadError> {
        let head = &self.input.file.head;
        match () {
            () if head.program != name => {
                let there = head.program.escape_debug();
                Err(self.refused(&format!("that of {there}, expected {}", name.escape_debug())))
            }
            () if head.image.is_empty() && !self.all => {
                let why = "its addresses are not known; --resume-rebuilt treats all words as data";
                Err(self.refused(why))
            }
            () => Ok(()),
        }
    }

    /// Fails if these bytes, which begin at offset `at`, may contain an address in the program.
    fn is_data(&self, what: &str, bytes: &[u8], at: u64) -> Result<(), LoadError> {
        let found = address_in(bytes, at, &self.input.file.head.image);
        match found.filter(|_| !self.all) {
            None => Ok(()),
            Some(nth) => Err(self.refused(&format!(
                "{what} may hold an address in it, at byte {nth}; --resume-rebuilt treats it as \
                 data"
            ))),
        }
    }

    /// Iterates over the extents of the file and the offsets of their bytes in it.
    fn extents(&self) -> impl Iterator<Item = (u64, &Extent)> {
        self.input.file.head.extents.iter().scan(0, |from, extent| {
            let at = *from;
            *from += extent.len;
            Some((at, extent))
        })
    }

    /// Fails if heap or private memory may hold addresses.
    fn heap_is_data(&self) -> Result<(), LoadError> {
        if self.all {
            return Ok(());
        }
        for (from, extent) in self.extents().filter(|(_, extent)| extent.area == Area::Heap) {
            for at in (0..extent.len).step_by(PIECE as usize) {
                let end = extent.len.min(at + PIECE);
                let bytes = self.input.bytes(from + at..from + end, self.pool)?;
                let what = format!("the heap from byte {}", extent.offset + at);
                self.is_data(&what, &bytes, extent.offset + at)?;
            }
        }
        let head = &self.input.file.head;
        let mut from: u64 = head.extents.iter().map(|extent| extent.len).sum();
        for region in &head.regions {
            let bytes = self.input.bytes(from..from + region.len, self.pool)?;
            let what = format!("private memory {}", region.name.escape_debug());
            self.is_data(&what, &bytes, 0)?;
            from += region.len;
        }
        Ok(())
    }

    /// Returns the statics of this process, with the saved variables.
    fn variables(&self, statics: &Statics, own: &Program) -> Result<Vec<u8>, LoadError> {
        let mut image = vec![0; statics.len];
        let mut read = |memory: &File, piece: &Range<usize>| {
            memory.read_exact_at(&mut image[statics.offsets(piece)], piece.start as u64)
        };
        let read = |memory: File| statics.pieces.iter().try_for_each(|piece| read(&memory, piece));
        let read = File::open("/proc/self/mem").and_then(read);
        read.map_err(|error| LoadError::System { what: "this program", error })?;
        let head = &self.input.file.head;
        let is_static = |extent: &Extent| extent.area == Area::Statics;
        if head.excluded.iter().any(is_static) {
            return Err(self.refused("variables were left out of its checkpoint"));
        }
        let saved: Vec<(u64, &Extent)> =
            self.extents().filter(|(_, extent)| is_static(extent)).collect();
        if head.objects.is_empty() && !saved.is_empty() {
            return Err(self.refused("it has no symbols"));
        }
        let is_saved = |it: &&Object| saved.iter().any(|(_, extent)| common(it, extent).is_some());
        let objects: Vec<&Object> = head.objects.iter().filter(is_saved).collect();
        let here = variables::objects(own);
        let pairs = pair(&objects, &here).map_err(|error| self.refused(&error.to_string()))?;
        for (there, here) in pairs {
            for &(from, extent) in &saved {
                let Some(range) = common(there, extent) else { continue };
                let at = from + range.start - extent.offset;
                let len = range.end - range.start;
                let bytes = self.input.bytes(at..at + len, self.pool)?;
                self.is_data(&format!("variable {}", there.name), &bytes, range.start)?;
                let to = (here.offset + range.start - there.offset) as usize;
                image[to..to + bytes.len()].copy_from_slice(&bytes);
            }
        }
        Ok(image)
    }
}

/// Returns the part of a variable that an extent contains, as offsets in the statics.
fn common(object: &Object, extent: &Extent) -> Option<Range<u64>> {
    let end = object.offset.checked_add(object.len)?.min(extent.offset + extent.len);
    let range = object.offset.max(extent.offset)..end;
    (extent.area == Area::Statics && !range.is_empty()).then_some(range)
}
