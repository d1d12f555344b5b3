//! The wait of the launcher's main loop.
//!
//! The descriptors of all nodes are registered with the kernel once, behind one epoll descriptor,
//! so the cost of a wake-up depends on the number of events, not of nodes. They are registered anew
//! when a node is lost.
//!
//! Invariant: `Waiting::renew` is called whenever [`Launcher::awaited`] returns other processes. A
//! closed descriptor needs no removal.
//!
//! If the kernel has no descriptor left for epoll, each node is polled like everything else.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use raidshmem_control::link::timespec;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Launcher;
use super::input;
use super::listener::Listener;
use super::poll_token::{PollToken, happening, number};

/// The maximum number of node events handled per wake-up.
const LOOKS_MAX: usize = 256;

impl Launcher {
    /// Waits until something happens or a timer expires; returns the possible sources.
    pub(super) fn wait(&mut self) -> Vec<PollToken> {
        if self.waiting.nodes.is_none() {
            self.waiting.nodes = self.register().ok();
            self.waiting.full.extend(self.nodes.keys());
        }
        let full = std::mem::take(&mut self.waiting.full);
        self.waiting.full = full.into_iter().filter(|&node| self.is_full(node)).collect();
        let (mut fds, sources) = self.polled();
        let _ = poll(&mut fds, self.left().map(timespec).as_ref());
        let ready = fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>();
        let found = sources.into_iter().zip(ready).filter_map(|(one, ready)| ready.then_some(one));
        let found = found.collect::<Vec<_>>();
        found.into_iter().flat_map(|source| self.what_happened(source)).collect()
    }

    /// Returns every descriptor of a node, with its events.
    fn of_nodes(&self) -> Vec<(PollFd<'_>, PollToken)> {
        let mut found = Vec::new();
        for (&node, entry) in &self.nodes {
            let link = entry.link.as_ref().map(|link| PollFd::new(link, link.interest()));
            found.extend(link.map(|link| (link, PollToken::Channel(node))));
            let awaited = self.awaited(node, entry).into_iter();
            let end = |process| (PollFd::new(process, PollFlags::IN), PollToken::End(node));
            found.extend(awaited.map(end));
            let word = entry.remote.as_ref().and_then(|remote| remote.word.as_ref());
            found
                .extend(word.map(|word| (PollFd::new(word, PollFlags::IN), PollToken::Word(node))));
        }
        found
    }

    fn register(&self) -> Result<OwnedFd, Errno> {
        let nodes = epoll::create(CreateFlags::CLOEXEC)?;
        for (fd, source) in self.of_nodes() {
            if let Some(number) = number(source) {
                epoll::add(&nodes, &fd, EventData::new_u64(number), EventFlags::IN)?;
            }
        }
        Ok(nodes)
    }

    fn is_full(&self, node: u32) -> bool {
        let link = self.nodes.get(&node).and_then(|entry| entry.link.as_ref());
        link.is_some_and(|link| link.interest().contains(PollFlags::OUT))
    }

    fn polled(&self) -> (Vec<PollFd<'_>>, Vec<PollToken>) {
        let nodes = match &self.waiting.nodes {
            Some(nodes) => {
                let link = |node: &u32| {
                    let link = self.nodes.get(node)?.link.as_ref()?;
                    Some((PollFd::new(link, PollFlags::OUT), PollToken::Channel(*node)))
                };
                let full = self.waiting.full.iter().filter_map(link);
                full.chain([(PollFd::new(nodes, PollFlags::IN), PollToken::Nodes)]).collect()
            }
            None => self.of_nodes(),
        };
        let worker = (PollFd::new(&self.worker, PollFlags::IN), PollToken::Worker);
        let (mut fds, mut sources): (Vec<_>, Vec<_>) = nodes.into_iter().chain([worker]).unzip();
        fds.extend(self.signals.fds());
        fds.extend(self.detection.net.iter().map(|net| PollFd::new(net, PollFlags::IN)));
        fds.extend(self.listener.iter().flat_map(Listener::fds));
        fds.extend(self.dumps.fds());
        let input = self.input.as_ref().and_then(input::Sent::fd);
        fds.extend(input.map(|input| PollFd::new(input, PollFlags::IN)));
        sources.resize(fds.len(), PollToken::Other);
        (fds, sources)
    }

    /// Returns the time until the next timer is due.
    fn left(&self) -> Option<Duration> {
        let now = Instant::now();
        let verdict = self.machine.unrecoverable().then(|| self.last_words.unwrap_or(now));
        let listener = self.listener.as_ref().and_then(Listener::deadline);
        let left = |end: Instant| end.saturating_duration_since(now);
        let (late, rests) = (self.late().map(left), self.rests.left(now));
        let over = self.timeout.map(|limit| limit.saturating_sub(self.telling.now()));
        let (verdict, listener) = (verdict.map(left), listener.map(left));
        let dumps = self.dumps.deadline().map(left);
        let view = self.view.map(left);
        let limits = [verdict, listener, late, self.detection.left(), rests, over, dumps, view];
        // Add a nanosecond, so that the timer has expired on wake-up.
        limits.into_iter().flatten().min().map(|left| left + Duration::from_nanos(1))
    }

    /// Replaces a wake-up of the epoll descriptor by the sources at nodes.
    fn what_happened(&self, found: PollToken) -> Vec<PollToken> {
        let (PollToken::Nodes, Some(nodes)) = (found, &self.waiting.nodes) else {
            return vec![found];
        };
        let mut events = Vec::with_capacity(LOOKS_MAX);
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        if epoll::wait(nodes, spare_capacity(&mut events), Some(&none)).is_err() {
            return Vec::new();
        }
        let mut numbers: Vec<u64> = events.iter().map(|event| event.data.u64()).collect();
        numbers.sort_unstable();
        numbers.into_iter().map(happening).collect()
    }
}
