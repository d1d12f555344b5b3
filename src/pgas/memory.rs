//! Symmetric memory of this PE: the allocator's answers as addresses, and what the store occupies.

#![forbid(unsafe_code)]

use super::world::{World, lock};
use crate::segment::layout::BASE;

impl World {
    /// Allocates `size` bytes of the symmetric heap at a multiple of `align`; null if there is no
    /// room. Symmetric only if every PE makes the same calls in the same order.
    ///
    /// Offsets follow from the usual address of a segment, so they are the same on every PE.
    pub fn heap_alloc(&self, size: usize, align: usize) -> *mut u8 {
        match lock(&self.heap).alloc_from(BASE + self.segments.layout().heap, size, align) {
            Some(offset) => self.segments.at(self.segments.layout().heap + offset),
            None => std::ptr::null_mut(),
        }
    }

    /// True if all PEs can have memory at multiples of `align` in this process.
    pub fn can_align(&self, align: usize) -> bool {
        self.segments.own().base().addr().wrapping_sub(BASE).is_multiple_of(align)
    }

    fn heap_offset(&self, ptr: *mut u8) -> Option<usize> {
        let offset = (ptr as usize)
            .wrapping_sub(self.segments.own().base() as usize + self.segments.layout().heap);
        (offset < self.segments.layout().heap_len).then_some(offset)
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
        let at = self.segments.layout().heap;
        self.segments.write_own(at + new, self.segments.own().bytes(at + offset, old.min(size)));
        let _ = heap.free(offset);
        drop(heap);
        self.move_said_of(offset..offset + old.min(size), new);
        self.forget_said_of(offset..offset + old);
        self.segments.at(at + new)
    }
}
