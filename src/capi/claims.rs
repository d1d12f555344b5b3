//! The memory that a C call accesses by itself: its strings and its lists, element by element.
//!
//! A claim is an argument (`openshmem/memory/address.rs`): holding one means being inside a call
//! whose caller guarantees what the specification requires of it. A call checks a list that may be
//! null before it uses these functions.

use std::ffi::{CStr, c_char};

use crate::openshmem::memory::address::{In, Out};

/// Reads element `index` of a list, which the call guarantees to be in range.
#[inline]
pub fn read_at<T: Copy>(list: In<T>, index: usize) -> T {
    // SAFETY: the caller guarantees all elements of the call, of which `index` is one.
    unsafe { list.pointer().add(index).read_unaligned() }
}

/// Writes element `index` of a list, which the call guarantees to be in range.
pub fn write_at<T>(list: Out<T>, index: usize, value: T) {
    // SAFETY: the caller guarantees space for all elements of the call, of which `index` is one.
    unsafe { list.pointer().add(index).write_unaligned(value) };
}

/// Writes `values` one after another; does nothing to a null pointer.
pub fn write_all<T: Copy>(list: Out<T>, values: &[T]) {
    if !list.pointer().is_null() {
        // SAFETY: not null, and the caller guarantees space for the values that the call documents.
        unsafe { values.as_ptr().copy_to(list.pointer(), values.len()) };
    }
}

/// Returns the C string that begins here.
pub fn string(claim: In<c_char>) -> String {
    // SAFETY: the caller guarantees a string that ends with a zero.
    unsafe { CStr::from_ptr(claim.pointer()) }.to_string_lossy().into_owned()
}

/// Returns the C string that begins here, with unprintable characters escaped.
pub fn text(claim: In<c_char>) -> String {
    // SAFETY: the caller guarantees a string that ends with a zero.
    unsafe { CStr::from_ptr(claim.pointer()) }.to_bytes().escape_ascii().to_string()
}
