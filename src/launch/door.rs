//! The launcher's door to the network: who knocks, and who may come in.
//!
//! Invariants: nothing a stranger sends costs more than one frame of memory and [`PATIENCE`] of
//! time, and at most [`KNOCKS_MAX`] may knock at once; each one that is refused is one line, up to
//! [`LINES_MAX`] of them. Only who knows the job's secret gets to say which node it is. While this
//! process can take no connection, for want of descriptors say, the door is shut for [`SHUT`] at a
//! time: who knocks waits in the kernel, and nobody looks at it over and over.

#![forbid(unsafe_code)]

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::say::say;
use crate::control::link::{Link, Net};
use crate::control::message::{Down, Hello};
use crate::control::noise::{Secret, Side};
use crate::sys::socket::ChannelError;

/// How long a stranger may take to prove that it belongs here.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most that may knock at once; more wait in the kernel.
const KNOCKS_MAX: usize = 256;
/// How long the door is shut when nobody can be let in.
const SHUT: Duration = Duration::from_millis(100);
/// Most lines about refusals.
const LINES_MAX: u32 = 20;

struct Knock {
    link: Link,
    from: SocketAddr,
    until: Instant,
}

/// Somebody who knows the secret.
pub struct Arrival {
    /// Its connection.
    pub link: Link,
    /// Its address.
    pub from: SocketAddr,
    /// What it says of itself.
    pub hello: Hello,
}

/// The listening side of a job.
pub struct Door {
    listener: TcpListener,
    secret: Secret,
    knocks: Vec<Knock>,
    lines: u32,
    /// Shut until then.
    shut: Option<Instant>,
    /// It was said that it may be shut.
    warned: bool,
}

impl Door {
    /// Listens at `ip`; port 0 takes any.
    pub fn open(address: SocketAddr, secret: Secret) -> std::io::Result<Door> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Door { listener, secret, knocks: Vec::new(), lines: 0, shut: None, warned: false })
    }

    /// Where agents find it.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// A socket for datagrams at the same address.
    pub fn datagrams(&self) -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind((self.address()?.ip(), 0))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// What to poll.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let knocks =
            self.knocks.iter().map(|knock| PollFd::new(&knock.link, knock.link.interest()));
        let full = self.knocks.len() >= KNOCKS_MAX;
        let closed = full || self.shut.is_some();
        let interest = if closed { PollFlags::empty() } else { PollFlags::IN };
        knocks.chain([PollFd::from_borrowed_fd(self.listener.as_fd(), interest)])
    }

    /// When it must be looked at though nothing arrives.
    pub fn deadline(&self) -> Option<Instant> {
        self.knocks.iter().map(|knock| knock.until).chain(self.shut).min()
    }

    /// Lets in who has proven to belong here, and refuses who cannot.
    pub fn serve(&mut self) -> Vec<Arrival> {
        self.shut = self.shut.filter(|until| Instant::now() < *until);
        while self.knocks.len() < KNOCKS_MAX && self.shut.is_none() {
            let (stream, from) = match self.listener.accept() {
                Ok(knock) => knock,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // Gone before it was let in.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    self.close(&error);
                    break;
                }
            };
            let until = Instant::now() + PATIENCE;
            match Net::new(stream, Side::Launcher, &self.secret) {
                Ok(net) => {
                    let link = Link::Net(Box::new(net));
                    self.knocks.push(Knock { link, from, until });
                }
                Err(error) => self.refused(from, &error.to_string()),
            }
        }
        let mut arrivals = Vec::new();
        for mut knock in std::mem::take(&mut self.knocks) {
            let _ = knock.link.flush(); // what cannot be told is seen when it is read
            match knock.link.try_receive::<Hello>() {
                Ok(Some((hello, _))) => {
                    arrivals.push(Arrival { link: knock.link, from: knock.from, hello });
                }
                Ok(None) if Instant::now() < knock.until => self.knocks.push(knock),
                Ok(None) => self.refused(knock.from, "it said nothing"),
                Err(ChannelError::Foreign) => self.refused(knock.from, "not of this job"),
                Err(_) => self.refused(knock.from, "it went away"),
            }
        }
        arrivals
    }

    /// Refuses somebody who knows the secret.
    pub fn turn_away(&mut self, arrival: Arrival, why: &str) {
        let Arrival { mut link, from, .. } = arrival;
        let _ = link.send(&Down::Refused { why: why.to_owned() }, &[]);
        link.drain(Duration::from_millis(100));
        self.refused(from, why);
    }

    /// Nobody can be let in now.
    fn close(&mut self, why: &std::io::Error) {
        self.shut = Some(Instant::now() + SHUT);
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
            say("more connections that are refused are not shown");
        }
    }
}

/// The address of this machine from which `hosts` are reached: the first that is no loopback, as
/// the routing table has it.
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
