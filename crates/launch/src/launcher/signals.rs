//! The signals that stop a job, and those passed on to PEs: together, all that would silently end
//! this process.
//!
//! Left out: KILL and STOP, which cannot be caught, signals of crashes, and signals that were
//! already ignored when this process started, as under `nohup`.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::os::unix::net::UnixStream;

use raidshmem_sys::inherited;
use rustix::event::{PollFd, PollFlags};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

/// Signals passed on to PEs.
const PASSED: [i32; 3] = [libc::SIGUSR1, libc::SIGUSR2, libc::SIGQUIT];
/// Signals that stop a job even if ignored at the start: a shell ignores some for background jobs.
const ALWAYS: [i32; 2] = [libc::SIGINT, libc::SIGTERM];
/// Further signals that would end this process; the real-time signals are added to them.
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

/// The caught signals, and those that have arrived.
pub struct Signals {
    /// All signals write to one socket, since there are many.
    caught: RefCell<SignalDelivery<UnixStream, SignalOnly>>,
    bell: UnixStream,
    arrived: RefCell<Vec<i32>>,
    stop: Option<i32>,
}

impl Signals {
    /// Catches the signals from now on; `stop` stops the job instead of being passed on.
    pub fn catch(stop: Option<i32>) -> std::io::Result<Signals> {
        let (bell, ring) = UnixStream::pair()?;
        let others = PASSED.into_iter().chain(OTHERS).chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
        let others = others.filter(|&signal| !inherited::was_ignored(signal));
        let all = ALWAYS.into_iter().chain(others);
        let caught = SignalDelivery::with_pipe(bell.try_clone()?, ring, SignalOnly, all)?;
        Ok(Signals { caught: RefCell::new(caught), bell, arrived: RefCell::default(), stop })
    }

    /// Returns the descriptors to poll.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        std::iter::once(PollFd::new(&self.bell, PollFlags::IN))
    }

    /// Takes the first signal that is passed on if `passed`, or that stops the job if not.
    fn take(&self, passed: bool) -> Option<i32> {
        let mut arrived = self.arrived.borrow_mut();
        arrived.extend(self.caught.borrow_mut().pending());
        let is_passed = |signal: &i32| PASSED.contains(signal) && self.stop != Some(*signal);
        let at = arrived.iter().position(|signal| is_passed(signal) == passed)?;
        Some(arrived.remove(at))
    }

    /// Takes a signal that stops the job.
    pub fn stopped(&self) -> Option<i32> {
        self.take(false)
    }

    /// Returns the signal after which the job may write a checkpoint before it stops.
    pub fn asks_for_a_stop(&self) -> i32 {
        self.stop.unwrap_or(libc::SIGTERM)
    }

    /// Takes a signal for the PEs. Must be called until it returns None before the next wait: one
    /// wake-up covers all pending signals.
    pub fn passed(&self) -> Option<i32> {
        self.take(true)
    }
}
