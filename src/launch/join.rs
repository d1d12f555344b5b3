//! An agent on another host: how it comes to be, and how it joins the job.
//!
//! ```text
//! launcher --- ssh, srun or any command --- keeper --- agent --- PEs
//!     \______________ sealed TCP ___________________/
//! ```
//!
//! The keeper reads the job's secret from its standard input, starts the agent and waits. When the
//! agent has ended it ends whatever is left of the node's processes, and only then itself, with
//! [`ALL_DEAD`]: who started it knows by that status that nothing of the node runs any more. When
//! its standard input ends, the launcher is gone, and so is the node. It knows until when the lease
//! of the node lasts, and ends it if the agent, which may be stopped, does not.

#![forbid(unsafe_code)]

use std::io::Read;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::launcher::AGENT_ARGUMENT;
use crate::control::link::{Link, Net, timespec};
use crate::control::message::{Down, Hello, Up};
use crate::control::noise::{SECRET_LEN, Secret, Side};
use crate::sys::process::{self, Process};
use crate::sys::socket::{Channel, ChannelError};

/// Exit status of a keeper whose node has no process any more.
pub const ALL_DEAD: i32 = 87;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the secret may take to arrive.
const SECRET: Duration = Duration::from_secs(60);

/// Why an agent could not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The launcher cannot be reached.
    #[error("cannot connect to the launcher at {launcher}: {error}")]
    Connect {
        /// Where it should be.
        launcher: SocketAddr,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The launcher said no.
    #[error("refused by the launcher: {0}")]
    Refused(String),
    /// The launcher says nothing.
    #[error("no orders from the launcher")]
    NoOrders,
    /// The lease is over.
    #[error(
        "node {node}: no contact with the launcher for {limit} s (SHMEM_FT_NODE_TIMEOUT): the node \
         and its PEs are ended"
    )]
    Fenced {
        /// The node.
        node: u32,
        /// The limit in seconds.
        limit: f64,
    },
    /// The lease is over, and the agent did nothing about it.
    #[error("node {node}: its agent stands still: the node and its PEs are ended")]
    Stopped {
        /// The node.
        node: u32,
    },
    /// The keeper was called wrongly.
    #[error("an agent is started by oshrun itself")]
    ByHand,
    /// A system call failed.
    #[error("keeper of the agent: {0}")]
    Keeper(#[from] std::io::Error),
    /// The connection failed.
    #[error("{0}")]
    Channel(#[from] ChannelError),
}

/// Version and checksum of this program; equal only for the same build.
pub fn build_id() -> String {
    let program = std::fs::read("/proc/self/exe").unwrap_or_default();
    format!("{}-{:08x}", env!("CARGO_PKG_VERSION"), crc32fast::hash(&program))
}

/// Connects to the launcher and says who this is. The socket is for heartbeats.
pub fn join(
    launcher: SocketAddr,
    node: u32,
    secret: &Secret,
) -> Result<(Link, UdpSocket), JoinError> {
    let connect = |error| JoinError::Connect { launcher, error };
    let stream = TcpStream::connect_timeout(&launcher, CONNECT).map_err(connect)?;
    let own = stream.local_addr().map_err(connect)?.ip();
    let socket = UdpSocket::bind((own, 0)).map_err(connect)?;
    socket.set_nonblocking(true).map_err(connect)?;
    let beats = socket.local_addr().map_err(connect)?.port();
    let net = Net::new(stream, Side::Agent, secret).map_err(connect)?;
    let mut link = Link::Net(Box::new(net));
    link.send(&Hello { build: build_id(), node, beats }, &[])?;
    Ok((link, socket))
}

/// Runs the keeper of node `words[1]` of the launcher at `words[0]`.
pub fn keep(words: &[String]) -> Result<(), JoinError> {
    let (Some(launcher), Some(node)) = (
        words.first().and_then(|word| word.parse::<SocketAddr>().ok()),
        words.get(1).and_then(|word| word.parse::<u32>().ok()),
    ) else {
        return Err(JoinError::ByHand);
    };
    let secret = read_secret()?;
    process::adopt_orphans()?;
    let (mine, theirs) = Channel::pair()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(AGENT_ARGUMENT).arg(theirs.as_fd().as_raw_fd().to_string());
    command.stdin(std::process::Stdio::null());
    let agent = Process::start(&mut command, Some(theirs.as_fd()), false)?;
    drop(theirs);
    mine.send(&Down::Join { launcher, node, secret }, &[])?;
    let held = watch(&agent, &mine);
    agent.kill();
    agent.wait_end(10_000);
    process::end_children();
    if held { Ok(()) } else { Err(JoinError::Stopped { node }) }
}

/// Returns when the agent has ended or the launcher is gone; false if the lease of the node is over
/// and its agent has not ended by itself.
fn watch(agent: &Process, channel: &Channel) -> bool {
    let stdin = std::io::stdin();
    let mut until = None;
    loop {
        let mut fds = [
            PollFd::new(agent, PollFlags::IN),
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::new(channel, PollFlags::IN),
        ];
        let left = until.map(|until: Duration| timespec(until.saturating_sub(process::now())));
        if poll(&mut fds, left.as_ref()).is_err() {
            continue;
        }
        let (ended, heard) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        let mut rest = [0; 64];
        if ended || heard && matches!(rustix::io::read(stdin.as_fd(), &mut rest), Ok(0) | Err(_)) {
            return true;
        }
        while let Ok(Some((message, _))) = channel.try_receive::<Up>() {
            if let Up::Lease { until: end } = message {
                until = Some(end);
            }
        }
        if until.is_some_and(|until| process::now() >= until) {
            return false;
        }
    }
}

/// One line of hexadecimal digits, and not a byte more.
fn read_secret() -> Result<Secret, JoinError> {
    let mut line = [0; 2 * SECRET_LEN + 1];
    let mut stdin = std::io::stdin();
    let limit = timespec(SECRET);
    let ready = poll(&mut [PollFd::new(&stdin.as_fd(), PollFlags::IN)], Some(&limit));
    if !matches!(ready, Ok(1)) || stdin.read_exact(&mut line).is_err() {
        return Err(JoinError::ByHand);
    }
    let text = std::str::from_utf8(&line[..2 * SECRET_LEN]).ok();
    text.and_then(Secret::from_hex).ok_or(JoinError::ByHand)
}
