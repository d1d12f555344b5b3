//! The control page at the start of every segment: words that peers read and write.
//!
//! ```text
//! line 0   doorbell, sleepers, watchers           written by every PE that wakes the owner
//! line 1.. arrived, released     barriers of PEs that map each other, one line per level; used on
//!                                leaders (`rounds::counters`)
//! line 9.  posts                 posts of the owner up and down the tree (`tree::post`)
//! line 19  findings of the owner: corrupt snapshot chunks, corrupt parity chunks
//! line 20  ending                progress of the owner in shmem_finalize
//! line 21  call site of the checkpoint, its number, the caller; activity since a restart; whether
//!          the call saves
//! line 22. call chain: return addresses in the executable
//! line 24. node_rounds           barriers of nodes: one word per round, on each node's lowest PE
//! line 28  abort                 the job ends; written by the agent
//! line 29. waits                 calls in which threads of the owner wait; read by its agent
//! ```
//!
//! Barriers of the program and those of the protocol have words of their own ([`Barrier`]): a PE in
//! `shmem_barrier_all` and one in a checkpoint do not release each other.
//!
//! Invariants: a post names its meeting and its view, so posts need no reset and a late reader
//! never mistakes an old recovery for the present one. The page holds nothing that a recovery
//! relies on after its owner's death; that lies in the store header.

use std::sync::atomic::{AtomicU32, AtomicU64};

use raidshmem_core::rounds::LEVELS;
use raidshmem_core::tree::post::WORDS;

use crate::bell::Bell;
use crate::waits::Waits;

/// Maximum number of rounds of a meeting of nodes: enough for 2^16 of them.
pub const ROUNDS: usize = 16;
/// Maximum number of return addresses recorded of a call.
pub const CHAIN: usize = 16;

/// The caller of a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barrier {
    /// The program's.
    Program,
    /// The protocol's, in a checkpoint.
    Protocol,
    /// The protocol's, of threads that compute parity while programs run.
    Background,
}

/// The number of callers of barriers.
pub const BARRIERS: usize = 3;

/// One cache line of words.
#[repr(C, align(64))]
pub struct Line<T>(pub T);

impl<T> std::ops::Deref for Line<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// A counter at which PEs that map each other meet.
#[repr(C)]
pub struct BarrierCounter {
    /// Arrivals since the last reset.
    pub arrived: AtomicU64,
    /// Barriers completed since the last reset.
    pub released: AtomicU64,
}

/// The owner's current call in the program, and its progress since the last restart. `store::site`
/// defines the meaning of the words.
#[repr(C)]
pub struct SiteWords {
    /// Digest of the call site.
    pub site: AtomicU64,
    /// Number of the checkpoint, and flags.
    pub call: AtomicU64,
    /// Progress since a restart.
    pub progress: [AtomicU64; 4],
    /// On PE 0: two bits, used in turn, that are set if a call of the checkpoint saves; two bits
    /// above them that are set if the job must stop.
    pub due: AtomicU64,
}

/// The findings of the owner's check of its own store; its group reads them before it plans.
#[repr(C)]
pub struct Findings {
    /// Bit per chunk of the local snapshot: 1 is unusable.
    pub snapshot: AtomicU64,
    /// Bit per parity chunk held: 1 is unusable.
    pub parity: AtomicU64,
    /// Bytes of the snapshot that the findings describe, 0 if the owner knows of none.
    pub len: AtomicU64,
    /// 1 if the owner had no store at its first check.
    pub empty: AtomicU64,
}

/// The control page.
#[repr(C)]
pub struct Words {
    /// The words that wake the owner.
    pub bell: Line<Bell>,
    /// Barriers, by [`Barrier`] and level.
    pub gates: [[Line<BarrierCounter>; LEVELS]; BARRIERS],
    /// The owner's last posts, by [`raidshmem_core::tree::post::Way`].
    pub posts: [Line<[AtomicU64; WORDS]>; 2],
    /// Findings of the owner's check.
    pub findings: Line<Findings>,
    /// [`raidshmem_core::status::Ending`], or 0 while it is not at its end.
    pub ending: Line<AtomicU64>,
    /// Call site.
    pub site: Line<SiteWords>,
    /// Its return addresses, innermost first, relative to the executable; 0 after the last.
    pub chain: Line<[AtomicU64; CHAIN]>,
    /// The barriers entered by the partner of each round of a meeting of nodes, by [`Barrier`].
    pub node_rounds: [Line<[AtomicU64; ROUNDS]>; BARRIERS],
    /// Futex word; 1 once the job is aborted, which ends the owner too.
    pub abort: Line<AtomicU32>,
    /// The waits of the owner's threads.
    pub waits: Waits,
}

const _: () = assert!(std::mem::size_of::<Words>() <= raidshmem_core::page::PAGE);
