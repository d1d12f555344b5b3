//! Segments: the memory a PE shows to others, and the library's store behind it.
//!
//! A [`Segment`] is a mapping of one PE's memory file, the own one at the fixed address
//! [`layout::BASE`] or a peer's wherever the kernel put it. This module turns offsets into memory
//! and is, with `words` and `statics`, the only place that does.
//!
//! Invariants: offsets are checked against the layout before they become addresses. Control words
//! and the store header are touched through atomics only. The store is written by its owner alone.
//! Bulk bytes of a peer may change under a reader only where the protocol is broken; what is read
//! from a store is checksummed before it is believed.

pub mod layout;
pub mod statics;
pub mod words;

use std::os::fd::BorrowedFd;

use crate::store::format::Header;
use crate::sys::memory::Mapping;
use layout::Layout;
use words::Words;

/// One PE's memory as this process sees it.
#[derive(Debug)]
pub struct Segment {
    map: Mapping,
    layout: Layout,
}

impl Segment {
    /// Maps a PE's memory file, at `at` if given and free.
    pub fn attach(
        fd: BorrowedFd,
        layout: Layout,
        at: Option<usize>,
    ) -> rustix::io::Result<Segment> {
        Ok(Segment { map: Mapping::new(fd, layout.total, at)?, layout })
    }

    /// Address of the first byte here.
    pub fn base(&self) -> *mut u8 {
        self.map.base()
    }

    /// The control words.
    pub fn words(&self) -> &Words {
        // SAFETY: the first page of a segment holds the words, which every process touches through
        // atomics only; the mapping lives as long as self and is page-aligned.
        unsafe { &*self.map.base().cast() }
    }

    /// The store header.
    pub fn header(&self) -> &Header {
        // SAFETY: the page at `store` holds the header, all of it atomics, page-aligned.
        unsafe { &*self.map.base().add(self.layout.store).cast() }
    }

    /// `len` bytes at `offset`.
    pub fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        self.check(offset, len);
        // SAFETY: inside the mapping (checked). Nobody writes these bytes while they are read: live
        // memory is read between the barriers of a checkpoint or recovery, when no program runs,
        // and store bytes are written by their owner in other phases only (module invariants).
        unsafe { std::slice::from_raw_parts(self.map.base().add(offset), len) }
    }

    /// `len` bytes at `offset`, to be written. Only the owner writes its store; live memory is
    /// written by the library only between the barriers of a recovery.
    #[allow(clippy::mut_from_ref)] // the memory is shared between processes: `&mut self` would not make it exclusive
    pub fn bytes_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        self.check(offset, len);
        // SAFETY: inside the mapping (checked); the phases of the protocol give each byte one
        // writer and no reader at a time, as in `bytes`, and within this process one thread drives
        // the protocol (`World::collective`).
        unsafe { std::slice::from_raw_parts_mut(self.map.base().add(offset), len) }
    }

    fn check(&self, offset: usize, len: usize) {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.layout.total),
            "bytes {offset}+{len} of a segment of {}",
            self.layout.total
        );
    }

    /// Lets this process write the store part, or forbids it.
    pub fn unlock_store(&self, writable: bool) {
        let (from, len) = (self.layout.store, self.layout.total - self.layout.store);
        self.map.protect(from, len, writable).expect("protection of an own mapping");
    }

    /// Keeps the mapping for the rest of the process: pointers into it may still be in use.
    pub fn leak(self) -> &'static Segment {
        Box::leak(Box::new(self))
    }
}
