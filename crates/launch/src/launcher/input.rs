//! The standard input of a job.
//!
//! On this machine, agents inherit a file or a pipe directly, and PE 0 reads it itself: what it has
//! not read is left for a substitute. A terminal cannot be passed on like that: a process outside
//! the terminal's foreground is stopped when it reads, and only this process is in the foreground.
//! A thread therefore reads the terminal and forwards the input through a pipe.
//!
//! With other hosts, that thread reads any kind of input, since a read may block, and the launcher
//! sends the pipe's content to PE 0's agent (`raidshmem_core::input`).

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

/// The interval between checks whether this process is in the foreground.
const LOOK: Duration = Duration::from_millis(200);
/// Stack size of the thread in bytes.
const STACK: usize = 64 << 10;

/// Returns the agents' standard input, if it is not this process's own.
///
/// # Errors
/// An error from the kernel: too few descriptors or threads.
pub fn open(read: bool) -> std::io::Result<Option<OwnedFd>> {
    let pass_on = read && isatty(std::io::stdin());
    Ok(if pass_on { Some(by_thread()?.into()) } else { None })
}

/// Returns a pipe through which a thread forwards the standard input.
fn by_thread() -> std::io::Result<PipeReader> {
    let (from, to): (PipeReader, PipeWriter) = std::io::pipe()?;
    process::helper("input", STACK, move || copy(to))?;
    Ok(from)
}

/// Returns the standard input for another host, if it is read at all.
///
/// # Errors
/// Like [`open`].
pub fn send(ready: &Ready) -> std::io::Result<Option<Sent>> {
    let is_sent = ready.cluster.is_some() && ready.programs.stdin;
    is_sent.then(Sent::begin).transpose()
}

/// The standard input on its way to another host.
#[derive(Debug)]
pub struct Sent {
    /// None once EOF was read.
    from: Option<PipeReader>,
    flow: Input,
}

impl Sent {
    fn begin() -> std::io::Result<Sent> {
        let from = by_thread()?;
        rustix::io::ioctl_fionbio(&from, true)?;
        Ok(Sent { from: Some(from), flow: Input::default() })
    }

    /// Returns the descriptor to poll, while more input can be buffered.
    pub fn fd(&self) -> Option<PollFd<'_>> {
        let from = self.from.as_ref().filter(|_| self.flow.window() > 0);
        from.map(|from| PollFd::new(from, PollFlags::IN))
    }

    /// Returns the next pending bytes for `node`, where PE 0 runs; an empty vector is EOF.
    pub fn next(&mut self, node: u32) -> Option<Vec<u8>> {
        self.read();
        self.flow.next(node)
    }

    /// Records that the agent of `node` has written `bytes` to PE 0's pipe. Returns false if fewer
    /// were sent to it.
    pub fn acknowledge(&mut self, node: u32, bytes: u32) -> bool {
        self.flow.acknowledge(node, bytes as usize)
    }

    /// Reads pending input, as far as it can be buffered.
    fn read(&mut self) {
        let mut bytes = [0; 16 << 10];
        while let Some(from) = self.from.as_mut().filter(|_| self.flow.window() > 0) {
            let most = self.flow.window().min(bytes.len());
            let got = match from.read(&mut bytes[..most]) {
                Ok(got) => got,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => 0, // treat an error as EOF
            };
            self.flow.take(&bytes[..got]);
            if got == 0 {
                self.from = None;
            }
        }
    }
}

/// Forwards the input until EOF, or until it has no reader; from a terminal line by line.
fn copy(mut to: PipeWriter) {
    let stdin = std::io::stdin();
    let mut bytes = [0; 4096];
    loop {
        // In the background a read fails, since this thread blocks the signal that would stop it.
        let in_background = || tcgetpgrp(&stdin).is_ok_and(|group| group != getpgrp());
        if in_background() {
            let _ = poll(&mut [], Some(&timespec(LOOK))); // no event reports the change
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
