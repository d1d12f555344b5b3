//! What launcher, node supervisors and agents agree on before they talk: hidden arguments, the last
//! word of a node, and why a node cannot join.

#![forbid(unsafe_code)]

use std::net::SocketAddr;

use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use raidshmem_core::ended::Ended;
use raidshmem_core::secret::Secret;
use raidshmem_sys::socket::ChannelError;

/// Hidden first argument that makes `oshrun` an agent.
pub const AGENT_ARGUMENT: &str = "--raidshmem-agent";

/// Hidden first argument that makes `oshrun` the supervisor of a node on another host.
pub const SUPERVISOR_ARGUMENT: &str = "--raidshmem-agent-of";

/// Hidden first argument that makes `oshrun` a process that loads what a fabric needs, and ends.
pub const PROBE_ARGUMENT: &str = "--raidshmem-probe";

/// Exit status of a node supervisor whose node has no process any more, though nobody told it to
/// end.
pub const ALL_DEAD: i32 = 87;

/// Why a node could not join, or had to end.
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
    /// The node supervisor was called wrongly.
    #[error("an agent is started by oshrun itself")]
    ByHand,
    /// A system call failed.
    #[error("node supervisor: {0}")]
    Supervisor(#[from] std::io::Error),
    /// The connection failed.
    #[error("{0}")]
    Channel(#[from] ChannelError),
}

/// What the supervisor of `node` says when none of its processes runs any more. Only who knows the
/// secret of the job can say it.
pub fn last_word(secret: &Secret, node: u32) -> String {
    let cipher = ChaCha20Poly1305::new(Key::from_slice(&secret.0));
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&node.to_le_bytes());
    let sealed = cipher.encrypt(Nonce::from_slice(&nonce), &b"all ended"[..]).unwrap_or_default();
    let digits: String = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("raidshmem-node-{node}-ended-{digits}")
}
