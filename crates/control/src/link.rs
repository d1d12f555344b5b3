//! The connection between launcher and agent: a Unix socket pair on one machine, else sealed TCP.
//!
//! Invariants: a send never blocks on either kind: a message that cannot be sent at once is queued,
//! in order. A message arrives whole, or the connection is over. Only a pair carries descriptors; a
//! process that sends one calls [`Link::carries_descriptors`] first.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use raidshmem_core::secret::Secret;
use raidshmem_sys::socket::{Channel, ChannelError, Outbox, decode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::noise::{Session, Side};

/// A message and the descriptors that came with it.
type Received<M> = (M, Vec<OwnedFd>);

/// One end of a connection between launcher and agent.
#[derive(Debug)]
pub enum Link {
    /// On one machine.
    Pair(Outbox),
    /// Between machines.
    Net(Box<Net>),
}

impl Link {
    /// Wraps one end of a pair.
    pub fn pair(channel: Channel) -> Link {
        Link::Pair(Outbox::new(channel))
    }

    /// Returns true if messages may carry descriptors.
    pub fn carries_descriptors(&self) -> bool {
        matches!(self, Link::Pair(_))
    }

    /// Ends the connection if sent data stays unacknowledged for `limit`: a dead host sends
    /// nothing, and by default the kernel waits for minutes.
    pub fn give_up_after(&self, limit: Duration) {
        if let Link::Net(net) = self {
            let millis = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
            // If this fails, heartbeats still detect the loss, but later.
            let _ = sockopt::set_tcp_user_timeout(&net.stream, millis);
        }
    }

    /// Sends a message now, or queues it if the socket is full.
    pub fn send<M: Serialize>(
        &mut self,
        message: &M,
        fds: &[Arc<OwnedFd>],
    ) -> Result<(), ChannelError> {
        match self {
            Link::Pair(outbox) => outbox.send(message, fds),
            Link::Net(net) => net.send(message),
        }
    }

    /// Like [`Link::send`], but for a message whose order does not matter: a pair sends it ahead of
    /// messages that wait because too many descriptors are in flight.
    pub fn send_ahead<M: Serialize>(&mut self, message: &M) -> Result<(), ChannelError> {
        match self {
            Link::Pair(outbox) => outbox.send_ahead(message),
            Link::Net(net) => net.send(message),
        }
    }

    /// Sends as much of the queue as the socket takes.
    pub fn flush(&mut self) -> Result<(), ChannelError> {
        match self {
            Link::Pair(outbox) => outbox.flush(),
            Link::Net(net) => net.flush(),
        }
    }

    /// Returns the events to poll this end for.
    pub fn interest(&self) -> PollFlags {
        match self {
            Link::Pair(outbox) => outbox.interest(),
            Link::Net(net) => net.interest(),
        }
    }

    /// Receives a message if a whole one has arrived.
    pub fn try_receive<M: DeserializeOwned>(
        &mut self,
    ) -> Result<Option<Received<M>>, ChannelError> {
        match self {
            Link::Pair(outbox) => outbox.try_receive(),
            Link::Net(net) => Ok(net.try_receive()?.map(|message| (message, Vec::new()))),
        }
    }

    /// Receives a message, waiting at most `limit` for it.
    pub fn receive<M: DeserializeOwned>(
        &mut self,
        limit: Duration,
    ) -> Result<Option<Received<M>>, ChannelError> {
        let end = Instant::now() + limit;
        loop {
            self.flush()?;
            if let Some(message) = self.try_receive()? {
                return Ok(Some(message));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            wait(self, left);
        }
    }

    /// Sends the queue, waiting at most `limit` for the socket to take it.
    pub fn drain(&mut self, limit: Duration) {
        let end = Instant::now() + limit;
        while self.flush().is_ok() && self.interest().contains(PollFlags::OUT) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            wait(self, left);
        }
    }
}

fn wait(link: &Link, limit: Duration) {
    let limit = timespec(limit);
    let _ = poll(&mut [PollFd::new(link, link.interest())], Some(&limit));
}

/// Converts a duration to the kernel's type.
pub fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Link::Pair(outbox) => outbox.as_fd(),
            Link::Net(net) => net.stream.as_fd(),
        }
    }
}

/// A sealed connection over TCP.
#[derive(Debug)]
pub struct Net {
    stream: TcpStream,
    session: Session,
    closed: bool,
}

impl Net {
    /// Wraps a connected socket.
    pub fn new(stream: TcpStream, side: Side, secret: &Secret) -> std::io::Result<Net> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Net { stream, session: Session::new(side, secret), closed: false })
    }

    /// Returns the other end's address.
    pub fn peer(&self) -> std::io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    /// Returns this end's address.
    pub fn local(&self) -> std::io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    fn send<M: Serialize>(&mut self, message: &M) -> Result<(), ChannelError> {
        let bytes = postcard::to_allocvec(message).map_err(|_| ChannelError::Malformed(0))?;
        self.session.say(bytes).map_err(|_| ChannelError::Foreign)?;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), ChannelError> {
        use std::io::ErrorKind::{Interrupted, WouldBlock};
        loop {
            let (bytes, _) = self.session.output().as_slices();
            if bytes.is_empty() {
                return Ok(());
            }
            match self.stream.write(bytes) {
                Ok(0) => return Err(ChannelError::Closed),
                Ok(written) => drop(self.session.output().drain(..written)),
                Err(error) if error.kind() == WouldBlock => return Ok(()),
                Err(error) if error.kind() == Interrupted => {}
                Err(_) => return Err(ChannelError::Closed),
            }
        }
    }

    fn interest(&self) -> PollFlags {
        match self.session.has_output() {
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::IN,
        }
    }

    fn try_receive<M: DeserializeOwned>(&mut self) -> Result<Option<M>, ChannelError> {
        use std::io::ErrorKind::{Interrupted, WouldBlock};
        let mut bytes = [0; 1 << 16];
        loop {
            if let Some(message) = self.session.take() {
                return decode(&message).map(Some);
            }
            if self.closed {
                return Err(ChannelError::Closed);
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => self.closed = true,
                Ok(got) => self.session.hear(&bytes[..got]).map_err(|_| ChannelError::Foreign)?,
                Err(error) if error.kind() == WouldBlock => return Ok(None),
                Err(error) if error.kind() == Interrupted => {}
                Err(_) => self.closed = true,
            }
        }
    }
}
