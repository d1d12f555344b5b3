//! Messages that wait for room, and the peers that may be sent one without a connection.

#![forbid(unsafe_code)]

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_fabric::Lost;

use crate::message::Body;

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

/// Peers that this process is not connected to, as they introduced themselves.
#[derive(Debug)]
pub(super) struct Strangers {
    /// The lowest incarnation of each PE whose messages are accepted.
    oldest: Vec<Incarnation>,
    known: Vec<Option<(Incarnation, Vec<u8>)>>,
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

    /// Notes the name of a peer's endpoint.
    pub fn meet(&mut self, peer: Lost, name: Vec<u8>) {
        self.known[peer.pe.at()] = Some((peer.incarnation, name));
    }

    /// Returns true if messages of this incarnation are accepted.
    pub fn accepts(&self, pe: Pe, incarnation: Incarnation) -> bool {
        self.oldest.get(pe.at()).is_some_and(|&oldest| incarnation >= oldest)
    }

    /// Returns the name of this incarnation's endpoint, if it introduced itself.
    pub fn name(&self, to: Lost) -> Option<&[u8]> {
        let known = self.known[to.pe.at()].as_ref();
        known.filter(|known| known.0 == to.incarnation).map(|known| known.1.as_slice())
    }
}
