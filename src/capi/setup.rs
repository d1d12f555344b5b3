//! Initialisation, finalisation and queries: init, finalize, PE numbers, version, accessibility,
//! exit, pcontrol.
//!
//! `shmem_init` and `shmem_finalize` are counted, as version 1.6 requires: the first `shmem_init`
//! starts the library, the last `shmem_finalize` ends it, and further ones do nothing. Without a
//! call of `shmem_finalize`, an exit with status 0 ends the library; after `start_pes` an exit with
//! any status does.
//!
//! `shmem_pcontrol` is variadic in C; its further arguments are for tools and are ignored.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use super::claims::write_all;
use super::constants::{MAJOR_VERSION, MINOR_VERSION, THREAD_MULTIPLE, THREAD_SINGLE};
use super::constants::{MAX_NAME_LEN, VENDOR_STRING};
use crate::openshmem;
use crate::openshmem::check::misuse;
use crate::openshmem::memory::address::{Out, SymIn};
use crate::openshmem::memory::place::SegmentRange;
use raidshmem_core::quantity::Pe;
use raidshmem_runtime::pgas;

/// The number of starts without an end.
static STARTS: AtomicUsize = AtomicUsize::new(0);
/// The thread level that the first start provided.
static PROVIDED: AtomicI32 = AtomicI32::new(THREAD_SINGLE);

const _: () = assert!(VENDOR_STRING.len() < MAX_NAME_LEN);

/// Starts the library unless it is started; returns the thread level provided.
pub(super) fn start(call: &'static str, requested: c_int) -> c_int {
    if !(THREAD_SINGLE..=THREAD_MULTIPLE).contains(&requested) {
        misuse(call, format_args!("thread level {requested}: expected 0..{THREAD_MULTIPLE}"));
    }
    // Relaxed: the specification allows only one thread to start and end the library.
    if STARTS.fetch_add(1, Ordering::Relaxed) == 0 {
        if pgas::ended() {
            misuse(call, "the library has ended and cannot start again");
        }
        pgas::panics::all_are_ours();
        PROVIDED.store(openshmem::start(requested), Ordering::Relaxed);
    }
    PROVIDED.load(Ordering::Relaxed)
}

/// Undoes one start.
fn end() {
    let left = STARTS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    if left == Ok(1) {
        pgas::finalize();
    }
}

/// Returns true if the PE exists and is not lost for good.
fn is_pe(pe: c_int) -> bool {
    let world = pgas::world();
    let is_one = |number| number < world.n_pes() && !world.lost_for_good(Pe::of(number));
    usize::try_from(pe).is_ok_and(is_one)
}

fn is_symmetric(addr: usize) -> bool {
    let segments = pgas::world().segments;
    segments.offset_of(addr, 1).is_some() || segments.is_constant(addr, 1)
}

/// Returns the address in this process of `dest` on `pe`, or null.
pub(super) fn pointer_on(call: &'static str, dest: SymIn<c_void>, pe: c_int) -> *mut u8 {
    let world = pgas::world();
    if !is_pe(pe) || !is_symmetric(dest.addr()) {
        return std::ptr::null_mut();
    }
    if pe as usize == world.me().at() || world.segments.is_constant(dest.addr(), 1) {
        return dest.as_sym().pointer();
    }
    SegmentRange::new(call, "dest", dest.as_sym(), 1, pe).pointer()
}

family! { SETUP: "Setup, exit, query";
    ONE "shmem_init" "" () {
        start(NAME, THREAD_SINGLE);
    }
    ONE "shmem_finalize" "" () {
        if !pgas::ended() {
            pgas::world_for(NAME);
            end();
        }
    }
    ONE "shmem_query_initialized" "" (initialized: Out<c_int>) {
        initialized.write(c_int::from(pgas::initialized()));
    }
    ONE "shmem_my_pe" "" () -> c_int {
        pgas::world_for(NAME).me().at() as c_int
    }
    ONE "shmem_n_pes" "" () -> c_int {
        pgas::world_for(NAME).n_pes() as c_int
    }
    ONE "shmem_global_exit" "" [noreturn "1"] (status: c_int) {
        pgas::world();
        pgas::global_exit(status)
    }
    ONE "shmem_pe_accessible" "" (pe: c_int) -> c_int {
        c_int::from(is_pe(pe))
    }
    ONE "shmem_addr_accessible" "" (addr: SymIn<c_void>, pe: c_int) -> c_int {
        c_int::from(is_pe(pe) && is_symmetric(addr.addr()))
    }
    ONE "shmem_ptr" "" (dest: SymIn<c_void>, pe: c_int) -> *mut u8 {
        pointer_on(NAME, dest, pe)
    }
    ONE "shmem_info_get_version" "" (major: Out<c_int>, minor: Out<c_int>) {
        major.write(MAJOR_VERSION);
        minor.write(MINOR_VERSION);
    }
    ONE "shmem_info_get_name" "" (name: Out<c_char>) {
        let text = VENDOR_STRING.bytes().chain([0]).map(|byte| byte as c_char);
        write_all(name, &text.collect::<Vec<_>>());
    }
    ONE "start_pes" "" [deprecated "1.2"] (npes: c_int) {
        let _ = npes;
        let first = !pgas::initialized();
        start(NAME, THREAD_SINGLE);
        if first {
            pgas::end_at_any_exit();
        }
    }
    ONE "_my_pe" "" [deprecated "1.2"] () -> c_int {
        pgas::world_for(NAME).me().at() as c_int
    }
    ONE "_num_pes" "" [deprecated "1.2"] () -> c_int {
        pgas::world_for(NAME).n_pes() as c_int
    }
}

family! { THREADS: "Threads";
    ONE "shmem_init_thread" "" (requested: c_int, provided: Out<c_int>) -> c_int {
        provided.write(start(NAME, requested));
        0
    }
    ONE "shmem_query_thread" "" (provided: Out<c_int>) {
        pgas::world();
        provided.write(PROVIDED.load(Ordering::Relaxed));
    }
}

family! { PROFILING: "Profiling";
    ONE "shmem_pcontrol" "" [variadic "1"] (level: c_int) {
        let _ = level;
    }
}
