//! Memory that ends at a page that must not be touched: an access one byte too far faults, instead
//! of yielding a wrong value that a test would have to notice.
//!
//! Unsafe because mapping memory is. Left out: a fence in front.

use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Whole pages followed by one that can be neither read nor written.
pub struct Fenced {
    base: NonNull<u8>,
    len: usize,
    page: usize,
}

impl Fenced {
    /// Maps at least `len` bytes, all 0.
    pub fn new(len: usize) -> Fenced {
        let page = rustix::param::page_size();
        let len = len.next_multiple_of(page);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an unused address.
        let base = unsafe {
            mmap_anonymous(ptr::null_mut(), len + page, access, MapFlags::PRIVATE).unwrap()
        };
        // SAFETY: the last page of the mapping above, which nothing refers to yet.
        unsafe { mprotect(base.byte_add(len), page, MprotectFlags::empty()).unwrap() }
        Fenced { base: NonNull::new(base.cast()).unwrap(), len, page }
    }

    /// Returns all bytes, up to the fence.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes from `base` are mapped and stay so as long as `self` does.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    /// Returns the last `len` bytes before the fence.
    pub fn last(&self, len: usize) -> &[u8] {
        &self.bytes()[self.len - len..]
    }

    /// Returns the last `len` bytes before the fence.
    pub fn last_mut(&mut self, len: usize) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `self` is borrowed exclusively.
        let all = unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) };
        &mut all[self.len - len..]
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `new`; no slice of it outlives `self`.
        unsafe { munmap(self.base.as_ptr().cast(), self.len + self.page).unwrap() }
    }
}
