//! The symmetric heap in C: the collective calls around the allocator.
//!
//! Allocation meets the other PEs when it is done, so that no put can arrive before the block
//! exists; release meets them first, so that no put can arrive after it is gone. Between a death
//! and the restart there is no meeting: each PE allocates or frees the block alone, and the restart
//! resets the allocator to the checkpoint with everything else.
//!
//! A size of zero, and `NULL` to release, do nothing and meet no PE. Hints may be ignored, and are:
//! all memory here supports remote atomics and signals.

use std::ffi::c_long;
use std::ptr;
use std::sync::Once;

use raidshmem_core::settings::units::show_size;

use crate::openshmem::check::misuse;
use crate::openshmem::memory::address::Sym;
use crate::openshmem::memory::rma;
use crate::openshmem::order;
use raidshmem_runtime::pgas;
use raidshmem_runtime::pgas::{READONLY, complain};

/// The alignment of every block in bytes: enough for any C type.
const ALIGNMENT: usize = 16;

fn allocate(call: &'static str, size: usize, alignment: usize) -> *mut u8 {
    let world = pgas::world();
    if size == 0 {
        return ptr::null_mut();
    }
    let block = report_if_full(call, size, world.memory.alloc(size, alignment));
    order::meet_with(world, call, detail(size, block));
    block
}

/// Prints once, with `SHMEM_DEBUG`, that a block did not fit; returns the block.
fn report_if_full(call: &'static str, size: usize, block: *mut u8) -> *mut u8 {
    static SAID: Once = Once::new();
    let world = pgas::world();
    if block.is_null() && world.settings().debug {
        let heap = show_size(world.segments.layout().heap_len as u64);
        SAID.call_once(|| {
            complain(&format!(
                "{call}: no space for {size} bytes in the symmetric heap, which has \
                 SHMEM_SYMMETRIC_SIZE={heap}: it returns NULL"
            ));
        });
    }
    block
}

/// Returns a hash of a size and its block: a substitute must get the same block.
fn detail(size: usize, block: *mut u8) -> u64 {
    let at = pgas::world().segments.offset_of(block.addr(), 1).unwrap_or(0);
    (size as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at as u64
}

fn allocate_aligned(call: &'static str, alignment: usize, size: usize) -> *mut u8 {
    if alignment.is_power_of_two() && alignment.is_multiple_of(size_of::<usize>()) {
        if !pgas::world().memory.can_align(alignment) {
            let why = "symmetric memory is not at its usual address";
            misuse(call, format_args!("alignment {alignment}: {why}, expected a smaller one"));
        }
        return allocate(call, size, alignment.max(ALIGNMENT));
    }
    if pgas::world().checks() {
        let least = size_of::<usize>();
        misuse(call, format_args!("alignment {alignment}: expected a power of two from {least}"));
    }
    ptr::null_mut()
}

fn allocate_zeroed(call: &'static str, count: usize, size: usize) -> *mut u8 {
    let world = pgas::world();
    let Some(bytes) = count.checked_mul(size) else {
        return ptr::null_mut();
    };
    if bytes == 0 {
        return ptr::null_mut();
    }
    let block = report_if_full(call, bytes, world.memory.alloc(bytes, ALIGNMENT));
    if !block.is_null() {
        rma::zero(call, block, bytes);
    }
    order::meet_with(world, call, detail(bytes, block));
    block
}

fn release(call: &'static str, block: Sym<u8>) {
    let world = pgas::world();
    let block = block.pointer();
    if block.is_null() {
        return;
    }
    order::meet_with(world, call, detail(0, block));
    if let Err(reason) = world.memory.free(block) {
        misuse(call, format_args!("ptr {:#x}: {reason}", block.addr()));
    }
}

fn resize(call: &'static str, block: Sym<u8>, size: usize) -> *mut u8 {
    let world = pgas::world();
    if block.pointer().is_null() {
        return allocate(call, size, ALIGNMENT);
    }
    if size == 0 {
        release(call, block);
        return ptr::null_mut();
    }
    if world.memory.size_of(block.pointer()).is_none() {
        let addr = block.addr();
        misuse(call, format_args!("ptr {addr:#x}: expected a block from shmem_malloc, or NULL"));
    }
    if world.memory.is_readonly(block.pointer()) {
        misuse(call, format_args!("ptr {:#x}: {READONLY}", block.addr()));
    }
    order::meet(world, call);
    let moved = report_if_full(call, size, world.memory.resize(block.pointer(), size));
    order::meet_with(world, call, detail(size, moved));
    moved
}

family! { MEMORY: "Symmetric memory";
    ONE "shmem_malloc" "" (size: usize) -> *mut u8 {
        allocate(NAME, size, ALIGNMENT)
    }
    ONE "shmem_free" "" (ptr: Sym<u8>) {
        release(NAME, ptr)
    }
    ONE "shmem_realloc" "" (ptr: Sym<u8>, size: usize) -> *mut u8 {
        resize(NAME, ptr, size)
    }
    ONE "shmem_align" "" (alignment: usize, size: usize) -> *mut u8 {
        allocate_aligned(NAME, alignment, size)
    }
    ONE "shmem_malloc_with_hints" "" (size: usize, hints: c_long) -> *mut u8 {
        let _ = hints;
        allocate(NAME, size, ALIGNMENT)
    }
    ONE "shmem_calloc" "" (count: usize, size: usize) -> *mut u8 {
        allocate_zeroed(NAME, count, size)
    }
    ONE "shmalloc" "" [deprecated "1.2"] (size: usize) -> *mut u8 {
        allocate(NAME, size, ALIGNMENT)
    }
    ONE "shfree" "" [deprecated "1.2"] (ptr: Sym<u8>) {
        release(NAME, ptr)
    }
    ONE "shrealloc" "" [deprecated "1.2"] (ptr: Sym<u8>, size: usize) -> *mut u8 {
        resize(NAME, ptr, size)
    }
    ONE "shmemalign" "" [deprecated "1.2"] (alignment: usize, size: usize) -> *mut u8 {
        allocate_aligned(NAME, alignment, size)
    }
}
