//! The end of a process with the last thread of its program.
//!
//! The C library ends a process with its last thread: `main` may end by `pthread_exit`, and another
//! thread may call `shmem_finalize` or only return. Threads of this library do not belong to the
//! program. So when a thread ends that initialised the library or left the job, a thread of this
//! module starts to watch for other threads of the program, and ends the process once there are no
//! more.
//!
//! Left out: threads that UCX starts by itself. With them such a process stays until it is killed.

#![forbid(unsafe_code)]

use std::sync::Once;
use std::time::Duration;

use raidshmem_sys::{process, threads};

/// Time between two looks: nothing reports the end of a thread that was not noted.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of the stack on which the program's exit handlers run, as many as `main` usually has.
const STACK: usize = 8 << 20;

/// Notes the end of the calling thread.
pub(super) fn note_end_of_thread() {
    threads::note_end(begin);
}

/// Starts the watching thread when a noted thread ends. If the system refuses, the process stays.
fn begin() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| _ = process::helper("shmem-last", STACK, wait));
}

fn wait() {
    while !threads::program_has_ended() {
        std::thread::sleep(LOOK);
    }
    std::process::exit(0) // as the C library does
}
