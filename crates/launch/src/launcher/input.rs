//! The standard input of a job.
//!
//! On this machine a file or a pipe is inherited by agents as it is, and PE 0 reads it itself: what
//! it has not read is there for a substitute. A terminal is not: a process that is not in its
//! foreground is stopped for reading from it, and only this process is. So a thread reads it, and
//! passes it on by a pipe.
//!
//! With other hosts that thread reads whatever the input is, since a read may wait, and the
//! launcher sends what comes out of the pipe to PE 0's agent (`raidshmem_core::input`).

#![forbid(unsafe_code)]

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use raidshmem_control::link::timespec;
use raidshmem_core::input::Input;
use raidshmem_sys::process;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::{isatty, tcgetpgrp};

use crate::cli::ready::Ready;

/// Between two looks whether this process is in the foreground now.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes of the thread's stack.
const STACK: usize = 64 << 10;

/// What agents have as their standard input, where that is not this process's own.
///
/// # Errors
/// What the kernel says: too few descriptors or threads.
pub fn open(read: bool) -> std::io::Result<Option<OwnedFd>> {
    let pass_on = read && isatty(std::io::stdin());
    Ok(if pass_on { Some(by_thread()?.into()) } else { None })
}

/// A pipe through which a thread passes on the standard input.
fn by_thread() -> std::io::Result<PipeReader> {
    let (from, to): (PipeReader, PipeWriter) = std::io::pipe()?;
    process::helper("input", STACK, move || copy(to))?;
    Ok(from)
}

/// The standard input for another host, if it is read at all.
///
/// # Errors
/// As [`open`].
pub fn send(ready: &Ready) -> std::io::Result<Option<Sent>> {
    let is_sent = ready.cluster.is_some() && ready.programs.stdin;
    is_sent.then(Sent::begin).transpose()
}

/// The standard input on its way to another host.
#[derive(Debug)]
pub struct Sent {
    /// None once its end was read.
    from: Option<PipeReader>,
    flow: Input,
}

impl Sent {
    fn begin() -> std::io::Result<Sent> {
        let from = by_thread()?;
        rustix::io::ioctl_fionbio(&from, true)?;
        Ok(Sent { from: Some(from), flow: Input::default() })
    }

    /// What to poll, while more may be read.
    pub fn fd(&self) -> Option<&PipeReader> {
        self.from.as_ref().filter(|_| self.flow.room() > 0)
    }

    /// The next bytes for `node`, where PE 0 runs; none are its end.
    pub fn next(&mut self, node: u32) -> Option<Vec<u8>> {
        self.read();
        self.flow.next(node)
    }

    /// The agent of `node` has written `bytes` to PE 0's pipe. False if it was sent fewer.
    pub fn acknowledge(&mut self, node: u32, bytes: u32) -> bool {
        self.flow.acknowledge(node, bytes as usize)
    }

    /// Reads what is there, as far as there is room.
    fn read(&mut self) {
        let mut bytes = [0; 16 << 10];
        while let Some(from) = self.from.as_mut().filter(|_| self.flow.room() > 0) {
            let most = self.flow.room().min(bytes.len());
            let got = match from.read(&mut bytes[..most]) {
                Ok(got) => got,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => 0, // what cannot be read has ended
            };
            self.flow.take(&bytes[..got]);
            if got == 0 {
                self.from = None;
            }
        }
    }
}

/// Passes on what comes until its end or nobody reads any more; of a terminal line by line.
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
