//! The early end of a job, as a PE learns of it wherever its program is.
//!
//! The PE writes out its buffered output before it ends, so that none is lost because of another
//! PE's mistake. The program may not call the library for a long time, and signals belong to the
//! program; so a thread sleeps on a word of the control page. It costs a stack.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use raidshmem_sys::{exit, futex, process};

use super::World;

/// Bytes of the thread's stack, on which C streams are flushed, perhaps by functions of the
/// program.
const STACK: usize = 256 << 10;
/// The longest sleep without a look.
const LIMIT: Duration = Duration::from_secs(3600);

/// Starts the thread. If the system refuses, only buffered output at such an end is lost.
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
