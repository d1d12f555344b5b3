//! The table of connections, one to each named peer, and the operations on them.
//!
//! A peer costs nothing before an operation first needs it: until then a connection is only an
//! address. What libfabric cannot post yet waits at its connection, in order.
//!
//! Invariants: a connection on which an operation failed, or that the view ended, stays until
//! `disconnect`: so no operation starts on it, and every operation that needs it fails. An unused
//! connection cannot break, since nothing is lost with it. Operations of a connection that has
//! ended are abandoned, whatever the provider makes of them.
//!
//! Left out: messages, which `letters` sends and receives.

#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::settings::Fabric;
use raidshmem_fabric::Lost;
use raidshmem_fabric::turns::{DelegatedPut, Inside, PLACES};

use crate::link::{End, PeerLink, Phase, Task, Work};
use crate::owed::{Owed, Strangers, Told};
use crate::raw::{Event, Peer, Posted};
use crate::shared::Shared;
use crate::slots::{Slot, Slots};

/// Peers and operations of this process: state that only the thread inside may use.
#[derive(Debug)]
pub(super) struct Connections {
    pub slots: Slots,
    links: Vec<Option<PeerLink>>,
    /// The operation in each slot.
    works: Vec<Option<Work>>,
    /// Peers with stalled operations.
    stalled: Vec<Pe>,
    /// Delegated puts for which there was no slot.
    left: VecDeque<&'static DelegatedPut>,
    /// Slots in which a message can be received once the provider has room for it.
    pub idle: Vec<Slot>,
    events: Vec<Event>,
    /// The name of this process's endpoint.
    pub own_name: Vec<u8>,
    pub strangers: Strangers,
    pub owed: VecDeque<Owed>,
    pub told: Told,
    /// Posts to all peers that were not answered.
    pub unanswered: u64,
    /// Previous values returned by updates, by ticket.
    pub answers: HashMap<u64, Option<u64>>,
    any_broken: bool,
    pub shared: &'static Shared,
}

impl Connections {
    /// Creates the connections of a process that knows no peer yet.
    pub fn new(slots: Slots, own_name: Vec<u8>, shared: &'static Shared) -> Connections {
        Connections {
            slots,
            links: (0..shared.local.n_pes).map(|_| None).collect(),
            works: Vec::new(),
            stalled: Vec::with_capacity(shared.local.n_pes),
            left: VecDeque::with_capacity(PLACES), // so that none of these puts allocates
            idle: Vec::new(),
            events: Vec::new(),
            own_name,
            strangers: Strangers::new(shared.local.n_pes),
            owed: VecDeque::new(),
            told: Told::default(),
            unanswered: 0,
            answers: HashMap::new(),
            any_broken: false,
            shared,
        }
    }

    /// Sets the connection to `pe`.
    pub fn add(&mut self, pe: Pe, link: PeerLink) {
        self.strangers.forget(pe, link.incarnation);
        self.shared.whole[pe.at()].store(true, Ordering::Relaxed);
        self.links[pe.at()] = Some(link);
    }

    /// Returns the connection to this incarnation, used or not.
    pub fn link(&mut self, to: Lost) -> Option<&mut PeerLink> {
        let link = self.links.get_mut(to.pe.at())?.as_mut();
        link.filter(|link| link.incarnation == to.incarnation)
    }

    /// Returns the connection to `pe`, making it on first use.
    pub fn usable(&mut self, pe: Pe) -> Result<(Peer, &mut PeerLink, Lost), Lost> {
        let unconnected = Lost { pe, incarnation: Incarnation(u32::MAX) };
        let Connections { slots, links, shared, .. } = self;
        let link = links.get_mut(pe.at()).and_then(Option::as_mut).ok_or(unconnected)?;
        let lost = Lost { pe, incarnation: link.incarnation };
        if link.end == End::Unused {
            link.end = match shared.local.events.gone(pe, link.incarnation) {
                true => End::Over,
                false => End::Made(slots.port.insert(&link.address.name).unwrap_or_else(|| {
                    let what = format!("connecting to PE {pe}");
                    shared.local.fatal(Fabric::Ofi, &what, "the provider refuses its address")
                })),
            };
        }
        match link.end {
            End::Made(peer) => Ok((peer, link, lost)),
            _ => {
                shared.whole[pe.at()].store(false, Ordering::Relaxed);
                Err(lost)
            }
        }
    }

    /// Returns true while operations on that connection may still succeed.
    pub fn is_open(&self, lost: Lost) -> bool {
        let link = self.links[lost.pe.at()].as_ref();
        link.is_some_and(|link| link.incarnation == lost.incarnation && link.end != End::Over)
    }

    /// Returns one of `peers` whose connection is broken.
    pub fn lost(&self, peers: &[Pe]) -> Option<Lost> {
        let broken = |&pe: &Pe| {
            let link = self.links.get(pe.at())?.as_ref().filter(|link| link.end == End::Over)?;
            Some(Lost { pe, incarnation: link.incarnation })
        };
        peers.iter().find_map(broken)
    }

    /// Returns the number of the next put to `pe`, with its incarnation.
    pub fn begun(&self, pe: Pe) -> Option<(Lost, u64)> {
        let link = self.links.get(pe.at())?.as_ref()?;
        Some((Lost { pe, incarnation: link.incarnation }, link.puts.begun()))
    }

    /// Returns true if all puts below this number have arrived and all posts were answered, or the
    /// connection is over.
    pub fn is_quiet(&self, (to, below): (Lost, u64)) -> bool {
        let link = self.links[to.pe.at()].as_ref();
        let waits = link.filter(|link| {
            let arrived = link.puts.is_over(below) && link.unanswered == 0;
            link.incarnation == to.incarnation && link.end != End::Over && !arrived
        });
        waits.is_none()
    }

    /// Returns true if a delegated put to `pe` still waits for a slot.
    pub fn has_left(&self, pe: Pe) -> bool {
        self.left.iter().any(|place| place.target().0 == pe)
    }

    /// Notes a post that will be answered.
    pub fn posted(&mut self, to: Lost) {
        if let Some(link) = self.link(to).filter(|link| link.end != End::Over) {
            link.unanswered += 1;
            self.unanswered += 1;
        }
    }

    /// Notes the answer to a post.
    pub fn answered(&mut self, to: Lost) {
        if let Some(link) = self.link(to).filter(|link| link.unanswered != 0) {
            link.unanswered -= 1;
            self.unanswered -= 1;
        }
    }

    /// Begins to put bytes of at most one slot. Returns false if there is no slot.
    pub fn write(&mut self, pe: Pe, offset: usize, bytes: &[u8]) -> Result<bool, Lost> {
        self.usable(pe)?;
        let Some(slot) = self.slots.take(bytes.len()) else { return Ok(false) };
        self.slots.fill(slot, bytes);
        let (peer, link, to) = self.usable(pe)?;
        let place = link.place(offset, bytes.len());
        let task = Task::Write(link.puts.begin(), place);
        self.begin(slot, peer, (to, task, bytes.len()));
        Ok(true)
    }

    /// Begins to get bytes of at most one slot, which [`Connections::take`] returns. Returns `None`
    /// if there is no slot.
    pub fn read(&mut self, pe: Pe, offset: usize, len: usize) -> Result<Option<Slot>, Lost> {
        self.usable(pe)?;
        let Some(slot) = self.slots.take(len) else { return Ok(None) };
        let (peer, link, to) = self.usable(pe)?;
        let task = Task::Read(link.place(offset, len));
        self.begin(slot, peer, (to, task, len));
        Ok(Some(slot))
    }

    /// Copies the bytes of a get that is over to `into`, and frees its slot. Returns `None` if it
    /// is under way, and an error if it failed.
    pub fn take(&mut self, slot: Slot, into: &mut [u8]) -> Option<Result<(), Lost>> {
        let work = self.works[slot].as_mut().expect("a get");
        let worked = match work.phase {
            Phase::Over(worked) => worked,
            Phase::Lost => {
                work.phase = Phase::Abandoned;
                self.slots.abandon(slot);
                return Some(Err(work.to));
            }
            Phase::Stalled | Phase::UnderWay | Phase::Abandoned => return None,
        };
        let result = if worked { Ok(()) } else { Err(work.to) };
        if worked {
            into.copy_from_slice(self.slots.bytes(slot, into.len()));
        }
        self.works[slot] = None;
        self.slots.give(slot);
        Some(result)
    }

    /// Begins an operation on the connection that `to` names, behind those that are stalled.
    pub fn begin(&mut self, slot: Slot, peer: Peer, (to, task, len): (Lost, Task, usize)) {
        self.note(slot, Work { task, peer, to, len, phase: Phase::Stalled });
        let behind = self.link(to).is_some_and(|link| !link.stalled.is_empty());
        if !behind && self.post(slot) {
            return;
        }
        if let Some(link) = self.link(to) {
            link.stalled.push_back(slot);
            if !self.stalled.contains(&to.pe) {
                self.stalled.push(to.pe);
            }
        }
    }

    /// Posts an operation. Returns false if the provider has no room for it.
    fn post(&mut self, slot: Slot) -> bool {
        let Connections { slots, works, .. } = self;
        let Some(work) = &mut works[slot] else { return true };
        let posted = match work.task {
            Task::Write(_, place) => slots.write(slot, work.len, work.peer, place),
            Task::Read(place) => slots.read(slot, work.len, work.peer, place),
            Task::Send => slots.send(slot, work.len, work.peer),
            Task::Receive => slots.receive(slot),
        };
        match posted {
            Posted::Begun => work.phase = Phase::UnderWay,
            Posted::Later => return false,
            Posted::Refused => self.finish(slot, false, 0),
        }
        true
    }

    /// Handles the end of the operation in a slot.
    fn finish(&mut self, slot: Slot, worked: bool, len: usize) {
        let Some(work) = &mut self.works[slot] else { return };
        let (to, abandoned) = (work.to, work.phase == Phase::Abandoned);
        match work.task {
            Task::Receive => return self.received(slot, worked.then_some(len)),
            Task::Read(_) if work.phase == Phase::Lost => work.phase = Phase::Over(false),
            Task::Read(_) if !abandoned => work.phase = Phase::Over(worked),
            task => {
                self.works[slot] = None;
                self.slots.give(slot);
                if let (Task::Write(number, _), false) = (task, abandoned) {
                    self.written(to, number);
                }
            }
        }
        if !worked && !abandoned && self.is_open(to) {
            self.cut(to.pe);
        }
    }

    /// Notes that a put has arrived.
    fn written(&mut self, to: Lost, number: u64) {
        let Some(link) = self.link(to) else { return };
        link.puts.end(number);
        if link.is_wake_due() {
            self.owed.push_back(Owed::wake(to));
        }
    }

    /// Makes progress: ends what is over, and begins what could not begin before. Returns true if
    /// an operation ended or a message arrived. With `all`, continues until nothing is left to do.
    pub fn progress(&mut self, all: bool) -> bool {
        let mut worked = false;
        loop {
            let mut events = std::mem::take(&mut self.events);
            self.slots.poll(&mut events);
            let some = !events.is_empty();
            for Event { slot, len, worked } in events.drain(..) {
                self.finish(slot, worked, len);
            }
            self.events = events;
            worked |= some;
            if !some || !all {
                break;
            }
        }
        self.resume();
        worked
    }

    /// Begins what could not begin before.
    fn resume(&mut self) {
        for _ in 0..self.idle.len() {
            let Some(slot) = self.idle.pop() else { break };
            self.await_letter(slot);
        }
        for _ in 0..self.stalled.len() {
            let pe = self.stalled.remove(0);
            let next = |state: &mut Connections| state.links[pe.at()].as_mut()?.stalled.pop_front();
            while let Some(slot) = next(self) {
                if !self.post(slot) {
                    if let Some(link) = &mut self.links[pe.at()] {
                        link.stalled.push_front(slot);
                    }
                    self.stalled.push(pe);
                    break;
                }
            }
        }
        self.pay();
        for _ in 0..self.left.len() {
            let Some(place) = self.left.pop_front() else { break };
            self.begin_put(place);
        }
    }

    /// Posts space for a message.
    pub fn await_letter(&mut self, slot: Slot) {
        match self.slots.receive(slot) {
            Posted::Begun => {
                let nobody = Lost { pe: Pe(0), incarnation: Incarnation(u32::MAX) };
                let (task, phase, peer) = (Task::Receive, Phase::UnderWay, Peer::NONE);
                self.note(slot, Work { task, peer, to: nobody, len: 0, phase });
            }
            Posted::Later | Posted::Refused => self.idle.push(slot),
        }
    }

    /// Ends the operation that received a message in a slot.
    pub fn end_receive(&mut self, slot: Slot) {
        self.works[slot] = None;
    }

    /// Sends a message to a peer without a connection. Returns false if there is no room.
    pub fn send_unconnected(&mut self, slot: Slot, peer: Peer, (to, len): (Lost, usize)) -> bool {
        self.note(slot, Work { task: Task::Send, peer, to, len, phase: Phase::Stalled });
        let posted = self.post(slot);
        if !posted {
            self.works[slot] = None;
            self.slots.give(slot);
        }
        posted
    }

    fn note(&mut self, slot: Slot, work: Work) {
        if self.works.len() <= slot {
            self.works.resize_with(slot + 1, || None);
        }
        self.works[slot] = Some(work);
    }

    /// Ends everything on the connection to `pe`, which stays in the table.
    fn cut(&mut self, pe: Pe) {
        let Connections { slots, links, works, left, owed, told, .. } = self;
        let Some(link) = &mut links[pe.at()] else { return };
        let to = Lost { pe, incarnation: link.incarnation };
        self.any_broken = true;
        self.shared.whole[pe.at()].store(false, Ordering::Relaxed);
        link.end = End::Over;
        self.unanswered -= link.unanswered;
        (link.puts, link.wakes, link.unanswered) = Default::default();
        for slot in link.stalled.drain(..) {
            match &mut works[slot] {
                Some(work) if matches!(work.task, Task::Read(_)) => work.phase = Phase::Over(false),
                work => {
                    *work = None;
                    slots.give(slot);
                }
            }
        }
        for (slot, work) in works.iter_mut().enumerate() {
            let Some(work) = work else { continue };
            if work.to == to && work.phase == Phase::UnderWay {
                match work.task {
                    Task::Read(_) => work.phase = Phase::Lost,
                    _ => {
                        work.phase = Phase::Abandoned;
                        slots.abandon(slot);
                    }
                }
            }
        }
        left.retain(|place| {
            let stays = place.target().0 != pe;
            if !stays {
                place.over();
            }
            stays
        });
        owed.retain(|owed| owed.to != to);
        told.forget(to);
    }

    /// Removes `pe`: messages of this incarnation or older ones are ignored from now on.
    pub fn remove(&mut self, pe: Pe) {
        self.cut(pe);
        if let Some(link) = self.links[pe.at()].take() {
            self.strangers.refuse_below(pe, link.incarnation.next());
        }
    }

    /// Checks the connections: ends those that the view ends, and returns those that broke, to be
    /// reported. Without `all`, does nothing unless a connection has ended.
    pub fn tend(&mut self, all: bool) -> Vec<(Pe, Incarnation)> {
        let mut suspects = Vec::new();
        if !std::mem::take(&mut self.any_broken) && !all {
            return suspects;
        }
        for pe in Pe::all(self.links.len()) {
            let Some(link) = &mut self.links[pe.at()] else { continue };
            if link.end == End::Unused || link.reported {
                continue;
            }
            let (incarnation, broken) = (link.incarnation, link.end == End::Over);
            let gone = self.shared.local.events.gone(pe, incarnation);
            link.reported = broken || gone;
            if broken && !gone {
                suspects.push((pe, incarnation));
            }
            if gone && !broken {
                self.cut(pe);
            }
        }
        suspects
    }

    fn begin_put(&mut self, place: &'static DelegatedPut) {
        let (pe, offset, len) = place.target();
        match self.write(pe, offset, &place.word()[..len]) {
            Ok(false) => self.left.push_back(place),
            // If the connection is lost, its next quiet reports the loss.
            Ok(true) | Err(_) => place.over(),
        }
    }

    /// Returns true if nothing of this process is on its way to libfabric.
    pub fn is_idle(&self) -> bool {
        let owes = !self.owed.is_empty() || !self.told.is_empty();
        self.stalled.is_empty() && !owes && self.left.is_empty()
    }
}

impl Inside for Connections {
    /// Starts a delegated put. It is over once its bytes are copied.
    fn begin(&mut self, place: &'static DelegatedPut) {
        self.begin_put(place);
    }
}
