//! The wait of the launcher's main loop for its nodes.
//!
//! The descriptors of all nodes are registered with the kernel once, behind one epoll descriptor,
//! so the cost of a wake-up depends on the number of events, not of nodes. They are registered anew
//! when a node is lost.
//!
//! Invariant: `Waiting::renew` is called whenever [`Nodes::awaited`] returns other processes. A
//! closed descriptor needs no removal.
//!
//! If the kernel has no descriptor left for epoll, each node is polled like everything else.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::nodes::Nodes;
use super::poll_token::{PollToken, happening, number};

/// The maximum number of node events handled per wake-up.
const LOOKS_MAX: usize = 256;

impl Nodes {
    /// Registers every descriptor, unless the registration holds, before a wait.
    pub(super) fn register(&mut self) {
        if self.waiting.nodes.is_none() {
            self.waiting.nodes = self.registered().ok();
            self.waiting.full.extend(self.all.keys());
        }
        let full = std::mem::take(&mut self.waiting.full);
        self.waiting.full = full.into_iter().filter(|&node| self.is_full(node)).collect();
    }

    /// Returns the descriptors to poll, with their sources.
    pub(super) fn fds(&self) -> Vec<(PollFd<'_>, PollToken)> {
        let Some(nodes) = &self.waiting.nodes else { return self.each() };
        let link = |node: &u32| {
            let link = self.all.get(node)?.link.as_ref()?;
            Some((PollFd::new(link, PollFlags::OUT), PollToken::Channel(*node)))
        };
        let full = self.waiting.full.iter().filter_map(link);
        full.chain([(PollFd::new(nodes, PollFlags::IN), PollToken::Nodes)]).collect()
    }

    /// Returns every descriptor of a node, with its events.
    fn each(&self) -> Vec<(PollFd<'_>, PollToken)> {
        let mut found = Vec::new();
        for (&node, entry) in &self.all {
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

    fn registered(&self) -> Result<OwnedFd, Errno> {
        let nodes = epoll::create(CreateFlags::CLOEXEC)?;
        for (fd, source) in self.each() {
            if let Some(number) = number(source) {
                epoll::add(&nodes, &fd, EventData::new_u64(number), EventFlags::IN)?;
            }
        }
        Ok(nodes)
    }

    fn is_full(&self, node: u32) -> bool {
        let link = self.all.get(&node).and_then(|entry| entry.link.as_ref());
        link.is_some_and(|link| link.interest().contains(PollFlags::OUT))
    }

    /// Replaces a wake-up of the epoll descriptor by the sources at nodes.
    pub(super) fn sources(&self, found: PollToken) -> Vec<PollToken> {
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
