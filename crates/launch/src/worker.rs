//! A thread for work that may take over a millisecond, next to a loop that renews leases.
//!
//! Invariants: jobs run one after another, in submission order; every job gives one result (it
//! returns errors and does not panic), and the descriptor stays readable until the result is taken.
//! The thread lives as long as the process, so that processes started by a job do not lose their
//! parent.

#![forbid(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use raidshmem_control::link::timespec;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

type Closure<T> = Box<dyn FnOnce() -> T + Send>;

/// The thread and its results.
pub struct Worker<T> {
    jobs: Sender<Closure<T>>,
    /// Results, with None for a job that was not run.
    done: Receiver<Option<T>>,
    bell: Arc<OwnedFd>,
    stopped: Arc<AtomicBool>,
    pending: usize,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts the thread.
    ///
    /// # Errors
    /// The machine may be out of threads or descriptors.
    pub fn new() -> io::Result<Worker<T>> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let stopped = Arc::new(AtomicBool::new(false));
        let (jobs, to_do) = channel::<Closure<T>>();
        let (results, done) = channel();
        let (ring, is_stopped) = (Arc::clone(&bell), Arc::clone(&stopped));
        let body = move || {
            for job in to_do {
                let stopped = is_stopped.load(Ordering::SeqCst); // pairs with the store in `stop`
                if results.send((!stopped).then(job)).is_err() {
                    return; // there is no receiver left
                }
                // A full counter wakes the reader as well.
                let _ = rustix::io::write(&ring, &1u64.to_ne_bytes());
            }
        };
        std::thread::Builder::new().name("worker".into()).spawn(body)?;
        Ok(Worker { jobs, done, bell, stopped, pending: 0 })
    }

    /// Queues `job`.
    pub fn begin(&mut self, job: impl FnOnce() -> T + Send + 'static) {
        self.pending += 1;
        let _ = self.jobs.send(Box::new(job)); // the thread outlives this value
    }

    /// Takes the results since the last call.
    pub fn results(&mut self) -> Vec<T> {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        let done: Vec<Option<T>> = self.done.try_iter().collect();
        self.pending -= done.len();
        done.into_iter().flatten().collect()
    }

    /// Starts no further jobs.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst); // pairs with the load in the thread
    }

    /// Waits for a result until `end`. Returns false if none can arrive, or if `end` has passed.
    pub fn waits_until(&self, end: Instant) -> bool {
        let left = end.saturating_duration_since(Instant::now());
        if self.is_idle() || left.is_zero() {
            return false;
        }
        let _ = poll(&mut [PollFd::new(&self.bell, PollFlags::IN)], Some(&timespec(left)));
        true
    }

    /// Returns true if every job was run or dropped, and its result taken.
    pub fn is_idle(&self) -> bool {
        self.pending == 0
    }
}

impl<T> AsFd for Worker<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_arrive_in_the_order_of_the_jobs_and_ring_the_bell() {
        let mut worker = Worker::new().unwrap();
        (0..100).for_each(|number| worker.begin(move || number));
        let mut got = Vec::new();
        while got.len() < 100 {
            poll(&mut [PollFd::new(&worker, PollFlags::IN)], None).unwrap();
            got.extend(worker.results());
        }
        assert!(got.into_iter().eq(0..100));
        // The descriptor may become readable once more, for a result already taken.
        assert!(worker.results().is_empty() && worker.is_idle(), "nothing is left to take");
        worker.stop();
        worker.begin(|| 100);
        while !worker.is_idle() {
            poll(&mut [PollFd::new(&worker, PollFlags::IN)], None).unwrap();
            assert!(worker.results().is_empty(), "it was stopped");
        }
    }
}
