//! PE 0's standard input on its way from the launcher into the pipe that PE 0 reads.
//!
//! Both ends of the pipe stay open while PE 0 is on this node, so that a substitute reads on where
//! its predecessor stopped. At most the launcher's window (`raidshmem_core::input`) of bytes is
//! queued here: the launcher sends more only once it learns that some are in the pipe.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io::{ErrorKind, PipeReader, PipeWriter, Write};
use std::os::fd::OwnedFd;

/// PE 0's standard input.
#[derive(Debug)]
pub struct Pipe {
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
    pub fn new() -> std::io::Result<Pipe> {
        let (from, to) = std::io::pipe()?;
        rustix::io::ioctl_fionbio(&to, true)?;
        Ok(Pipe { from, to: Some(to), waiting: VecDeque::new(), ended: false })
    }

    /// Returns the reading end, for a process.
    ///
    /// # Errors
    /// Too few descriptors.
    pub fn end(&self) -> std::io::Result<OwnedFd> {
        Ok(self.from.try_clone()?.into())
    }

    /// Queues bytes from the launcher; no bytes mean EOF.
    pub fn take(&mut self, bytes: &[u8]) {
        self.waiting.extend(bytes);
        self.ended |= bytes.is_empty();
    }

    /// Returns the writing end to poll for space, while bytes are queued.
    pub fn full(&self) -> Option<&PipeWriter> {
        self.to.as_ref().filter(|_| !self.waiting.is_empty())
    }

    /// Writes as much as the pipe takes; returns the number of bytes.
    pub fn write(&mut self) -> usize {
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
