//! The signals that stop a job.

use std::io::Read;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags};

use crate::sys::signals;

/// The signals that end a job, each with the socket that its handler writes to.
pub struct Signals(Vec<(i32, UnixStream)>);

impl Signals {
    /// Catches them from now on; not a hangup that is ignored, as under `nohup`.
    pub fn catch() -> std::io::Result<Signals> {
        let catch = |signal| {
            let (receiver, sender) = UnixStream::pair()?;
            receiver.set_nonblocking(true)?;
            signal_hook::low_level::pipe::register(signal, sender)?;
            Ok((signal, receiver))
        };
        let hangup = (!signals::ignores(libc::SIGHUP)).then_some(libc::SIGHUP);
        let all = [libc::SIGINT, libc::SIGTERM].into_iter().chain(hangup);
        Ok(Signals(all.map(catch).collect::<std::io::Result<_>>()?))
    }

    /// What to poll.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0.iter().map(|(_, receiver)| PollFd::new(receiver, PollFlags::IN))
    }

    /// The first that has arrived.
    pub fn arrived(&self) -> Option<i32> {
        let there = |(_, receiver): &&(i32, UnixStream)| {
            let mut receiver = receiver;
            matches!(receiver.read(&mut [0; 8]), Ok(1..))
        };
        self.0.iter().find(there).map(|(signal, _)| *signal)
    }
}
