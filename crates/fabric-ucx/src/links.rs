//! The table of connections, one to each peer that was named; those that have broken; and the
//! thread that looks after them while the program computes.
//!
//! A peer costs no endpoint before an operation first needs one: a connection is an address until
//! then. A peer that reaches this process first has made its own end, which UCP takes over.
//!
//! Invariants: a connection that broke, or was cut because the view says so, stays until
//! `disconnect`: so no operation begins on it, and every operation that needs it fails. One that
//! nobody has used cannot break, since nothing is lost with it.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::settings::Fabric;
use raidshmem_fabric::Lost;
use raidshmem_sys::futex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::message::{Address, SegmentPart};
use crate::raw::{Endpoint, Failure, Key, Operation, Worker};
use crate::shared::{NOBODY, Owed, Shared};
use crate::turns::{LeftPut, PLACES, Turns};
use raidshmem_sys::lock;

/// How long the thread for progress stays away from those that help.
const NAP: Duration = Duration::from_micros(200);

/// A connection to one incarnation of a peer.
#[derive(Debug)]
pub(super) struct Connection {
    incarnation: Incarnation,
    address: Address,
    end: End,
    /// The event sink knows of the failure.
    reported: bool,
}

/// This side of a connection.
#[derive(Debug)]
enum End {
    Unused,
    Made(Made),
    /// Closed by force, or never made as the peer was gone.
    Over,
}

#[derive(Debug)]
struct Made {
    endpoint: Endpoint,
    keys: [Key; 2],
    failure: &'static Failure,
}

impl Made {
    fn works(&self) -> bool {
        !self.failure.broken.load(Ordering::SeqCst)
    }
}

impl Connection {
    /// To this incarnation, which gave `address`.
    pub fn new(incarnation: Incarnation, address: Address) -> Connection {
        Connection { incarnation, address, end: End::Unused, reported: false }
    }

    /// Something may have been lost on it.
    fn is_broken(&self) -> bool {
        match &self.end {
            End::Unused => false,
            End::Made(made) => !made.works(),
            End::Over => true,
        }
    }
}

/// A connection that works, as an operation needs it.
pub(super) struct Usable<'a> {
    pub endpoint: Endpoint,
    /// What to say if the operation fails.
    pub lost: Lost,
    keys: &'a [Key; 2],
    parts: &'a [SegmentPart; 2],
}

impl Usable<'_> {
    /// Address and key of `len` bytes at `offset`.
    pub fn place(&self, offset: usize, len: usize) -> (u64, Key) {
        let at = usize::from(offset as u64 >= self.parts[1].offset);
        let (part, from) = (&self.parts[at], offset as u64 - self.parts[at].offset);
        assert!(from + len as u64 <= part.len, "bytes {offset}+{len} of a peer's segment");
        (part.base + from, self.keys[at])
    }
}

/// What one thread at a time is inside of.
#[derive(Debug)]
pub(super) struct Connections {
    pub worker: Worker,
    links: Vec<Option<Connection>>,
    /// Endpoints that are being closed.
    closing: Vec<Operation>,
    /// Puts that were left and are under way.
    pub left: Vec<(Operation, &'static LeftPut)>,
    shared: &'static Shared,
}

impl Connections {
    /// Of a process that knows no peer yet.
    pub fn new(worker: Worker, shared: &'static Shared) -> Connections {
        let links = (0..shared.local.n_pes).map(|_| None).collect();
        let left = Vec::with_capacity(PLACES); // so that none of these puts takes memory
        Connections { worker, links, closing: Vec::new(), left, shared }
    }

    /// From now on `pe` is this connection's peer.
    pub fn add(&mut self, pe: Pe, link: Connection) {
        self.shared.oldest[pe.at()].store(link.incarnation.0, Ordering::SeqCst);
        self.shared.connected[pe.at()].store(link.incarnation.0, Ordering::SeqCst);
        self.shared.whole[pe.at()].store(true, Ordering::Relaxed);
        self.links[pe.at()] = Some(link);
    }

    /// The connection to `pe`, made now if this is its first use.
    pub fn usable(&mut self, pe: Pe) -> Result<Usable<'_>, Lost> {
        let Connections { worker, links, shared, .. } = self;
        let nobody = Lost { pe, incarnation: Incarnation(NOBODY) };
        let link = links.get_mut(pe.at()).and_then(Option::as_mut).ok_or(nobody)?;
        let lost = Lost { pe, incarnation: link.incarnation };
        if let End::Unused = link.end {
            link.end = match shared.local.events.gone(pe, link.incarnation) {
                true => End::Over,
                false => End::Made(make(worker, shared, pe, &link.address)),
            };
        }
        match &link.end {
            End::Made(made) if made.works() => {
                let (endpoint, keys, parts) = (made.endpoint, &made.keys, &link.address.parts);
                Ok(Usable { endpoint, lost, keys, parts })
            }
            _ => {
                shared.whole[pe.at()].store(false, Ordering::Relaxed);
                Err(lost)
            }
        }
    }

    /// The end of the connection to `pe`, if it was used and works.
    pub fn used(&self, pe: Pe) -> Option<(Endpoint, Lost)> {
        let link = self.links.get(pe.at())?.as_ref()?;
        let lost = Lost { pe, incarnation: link.incarnation };
        match &link.end {
            End::Made(made) if made.works() => Some((made.endpoint, lost)),
            _ => None,
        }
    }

    /// True while what was asked on that connection may still be answered.
    pub fn is_open(&self, lost: Lost) -> bool {
        self.used(lost.pe).is_some_and(|(_, now)| now == lost)
    }

    /// One of `peers` whose connection is broken.
    pub fn lost(&self, peers: &[Pe]) -> Option<Lost> {
        let broken = |&pe: &Pe| {
            let link = self.links.get(pe.at())?.as_ref().filter(|link| link.is_broken())?;
            Some(Lost { pe, incarnation: link.incarnation })
        };
        peers.iter().find_map(broken)
    }

    /// Lets UCP work, and sends the answers that are owed then. True if it did something. `all`:
    /// until nothing is left to do; else UCP looks once, and who waits looks sooner.
    pub fn progress(&mut self, all: bool) -> bool {
        let worked = self.worker.progress(all);
        self.left.retain_mut(|(operation, place)| {
            let over = operation.result().is_some();
            if over {
                place.over();
            }
            !over
        });
        for Owed { pe, incarnation, id, answer } in std::mem::take(&mut *lock(&self.shared.owed)) {
            let link = self.usable(pe).ok().filter(|link| link.lost.incarnation == incarnation);
            // If it cannot be sent, the connection is broken and the other side knows.
            let _ = link.map(|link| link.endpoint.send(id, answer, false));
        }
        worked
    }

    /// Ends everything on the connection to `pe`; it stays, broken.
    fn cut(&mut self, pe: Pe) {
        let Some(link) = &mut self.links[pe.at()] else { return };
        self.shared.whole[pe.at()].store(false, Ordering::Relaxed);
        let open = self.shared.unanswered[pe.at()].swap(0, Ordering::SeqCst);
        self.shared.unanswered_all.fetch_sub(open, Ordering::SeqCst);
        if let End::Made(made) = std::mem::replace(&mut link.end, End::Over) {
            self.closing.push(made.endpoint.close(&made.keys));
        }
    }

    /// Forgets `pe`: nothing of this incarnation or older ones counts from now on. True if no
    /// endpoint is being closed.
    pub fn remove(&mut self, pe: Pe) -> bool {
        self.cut(pe);
        self.shared.connected[pe.at()].store(NOBODY, Ordering::SeqCst);
        if let Some(link) = self.links[pe.at()].take() {
            self.shared.oldest[pe.at()].store(link.incarnation.next().0, Ordering::SeqCst);
        }
        self.all_closed()
    }

    /// True if no endpoint is being closed any more.
    pub fn all_closed(&mut self) -> bool {
        self.closing.retain_mut(|operation| operation.result().is_none());
        self.closing.is_empty()
    }

    /// Looks after connections: those that the view ends are cut, and those that broke are given
    /// back, to be told of. `all`: every one is asked for, not only after a failure.
    pub fn tend(&mut self, all: bool) -> Vec<(Pe, Incarnation)> {
        let mut suspects = Vec::new();
        if !self.shared.any_broken.swap(false, Ordering::SeqCst) && !all {
            return suspects;
        }
        for pe in Pe::all(self.links.len()) {
            let Some(link) = &mut self.links[pe.at()] else { continue };
            if let End::Unused = link.end {
                continue;
            }
            let (broken, gone) =
                (link.is_broken(), self.shared.local.events.gone(pe, link.incarnation));
            if broken && !link.reported && !gone {
                suspects.push((pe, link.incarnation));
                link.reported = true;
            }
            if (broken || gone) && matches!(link.end, End::Made(_)) {
                self.cut(pe);
            }
        }
        self.all_closed();
        suspects
    }
}

/// The endpoint to a peer that is needed for the first time. A process that can have none cannot do
/// what it has promised, and ends.
fn make(worker: &Worker, shared: &'static Shared, pe: Pe, address: &Address) -> Made {
    let (broken, any) = (AtomicBool::new(false), &shared.any_broken);
    // Kept for ever, a few bytes for each: UCP may tell of a failure late.
    let failure: &'static Failure = Box::leak(Box::new(Failure { broken, any }));
    let made = worker.connect(&address.worker, failure).and_then(|endpoint| {
        let [one, two] = &address.parts;
        let keys = [endpoint.key(&one.key)?, endpoint.key(&two.key)?];
        Ok(Made { endpoint, keys, failure })
    });
    made.unwrap_or_else(|why| {
        let what = format!("connecting to PE {pe}");
        shared.local.fatal(Fabric::Ucx, &what, &why.to_string())
    })
}

/// Tells of connections that broke.
pub(super) fn report(shared: &Shared, suspects: Vec<(Pe, Incarnation)>) {
    for (pe, incarnation) in suspects {
        shared.local.events.suspect(pe, incarnation);
    }
}

/// What the thread for progress does, until it is told to stop.
pub(super) fn attend(turns: &'static Turns<Connections>, shared: &Shared, descriptor: &OwnedFd) {
    let limit = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let (mut seen, mut heard) = (0, 0);
    let nap = |alarm| {
        shared.napping.store(true, Ordering::SeqCst);
        futex::sleep_while(&shared.alarm, alarm, NAP);
        shared.napping.store(false, Ordering::SeqCst);
    };
    while !shared.stop.load(Ordering::SeqCst) {
        let alarm = shared.alarm.load(Ordering::SeqCst);
        // Whoever is inside makes progress, and would have to wake a thread that waits for it.
        let Some(mut inside) = turns.try_enter() else {
            nap(alarm);
            continue;
        };
        let handed_over = std::mem::replace(&mut heard, alarm) != alarm;
        let worked = inside.progress(true);
        let suspects = inside.tend(false);
        let helps = shared.helps.load(Ordering::Relaxed);
        let helped = std::mem::replace(&mut seen, helps) != helps && !handed_over;
        let quiet = !helped && inside.worker.arm();
        drop(inside);
        report(shared, suspects);
        if worked {
            shared.tick();
        }
        if helped {
            nap(alarm);
        } else if quiet {
            let _ = poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&limit));
        }
    }
}
