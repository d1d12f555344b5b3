//! Symmetric memory of this PE: its allocations, and the coverage of a checkpoint.
//!
//! Invariants: `heap` is the current state of the allocator; `covered` belongs to the checkpoint
//! being made or last restored.

use std::ops::Range;
use std::sync::{Mutex, OnceLock};

use raidshmem_core::heap::Heap;
use raidshmem_core::layout::BASE;
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::store::coverage::{Coverage, Manifest, ManifestError};
use raidshmem_core::store::objects::{self, LoadedObject};
use raidshmem_core::store::private::{self, Misfit, Saved};
use raidshmem_core::store::readonly::ReadOnly;
use raidshmem_sys::{caller, lock, site, startup};

use super::advised::Advised;
use super::regions::{Name, Regions};
use super::segments::Segments;

/// The byte that an audited restart writes to memory that a plan left out.
const AUDITED: u8 = 0xa5;
/// The reason that a block cannot be freed or resized.
pub const READONLY: &str = "it has a range that is read-only: shmemx_ft_writable comes first";

/// The heap, the registered regions and the coverage of the own segment.
#[derive(Debug)]
pub struct PeMemory {
    segments: &'static Segments,
    heap: Mutex<Heap>,
    regions: Mutex<Regions>,
    covered: Mutex<Option<Coverage>>,
    advised: OnceLock<Advised>,
}

impl PeMemory {
    /// Returns symmetric memory with nothing allocated.
    pub(in crate::pgas) fn new(segments: &'static Segments) -> PeMemory {
        let heap = Mutex::new(Heap::new(segments.layout().heap_len));
        let (regions, covered) = (Mutex::default(), Mutex::new(None));
        PeMemory { segments, heap, regions, covered, advised: OnceLock::new() }
    }

    /// Makes checkpoints follow a plan; called before the first allocation.
    pub(in crate::pgas) fn advise(&self, advised: Advised) {
        let table = self.advised.get_or_init(|| advised).table();
        let (at, len) = (table.as_ptr() as usize, size_of_val(table));
        // SAFETY: the table lives as long as this value, which the process keeps. Its words may be
        // written through a shared reference, under the lock of the heap, which checkpoints hold.
        unsafe { self.register(Name::Library("plan"), at, len) };
    }

    /// Returns the plan in force.
    pub(crate) fn advised(&self) -> Option<&Advised> {
        self.advised.get()
    }

    /// Allocates `size` bytes of the symmetric heap at a multiple of `align`; null if they do not
    /// fit. Symmetric only if every PE makes the same calls in the same order.
    ///
    /// Offsets follow from the usual address of a segment, so they are the same on every PE.
    pub fn alloc(&self, size: usize, align: usize) -> *mut u8 {
        let mut heap = lock(&self.heap);
        match heap.alloc_from(BASE + self.segments.layout().heap, size, align) {
            Some(offset) => {
                if let Some(advised) = self.advised() {
                    advised.allocated(offset, site::here().chain.first().copied().unwrap_or(0));
                }
                self.segments.at(self.segments.layout().heap + offset)
            }
            None => std::ptr::null_mut(),
        }
    }

    /// Returns true if all PEs can have memory at multiples of `align` in this process.
    pub fn can_align(&self, align: usize) -> bool {
        self.segments.own().base().addr().wrapping_sub(BASE).is_multiple_of(align)
    }

    fn offset(&self, ptr: *mut u8) -> Option<usize> {
        let offset = (ptr as usize)
            .wrapping_sub(self.segments.own().base() as usize + self.segments.layout().heap);
        (offset < self.segments.layout().heap_len).then_some(offset)
    }

    /// Frees a block that [`Self::alloc`] returned.
    pub fn free(&self, ptr: *mut u8) -> Result<(), String> {
        let offset = self.offset(ptr).ok_or("not in the symmetric heap")?;
        if self.is_readonly(ptr) {
            return Err(READONLY.into());
        }
        let mut heap = lock(&self.heap);
        let size = heap.free(offset).map_err(|error| error.to_string())?;
        self.advised().inspect(|advised| advised.forget(offset));
        drop(heap);
        self.forget_attributes_of(offset..offset + size);
        Ok(())
    }

    /// Returns true if the block that begins at `ptr` has a read-only range.
    pub fn is_readonly(&self, ptr: *mut u8) -> bool {
        let at = self.segments.layout().heap;
        let block = self.offset(ptr).and_then(|offset| lock(&self.heap).block_at(offset));
        let block = block.map(|block| at + block.start..at + block.end);
        let meets = |range: Range<usize>| {
            block.as_ref().is_some_and(|block| range.start < block.end && block.start < range.end)
        };
        lock(&self.regions).readonly.iter().any(|range| meets(range.range()))
    }

    /// Returns the read-only ranges.
    pub(crate) fn readonly(&self) -> Vec<ReadOnly> {
        lock(&self.regions).readonly.clone()
    }

    /// Makes a range read-only from the next checkpoint on, or writable again.
    pub(crate) fn set_readonly(&self, range: ReadOnly, is_readonly: bool) {
        let all = &mut lock(&self.regions).readonly;
        all.retain(|other| *other != range);
        if is_readonly {
            all.push(range);
            all.sort_unstable();
        }
    }

    /// Returns the offsets of the bytes `[addr, addr + len)`, if they lie in one block of the heap.
    pub(crate) fn in_block(&self, addr: usize, len: usize) -> Option<Range<usize>> {
        let range = self.allocated(&lock(&self.heap), addr, len)?;
        (range.start >= self.segments.layout().heap).then_some(range)
    }

    /// Like `in_block`, but accepts bytes of the statics too.
    fn allocated(&self, heap: &Heap, addr: usize, len: usize) -> Option<Range<usize>> {
        let range = self.segments.offset_of(addr, len).map(|offset| offset..offset + len)?;
        let Some(at) = range.start.checked_sub(self.segments.layout().heap) else {
            return Some(range);
        };
        heap.block_at(at).is_some_and(|block| at + len <= block.end).then_some(range)
    }

    /// Returns the size of an allocation.
    pub fn size_of(&self, ptr: *mut u8) -> Option<usize> {
        lock(&self.heap).size_of(self.offset(ptr)?)
    }

    /// Grows or shrinks an allocation, moving it if necessary; null if it does not fit, in which
    /// case the old block stays.
    pub fn resize(&self, ptr: *mut u8, size: usize) -> *mut u8 {
        let Some(offset) = self.offset(ptr) else { return std::ptr::null_mut() };
        let mut heap = lock(&self.heap);
        let Some(old) = heap.size_of(offset) else { return std::ptr::null_mut() };
        self.advised().inspect(|advised| advised.forget(offset));
        if heap.resize(offset, size) == Ok(true) {
            drop(heap);
            self.forget_attributes_of(offset + size..offset + old.max(size));
            return ptr;
        }
        let Some(new) = heap.alloc(size, 64) else { return std::ptr::null_mut() };
        let at = self.segments.layout().heap;
        self.segments.write_own(at + new, self.segments.own().bytes(at + offset, old.min(size)));
        let _ = heap.free(offset);
        drop(heap);
        self.move_attributes_of(offset..offset + old.min(size), new);
        self.forget_attributes_of(offset..offset + old);
        self.segments.at(at + new)
    }

    // ---- coverage of checkpoints --------------------------------------------------------------

    /// Adds private memory to every later checkpoint.
    ///
    /// # Safety
    /// As for [`Regions::register`].
    pub(crate) unsafe fn register(&self, name: Name, addr: usize, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { lock(&self.regions).register(name, addr, len) };
    }

    /// Excludes the symmetric bytes `[addr, addr + len)` from every later checkpoint until they are
    /// freed; if `covered`, includes them again. Returns false if they are not in one block of the
    /// heap or in the statics.
    pub fn set_covered(&self, addr: usize, len: usize, covered: bool) -> bool {
        let heap = lock(&self.heap);
        let Some(range) = self.allocated(&heap, addr, len) else { return false };
        let mut regions = lock(&self.regions);
        if covered {
            regions.include(range)
        } else {
            regions.exclude(range)
        }
        true
    }

    /// Drops the exclusions of freed heap offsets.
    fn forget_attributes_of(&self, freed: Range<usize>) {
        if breaks(Mutant::ExclusionOutlives) {
            return;
        }
        let at = self.segments.layout().heap;
        lock(&self.regions).include(at + freed.start..at + freed.end);
    }

    /// Copies the exclusions of heap offsets `from` to `to`, where their contents were copied.
    fn move_attributes_of(&self, from: Range<usize>, to: usize) {
        let at = self.segments.layout().heap;
        lock(&self.regions).moved(at + from.start..at + from.end, at + to);
    }

    fn described(&self, heap: &Heap) -> Result<(Coverage, Vec<u8>), ManifestError> {
        let (regions, layout) = (lock(&self.regions), self.segments.layout());
        let mut excluded = regions.excluded.clone();
        if let Some(advised) = self.advised() {
            let find = |range: &Range<u64>| self.find(range);
            excluded.extend(advised.left_out((heap, layout.heap), excluded.len(), find));
        }
        let mut private = regions.gather();
        private.extend(self.segments.statics().map(|_| saved_objects()).unwrap_or_default());
        let readonly: Vec<Range<usize>> =
            regions.readonly.iter().map(|range| range.range()).collect();
        let left_out = [&excluded[..], &readonly];
        let statics = self.segments.statics().map(|statics| statics.ranges(layout.statics));
        let statics = statics.unwrap_or_default();
        Coverage::build(layout, &statics, heap, left_out, &private)
    }

    /// Returns the segment offsets of the statics and of the allocated heap, which ascend.
    pub(crate) fn in_use(&self) -> Vec<Range<usize>> {
        let layout = self.segments.layout();
        let statics = self.segments.statics().map(|statics| statics.len);
        let statics = statics.map(|len| layout.statics..layout.statics + len);
        let live = lock(&self.heap).live().into_iter();
        let live = live.map(|range| layout.heap + range.start..layout.heap + range.end);
        statics.into_iter().chain(live).collect()
    }

    /// Returns the segment offsets of a variable, whose addresses count from the start of the
    /// executable.
    fn find(&self, range: &Range<u64>) -> Option<Range<usize>> {
        let len = (range.end - range.start) as usize;
        let at = caller::executable()?.checked_add(usize::try_from(range.start).ok()?)?;
        let at = self.segments.offset_of(at, len)?;
        Some(at..at + len)
    }

    /// Returns the manifest of the present data.
    pub(crate) fn manifest(&self) -> Result<Vec<u8>, ManifestError> {
        self.described(&lock(&self.heap)).map(|(_, manifest)| manifest)
    }

    /// Determines the coverage of a checkpoint of the present data, and writes its manifest.
    pub(crate) fn cover(&self) -> Result<Coverage, ManifestError> {
        let heap = lock(&self.heap); // held until the manifest is written
        self.advised().inspect(|advised| advised.begin());
        let (coverage, manifest) = self.described(&heap)?;
        self.segments.write_own(self.segments.layout().manifest, &manifest);
        *lock(&self.covered) = Some(coverage.clone());
        Ok(coverage)
    }

    /// Returns the coverage of the checkpoint being made.
    pub(crate) fn covered(&self) -> Coverage {
        lock(&self.covered).clone().expect("a checkpoint was begun")
    }

    /// Notes that an agreed checkpoint holds every registered region.
    pub(crate) fn note_saved(&self) {
        lock(&self.regions).saved();
    }

    /// Returns true if some symmetric memory is excluded from checkpoints.
    pub(crate) fn excludes(&self) -> bool {
        !lock(&self.regions).excluded.is_empty()
    }

    /// Adopts the allocator state, the coverage and the registered private memory of a snapshot.
    ///
    /// # Errors
    /// The snapshot does not fit what this process registered: no substitute would do better.
    pub(crate) fn adopt(&self, mut manifest: Manifest) -> Result<(), Misfit> {
        let saved = objects::take(&mut manifest.private).ok_or(Misfit::Unreadable)?;
        self.points_to_none_of(&objects::moved(saved, startup::objects()), &manifest)?;
        *lock(&self.heap) = manifest.heap;
        *lock(&self.covered) = Some(manifest.coverage);
        let mut regions = lock(&self.regions);
        regions.excluded = manifest.excluded;
        regions.readonly = manifest.readonly.iter().filter_map(ReadOnly::of).collect();
        regions.scatter(&manifest.private)?;
        if let Some(advised) = self.advised() {
            let left_out = advised.split(&mut regions.excluded);
            if advised.audits() {
                left_out.into_iter().for_each(|range| self.segments.fill_own(range, AUDITED));
            }
        }
        Ok(())
    }

    /// Fails if a saved word may be an address in one of `moved`. Searches memory that was
    /// restored, and private memory that will be.
    fn points_to_none_of(&self, moved: &[LoadedObject], manifest: &Manifest) -> Result<(), Misfit> {
        if moved.is_empty() {
            return Ok(());
        }
        let (own, coverage) = (self.segments.own(), &manifest.coverage);
        let pieces = coverage.pieces(0..coverage.len()).skip(1); // not the manifest itself
        let memory = pieces.map(|piece| piece.range()).chain(manifest.readonly.iter().cloned());
        let memory = memory.map(|it| {
            let at = self.segments.program_address(it.start);
            (own.live(it.start, it.len()), at, "memory")
        });
        let private = manifest.private.iter().map(|it| (it.contents, 0, it.name));
        let mut found = memory.chain(private).filter_map(|(bytes, at, holder)| {
            let (nth, object) = objects::address_in(bytes, at, moved)?;
            let (at, then) = (at + nth, object.addresses.start);
            let name = if object.name.is_empty() { "the executable" } else { &object.name };
            let (holder, object) = (holder.to_owned(), name.to_owned());
            Some(Misfit::Moved { holder, at, object, then })
        });
        found.next().map_or(Ok(()), Err)
    }
}

/// Returns the objects of this process, encoded for a manifest.
fn saved_objects() -> Vec<u8> {
    let contents = objects::encode(startup::objects());
    private::encode([Saved { name: objects::NAME, contents: contents.as_bytes() }].into_iter())
}
