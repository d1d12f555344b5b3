//! Starting a job, watching it, and leaving nothing behind.
//!
//! `oshrun` runs [`launcher`]: one process that orders membership ([`membership`], pure) and owns
//! no PE. Each node has one [`agent`], a child of the launcher, which starts PEs, holds their
//! memory and watches them through pidfds. Whoever dies, the kernel kills what it started: agents
//! die with the launcher, PEs with their agent, and memory files have no name to be left behind
//! under.
//!
//! On other hosts ([`hosts`]) agents are started by ssh, srun or any command ([`starter`],
//! [`gather`]); there a keeper ([`join`]) ends the node's processes, and the agent comes to the
//! launcher through the network and its [`door`](self).

pub mod agent;
pub mod args;
mod binder;
pub mod detector;
mod door;
pub mod gather;
pub mod hosts;
pub mod join;
pub mod launcher;
pub mod membership;
mod output;
mod placing;
mod pulse;
pub mod say;
mod stall;
pub mod starter;
mod worker;
