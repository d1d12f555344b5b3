//! The end of a job before its time, as a PE hears of it that may be anywhere in its program.
//!
//! What it has buffered is written out before it ends: the output of a PE is not lost because
//! another one made a mistake. Nobody can say when the program calls the library again, and signals
//! are the program's, so a thread sleeps on a word of the control page; it costs a stack.

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

/// Starts the thread. Refused, what is buffered at such an end is lost, and nothing else.
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
