//! How a PE learns that the job ends early, wherever its program is.
//!
//! The PE writes out what it has buffered before it ends, so that no output is lost because another
//! PE made a mistake. The program may not call the library for long, and signals belong to the
//! program; so a thread sleeps on a word of the control page. It costs a stack.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use raidshmem_sys::{exit, futex, process};

use super::World;

/// Bytes of the thread's stack: what C streams have buffered is written on it, perhaps by functions
/// of the program.
const STACK: usize = 256 << 10;
/// Longest sleep without a look.
const LIMIT: Duration = Duration::from_secs(3600);

/// Starts the thread. If the system refuses it, only what is buffered at such an end is lost.
pub(super) fn watch(world: &'static World) {
    let wait = || {
        let abort = &world.segments.own().words().abort;
        while abort.load(Ordering::SeqCst) == 0 {
            futex::sleep_while(abort, 0, LIMIT);
        }
        exit::flush_streams();
        exit::end(0) // the job has its status already
    };
    if world.members.has_agent() {
        let _ = process::helper("shmem-end", STACK, wait);
    }
}
