//! Nodes that are hosts: agents in network namespaces, started by a command, reached by TCP; and
//! nodes that are stopped.
//!
//! - [`start`]: starting a job on hosts, and failing to
//! - [`strangers`]: connections from outside the job
//! - [`fabric`]: PEs of different hosts, over UCX
//! - [`fewer`]: PEs of different hosts in shrink mode
//! - [`input`]: the standard input, read on another host
//! - [`local`]: local rollback of processes of several hosts
//! - [`losses`]: a link down, a partition, a killed agent, a node that resumes
//! - [`background`]: parity that is computed while the program runs
//! - [`prelude`]: calls before the first checkpoint call
//! - [`data`]: losses under a program whose PEs reach each other through the network
//! - [`disks`]: checkpoints on the disk of each host, and jobs that restart from them
//! - [`tree`]: more hosts than the launcher renews leases for
//! - [`together`]: collectives, by every algorithm, and losses amid them
//! - [`scrub`]: damage repaired from PEs of other hosts
//! - [`memory_limits`]: hosts with different memory limits
//! - [`rust`]: programs in safe Rust over hosts
//! - [`slurm`]: jobs in an allocation of a real Slurm
//! - [`ssh`]: agents behind a real sshd
//! - [`stalls`]: PEs of several hosts that wait for one that does not arrive
//! - [`stops`]: a stopped agent, launcher or PE on one machine; the time until a death is seen
//!
//! Each test makes its own network ([`net`]), in its own namespaces, which is removed with it, as
//! are daemons that run on its hosts ([`daemons`]).

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod background;
mod daemons;
mod data;
mod disks;
mod fabric;
mod fewer;
mod input;
mod local;
mod losses;
mod memory_limits;
mod net;
mod prelude;
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
