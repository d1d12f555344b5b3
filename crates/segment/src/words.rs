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

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::rounds::LEVELS;
use raidshmem_core::tree::post::WORDS;
use raidshmem_sys::futex;

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
}

/// One cache line of words.
#[repr(C, align(64))]
pub struct Line<T>(pub T);

impl<T> std::ops::Deref for Line<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// The words that wake the owner.
#[repr(C)]
pub struct Bell {
    /// Futex word; counts rings.
    pub doorbell: AtomicU32,
    /// Threads of the owner that sleep or are about to, for any reason.
    pub sleepers: AtomicU32,
    /// Those of them that wait for an event that a plain put may cause.
    pub watchers: AtomicU32,
}

/// A counter of sleepers, and the fence that orders reads of it: the machine's, or a model's.
pub trait Counter {
    /// Returns the count, unordered.
    fn count(&self) -> u32;
    /// Adds to the count, unordered.
    fn add(&self, by: u32);
    /// Orders all earlier accesses before all later ones, for all processors.
    fn fence(&self);
}

impl Counter for AtomicU32 {
    #[inline]
    fn count(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }

    #[inline]
    fn add(&self, by: u32) {
        self.fetch_add(by, Ordering::Relaxed);
    }

    #[inline]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}

/// Returns true if a thread may sleep that has not seen this thread's earlier stores. Pairs with
/// [`announce`]: of a store and a read on this side, and an announcement and a read on the other,
/// at least one read sees the other side, because both sides have a fence in between.
#[inline]
pub fn is_awaited(sleepers: &impl Counter) -> bool {
    if !breaks(Mutant::WakeWithoutFence) {
        sleepers.fence();
    }
    sleepers.count() != 0
}

/// Announces that this thread will sleep, unless its next read finds its condition satisfied.
#[inline]
pub fn announce(sleepers: &impl Counter) {
    sleepers.add(1);
    sleepers.fence();
}

impl Bell {
    /// Wakes the sleeping threads of the owner. Called after any store.
    #[inline]
    pub fn wake(&self) {
        if is_awaited(&self.sleepers) {
            self.pull();
        }
    }

    /// Wakes all threads, without a check for sleepers.
    #[cold]
    pub fn pull(&self) {
        self.doorbell.fetch_add(1, Ordering::SeqCst);
        futex::wake_all(&self.doorbell);
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
    pub gates: [[Line<BarrierCounter>; LEVELS]; 2],
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
    pub node_rounds: [Line<[AtomicU64; ROUNDS]>; 2],
    /// Futex word; 1 once the job is aborted, which ends the owner too.
    pub abort: Line<AtomicU32>,
    /// The waits of the owner's threads.
    pub waits: Waits,
}

const _: () = assert!(std::mem::size_of::<Words>() <= raidshmem_core::page::PAGE);

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::{Counter, announce, is_awaited};

    /// One access of a thread to the awaited word, or to the counter.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Step {
        StoreWord,
        LookAtWord,
        Count,
        LookAtCount,
        Fence,
    }

    /// A counter that records its calls.
    #[derive(Default)]
    struct Trace(RefCell<Vec<Step>>);

    impl Counter for Trace {
        fn count(&self) -> u32 {
            self.0.borrow_mut().push(Step::LookAtCount);
            0
        }

        fn add(&self, _: u32) {
            self.0.borrow_mut().push(Step::Count);
        }

        fn fence(&self) {
            self.0.borrow_mut().push(Step::Fence);
        }
    }

    /// Returns the accesses of a thread in every order that a processor with weak ordering allows:
    /// they are to different words, so those between two fences may be reordered.
    fn orders(steps: &[Step]) -> Vec<Vec<Step>> {
        let mut all = vec![Vec::new()];
        for part in steps.split(|step| *step == Step::Fence) {
            let (there, back) = (part.to_vec(), part.iter().rev().copied().collect());
            let ways = if part.len() < 2 { vec![there] } else { vec![there, back] };
            let longer = |own: &Vec<Step>| {
                let own = own.clone();
                ways.iter().map(move |way| [own.clone(), way.clone()].concat()).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(longer).collect();
        }
        all
    }

    /// Returns true if in some order and interleaving neither thread sees the other's write.
    fn may_miss(waker: &[Step], sleeper: &[Step]) -> bool {
        let blind = |waker: &[Step], sleeper: &[Step]| {
            (0..1 << (waker.len() + sleeper.len())).any(|choice: u32| {
                let (mut stored, mut counted, mut seen) = (false, false, false);
                let (mut w, mut s) = (waker.iter(), sleeper.iter());
                let mut step = |step| match step {
                    Step::StoreWord => stored = true,
                    Step::Count => counted = true,
                    Step::LookAtWord => seen |= stored,
                    Step::LookAtCount => seen |= counted,
                    Step::Fence => {}
                };
                for at in 0..waker.len() + sleeper.len() {
                    let next = if choice >> at & 1 == 0 { w.next() } else { s.next() };
                    next.copied().into_iter().for_each(&mut step);
                }
                w.chain(s).copied().for_each(&mut step);
                !seen
            })
        };
        let sleeps = orders(sleeper);
        orders(waker).iter().any(|w| sleeps.iter().any(|s| blind(w, s)))
    }

    #[test]
    fn a_sleeper_sees_or_is_seen() {
        let (waker, sleeper) = (Trace::default(), Trace::default());
        waker.0.borrow_mut().push(Step::StoreWord);
        is_awaited(&waker);
        announce(&sleeper);
        sleeper.0.borrow_mut().push(Step::LookAtWord);
        let (waker, sleeper) = (waker.0.into_inner(), sleeper.0.into_inner());
        assert!(!may_miss(&waker, &sleeper), "{waker:?}, {sleeper:?}");
        // Both fences are needed.
        let without = |steps: &[Step]| -> Vec<Step> {
            steps.iter().copied().filter(|step| *step != Step::Fence).collect()
        };
        assert!(may_miss(&without(&waker), &sleeper));
        assert!(may_miss(&waker, &without(&sleeper)));
    }
}
