//! The signals that stop a job, and those that are passed on to PEs: every one that would end this
//! process without a word.
//!
//! Left out: KILL and STOP, which nobody catches, those of crashes, and those that are ignored
//! because whoever started this process wants it so, as `nohup` does.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::os::unix::net::UnixStream;

use raidshmem_sys::inherited;
use rustix::event::{PollFd, PollFlags};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

/// What is passed on.
const PASSED: [i32; 3] = [libc::SIGUSR1, libc::SIGUSR2, libc::SIGQUIT];
/// What stops a job whoever ignores it: a shell does for what it starts in the background.
const ALWAYS: [i32; 2] = [libc::SIGINT, libc::SIGTERM];
/// What else would end this process. The others are for real time, from this on.
const OTHERS: [i32; 9] = [
    libc::SIGHUP,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    libc::SIGXCPU,
    libc::SIGXFSZ,
];

/// The signals that are caught, and those that have arrived.
pub struct Signals {
    /// All write to one socket: there are many.
    caught: RefCell<SignalDelivery<UnixStream, SignalOnly>>,
    bell: UnixStream,
    arrived: RefCell<Vec<i32>>,
    stop: Option<i32>,
}

impl Signals {
    /// Catches them from now on; `stop` stops the job, and is not passed on.
    pub fn catch(stop: Option<i32>) -> std::io::Result<Signals> {
        let (bell, ring) = UnixStream::pair()?;
        let others = PASSED.into_iter().chain(OTHERS).chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
        let others = others.filter(|&signal| !inherited::was_ignored(signal));
        let all = ALWAYS.into_iter().chain(others);
        let caught = SignalDelivery::with_pipe(bell.try_clone()?, ring, SignalOnly, all)?;
        Ok(Signals { caught: RefCell::new(caught), bell, arrived: RefCell::default(), stop })
    }

    /// What to poll.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        std::iter::once(PollFd::new(&self.bell, PollFlags::IN))
    }

    /// Takes the first that has arrived and stops the job, or is passed on.
    fn take(&self, passed: bool) -> Option<i32> {
        let mut arrived = self.arrived.borrow_mut();
        arrived.extend(self.caught.borrow_mut().pending());
        let is_passed = |signal: &i32| PASSED.contains(signal) && self.stop != Some(*signal);
        let at = arrived.iter().position(|signal| is_passed(signal) == passed)?;
        Some(arrived.remove(at))
    }

    /// A signal that has arrived and stops the job.
    pub fn stopped(&self) -> Option<i32> {
        self.take(false)
    }

    /// The signal after which the job may write a checkpoint before it stops.
    pub fn asks_for_a_stop(&self) -> i32 {
        self.stop.unwrap_or(libc::SIGTERM)
    }

    /// A signal that has arrived for the PEs. Ask before waiting for others: one wake-up
    /// stands for all.
    pub fn passed(&self) -> Option<i32> {
        self.take(true)
    }
}
