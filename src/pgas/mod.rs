//! The runtime of a process under the OpenSHMEM model: one [`World`], bytes, words and sets of PEs.
//!
//! ```text
//! world/                   what a process has: its parts, each a value of its own
//! assignment               the place of a process in the job
//! boot, lifecycle          from shmem_init to shmem_finalize; finish, last: the end in good order
//! wait, barrier            the one way to block, and the barrier of all PEs
//! meeting                  the meetings of the protocol, in a tree
//! remote, nonblocking         PEs whose memory is not mapped here, and what is under way there
//! policy                   what a loss means: who goes back, if anybody
//! fewer                    going on with fewer: adopting views in the midst of calls, agreements
//! calls, timing            what a PE shows of its checkpoint calls; which of them save
//! local, gathering         logs, with which a lost PE goes back alone, and meetings by them
//! records                  what is in a log, and how much of it there may be
//! atomics, answers         what is logged of atomic operations, tests, and what a program draws
//! replay, rejoin           calls of a substitute from its log; the view that all join then
//! inherit                  what a substitute takes over from the dead
//! plan                     the file of what checkpoints leave out
//! prelude                  what calls before the first checkpoint gave back
//! panics                   a panic of the library, which is the end of the job
//! ```
//!
//! Invariants: no call hangs on a dead PE, since every blocking call checks the view number.
//! Between a death and the restart (`World::faulted`) puts are dropped and blocking calls return.
//!
//! Left out: types, contexts and teams, which belong to the model (`openshmem`).

mod abort;
mod answers;
pub mod assignment;
pub mod atomics;
mod banner;
mod barrier;
pub mod boot;
mod calls;
mod complain;
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
mod records;
mod rejoin;
mod remote;
mod replay;
mod run_time;
mod timing;
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
