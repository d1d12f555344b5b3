//! An agent on another host: how it comes to be, and how it joins the job.
//!
//! ```text
//! launcher --- ssh, srun or any command --- keeper --- agent --- PEs
//!     \______________ sealed TCP ___________________/
//! ```
//!
//! The keeper reads the job's secret from its standard input, starts the agent and waits. When the
//! agent has ended it ends whatever is left of the node's processes, and only then says its last
//! word ([`last_word`]) on standard error, and ends with [`ALL_DEAD`] unless the agent was told to
//! end: by either the launcher knows that nothing of the node runs any more. Not every command that
//! starts a keeper passes its status on; and nobody else can say its word. When its standard input
//! ends, the launcher is gone, and so is the node.
//!
//! A node whose lease is over is ended by its agent, or by the kernel if the agent cannot
//! ([`process::Deadline`]): then the keeper finds the agent killed, and its PEs died with it.

#![forbid(unsafe_code)]

use std::io::Read;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::time::Duration;

use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use rustix::event::{PollFd, PollFlags, poll};

use super::launcher::AGENT_ARGUMENT;
use super::say::{print, say};
use crate::control::link::{Link, Net, timespec};
use crate::control::message::{Down, Hello};
use crate::control::noise::{SECRET_LEN, Secret, Side};
use crate::sys::process::{self, Ended, Process};
use crate::sys::socket::{Channel, ChannelError};

/// Exit status of a keeper whose node has no process any more, though nobody told it to end.
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
    /// Somebody killed the agent, or the kernel did when it stood still beyond its lease.
    #[error("node {node}: its agent {how}: the node and its PEs are ended")]
    Killed {
        /// The node.
        node: u32,
        /// How it ended.
        how: Ended,
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

/// What the keeper of `node` says when none of its processes runs any more. Only who knows the
/// secret of the job can say it.
pub fn last_word(secret: &Secret, node: u32) -> String {
    let cipher = ChaCha20Poly1305::new(Key::from_slice(&secret.0));
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&node.to_le_bytes());
    let sealed = cipher.encrypt(Nonce::from_slice(&nonce), &b"all ended"[..]).unwrap_or_default();
    let digits: String = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("raidshmem-node-{node}-ended-{digits}")
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

/// Runs the keeper of node `words[1]` of the launcher at `words[0]`. True if its agent was told to
/// end.
pub fn keep(words: &[String]) -> Result<bool, JoinError> {
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
    let word = last_word(&secret, node);
    mine.send(&Down::Join { launcher, node, secret }, &[])?;
    let ended = watch(&agent);
    agent.kill();
    agent.wait_end(10_000);
    let how = agent.reap();
    process::end_children();
    if let Some(how @ Ended::Killed(_)) = how.filter(|_| ended) {
        say(&JoinError::Killed { node, how }.to_string());
    }
    print(format!("{word}\n"));
    Ok(how == Some(Ended::Exited(0)))
}

/// Returns when the agent has ended, or with false when the launcher is gone.
fn watch(agent: &Process) -> bool {
    let stdin = std::io::stdin();
    loop {
        let mut fds = [PollFd::new(agent, PollFlags::IN), PollFd::new(&stdin, PollFlags::IN)];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        let (ended, heard) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        let mut rest = [0; 64];
        if ended || heard && matches!(rustix::io::read(stdin.as_fd(), &mut rest), Ok(0) | Err(_)) {
            return ended;
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
