//! Symmetric memory of this PE: the allocator's answers as addresses, and what the store occupies.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use super::world::{World, lock};
use crate::segment::layout::BASE;
use crate::segment::{self, Segment};
use crate::store::coverage::Coverage;
use crate::sys::memory;

impl World {
    /// Allocates `size` bytes of the symmetric heap at a multiple of `align`; null if there is no
    /// room. Symmetric only if every PE makes the same calls in the same order.
    ///
    /// Offsets follow from the usual address of a segment, so they are the same on every PE.
    pub fn heap_alloc(&self, size: usize, align: usize) -> *mut u8 {
        match lock(&self.heap).alloc_from(BASE + self.layout.heap, size, align) {
            Some(offset) => self.at(self.layout.heap + offset),
            None => std::ptr::null_mut(),
        }
    }

    /// True if all PEs can have memory at multiples of `align` in this process.
    pub fn can_align(&self, align: usize) -> bool {
        self.own.base().addr().wrapping_sub(BASE).is_multiple_of(align)
    }

    fn heap_offset(&self, ptr: *mut u8) -> Option<usize> {
        let offset = (ptr as usize).wrapping_sub(self.own.base() as usize + self.layout.heap);
        (offset < self.layout.heap_len).then_some(offset)
    }

    /// Frees what `heap_alloc` gave.
    pub fn heap_free(&self, ptr: *mut u8) -> Result<(), String> {
        let offset = self.heap_offset(ptr).ok_or("not in the symmetric heap")?;
        let size = lock(&self.heap).free(offset).map_err(|error| error.to_string())?;
        self.forget_said_of(offset..offset + size);
        Ok(())
    }

    /// Size of an allocation.
    pub fn heap_size_of(&self, ptr: *mut u8) -> Option<usize> {
        lock(&self.heap).size_of(self.heap_offset(ptr)?)
    }

    /// Grows or shrinks an allocation, moving it if it must; null if there is no room, and then the
    /// old one stays.
    pub fn heap_resize(&self, ptr: *mut u8, size: usize) -> *mut u8 {
        let Some(offset) = self.heap_offset(ptr) else { return std::ptr::null_mut() };
        let mut heap = lock(&self.heap);
        let Some(old) = heap.size_of(offset) else { return std::ptr::null_mut() };
        if heap.resize(offset, size) == Ok(true) {
            drop(heap);
            self.forget_said_of(offset + size..offset + old.max(size));
            return ptr;
        }
        let Some(new) = heap.alloc(size, 64) else { return std::ptr::null_mut() };
        let at = self.layout.heap;
        self.write_own(at + new, self.own.bytes(at + offset, old.min(size)));
        let _ = heap.free(offset);
        drop(heap);
        self.move_said_of(offset..offset + old.min(size), new);
        self.forget_said_of(offset..offset + old);
        self.at(at + new)
    }

    /// True if the job asks for huge pages.
    pub(super) fn is_large(&self) -> bool {
        segment::is_large(self.layout.heap_len, self.job.pages)
    }

    /// Asks for huge pages for a part of the own segment that is about to be used, if the job has
    /// them.
    pub fn ask_huge(&self, offset: usize, len: usize) {
        self.ask_huge_near(self.me, offset, len);
    }

    /// The same for a part of the segment of PE `pe`, if that is mapped here.
    pub fn ask_huge_near(&self, pe: usize, offset: usize, len: usize) {
        let near = self.near(pe).filter(|_| self.is_large());
        near.into_iter().for_each(|near| near.ask_huge(offset, len));
    }

    /// Asks for huge pages for the heap of a segment, if the job has them: whoever touches a page
    /// first says what it is.
    pub(super) fn ask_huge_heap(&self, segment: &Segment) {
        if self.is_large() {
            segment.ask_huge(self.layout.heap, self.layout.heap_len);
        }
    }

    /// The same for all that are mapped here.
    pub(super) fn ask_huge_heaps(&self) {
        (0..self.n_pes()).filter_map(|pe| self.near(pe)).for_each(|near| self.ask_huge_heap(near));
    }

    /// Bytes of the own live data that have no memory yet, and will have when they are read.
    pub(crate) fn absent(&self, coverage: &Coverage) -> u64 {
        let pieces = coverage.pieces(0..coverage.len());
        pieces.map(|(at, len)| memory::absent(&self.file, at, len)).sum()
    }

    /// Bytes of (snapshot, slots) this PE's store already occupies.
    pub(crate) fn store_used(&self) -> (usize, usize) {
        (self.used.0.load(Ordering::Relaxed), self.used.1.load(Ordering::Relaxed))
    }

    pub(crate) fn note_store_used(&self, snapshot: usize, slots: usize) {
        self.used.0.fetch_max(snapshot, Ordering::Relaxed);
        self.used.1.fetch_max(slots, Ordering::Relaxed);
    }
}
