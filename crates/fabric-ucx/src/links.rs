//! The table of connections, one to each named peer; those that have broken; and the thread that
//! serves them while the program computes.
//!
//! A peer costs no endpoint before an operation first needs one: until then a connection is only an
//! address. A peer that reaches this process first has made its own end, which UCP takes over.
//!
//! Invariants: a connection that broke, or was cut because of the view, stays until `disconnect`:
//! so no operation starts on it, and every operation that needs it fails. An unused connection
//! cannot break, since nothing is lost with it.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::settings::Fabric;
use raidshmem_fabric::Lost;
use raidshmem_fabric::hand_off::Seen;
use raidshmem_fabric::turns::{DelegatedPut, PLACES, Turns};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::message::{Address, SegmentPart};
use crate::raw::{Endpoint, Failure, Key, Operation, Worker};
use crate::shared::{Owed, Shared, UNCONNECTED};
use raidshmem_sys::lock;

/// Time for which the progress thread leaves the work to threads that help.
const NAP: Duration = Duration::from_micros(200);

/// A connection to one incarnation of a peer.
#[derive(Debug)]
pub(super) struct Connection {
    incarnation: Incarnation,
    address: Address,
    end: End,
    /// True if the event sink has been notified of the failure.
    reported: bool,
}

/// This side of a connection.
#[derive(Debug)]
enum End {
    Unused,
    Made(Made),
    /// Closed by force, or never made because the peer was gone.
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
    /// Creates a connection to this incarnation, which gave `address`.
    pub fn new(incarnation: Incarnation, address: Address) -> Connection {
        Connection { incarnation, address, end: End::Unused, reported: false }
    }

    /// Returns true if something may have been lost on it.
    fn is_broken(&self) -> bool {
        match &self.end {
            End::Unused => false,
            End::Made(made) => !made.works(),
            End::Over => true,
        }
    }
}

/// A working connection, as an operation needs it.
pub(super) struct Usable<'a> {
    pub endpoint: Endpoint,
    /// The error if the operation fails.
    pub lost: Lost,
    keys: &'a [Key; 2],
    parts: &'a [SegmentPart; 2],
}

impl Usable<'_> {
    /// Returns address and key of `len` bytes at `offset`.
    pub fn place(&self, offset: usize, len: usize) -> (u64, Key) {
        let at = usize::from(offset as u64 >= self.parts[1].offset);
        let (part, from) = (&self.parts[at], offset as u64 - self.parts[at].offset);
        assert!(from + len as u64 <= part.len, "bytes {offset}+{len} of a peer's segment");
        (part.base + from, self.keys[at])
    }
}

/// The state that only the thread inside UCP may use.
#[derive(Debug)]
pub(super) struct Connections {
    pub worker: Worker,
    links: Vec<Option<Connection>>,
    /// Close operations under way.
    closing: Vec<Operation>,
    /// Delegated puts under way.
    pub left: Vec<(Operation, &'static DelegatedPut)>,
    shared: &'static Shared,
}

impl Connections {
    /// Creates the connections of a process that knows no peer yet.
    pub fn new(worker: Worker, shared: &'static Shared) -> Connections {
        let links = (0..shared.local.n_pes).map(|_| None).collect();
        let left = Vec::with_capacity(PLACES); // so that none of these puts allocates
        Connections { worker, links, closing: Vec::new(), left, shared }
    }

    /// Sets the connection to `pe`.
    pub fn add(&mut self, pe: Pe, link: Connection) {
        self.shared.oldest[pe.at()].store(link.incarnation.0, Ordering::SeqCst);
        self.shared.connected[pe.at()].store(link.incarnation.0, Ordering::SeqCst);
        self.shared.whole[pe.at()].store(true, Ordering::Relaxed);
        self.links[pe.at()] = Some(link);
    }

    /// Returns the connection to `pe`, making it on first use.
    pub fn usable(&mut self, pe: Pe) -> Result<Usable<'_>, Lost> {
        let Connections { worker, links, shared, .. } = self;
        let unconnected = Lost { pe, incarnation: Incarnation(UNCONNECTED) };
        let link = links.get_mut(pe.at()).and_then(Option::as_mut).ok_or(unconnected)?;
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

    /// Returns the endpoint of the connection to `pe`, if it was used and works.
    pub fn used(&self, pe: Pe) -> Option<(Endpoint, Lost)> {
        let link = self.links.get(pe.at())?.as_ref()?;
        let lost = Lost { pe, incarnation: link.incarnation };
        match &link.end {
            End::Made(made) if made.works() => Some((made.endpoint, lost)),
            _ => None,
        }
    }

    /// Returns true while requests on that connection may still be answered.
    pub fn is_open(&self, lost: Lost) -> bool {
        self.used(lost.pe).is_some_and(|(_, now)| now == lost)
    }

    /// Returns one of `peers` whose connection is broken.
    pub fn lost(&self, peers: &[Pe]) -> Option<Lost> {
        let broken = |&pe: &Pe| {
            let link = self.links.get(pe.at())?.as_ref().filter(|link| link.is_broken())?;
            Some(Lost { pe, incarnation: link.incarnation })
        };
        peers.iter().find_map(broken)
    }

    /// Lets UCP make progress, then sends the answers that are due. Returns true if UCP did
    /// something. With `all`, continues until nothing is left to do; otherwise UCP is called once,
    /// so that the waiting caller can look sooner.
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
            // If the send fails, the connection is broken, and the other side knows.
            let _ = link.map(|link| link.endpoint.send(id, answer, false));
        }
        worked
    }

    /// Ends everything on the connection to `pe`, which stays in the table, broken.
    fn cut(&mut self, pe: Pe) {
        let Some(link) = &mut self.links[pe.at()] else { return };
        self.shared.whole[pe.at()].store(false, Ordering::Relaxed);
        let open = self.shared.unanswered[pe.at()].swap(0, Ordering::SeqCst);
        self.shared.unanswered_all.fetch_sub(open, Ordering::SeqCst);
        if let End::Made(made) = std::mem::replace(&mut link.end, End::Over) {
            self.closing.push(made.endpoint.close(&made.keys));
        }
    }

    /// Removes `pe`: messages of this incarnation or older ones are ignored from now on. Returns
    /// true if no endpoint is being closed.
    pub fn remove(&mut self, pe: Pe) -> bool {
        self.cut(pe);
        self.shared.connected[pe.at()].store(UNCONNECTED, Ordering::SeqCst);
        if let Some(link) = self.links[pe.at()].take() {
            self.shared.oldest[pe.at()].store(link.incarnation.next().0, Ordering::SeqCst);
        }
        self.all_closed()
    }

    /// Returns true once all closing endpoints are closed.
    pub fn all_closed(&mut self) -> bool {
        self.closing.retain_mut(|operation| operation.result().is_none());
        self.closing.is_empty()
    }

    /// Checks the connections: cuts those that the view ends, and returns those that broke, to be
    /// reported. Without `all`, does nothing unless an endpoint has failed.
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

/// Creates the endpoint to a peer, on first use. A process that cannot create one cannot keep its
/// guarantees, and ends.
fn make(worker: &Worker, shared: &'static Shared, pe: Pe, address: &Address) -> Made {
    let (broken, any) = (AtomicBool::new(false), &shared.any_broken);
    // Leaked, a few bytes per endpoint: UCP may report a failure late.
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

/// Reports connections that broke.
pub(super) fn report(shared: &Shared, suspects: Vec<(Pe, Incarnation)>) {
    for (pe, incarnation) in suspects {
        shared.local.events.suspect(pe, incarnation);
    }
}

/// Runs the progress thread until it is stopped.
pub(super) fn attend(turns: &'static Turns<Connections>, shared: &Shared, descriptor: &OwnedFd) {
    let limit = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let (hand_off, mut seen) = (&shared.hand_off, Seen::default());
    while !shared.stop.load(Ordering::SeqCst) {
        let alarm = hand_off.alarm();
        // The thread inside makes progress, and would have to wake a thread that waits for it.
        let Some(mut inside) = turns.try_enter() else {
            hand_off.stay_away(alarm, NAP);
            continue;
        };
        let worked = inside.progress(true);
        let suspects = inside.tend(false);
        let helped = hand_off.others_poll(&mut seen, alarm);
        let quiet = !helped && inside.worker.arm();
        drop(inside);
        report(shared, suspects);
        if worked {
            shared.tick();
        }
        if helped {
            hand_off.stay_away(alarm, NAP);
        } else if quiet {
            let _ = poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&limit));
        }
    }
}
