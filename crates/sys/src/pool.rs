//! A pool of threads that help this process through a loop, on processors that are otherwise idle.
//!
//! The threads start at the first loop that can use them, and sleep between loops. They take none
//! of the program's signals and run none of its code; they run on the processors that the process
//! was given, wherever the program has since bound its own threads. Items are handed out in order,
//! one at a time, so that neighbours in memory are processed at about the same time, whichever
//! thread takes them.
//!
//! Invariants: the calling thread works as well; when a loop returns, no part of it is still
//! running; a panic in any thread becomes one of the call. A pool of one has no other thread, and
//! its loops are plain ones. So are those of a process that cannot start threads.
//!
//! Left out: nested loops.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use raidshmem_core::mutant::{Mutant, breaks};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::process;

/// Maximum number of threads by default: about this many cores saturate the memory bandwidth of a
/// socket, as these loops do little but move bytes.
pub const MOST: usize = 8;
/// The number of items below which waking a thread does not pay off.
const FEW: usize = 4;
/// Bytes of a helper's stack: tiles and scratch buffers are not on it.
const STACK: usize = 256 << 10;

/// Numbers in a run of [`WorkerPool::numbers`].
const RUN: usize = 8;

/// The threads of one process.
#[derive(Debug)]
pub struct WorkerPool {
    threads: usize,
    cpus: Vec<usize>,
    pool: OnceLock<Option<ThreadPool>>,
}

/// Returns the number of threads for each of `sharing` processes on `cpus` processors.
pub fn fair(cpus: usize, sharing: usize) -> usize {
    (cpus / sharing.max(1)).clamp(1, MOST)
}

impl WorkerPool {
    /// Creates a pool of this many threads, including the calling one, on these processors; on any
    /// if the list is empty.
    pub fn new(threads: usize, cpus: Vec<usize>) -> WorkerPool {
        WorkerPool { threads, cpus, pool: OnceLock::new() }
    }

    /// Returns a pool for a loop during which only `sharing` processes use the processors, as all
    /// others sleep. Never smaller than this one.
    pub fn among(&self, sharing: usize) -> WorkerPool {
        WorkerPool::new(self.threads.max(fair(self.cpus.len(), sharing)), self.cpus.clone())
    }

    /// Returns the number of threads, including the calling one.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `work` on each of `items`, handed out in order to all threads. Each thread has scratch
    /// of its own, which `scratch` creates.
    ///
    /// # Panics
    /// If `work` panics in any thread, after all have ended.
    pub fn each<T, R>(
        &self,
        items: impl IntoIterator<Item = T, IntoIter: Send>,
        scratch: impl Fn() -> R + Sync,
        work: impl Fn(T, &mut R) + Sync,
    ) {
        let items = items.into_iter();
        let few = items.size_hint().1.is_some_and(|most| most < FEW);
        let Some(pool) = self.pool().filter(|_| !few) else {
            let mut scratch = scratch();
            return items.for_each(|item| work(item, &mut scratch));
        };
        let mut items = items;
        if breaks(Mutant::ItemLeftOut) {
            items.next();
        }
        let items = Mutex::new(items);
        let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
        let share = || {
            let mut scratch = scratch();
            while let Some(item) = next() {
                work(item, &mut scratch);
            }
        };
        pool.in_place_scope(|scope| {
            for _ in 1..self.threads {
                scope.spawn(|_| share());
            }
            share();
        });
    }

    /// Like [`WorkerPool::each`], for `numbers`, handed out several at a time: for work that may
    /// take less time than handing it out.
    ///
    /// # Panics
    /// As for [`WorkerPool::each`].
    pub fn numbers<R>(
        &self,
        numbers: Range<usize>,
        scratch: impl Fn() -> R + Sync,
        work: impl Fn(usize, &mut R) + Sync,
    ) {
        let end = numbers.end;
        let runs = numbers.step_by(RUN).map(|from| from..end.min(from + RUN));
        self.each(runs, scratch, |run, scratch| run.for_each(|number| work(number, scratch)));
    }

    /// Returns the helper threads; None for a pool of one, or if they cannot be started.
    fn pool(&self) -> Option<&ThreadPool> {
        if self.threads < 2 {
            return None;
        }
        let start = |thread: rayon::ThreadBuilder| {
            let (name, cpus) = (format!("shmem-pool-{}", thread.index()), self.cpus.clone());
            process::helper(&name, STACK, move || {
                process::stay_on(&cpus);
                thread.run();
            })
        };
        let make = || ThreadPoolBuilder::new().num_threads(self.threads - 1).spawn_handler(start);
        self.pool.get_or_init(|| make().build().ok()).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::thread::current;

    use super::*;

    fn pool(threads: usize) -> WorkerPool {
        WorkerPool::new(threads, Vec::new())
    }

    #[test]
    fn a_fair_share_is_at_least_one_and_not_all_of_a_large_machine() {
        let shares = [(1, 1), (2, 4), (4, 2), (64, 1), (64, 2), (0, 0)];
        assert_eq!(shares.map(|(cpus, pes)| fair(cpus, pes)), [1, 1, 2, MOST, MOST, 1]);
    }

    #[test]
    fn while_others_sleep_a_pool_is_larger_and_never_smaller() {
        let sizes = |threads: usize, sharing: &[usize]| -> Vec<usize> {
            let pool = WorkerPool::new(threads, (0..6).collect());
            sharing.iter().map(|&sharing| pool.among(sharing).threads()).collect()
        };
        assert_eq!(sizes(1, &[1, 2, 4, 12, usize::MAX]), [6, 3, 1, 1, 1]);
        assert_eq!(sizes(4, &[1, 2, 12]), [6, 4, 4]);
    }

    #[test]
    fn every_item_is_worked_on_once_whoever_does_it() {
        for threads in [1, 2, 5] {
            let pool = pool(threads);
            for count in [0, 1, FEW, 1000] {
                let seen = Mutex::new(vec![0; count]);
                pool.each(0..count, || (), |item, ()| seen.lock().unwrap()[item] += 1);
                pool.numbers(count / 3..count, || (), |item, ()| seen.lock().unwrap()[item] += 2);
                let times = |item: usize| if item < count / 3 { 1 } else { 3 };
                assert!((0..count).map(times).eq(seen.into_inner().unwrap()));
            }
        }
    }

    /// Each waits for all others, so the test would hang if one thread had two of the items.
    #[test]
    fn all_threads_run_at_once_each_with_its_own_scratch() {
        let (pool, here) = (pool(4), Barrier::new(4));
        let threads = Mutex::new(HashSet::new());
        pool.each(
            0..4,
            || current().id(),
            |_, scratch| {
                assert_eq!(*scratch, current().id());
                here.wait();
                threads.lock().unwrap().insert(*scratch);
            },
        );
        let threads = threads.into_inner().unwrap();
        assert!(threads.len() == 4 && threads.contains(&current().id()));
    }

    #[test]
    fn items_are_handed_out_in_their_order() {
        let (pool, taken) = (pool(3), Mutex::new(Vec::new()));
        let items = (0..500).inspect(|&item| taken.lock().unwrap().push(item));
        pool.each(items, || (), |_, ()| ());
        assert_eq!(taken.into_inner().unwrap(), (0..500).collect::<Vec<_>>());
    }

    #[test]
    fn a_panic_of_any_thread_is_one_of_the_call_and_the_pool_continues() {
        for threads in [1, 3] {
            let pool = pool(threads);
            let work = |item: usize, (): &mut ()| assert!(item != 77, "item 77 is bad");
            let bad = std::panic::AssertUnwindSafe(|| pool.each(0..100, || (), work));
            assert!(std::panic::catch_unwind(bad).is_err());
            pool.each(0..77, || (), work);
        }
    }

    #[test]
    fn helpers_run_on_the_processors_they_were_given() {
        let all = process::usable();
        let last = *all.last().expect("this thread runs somewhere");
        let (pool, caller) = (WorkerPool::new(2, vec![last]), current().id());
        let (here, found) = (Barrier::new(2), Mutex::new(Vec::new()));
        let work = |nth: usize, (): &mut ()| {
            if nth < 2 {
                here.wait(); // hence each of the two threads has one
                found.lock().unwrap().push((current().id(), process::usable()));
            }
        };
        pool.each(0..FEW, || (), work);
        for (id, cpus) in found.into_inner().unwrap() {
            assert_eq!(cpus, if id == caller { all.clone() } else { vec![last] });
        }
    }
}
