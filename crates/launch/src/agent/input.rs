//! PE 0's standard input on its way from the launcher into the pipe that PE 0 reads.
//!
//! Both ends of the pipe stay open while PE 0 is on this node, so that a substitute reads on where
//! its predecessor stopped. At most the launcher's window (`raidshmem_core::input`) of bytes is
//! queued here: the launcher sends more only once it learns that some are in the pipe.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io::{ErrorKind, PipeReader, PipeWriter, Write};
use std::os::fd::OwnedFd;

use raidshmem_core::message::{Stdin, Up};
use raidshmem_core::quantity::Pe;
use raidshmem_sys::socket::ChannelError;
use rustix::event::{PollFd, PollFlags};

use super::uplink::Uplink;

/// The pipe that PE 0 reads, and bytes on their way into it.
#[derive(Debug)]
struct Pipe {
    from: PipeReader,
    /// None once EOF was passed on.
    to: Option<PipeWriter>,
    waiting: VecDeque<u8>,
    /// True if EOF follows the queued bytes.
    ended: bool,
}

impl Pipe {
    /// Creates the pipe.
    ///
    /// # Errors
    /// Too few descriptors.
    fn new() -> std::io::Result<Pipe> {
        let (from, to) = std::io::pipe()?;
        rustix::io::ioctl_fionbio(&to, true)?;
        Ok(Pipe { from, to: Some(to), waiting: VecDeque::new(), ended: false })
    }

    /// Returns the reading end, for a process.
    ///
    /// # Errors
    /// Too few descriptors.
    fn end(&self) -> std::io::Result<OwnedFd> {
        Ok(self.from.try_clone()?.into())
    }

    /// Queues bytes from the launcher; no bytes mean EOF.
    fn take(&mut self, bytes: &[u8]) {
        self.waiting.extend(bytes);
        self.ended |= bytes.is_empty();
    }

    /// Returns the writing end to poll for space, while bytes are queued.
    fn full(&self) -> Option<&PipeWriter> {
        self.to.as_ref().filter(|_| !self.waiting.is_empty())
    }

    /// Writes as much as the pipe takes; returns the number of bytes.
    fn write(&mut self) -> usize {
        let mut written = 0;
        while let Some(to) = self.to.as_mut().filter(|_| !self.waiting.is_empty()) {
            match to.write(self.waiting.as_slices().0) {
                Ok(some) => {
                    self.waiting.drain(..some);
                    written += some;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return written, // full; the caller polls it
            }
        }
        if self.ended {
            self.to = None;
        }
        written
    }
}

/// PE 0's standard input as this node sees it.
#[derive(Debug)]
pub(super) struct InputPipe {
    /// The pipe, if PE 0 runs here and the launcher provides its input.
    pipe: Option<Pipe>,
    /// True if the launcher provides it.
    is_sent: bool,
}

impl InputPipe {
    /// Creates the input without a pipe.
    pub fn new(from: Stdin) -> InputPipe {
        InputPipe { pipe: None, is_sent: from == Stdin::Launcher }
    }

    /// Returns the standard input for a process of `pe`, if the launcher provides it.
    pub fn of(&mut self, pe: Option<Pe>) -> std::io::Result<Option<OwnedFd>> {
        let is_sent = self.is_sent && pe == Some(Pe(0));
        is_sent.then(|| self.pipe()?.end()).transpose()
    }

    fn pipe(&mut self) -> std::io::Result<&mut Pipe> {
        let pipe = self.pipe.take().map_or_else(Pipe::new, Ok)?;
        Ok(self.pipe.insert(pipe))
    }

    /// Drops the pipe: a substitute of PE 0 elsewhere gets the unread input.
    pub fn give_up(&mut self) {
        self.pipe = None;
    }

    /// Returns the descriptor to poll, while bytes are queued.
    pub fn fd(&self) -> Option<PollFd<'_>> {
        let full = self.pipe.as_ref().and_then(Pipe::full);
        full.map(|full| PollFd::new(full, PollFlags::OUT))
    }

    /// Takes more of PE 0's standard input; no `bytes` mean EOF.
    pub fn take(&mut self, bytes: &[u8], up: &mut Uplink) -> Result<(), ChannelError> {
        match self.pipe() {
            Ok(pipe) => pipe.take(bytes),
            Err(error) => return up.fail(format!("a pipe for standard input: {error}")),
        }
        self.write(up)
    }

    /// Writes pending input as far as the pipe takes it, and acknowledges the amount.
    pub fn write(&mut self, up: &mut Uplink) -> Result<(), ChannelError> {
        match self.pipe.as_mut().map_or(0, Pipe::write) {
            0 => Ok(()),
            bytes => up.send(&Up::InputTaken { bytes: bytes as u32 }),
        }
    }
}
