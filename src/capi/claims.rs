//! What a C call reads and writes by itself: its texts and its lists, element by element.
//!
//! A claim is an argument (`openshmem/memory/address.rs`): to hold one is to be inside a call whose
//! caller owes what the specification asks of it. Where a list may be null the call looks first.

use std::ffi::{CStr, c_char};

use crate::openshmem::memory::address::{In, Out};

/// Element `index` of a list, which the call promised to be in range.
#[inline]
pub fn read_at<T: Copy>(list: In<T>, index: usize) -> T {
    // SAFETY: the caller owes all elements of the call, of which `index` is one.
    unsafe { list.pointer().add(index).read_unaligned() }
}

/// Writes element `index` of a list, which the call promised to be in range.
pub fn write_at<T>(list: Out<T>, index: usize, value: T) {
    // SAFETY: the caller owes room for all elements of the call, of which `index` is one.
    unsafe { list.pointer().add(index).write_unaligned(value) };
}

/// Writes `values` one after another; a null pointer is left alone.
pub fn write_all<T: Copy>(list: Out<T>, values: &[T]) {
    if !list.pointer().is_null() {
        // SAFETY: not null, and the caller owes room for what the call says it writes.
        unsafe { values.as_ptr().copy_to(list.pointer(), values.len()) };
    }
}

/// The C text that begins here, with what is not printable escaped.
pub fn text(claim: In<c_char>) -> String {
    // SAFETY: the caller owes a text that ends with a zero.
    unsafe { CStr::from_ptr(claim.pointer()) }.to_bytes().escape_ascii().to_string()
}
