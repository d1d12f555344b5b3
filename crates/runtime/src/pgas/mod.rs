//! The runtime of a process under the OpenSHMEM model: one [`World`], bytes, words and sets of PEs.
//!
//! ```text
//! world/                   the state of a process, in parts
//! assignment               the assignment of a PE number to a process
//! boot, lifecycle          from shmem_init to shmem_finalize; finish, last: the orderly end
//! wait, barrier            the single blocking primitive, and the barrier over all PEs
//! meeting                  barriers of the protocol, in a tree
//! remote, nonblocking      PEs whose memory is not mapped here, and pending transfers to them
//! policy                   the response to a loss: the PEs that roll back, if any
//! fewer                    shrink mode: adopting views within calls, agreements
//! calls, timing            published checkpoint calls; the choice of calls that save
//! local, gathering         logs for local rollback, and collectives through them
//! records, unlogged        contents and size limits of a log; calls that it lacks
//! far                      logged operations on PEs that are not mapped, and meetings with them
//! reading                  the logs of all PEs, as a substitute reads them
//! caller                   the accesses of a logged call, behind the ports of `core/replay`
//! atomics, answers         logging of atomic operations, tests, and random numbers
//! replay, rejoin           calls of a substitute from its log; the view that all join afterwards
//! inherit                  the state that a substitute takes over from the dead process
//! plan                     the file of ranges that checkpoints leave out
//! prelude                  results of calls before the first checkpoint
//! panics                   a panic of the library, which ends the job
//! ```
//!
//! Invariants: no call hangs on a dead PE, since every blocking call checks the view number.
//! Between a death and the restart (`Membership::faulted`) puts are dropped and blocking calls
//! return.
//!
//! Left out: types, contexts and teams, which belong to the model (`openshmem`).

mod abort;
mod answers;
pub mod assignment;
pub mod atomics;
mod banner;
mod barrier;
pub mod boot;
mod caller;
mod calls;
mod complain;
mod far;
mod fewer;
mod finish;
pub mod gathering;
mod inherit;
mod last;
mod lifecycle;
pub mod local;
mod meeting;
mod nonblocking;
pub mod panics;
mod plan;
mod policy;
mod prelude;
mod reading;
mod records;
mod rejoin;
mod remote;
mod renewal;
mod replay;
mod run_time;
mod timing;
mod unlogged;
mod wait;
mod world;

pub use complain::complain;
pub use fewer::{Members, WORLD};
pub use lifecycle::{
    end_at_any_exit, end_job, ended, finalize, global_exit, init, initialized, try_world, world,
    world_for,
};
pub use world::members::{Fault, Membership};
pub use world::memory::READONLY;
pub use world::regions::Name;
pub use world::segments::Segments;
pub use world::store::{Store, StoreBytes};
pub use world::{World, stream, watch};
