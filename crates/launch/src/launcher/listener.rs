//! The launcher's listener, with its pending and accepted connections.
//!
//! Invariants: a stranger can use at most one frame of memory and [`PATIENCE`] of time, and at most
//! [`PENDING_MAX`] connections are pending at once; each rejected one is logged in one line, up to
//! [`LINES_MAX`] lines. Only a peer that knows the job's secret can claim to be a node. While this
//! process cannot accept connections, for example for lack of descriptors, the listener pauses for
//! [`PAUSE`] at a time: connections wait in the kernel without busy polling.

#![forbid(unsafe_code)]

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use raidshmem_control::link::{Link, Net};
use raidshmem_control::noise::Side;
use raidshmem_core::message::{Down, Hello};
use raidshmem_core::secret::Secret;
use raidshmem_sys::socket::ChannelError;
use rustix::event::{PollFd, PollFlags};

use crate::lines::say;

/// Time limit for a stranger to prove that it belongs to the job.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum number of pending connections; more wait in the kernel.
const PENDING_MAX: usize = 256;
/// The pause of the listener when no connection can be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// The maximum number of lines about rejected connections.
const LINES_MAX: u32 = 20;

struct Pending {
    link: Link,
    from: SocketAddr,
    until: Instant,
}

/// A connection from a peer that knows the secret.
pub struct Accepted {
    /// Its connection.
    pub link: Link,
    /// Its address.
    pub from: SocketAddr,
    /// Its first message.
    pub hello: Hello,
}

/// The listening side of a job.
pub struct Listener {
    listener: TcpListener,
    secret: Secret,
    pending: Vec<Pending>,
    lines: u32,
    /// The time until which no connection is accepted.
    paused: Option<Instant>,
    /// True once a message has reported a pause.
    warned: bool,
}

impl Listener {
    /// Listens at `address`; port 0 selects any free port.
    pub fn open(address: SocketAddr, secret: Secret) -> std::io::Result<Listener> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Listener {
            listener,
            secret,
            pending: Vec::new(),
            lines: 0,
            paused: None,
            warned: false,
        })
    }

    /// Returns the secret of the job.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Returns the address at which agents reach it.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns a socket for datagrams at the same IP address.
    pub fn datagrams(&self) -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind((self.address()?.ip(), 0))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Returns the descriptors to poll.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let pending = self.pending.iter().map(|one| PollFd::new(&one.link, one.link.interest()));
        let full = self.pending.len() >= PENDING_MAX;
        let closed = full || self.paused.is_some();
        let interest = if closed { PollFlags::empty() } else { PollFlags::IN };
        pending.chain([PollFd::from_borrowed_fd(self.listener.as_fd(), interest)])
    }

    /// Returns the time at which [`Listener::serve`] is due although nothing arrives.
    pub fn deadline(&self) -> Option<Instant> {
        self.pending.iter().map(|one| one.until).chain(self.paused).min()
    }

    /// Returns connections whose peers have proven to belong to the job, and rejects those that
    /// cannot.
    pub fn serve(&mut self) -> Vec<Accepted> {
        self.paused = self.paused.filter(|until| Instant::now() < *until);
        while self.pending.len() < PENDING_MAX && self.paused.is_none() {
            let (stream, from) = match self.listener.accept() {
                Ok(one) => one,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The peer left before it was accepted.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    self.pause(&error);
                    break;
                }
            };
            let until = Instant::now() + PATIENCE;
            match Net::new(stream, Side::Launcher, &self.secret) {
                Ok(net) => {
                    let link = Link::Net(Box::new(net));
                    self.pending.push(Pending { link, from, until });
                }
                Err(error) => self.refused(from, &error.to_string()),
            }
        }
        let mut accepted = Vec::new();
        for mut one in std::mem::take(&mut self.pending) {
            let _ = one.link.flush(); // the read reports any failure
            match one.link.try_receive::<Hello>() {
                Ok(Some((hello, _))) => {
                    accepted.push(Accepted { link: one.link, from: one.from, hello });
                }
                Ok(None) if Instant::now() < one.until => self.pending.push(one),
                Ok(None) => self.refused(one.from, "it sent nothing"),
                Err(ChannelError::Foreign) => self.refused(one.from, "not of this job"),
                Err(_) => self.refused(one.from, "it disconnected"),
            }
        }
        accepted
    }

    /// Rejects a node that knows the secret.
    pub fn reject(&mut self, accepted: Accepted, why: &str) {
        let Accepted { mut link, from, .. } = accepted;
        let _ = link.send(&Down::Refused { why: why.to_owned() }, &[]);
        link.drain(Duration::from_millis(100));
        self.refused(from, why);
    }

    /// Pauses, since no connection can be accepted now.
    fn pause(&mut self, why: &std::io::Error) {
        self.paused = Some(Instant::now() + PAUSE);
        if !std::mem::replace(&mut self.warned, true) {
            say(&format!("no connection can be accepted for now: {why}"));
        }
    }

    fn refused(&mut self, from: SocketAddr, why: &str) {
        self.lines += 1;
        if self.lines <= LINES_MAX {
            say(&format!("a connection from {from} was refused: {why}"));
        }
        if self.lines == LINES_MAX {
            say("further refused connections are not reported");
        }
    }
}

/// Returns the address of this machine from which `hosts` are reached according to the routing
/// table: the first that is not loopback, if there is one.
pub fn own_address<'a>(hosts: impl Iterator<Item = &'a str>) -> Option<IpAddr> {
    use std::net::ToSocketAddrs;
    let mut found = None;
    for host in hosts {
        let name = host.rsplit('@').next().unwrap_or(host);
        let Some(to) = (name, 9).to_socket_addrs().ok().and_then(|mut all| all.next()) else {
            continue;
        };
        let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
        let Ok(socket) = UdpSocket::bind((any, 0)) else { continue };
        // Connecting a datagram socket sends nothing: it only asks for the route.
        let own = socket.connect(to).and_then(|()| socket.local_addr()).map(|own| own.ip());
        match own {
            Ok(own) if !own.is_loopback() => return Some(own),
            Ok(own) => found = found.or(Some(own)),
            Err(_) => {}
        }
    }
    found
}
