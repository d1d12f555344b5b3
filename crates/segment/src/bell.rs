//! The bell of a PE: how a thread that sleeps and one that stores a word do not miss each other.
//!
//! Invariant: of a store and a read of the counter on one side, and an announcement and a last look
//! on the other, at least one read sees the other side.
//!
//! Left out: what is waited for, and how long a thread spins first (`pgas::wait`).

#![forbid(unsafe_code)]

use std::time::Duration;

use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_sys::futex;

use crate::atomic::{AtomicU32, Ordering, compiler_fence, fence};

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
    /// Sleeps until a ring, unless `last_look`, called once this thread is announced, returns no
    /// limit for the sleep. May return for any reason. A thread that `watches` waits for an event
    /// that a plain put may cause.
    pub fn sleep(&self, watches: bool, last_look: impl FnOnce() -> Option<Duration>) {
        let (seen, watcher) = (self.doorbell.load(Ordering::Acquire), u32::from(watches));
        self.watchers.fetch_add(watcher, Ordering::Relaxed); // the fence of `announce` orders it
        announce(&self.sleepers);
        if let Some(limit) = last_look() {
            futex::sleep_while(&self.doorbell, seen, limit);
        }
        self.watchers.fetch_sub(watcher, Ordering::Relaxed);
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes the threads that watch. Called after a plain store, which it does not fence: the
    /// sleeper's `last_look` issues a barrier for all processors (`pgas::wait`).
    #[inline]
    pub fn wake_watchers(&self) {
        compiler_fence(Ordering::SeqCst);
        if self.watchers.load(Ordering::Relaxed) != 0 {
            self.pull();
        }
    }

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
        self.doorbell.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.doorbell);
    }
}

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
