//! Private memory of a PE that checkpoints keep: a value that the library owns and the token lends.
//!
//! Unsafe code: the value is read by checkpoints and written by restarts, which borrow the token
//! mutably, as its owner's `&mut` does; so nobody holds a reference then.

use std::cell::UnsafeCell;

use super::{Shmem, Symmetric};
use crate::faults::{self, Name};

/// A private value that every checkpoint keeps and every restart brings back; see
/// [`ft::protect`](super::ft::protect).
#[derive(Debug)]
pub struct Protected<T: 'static> {
    value: &'static UnsafeCell<T>,
}

impl<T: Symmetric> Protected<T> {
    pub(super) fn new(name: &str, value: T) -> Protected<T> {
        let value: &'static _ = Box::leak(Box::new(UnsafeCell::new(value)));
        // SAFETY: memory that is never freed. References to it are bound to the token (below),
        // which checkpoint and restart borrow mutably, and so does the caller of this.
        unsafe { faults::protect(Name::Given(name), value.get().cast(), size_of::<T>()) };
        Protected { value }
    }

    /// The value.
    pub fn get<'a>(&'a self, _shmem: &'a Shmem) -> &'a T {
        // SAFETY: changed through `get_mut` alone, which borrows this mutably, and by restarts,
        // which borrow the token mutably. Any bytes are a value: it is plain data.
        unsafe { &*self.value.get() }
    }

    /// The value, to be changed.
    pub fn get_mut<'a>(&'a mut self, _shmem: &'a mut Shmem) -> &'a mut T {
        // SAFETY: as in `get`; this is the only handle, and the token is borrowed mutably.
        unsafe { &mut *self.value.get() }
    }
}
