//! Nodes that are hosts: agents in network namespaces, started by a command, reached by TCP; and
//! nodes that stand still.
//!
//! - [`start`]: how a job starts on hosts, and how it does not
//! - [`strangers`]: who is not of the job
//! - [`fabric`]: PEs of different hosts, over UCX
//! - [`fewer`]: the same when nobody takes the place of the lost
//! - [`input`]: the standard input, read on another host
//! - [`losses`]: a link down, a partition, a killed agent, a node that comes back
//! - [`prelude`]: calls before the first checkpoint call
//! - [`data`]: the same under a program whose PEs reach each other through the network
//! - [`disks`]: checkpoints on the disk of each host, and jobs that begin from them
//! - [`tree`]: more hosts than the launcher renews leases for
//! - [`together`]: collectives, whichever way they go, and losses amid them
//! - [`scrub`]: damage repaired from PEs of other hosts
//! - [`rooms`]: hosts with different room for checkpoints
//! - [`rust`]: programs in safe Rust over the same
//! - [`slurm`]: the same in an allocation of a real Slurm
//! - [`ssh`]: agents behind a real sshd
//! - [`stalls`]: PEs of several hosts that wait for one that does not come
//! - [`stops`]: a stopped agent, launcher or PE on one machine; how long a death takes to be seen
//!
//! Every network is made by its test ([`net`]), inside namespaces of its own, and removed with it,
//! as are daemons that run on its hosts ([`daemons`]).

#[path = "../support/mod.rs"]
mod support;

mod daemons;
mod data;
mod disks;
mod fabric;
mod fewer;
mod input;
mod losses;
mod net;
mod prelude;
mod rooms;
mod rust;
mod scrub;
mod slurm;
mod ssh;
mod stalls;
mod start;
mod stops;
mod strangers;
mod together;
mod tree;
