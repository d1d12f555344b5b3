//! The table of connections, one to each peer; those that have broken; and the thread that looks
//! after them while the program computes.
//!
//! Invariant: a connection that broke, or was cut because the view says so, stays until
//! `disconnect`: so no operation begins on it, and every operation that needs it fails.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_fabric::Lost;
use raidshmem_sys::futex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::message::SegmentPart;
use crate::raw::{Endpoint, Failure, Key, Operation, Worker};
use crate::shared::{Owed, Shared};
use raidshmem_sys::lock;

/// How long the thread for progress stays away from those that help.
const NAP: Duration = Duration::from_micros(200);

/// A connection to one incarnation of a peer.
#[derive(Debug)]
pub(super) struct Connection {
    pub incarnation: Incarnation,
    /// None once it was closed by force.
    pub endpoint: Option<Endpoint>,
    pub keys: [Key; 2],
    pub parts: [SegmentPart; 2],
    pub failure: Box<Failure>,
    /// The event sink knows of the failure.
    pub reported: bool,
}

impl Connection {
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
pub(super) struct Connections {
    pub worker: Worker,
    pub links: Vec<Option<Connection>>,
    /// Endpoints that are being closed, with what their failure handlers touch.
    pub closing: Vec<(Operation, Box<Failure>)>,
}

impl Connections {
    /// The link to `pe`, if it works.
    pub fn link(&mut self, pe: Pe) -> Result<(Endpoint, &mut Connection), Lost> {
        match self.links.get_mut(pe.at()).and_then(Option::as_mut) {
            Some(link) => match link.works() {
                Some(endpoint) => Ok((endpoint, link)),
                None => Err(Lost { pe, incarnation: link.incarnation }),
            },
            None => Err(Lost { pe, incarnation: Incarnation(u32::MAX) }),
        }
    }

    /// One of `peers` whose link is broken.
    pub fn lost(&self, peers: &[Pe]) -> Option<Lost> {
        let broken = |&pe: &Pe| {
            let link = self.links.get(pe.at())?.as_ref().filter(|link| link.works().is_none())?;
            Some(Lost { pe, incarnation: link.incarnation })
        };
        peers.iter().find_map(broken)
    }

    /// Lets UCP work, and sends the answers that are owed then. True if it did something.
    pub fn progress(&mut self, shared: &Shared) -> bool {
        let worked = self.worker.progress();
        for Owed { pe, incarnation, id, answer } in std::mem::take(&mut *lock(&shared.owed)) {
            let link = self.link(pe).ok().filter(|(_, link)| link.incarnation == incarnation);
            // If it cannot be sent, the connection is broken and the other side knows.
            let _ = link.map(|(endpoint, _)| endpoint.send(id, answer, false));
        }
        worked
    }

    /// Ends everything on the link to `pe`; it stays, broken.
    pub fn cut(&mut self, pe: Pe, shared: &Shared) {
        let Some(link) = &mut self.links[pe.at()] else { return };
        let open = shared.unanswered[pe.at()].swap(0, Ordering::SeqCst);
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
pub(super) fn tend(
    state: &mut Connections,
    shared: &Shared,
    all: bool,
) -> Vec<(usize, Incarnation)> {
    let mut suspects = Vec::new();
    if !shared.any_broken.swap(false, Ordering::SeqCst) && !all {
        return suspects;
    }
    for pe in 0..state.links.len() {
        let Some(link) = &mut state.links[pe] else { continue };
        let gone = shared.local.events.gone(Pe::of(pe), link.incarnation);
        if link.works().is_none() && !link.reported && !gone {
            suspects.push((pe, link.incarnation));
            link.reported = true;
        }
        if link.endpoint.is_some() && (gone || link.works().is_none()) {
            state.cut(Pe::of(pe), shared);
        }
    }
    state.closing.retain_mut(|(operation, _)| operation.result().is_none());
    suspects
}

/// Tells of links that broke.
pub(super) fn report(shared: &Shared, suspects: Vec<(usize, Incarnation)>) {
    for (pe, incarnation) in suspects {
        shared.local.events.suspect(Pe::of(pe), incarnation);
    }
}

/// What the thread for progress does, until it is told to stop.
pub(super) fn attend(state: &Mutex<Connections>, shared: &Shared, descriptor: &OwnedFd) {
    let limit = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let (mut seen, mut heard) = (0, 0);
    while !shared.stop.load(Ordering::SeqCst) {
        let alarm = shared.alarm.load(Ordering::SeqCst);
        let handed_over = std::mem::replace(&mut heard, alarm) != alarm;
        let mut guard = lock(state);
        let worked = guard.progress(shared);
        let suspects = tend(&mut guard, shared, false);
        let helps = shared.helps.load(Ordering::Relaxed);
        let helped = std::mem::replace(&mut seen, helps) != helps && !handed_over;
        let quiet = !helped && guard.worker.arm();
        drop(guard);
        report(shared, suspects);
        if worked {
            shared.tick();
        }
        if helped {
            shared.napping.store(true, Ordering::SeqCst);
            futex::sleep_while(&shared.alarm, alarm, NAP);
            shared.napping.store(false, Ordering::SeqCst);
        } else if quiet {
            let _ = poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&limit));
        }
    }
}
