//! One connection, and one operation.

#![forbid(unsafe_code)]

use std::collections::VecDeque;

use raidshmem_core::quantity::Incarnation;
use raidshmem_fabric::Lost;

use crate::message::Address;
use crate::raw::{Peer, Remote};
use crate::sequence::{Sequence, Wakes};
use crate::slots::Slot;

/// A connection to one incarnation of a peer.
#[derive(Debug)]
pub(super) struct PeerLink {
    pub incarnation: Incarnation,
    pub address: Address,
    pub end: End,
    /// True if the event sink has been notified of the failure.
    pub reported: bool,
    /// True if the peer has been told the name of this endpoint.
    pub introduced: bool,
    pub puts: Sequence,
    pub wakes: Wakes,
    /// Posts that were not answered.
    pub unanswered: u64,
    /// Operations that cannot be posted yet.
    pub stalled: VecDeque<Slot>,
}

/// This side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Unused,
    Made(Peer),
    /// Broken, ended by the view, or never made because the peer was gone.
    Over,
}

impl PeerLink {
    /// Creates a connection to this incarnation, which gave `address`.
    pub fn new(incarnation: Incarnation, address: Address) -> PeerLink {
        PeerLink {
            incarnation,
            address,
            end: End::Unused,
            reported: false,
            introduced: false,
            puts: Sequence::default(),
            wakes: Wakes::default(),
            unanswered: 0,
            stalled: VecDeque::new(),
        }
    }

    /// Returns the place of `len` bytes at `offset`, as the provider names it.
    pub fn place(&self, offset: usize, len: usize) -> Remote {
        let parts = &self.address.parts;
        let part = &parts[usize::from(offset as u64 >= parts[1].offset)];
        let from = offset as u64 - part.offset;
        assert!(from + len as u64 <= part.len, "bytes {offset}+{len} of a peer's segment");
        Remote { at: part.base + from, key: part.key }
    }

    /// Returns true if a wake-up of the peer is due.
    pub fn is_wake_due(&mut self) -> bool {
        self.wakes.due(&self.puts)
    }

    /// Asks for a wake-up of the peer after its puts so far.
    pub fn ask_wake(&mut self) {
        self.wakes.ask(&self.puts);
    }
}

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Receive,
    Send,
    /// A put with this number, to this place.
    Write(u64, Remote),
    Read(Remote),
}

/// The progress of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Stalled,
    UnderWay,
    /// A get that is over, successfully or not.
    Over(bool),
    /// A get that is under way on a connection that is over: its caller has not noticed yet.
    Lost,
    /// Under way for the provider, while no thread waits for it.
    Abandoned,
}

/// The operation in a slot.
#[derive(Debug)]
pub(super) struct Work {
    pub task: Task,
    pub peer: Peer,
    pub to: Lost,
    pub len: usize,
    pub phase: Phase,
}
