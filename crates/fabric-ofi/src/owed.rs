//! Messages that wait for room, and the peers that may be sent one without a connection.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_fabric::{Lost, TOLD_MAX};

use crate::message::Body;
use crate::raw::Peer;

/// A message to send once there is room.
#[derive(Debug)]
pub(super) struct Owed {
    pub to: Lost,
    pub ticket: u64,
    pub body: Body,
}

impl Owed {
    /// Makes a wake-up.
    pub fn wake(to: Lost) -> Owed {
        Owed { to, ticket: 0, body: Body::Wake }
    }
}

/// Bytes for the events of peers, in order for each. A peer without any is absent.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeMap<Pe, VecDeque<Owed>>);

impl Told {
    /// Adds bytes for a peer.
    pub fn owe(&mut self, to: Lost, bytes: Vec<u8>) {
        assert!(bytes.len() <= TOLD_MAX, "{} bytes for the events of a peer", bytes.len());
        let owed = Owed { to, ticket: 0, body: Body::Tell(bytes) };
        self.0.entry(to.pe).or_default().push_back(owed);
    }

    /// Takes the first message for `pe`.
    pub fn next(&mut self, pe: Pe) -> Option<Owed> {
        let next = self.0.get_mut(&pe)?.pop_front();
        if next.is_none() {
            self.0.remove(&pe);
        }
        next
    }

    /// Puts back the message that was taken last.
    pub fn put_back(&mut self, owed: Owed) {
        self.0.entry(owed.to.pe).or_default().push_front(owed);
    }

    /// Returns the peers for which messages may wait.
    pub fn peers(&self) -> Vec<Pe> {
        self.0.keys().copied().collect()
    }

    /// Drops the messages to this incarnation.
    pub fn forget(&mut self, to: Lost) {
        if let Some(told) = self.0.get_mut(&to.pe) {
            told.retain(|owed| owed.to != to);
        }
    }

    /// Returns true if no message waits.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(VecDeque::is_empty)
    }
}

/// Peers that this process is not connected to, as they introduced themselves.
#[derive(Debug)]
pub(super) struct Strangers {
    /// The lowest incarnation of each PE whose messages are accepted.
    oldest: Vec<Incarnation>,
    known: Vec<Option<(Incarnation, Peer)>>,
}

impl Strangers {
    /// Creates the list of a process that has heard of no one.
    pub fn new(n_pes: usize) -> Strangers {
        Strangers { oldest: vec![Incarnation(0); n_pes], known: vec![None; n_pes] }
    }

    /// Refuses messages of incarnations below this one.
    pub fn refuse_below(&mut self, pe: Pe, oldest: Incarnation) {
        self.oldest[pe.at()] = oldest;
    }

    /// Forgets a PE to which there is a connection now; older incarnations are refused.
    pub fn forget(&mut self, pe: Pe, incarnation: Incarnation) {
        self.refuse_below(pe, incarnation);
        self.known[pe.at()] = None;
    }

    /// Notes the endpoint of a peer that introduced itself.
    pub fn meet(&mut self, who: Lost, peer: Peer) {
        self.known[who.pe.at()] = Some((who.incarnation, peer));
    }

    /// Returns true if messages of this incarnation are accepted.
    pub fn accepts(&self, pe: Pe, incarnation: Incarnation) -> bool {
        self.oldest.get(pe.at()).is_some_and(|&oldest| incarnation >= oldest)
    }

    /// Returns the endpoint of this incarnation, if it introduced itself.
    pub fn peer(&self, to: Lost) -> Option<Peer> {
        let known = self.known[to.pe.at()];
        known.filter(|known| known.0 == to.incarnation).map(|known| known.1)
    }
}
