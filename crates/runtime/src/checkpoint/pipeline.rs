//! Prefetching: all threads of the process do a batch of work while the next one is fetched.
//!
//! If sources are remote, two other threads fetch, a batch each in turn, so that the network is
//! busy while this process computes, and while the last bytes of a batch are awaited. Each batch
//! has its own scratch, which passes back and forth between the threads, so that no two share it.
//! If all sources are mapped there are no such threads: reading a peer's mapped memory twice would
//! only cost time.
//!
//! Invariant: batches begin in order, each after its fetch; when `run` returns, no fetch and no
//! work is in progress.

#![forbid(unsafe_code)]

use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};

use raidshmem_sys::pool::WorkerPool;
use raidshmem_sys::process;

/// Steps of a stripe that are fetched together. Eight of four members, a tile each, are 2 MiB:
/// several times the bytes in flight in a network, so that the pause between two batches is
/// relatively short.
pub const STEPS: usize = 8;
/// Batches that are fetched at a time.
const FETCHERS: usize = 2;
/// Bytes of a fetching thread's stack: it only asks an engine for bytes.
const STACK: usize = 256 << 10;

/// The first error of several threads.
struct First<E>(Mutex<Option<E>>);

impl<E> First<E> {
    fn slot(&self) -> std::sync::MutexGuard<'_, Option<E>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_there(&self) -> bool {
        self.slot().is_some()
    }

    fn keep(&self, result: Result<(), E>) {
        if let Err(error) = result {
            self.slot().get_or_insert(error);
        }
    }
}

/// Calls `fetch` for each batch of `tiles`, and then `work` for each tile, with memory from
/// `scratch`. If `remote`, each tile of a batch has its own scratch to fetch into, and other
/// threads fetch, or this one if the system refuses to start them. If not, `fetch` gets no scratch,
/// and the threads share the batches.
///
/// # Errors
/// The first error of `work`; what has not begun by then is left undone.
pub fn run<T: Sync, R: Send, E: Send>(
    pool: &WorkerPool,
    tiles: &[T],
    scratch: impl Fn() -> R + Sync,
    remote: bool,
    fetch: impl Fn(&[T], &mut [R]) + Sync,
    work: impl Fn(&T, &mut R) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let first = First(Mutex::new(None));
    let one = |tile: &T, scratch: &mut R| {
        if !first.is_there() {
            first.keep(work(tile, scratch));
        }
    };
    if remote {
        let scratch = || (0..STEPS).map(|_| scratch()).collect();
        let fetch = |batch: &&[T], scratch: &mut Vec<R>| fetch(batch, scratch);
        ahead(&tiles.chunks(STEPS).collect::<Vec<_>>(), scratch, fetch, |batch, scratch| {
            pool.each(batch.iter().zip(scratch), || (), |(tile, scratch), ()| one(tile, scratch));
            !first.is_there()
        });
    } else {
        pool.each(tiles.chunks(STEPS), &scratch, |batch, scratch| {
            fetch(batch, &mut []);
            batch.iter().for_each(|tile| one(tile, scratch));
        });
    }
    first.0.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Calls `fetch`, in other threads, and then `work` for each of `batches`, until `work` returns
/// false. There is scratch for one batch more than there are such threads.
fn ahead<B: Sync, R: Send>(
    batches: &[B],
    scratch: impl Fn() -> R,
    fetch: impl Fn(&B, &mut R) + Sync,
    mut work: impl FnMut(&B, &mut R) -> bool,
) {
    std::thread::scope(|scope| {
        let (fetch, mut lanes) = (&fetch, Vec::new());
        while batches.len() > 1 && lanes.len() < FETCHERS {
            let (give, empty) = channel::<(usize, R)>();
            let (hand, filled) = channel();
            let body = move || {
                for (at, mut scratch) in empty {
                    fetch(&batches[at], &mut scratch);
                    if hand.send(scratch).is_err() {
                        break;
                    }
                }
            };
            if process::scoped_helper(scope, "shmem-fetch", STACK, body).is_err() {
                break;
            }
            lanes.push((give, filled));
        }
        if lanes.is_empty() {
            let mut scratch = scratch();
            let one = |batch| {
                fetch(batch, &mut scratch);
                work(batch, &mut scratch)
            };
            let _ = batches.iter().all(one);
            return;
        }
        let lane = |at: usize| &lanes[at % lanes.len()];
        let begin = |at: usize, scratch: R| {
            if at < batches.len() {
                let _ = lane(at).0.send((at, scratch));
            }
        };
        let round = lanes.len() + 1;
        (0..round).for_each(|at| begin(at, scratch()));
        for (at, batch) in batches.iter().enumerate() {
            let mut scratch = lane(at).1.recv().expect("each batch is fetched");
            if !work(batch, &mut scratch) {
                break;
            }
            begin(at + round, scratch);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::mpsc::sync_channel;
    use std::thread::current;

    use super::*;

    fn pool(threads: usize) -> WorkerPool {
        WorkerPool::new(threads, Vec::new())
    }

    /// Uses a pool of one thread, so that only one order is possible.
    #[test]
    fn batches_are_fetched_and_then_worked_on_in_their_order() {
        for (remote, count) in [(false, 90), (true, 0), (true, 1), (true, STEPS + 1), (true, 90)] {
            let tiles: Vec<usize> = (0..count).collect();
            let (fetched, worked) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
            let fetch = |batch: &[usize], scratch: &mut [usize]| {
                batch.iter().zip(scratch).for_each(|(tile, scratch)| *scratch = tile + 1);
                fetched.lock().unwrap().extend(batch.iter().map(|&tile| (tile, current().id())));
            };
            let work = |&tile: &usize, scratch: &mut usize| {
                assert_eq!(*scratch, if remote { tile + 1 } else { 0 }, "the scratch of the tile");
                assert!(fetched.lock().unwrap().iter().any(|&(fetched, _)| fetched == tile));
                worked.lock().unwrap().push(tile);
                Ok::<(), ()>(())
            };
            run(&pool(1), &tiles, || 0, remote, fetch, work).unwrap();
            assert_eq!(worked.into_inner().unwrap(), tiles);
            let (mut order, threads): (Vec<_>, Vec<_>) =
                fetched.into_inner().unwrap().into_iter().unzip();
            order.sort(); // two batches are fetched at a time
            assert_eq!(order, tiles);
            let fetchers = threads.iter().filter(|&&id| id != current().id()).count();
            assert_eq!(fetchers, if remote && count > STEPS { count } else { 0 });
        }
    }

    #[test]
    fn all_tiles_are_worked_on_by_several_threads() {
        for (remote, threads) in [(false, 1), (false, 3), (true, 1), (true, 3)] {
            let tiles: Vec<usize> = (0..100).collect();
            let worked = Mutex::new(Vec::new());
            let fetch = |batch: &[usize], scratch: &mut [usize]| {
                batch.iter().zip(scratch).for_each(|(tile, scratch)| *scratch = *tile);
            };
            let work = |&tile: &usize, scratch: &mut usize| {
                assert!(!remote || *scratch == tile);
                worked.lock().unwrap().push(tile);
                Ok::<(), ()>(())
            };
            run(&pool(threads), &tiles, || 0, remote, fetch, work).unwrap();
            let worked = worked.into_inner().unwrap();
            assert_eq!(worked.len(), tiles.len());
            assert!(worked.into_iter().collect::<BTreeSet<_>>().into_iter().eq(tiles));
        }
    }

    /// The work on a batch waits for the fetch of the next: it would hang if they took turns.
    #[test]
    fn the_next_batch_is_fetched_while_this_one_is_worked_on() {
        let (send, received) = sync_channel(1);
        let received = Mutex::new(received);
        let fetch = |batch: &[usize], _: &mut [()]| {
            if batch[0] > 0 {
                send.send(batch[0]).unwrap();
            }
        };
        let work = |&tile: &usize, (): &mut ()| {
            if tile % STEPS == 0 && tile < 2 * STEPS {
                assert!(received.lock().unwrap().recv().unwrap() > 0); // from a later batch
            }
            Ok::<(), ()>(())
        };
        let tiles: Vec<usize> = (0..3 * STEPS).collect();
        run(&pool(1), &tiles, || (), true, fetch, work).unwrap();
    }

    /// The fetch of a batch waits for that of the next: it would hang if they took turns.
    #[test]
    fn two_batches_are_fetched_at_a_time() {
        let both = std::sync::Barrier::new(2);
        let fetch = |_: &[usize], _: &mut [()]| {
            both.wait();
        };
        let tiles: Vec<usize> = (0..4 * STEPS).collect();
        run(&pool(1), &tiles, || (), true, fetch, |_, ()| Ok::<(), ()>(())).unwrap();
    }

    #[test]
    fn no_tile_begins_after_a_failure() {
        for (remote, threads) in [(false, 1), (false, 3), (true, 1), (true, 3)] {
            let worked = Mutex::new(0);
            let work = |&tile: &usize, (): &mut ()| {
                *worked.lock().unwrap() += 1;
                if tile == 1 { Err("bad") } else { Ok(()) }
            };
            let tiles: Vec<usize> = (0..10_000).collect();
            let result = run(&pool(threads), &tiles, || (), remote, |_, _| (), work);
            assert_eq!(result, Err("bad"));
            let worked = *worked.lock().unwrap();
            assert!(if threads == 1 { worked == 2 } else { worked < tiles.len() }, "{worked}");
        }
    }
}
