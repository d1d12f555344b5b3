//! The standard input of a job on this machine.
//!
//! A file or a pipe is inherited by agents as it is, and PE 0 reads it itself: what it has not read
//! is there for a substitute. A terminal is not: a process that is not in its foreground is stopped
//! for reading from it, and only this process is. So a thread reads it, and passes it on by a pipe.

#![forbid(unsafe_code)]

use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use raidshmem_sys::process;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::{isatty, tcgetpgrp};

use crate::control::link::timespec;

/// Between two looks whether this process is in the foreground now.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes of the thread's stack.
const STACK: usize = 64 << 10;

/// What agents have as their standard input, where that is not this process's own.
///
/// # Errors
/// What the kernel says: too few descriptors or threads.
pub fn open(read: bool) -> std::io::Result<Option<OwnedFd>> {
    if !read || !isatty(std::io::stdin()) {
        return Ok(None);
    }
    let (from, to): (PipeReader, PipeWriter) = std::io::pipe()?;
    process::helper("input", STACK, move || copy(to))?;
    Ok(Some(from.into()))
}

/// Passes on what the terminal says, line by line, until its end or nobody reads any more.
fn copy(mut to: PipeWriter) {
    let stdin = std::io::stdin();
    let mut bytes = [0; 4096];
    loop {
        // In the background the kernel would refuse: this thread does not take its signal.
        let in_background = || tcgetpgrp(&stdin).is_ok_and(|group| group != getpgrp());
        if in_background() {
            let _ = poll(&mut [], Some(&timespec(LOOK))); // nothing tells of the change
            continue;
        }
        let _ = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None);
        match rustix::io::read(stdin.as_fd(), &mut bytes) {
            Ok(0) => return,
            Ok(got) if to.write_all(&bytes[..got]).is_err() => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) if in_background() => {}
            Err(_) => return,
        }
    }
}
