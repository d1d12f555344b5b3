//! Where the launcher finds that something has happened, and what is registered for that.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use rustix::event::PollFlags;

/// Where something may have happened.
#[derive(Clone, Copy)]
pub(super) enum Happening {
    /// The connection of a node.
    Channel(u32),
    /// A process that is waited for on its behalf.
    End(u32),
    /// The last word of its supervisor.
    Word(u32),
    /// Any of these.
    Nodes,
    Worker,
    Other,
}

/// The descriptors that are registered.
#[derive(Default)]
pub(super) struct Waiting {
    pub nodes: Option<OwnedFd>,
    /// Nodes whose connection may have no room for what is to be sent.
    pub full: BTreeSet<u32>,
}

impl Waiting {
    /// What is waited for of some node is not what it was.
    pub fn renew(&mut self) {
        self.nodes = None;
    }

    /// Something was sent to `node`.
    pub fn sent(&mut self, node: u32, interest: PollFlags) {
        if interest.contains(PollFlags::OUT) {
            self.full.insert(node);
        }
    }
}

/// A happening at a node as a number; the connection of each comes before its end.
pub(super) fn number(happening: Happening) -> Option<u64> {
    match happening {
        Happening::Channel(node) => Some(3 * u64::from(node)),
        Happening::End(node) => Some(3 * u64::from(node) + 1),
        Happening::Word(node) => Some(3 * u64::from(node) + 2),
        Happening::Nodes | Happening::Worker | Happening::Other => None,
    }
}

pub(super) fn happening(number: u64) -> Happening {
    let node = (number / 3) as u32;
    match number % 3 {
        0 => Happening::Channel(node),
        1 => Happening::End(node),
        _ => Happening::Word(node),
    }
}
