//! The table of links: one to each peer that is connected, and what has broken.
//!
//! Invariant: a link that broke, or was cut because the view says so, stays until `disconnect`: so
//! nothing is begun on it, and everybody who needs it is told.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use super::Shared;
use super::message::Part;
use super::raw::{Endpoint, Failure, Key, Operation, Worker};
use crate::fabric::Lost;

/// A connection to one incarnation of a peer.
#[derive(Debug)]
pub(super) struct Link {
    pub incarnation: u32,
    /// None once it was closed by force.
    pub endpoint: Option<Endpoint>,
    pub keys: [Key; 2],
    pub parts: [Part; 2],
    pub failure: Box<Failure>,
    /// The ear was told.
    pub told: bool,
}

impl Link {
    pub fn works(&self) -> Option<Endpoint> {
        self.endpoint.filter(|_| !self.failure.broken.load(Ordering::SeqCst))
    }

    /// Address and key of `len` bytes at `offset`.
    pub fn place(&self, offset: usize, len: usize) -> (u64, Key) {
        let at = usize::from(offset as u64 >= self.parts[1].offset);
        let (part, from) = (&self.parts[at], offset as u64 - self.parts[at].offset);
        assert!(from + len as u64 <= part.len, "bytes {offset}+{len} of a peer's segment");
        (part.base + from, self.keys[at])
    }
}

/// What the engine's lock keeps.
#[derive(Debug)]
pub(super) struct State {
    pub worker: Worker,
    pub links: Vec<Option<Link>>,
    /// Endpoints that are being closed, with what their failure handlers touch.
    pub closing: Vec<(Operation, Box<Failure>)>,
}

impl State {
    /// The link to `pe`, if it works.
    pub fn link(&mut self, pe: usize) -> Result<(Endpoint, &mut Link), Lost> {
        match self.links.get_mut(pe).and_then(Option::as_mut) {
            Some(link) => match link.works() {
                Some(endpoint) => Ok((endpoint, link)),
                None => Err(Lost { pe, incarnation: link.incarnation }),
            },
            None => Err(Lost { pe, incarnation: u32::MAX }),
        }
    }

    /// One of `peers` whose link is broken.
    pub fn lost(&self, peers: &[usize]) -> Option<Lost> {
        let broken = |&pe: &usize| {
            let link = self.links.get(pe)?.as_ref().filter(|link| link.works().is_none())?;
            Some(Lost { pe, incarnation: link.incarnation })
        };
        peers.iter().find_map(broken)
    }

    /// Ends everything on the link to `pe`; it stays, broken.
    pub fn cut(&mut self, pe: usize, shared: &Shared) {
        let Some(link) = &mut self.links[pe] else { return };
        let open = shared.unanswered[pe].swap(0, Ordering::SeqCst);
        shared.unanswered_all.fetch_sub(open, Ordering::SeqCst);
        if let Some(endpoint) = link.endpoint.take() {
            let any = link.failure.any;
            let spent = Box::new(Failure { broken: AtomicBool::new(true), any });
            let failure = std::mem::replace(&mut link.failure, spent);
            self.closing.push((endpoint.close(&link.keys), failure));
        }
    }
}

/// Looks after links: those that the view ends are cut, and those that broke are given back, to be
/// told of. `all`: every link is asked for, not only after a failure.
pub(super) fn tend(state: &mut State, shared: &Shared, all: bool) -> Vec<(usize, u32)> {
    let mut suspects = Vec::new();
    if !shared.any_broken.swap(false, Ordering::SeqCst) && !all {
        return suspects;
    }
    for pe in 0..state.links.len() {
        let Some(link) = &mut state.links[pe] else { continue };
        let gone = shared.local.ear.gone(pe, link.incarnation);
        if link.works().is_none() && !link.told && !gone {
            suspects.push((pe, link.incarnation));
            link.told = true;
        }
        if link.endpoint.is_some() && (gone || link.works().is_none()) {
            state.cut(pe, shared);
        }
    }
    state.closing.retain_mut(|(operation, _)| operation.result().is_none());
    suspects
}
