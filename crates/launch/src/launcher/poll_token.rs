//! The sources of the launcher's wake-ups, and the descriptors registered for them.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use rustix::event::PollFlags;

/// A source of a wake-up.
#[derive(Clone, Copy)]
pub(super) enum PollToken {
    /// The connection of a node.
    Channel(u32),
    /// A process of the node whose end the launcher awaits.
    End(u32),
    /// The last word of the node's supervisor.
    Word(u32),
    /// Any of the above.
    Nodes,
    Worker,
    Other,
}

/// The registered descriptors.
#[derive(Default)]
pub(super) struct Waiting {
    pub nodes: Option<OwnedFd>,
    /// Nodes whose connection may have unsent messages.
    pub full: BTreeSet<u32>,
}

impl Waiting {
    /// Forces a new registration, since the awaited descriptors of some node have changed.
    pub fn renew(&mut self) {
        self.nodes = None;
    }

    /// Records that `node`, after a send, has to be polled for `interest`.
    pub fn sent(&mut self, node: u32, interest: PollFlags) {
        if interest.contains(PollFlags::OUT) {
            self.full.insert(node);
        }
    }
}

/// Encodes a source at a node as a number; a node's connection sorts before its end.
pub(super) fn number(happening: PollToken) -> Option<u64> {
    match happening {
        PollToken::Channel(node) => Some(3 * u64::from(node)),
        PollToken::End(node) => Some(3 * u64::from(node) + 1),
        PollToken::Word(node) => Some(3 * u64::from(node) + 2),
        PollToken::Nodes | PollToken::Worker | PollToken::Other => None,
    }
}

pub(super) fn happening(number: u64) -> PollToken {
    let node = (number / 3) as u32;
    match number % 3 {
        0 => PollToken::Channel(node),
        1 => PollToken::End(node),
        _ => PollToken::Word(node),
    }
}
