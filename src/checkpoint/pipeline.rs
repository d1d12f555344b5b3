//! Fetching for the next batch of work while this one is done.
//!
//! A second thread fetches, one batch ahead, so that the network is busy while this process
//! computes, and the other way round. Each batch has a room; rooms go back and forth between the
//! two threads, so that neither touches one that the other has. Where nothing comes from far there
//! is no second thread: to read a peer's mapped memory twice would only cost.
//!
//! Invariant: batches are worked on in their order, each after it was fetched; when `run` returns
//! nothing is being fetched any more.

#![forbid(unsafe_code)]

use std::sync::mpsc::channel;

use crate::sys::process;

/// Steps of a stripe that are fetched together. Eight of four members, a tile each, are 2 MiB: some
/// times what is on its way in a network, so that the pause between two batches is short beside it.
pub const STEPS: usize = 8;
/// Bytes of the second thread's stack: it only asks an engine for bytes.
const STACK: usize = 256 << 10;

/// Calls `fetch` and then `work` for each of `batches`, with a room that `room` makes. If `far`,
/// the fetching is done by another thread; if that cannot be had, by this one.
///
/// # Errors
/// The first that `work` gives; what follows it is left undone.
pub fn run<B: Sync, R: Send, E>(
    batches: &[B],
    room: impl Fn() -> R,
    far: bool,
    fetch: impl Fn(&B, &mut R) + Sync,
    mut work: impl FnMut(&B, &mut R) -> Result<(), E>,
) -> Result<(), E> {
    let mut first = room();
    if !far || batches.len() < 2 {
        return batches.iter().try_for_each(|batch| {
            fetch(batch, &mut first);
            work(batch, &mut first)
        });
    }
    let (give, empty) = channel();
    let (hand, filled) = channel();
    std::thread::scope(|scope| {
        let fetch = &fetch;
        let body = move || {
            for (batch, mut room) in batches.iter().zip(empty) {
                fetch(batch, &mut room);
                if hand.send(room).is_err() {
                    break;
                }
            }
        };
        let beside = process::scoped_helper(scope, "shmem-fetch", STACK, body).is_ok();
        if beside {
            let _ = give.send(room());
        }
        let mut spare = Some(first);
        for batch in batches {
            let mut room = spare.take().expect("it came back");
            if beside {
                let _ = give.send(room);
                room = filled.recv().expect("each batch is fetched");
            } else {
                fetch(batch, &mut room);
            }
            work(batch, &mut room)?;
            spare = Some(room);
        }
        drop(give);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::sync_channel;
    use std::thread::current;

    use super::*;

    #[test]
    fn batches_are_fetched_and_then_worked_on_in_their_order() {
        for (far, count) in [(false, 9), (true, 0), (true, 1), (true, 2), (true, 9)] {
            let batches: Vec<usize> = (0..count).collect();
            let (fetched, mut worked) = (Mutex::new(Vec::new()), Vec::new());
            let fetch = |&batch: &usize, room: &mut usize| {
                *room = batch + 1;
                fetched.lock().unwrap().push((batch, current().id()));
            };
            let done: Result<(), ()> = run(
                &batches,
                || 0,
                far,
                fetch,
                |&batch, room| {
                    assert_eq!(*room, batch + 1, "the other thread has another room");
                    worked.push(batch);
                    Ok(())
                },
            );
            done.unwrap();
            assert_eq!(worked, batches);
            let (order, threads): (Vec<_>, Vec<_>) =
                fetched.into_inner().unwrap().into_iter().unzip();
            assert_eq!(order, batches);
            let beside = threads.iter().filter(|&&id| id != current().id()).count();
            assert_eq!(beside, if far && count > 1 { count } else { 0 });
        }
    }

    /// The work on a batch waits for the fetching of the next: it would not end if they took turns.
    #[test]
    fn the_next_batch_is_fetched_while_this_one_is_worked_on() {
        let (tell, told) = sync_channel(1);
        let fetch = |&batch: &usize, _: &mut ()| {
            if batch > 0 {
                tell.send(batch).unwrap();
            }
        };
        let done: Result<(), ()> = run(
            &[0, 1, 2],
            || (),
            true,
            fetch,
            |&batch, ()| {
                if batch < 2 {
                    assert_eq!(told.recv(), Ok(batch + 1));
                }
                Ok(())
            },
        );
        done.unwrap();
    }

    #[test]
    fn what_fails_is_the_last_that_is_worked_on() {
        for far in [false, true] {
            let mut worked = 0;
            let result = run(
                &[0, 1, 2, 3],
                || (),
                far,
                |_, ()| (),
                |&batch, ()| {
                    worked += 1;
                    if batch == 1 { Err("bad") } else { Ok(()) }
                },
            );
            assert_eq!((result, worked), (Err("bad"), 2));
        }
    }
}
