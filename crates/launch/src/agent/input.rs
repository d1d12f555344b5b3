//! The standard input of PE 0 that the launcher sends, on its way into the pipe that PE 0 reads.
//!
//! The pipe stays open at both ends while PE 0 is on this node, so that a substitute reads on where
//! the one before it stopped. The bytes that wait here are at most the launcher's window
//! (`raidshmem_core::input`): it sends no more until it hears that some are in the pipe.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io::{ErrorKind, PipeReader, PipeWriter, Write};
use std::os::fd::OwnedFd;

/// PE 0's standard input.
#[derive(Debug)]
pub struct Pipe {
    from: PipeReader,
    /// None once the end was passed on.
    to: Option<PipeWriter>,
    waiting: VecDeque<u8>,
    /// The end is behind what waits.
    ended: bool,
}

impl Pipe {
    /// # Errors
    /// Too few descriptors.
    pub fn new() -> std::io::Result<Pipe> {
        let (from, to) = std::io::pipe()?;
        rustix::io::ioctl_fionbio(&to, true)?;
        Ok(Pipe { from, to: Some(to), waiting: VecDeque::new(), ended: false })
    }

    /// The end that a process reads.
    ///
    /// # Errors
    /// Too few descriptors.
    pub fn end(&self) -> std::io::Result<OwnedFd> {
        Ok(self.from.try_clone()?.into())
    }

    /// Takes what came from the launcher; no bytes are the end.
    pub fn take(&mut self, bytes: &[u8]) {
        self.waiting.extend(bytes);
        self.ended |= bytes.is_empty();
    }

    /// What to poll for room, while something waits for it.
    pub fn full(&self) -> Option<&PipeWriter> {
        self.to.as_ref().filter(|_| !self.waiting.is_empty())
    }

    /// Writes as much as there is room for; how much that was.
    pub fn write(&mut self) -> usize {
        let mut written = 0;
        while let Some(to) = self.to.as_mut().filter(|_| !self.waiting.is_empty()) {
            match to.write(self.waiting.as_slices().0) {
                Ok(some) => {
                    self.waiting.drain(..some);
                    written += some;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return written, // no room; it is asked for
            }
        }
        if self.ended {
            self.to = None;
        }
        written
    }
}
