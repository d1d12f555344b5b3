//! The handshake between launcher, node supervisors and agents: hidden arguments, the last word of
//! a node, and the reasons why a node cannot join.

#![forbid(unsafe_code)]

use std::net::SocketAddr;

use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use raidshmem_core::ended::Ended;
use raidshmem_core::secret::{SECRET_LEN, Secret};
use raidshmem_sys::socket::ChannelError;

/// Hidden first argument that makes `oshrun` an agent.
pub const AGENT_ARGUMENT: &str = "--raidshmem-agent";

/// Hidden first argument that makes `oshrun` the supervisor of a node on another host.
pub const SUPERVISOR_ARGUMENT: &str = "--raidshmem-agent-of";

/// Hidden first argument that makes `oshrun` the command that starts a supervisor through a task of
/// another launcher ([`crate::task::relay`]).
pub const STARTER_ARGUMENT: &str = "--raidshmem-start";

/// The environment variable with the descriptor from which a launcher that a task started reads the
/// secret of the step.
pub const SECRET_FD: &str = "RAIDSHMEM_SECRET_FD";

/// Hidden first argument that makes `oshrun` a process that loads a fabric's library and exits.
pub const PROBE_ARGUMENT: &str = "--raidshmem-probe";

/// Exit status of a node supervisor whose node has no process left although it was not ordered to
/// end.
pub const ALL_DEAD: i32 = 87;

/// A reason why a node could not join, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The launcher cannot be reached.
    #[error("cannot connect to the launcher at {launcher}: {error}")]
    Connect {
        /// Its expected address.
        launcher: SocketAddr,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// The launcher rejected the node.
    #[error("refused by the launcher: {0}")]
    Refused(String),
    /// The launcher sends no orders.
    #[error("no orders from the launcher")]
    NoOrders,
    /// The node's lease has expired.
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
    /// The agent was killed by a user, or by the kernel because it stalled beyond its lease.
    #[error("node {node}: its agent {how}: the node and its PEs are ended")]
    Killed {
        /// The node.
        node: u32,
        /// The way its process ended.
        how: Ended,
    },
    /// The node supervisor was not started by a launcher.
    #[error("an agent is started by oshrun itself")]
    ByHand,
    /// A system call failed.
    #[error("node supervisor: {0}")]
    Supervisor(#[from] std::io::Error),
    /// The connection failed.
    #[error("{0}")]
    Channel(#[from] ChannelError),
}

/// Returns a random secret.
pub fn random_secret() -> std::io::Result<Secret> {
    let mut bytes = [0; SECRET_LEN];
    getrandom::fill(&mut bytes)?;
    Ok(Secret(bytes))
}

/// Returns the last word of `node`: the line its supervisor prints once none of its processes is
/// running. Only a process that knows the job's secret can compute it.
pub fn last_word(secret: &Secret, node: u32) -> String {
    let cipher = ChaCha20Poly1305::new(Key::from_slice(&secret.0));
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&node.to_le_bytes());
    let sealed = cipher.encrypt(Nonce::from_slice(&nonce), &b"all ended"[..]).unwrap_or_default();
    let digits: String = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("raidshmem-node-{node}-ended-{digits}")
}
