//! Private memory of a PE that checkpoints cover: a value that the library owns and the token
//! lends.
//!
//! Unsafe code: checkpoints read the value and restarts write it; both borrow the token mutably, as
//! its owner's `&mut` does, so no reference exists then.

use std::cell::UnsafeCell;

use super::{Shmem, Symmetric};
use raidshmem_runtime::fault_tolerance::{self as ft, Name};

/// A private value that every checkpoint saves and every restart restores; see
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
        unsafe { ft::protect(Name::Given(name), value.get().cast(), size_of::<T>()) };
        Protected { value }
    }

    /// Returns the value.
    pub fn get<'a>(&'a self, _shmem: &'a Shmem) -> &'a T {
        // SAFETY: changed only through `get_mut`, which borrows this mutably, and by restarts,
        // which borrow the token mutably. Any bytes are a valid value: it is plain data.
        unsafe { &*self.value.get() }
    }

    /// Returns the value for modification.
    pub fn get_mut<'a>(&'a mut self, _shmem: &'a mut Shmem) -> &'a mut T {
        // SAFETY: as in `get`; this is the only handle, and the token is borrowed mutably.
        unsafe { &mut *self.value.get() }
    }
}
