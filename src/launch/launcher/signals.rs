//! The signals that stop a job, and those that are passed on to PEs: every one that would end this
//! process without a word.
//!
//! Left out: KILL and STOP, which nobody catches, those of crashes, and those that are ignored
//! because whoever started this process wants it so, as `nohup` does.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags};

use crate::sys::signals;

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

/// The signals that are caught, and the socket that their handlers write to.
pub struct Signals {
    caught: Vec<(i32, Arc<AtomicBool>)>,
    bell: UnixStream,
    stop: Option<i32>,
}

impl Signals {
    /// Catches them from now on; `stop` stops the job, and is not passed on.
    pub fn catch(stop: Option<i32>) -> std::io::Result<Signals> {
        let (bell, ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let others = PASSED.into_iter().chain(OTHERS).chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
        let others = others.filter(|&signal| !signals::ignores(signal));
        let catch = |signal| {
            let flag = Arc::new(AtomicBool::new(false));
            // Handlers run in this order: who hears the bell finds the flag.
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
            signal_hook::low_level::pipe::register(signal, ring.try_clone()?)?;
            Ok((signal, flag))
        };
        let caught = ALWAYS.into_iter().chain(others).map(catch);
        Ok(Signals { caught: caught.collect::<std::io::Result<_>>()?, bell, stop })
    }

    /// What to poll.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        std::iter::once(PollFd::new(&self.bell, PollFlags::IN))
    }

    fn is_passed(&self, signal: i32) -> bool {
        PASSED.contains(&signal) && self.stop != Some(signal)
    }

    /// Takes the first that has arrived and stops the job, or is passed on.
    fn take(&self, passed: bool) -> Option<i32> {
        while matches!((&self.bell).read(&mut [0; 64]), Ok(64)) {}
        let wanted = |(signal, _): &&(i32, _)| self.is_passed(*signal) == passed;
        let there = |(_, flag): &&(i32, Arc<AtomicBool>)| flag.swap(false, Ordering::SeqCst);
        self.caught.iter().filter(wanted).find(there).map(|(signal, _)| *signal)
    }

    /// One that has arrived and stops the job.
    pub fn stopped(&self) -> Option<i32> {
        self.take(false)
    }

    /// One that has arrived for the PEs. To be asked before it is waited for others: the bell rings
    /// once for all.
    pub fn passed(&self) -> Option<i32> {
        self.take(true)
    }
}
