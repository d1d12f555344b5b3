//! The agent's connection to the launcher.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;

use raidshmem_control::link::Link;
use raidshmem_core::message::{Down, Up};
use raidshmem_sys::socket::ChannelError;
use rustix::event::PollFd;

/// An order and the descriptors that came with it.
pub(super) type Order = (Down, Vec<OwnedFd>);

/// The connection to the launcher.
pub(super) struct Uplink(Link);

impl Uplink {
    /// Takes over a connection whose first messages were exchanged.
    pub fn new(link: Link) -> Uplink {
        Uplink(link)
    }

    /// Returns the descriptor to poll.
    pub fn fd(&self) -> PollFd<'_> {
        PollFd::new(&self.0, self.0.interest())
    }

    /// Returns true if descriptors can be sent, that is, if the launcher is on this machine.
    pub fn carries_descriptors(&self) -> bool {
        self.0.carries_descriptors()
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Up) -> Result<(), ChannelError> {
        self.0.send(message, &[])
    }

    /// Sends a message with descriptors.
    pub fn send_with(&mut self, message: &Up, fds: &[Arc<OwnedFd>]) -> Result<(), ChannelError> {
        self.0.send(message, fds)
    }

    /// Sends a message ahead of all that wait.
    pub fn send_ahead(&mut self, message: &Up) -> Result<(), ChannelError> {
        self.0.send_ahead(message)
    }

    /// Reports that this node cannot do its work, which ends the job.
    pub fn fail(&mut self, what: String) -> Result<(), ChannelError> {
        self.send(&Up::Failed { what })
    }

    /// Sends a line for the user.
    pub fn note(&mut self, line: String) -> Result<(), ChannelError> {
        self.send(&Up::Note { line })
    }

    /// Sends what is queued.
    pub fn flush(&mut self) -> Result<(), ChannelError> {
        self.0.flush()
    }

    /// Receives the next order, if one has arrived.
    pub fn receive(&mut self) -> Result<Option<Order>, ChannelError> {
        self.0.try_receive()
    }
}
