//! Access to PEs that are not mapped here: addresses and connections, the mailbox, streams; and the
//! meetings of a barrier.
//!
//! Invariant: an engine knows the incarnations of the last view passed to `connect`.
//!
//! Left out: transfers, which wait for the view that reports a loss (`pgas/remote.rs`,
//! `pgas/nonblocking.rs`), and waiting (`pgas/wait.rs`).

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use raidshmem_core::message::ToPe;
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::status::PeerStatus;
use raidshmem_core::update::{Change, Update, WordAt};
use raidshmem_core::view::{State, View};
use raidshmem_fabric::{AmoRequest, Engine, Read, Write};
use raidshmem_segment::mailbox;
use raidshmem_segment::words::{BARRIERS, Barrier};
use raidshmem_sys::fork::has_forked;
use raidshmem_sys::lock;
use tracing::info;

use super::homes::Homes;
use super::nodes::Nodes;
use super::remote::Remote;
use super::segments::Segments;
use super::stream::{Id, STREAMS, Streams};

/// The paths from this PE to the others.
#[derive(Debug)]
pub struct Communication {
    segments: &'static Segments,
    /// The engine between nodes; None if every PE is mapped.
    pub(in crate::pgas) remote: Option<Remote>,
    homes: Homes,
    /// Operations in progress on PEs that are not mapped.
    pub(in crate::pgas) streams: Streams,
    /// The meetings of a barrier, in the joined view.
    nodes: ArcSwap<Nodes>,
    /// True if PEs live on several nodes in that view.
    several: AtomicBool,
    /// Barriers begun since the last reset, indexed by `Barrier`.
    epochs: [AtomicU64; BARRIERS],
}

impl Communication {
    /// Returns the state before a view is joined.
    pub(in crate::pgas) fn new(
        segments: &'static Segments,
        remote: Option<Remote>,
        homes: Homes,
    ) -> Communication {
        let (streams, nodes) = (Streams::new(segments.n_pes()), ArcSwap::default());
        let several = AtomicBool::new(false);
        Communication {
            segments,
            remote,
            homes,
            streams,
            nodes,
            several,
            epochs: Default::default(),
        }
    }

    /// Returns the meetings of a barrier.
    #[inline]
    pub(in crate::pgas) fn nodes(&self) -> Guard<Arc<Nodes>> {
        self.nodes.load()
    }

    /// Sets the meetings of a newly joined view; `several` is true if its PEs live on several
    /// nodes.
    pub(in crate::pgas) fn set_nodes(&self, nodes: Nodes, several: bool) {
        self.nodes.store(Arc::new(nodes));
        self.several.store(several, Ordering::Relaxed); // a hint, if no view is adopted meanwhile
    }

    /// Returns true if PEs live on several nodes, in the joined view.
    #[inline]
    pub fn has_several_nodes(&self) -> bool {
        self.several.load(Ordering::Relaxed)
    }

    /// Returns the numbers of barriers begun.
    pub(in crate::pgas) fn epochs(&self) -> &[AtomicU64; BARRIERS] {
        &self.epochs
    }

    /// Returns true if an engine reaches some PEs, or may.
    #[inline]
    pub fn has_engine(&self) -> bool {
        self.remote.is_some()
    }

    /// Returns the engine and its state; call only if a PE is not mapped.
    pub(in crate::pgas) fn remote(&self) -> &Remote {
        self.remote.as_ref().expect("a PE that is not mapped is reached through an engine")
    }

    /// Returns the engine, if there is one.
    #[inline]
    pub(in crate::pgas) fn engine(&self) -> Option<&dyn Engine> {
        self.remote.as_ref().map(|remote| &*remote.engine)
    }

    /// Returns how long a waiting PE keeps polling the engine before it sleeps.
    pub(in crate::pgas) fn patience(&self) -> Duration {
        self.engine().map_or(Duration::ZERO, Engine::patience)
    }

    /// Drives the engine; waiting threads call it.
    #[inline]
    pub(in crate::pgas) fn progress(&self) {
        if let Some(engine) = self.engine() {
            engine.progress();
        }
    }

    /// Notifies the engine that this waiting thread is about to sleep.
    pub(in crate::pgas) fn rest(&self) {
        if let Some(engine) = self.engine() {
            engine.rest();
        }
    }

    /// Closes the engine, once no other PE needs this process.
    pub(in crate::pgas) fn close(&self) {
        if let Some(engine) = self.engine() {
            engine.close();
        }
    }

    /// Returns true if every write to symmetric memory goes through the page tables of processes
    /// that map it.
    pub(crate) fn sees_writes(&self) -> bool {
        let remote = self.remote.as_ref();
        !has_forked() && remote.is_none_or(|remote| remote.engine.writes_are_seen())
    }

    /// Begins a barrier, and returns its number since the last reset.
    pub(in crate::pgas) fn next_epoch(&self, whose: Barrier) -> u64 {
        self.epochs[whose as usize].fetch_add(1, Ordering::Relaxed) + 1
    }

    // ---- streams ------------------------------------------------------------------------------

    /// Allocates streams before they are used.
    pub fn prepare_streams(&self, ids: impl Iterator<Item = Id>) {
        if self.has_engine() {
            ids.for_each(|id| _ = self.streams.of(id));
        }
    }

    /// Opens stream `id`; with `no_store`, its fence and quiet skip puts.
    pub fn open_stream(&self, id: Id, no_store: bool) {
        if self.has_engine() {
            self.streams.of(id).no_store.store(no_store, Ordering::Relaxed);
        }
    }

    /// Drops the batched transfers of stream `id`, for which no caller waits.
    pub fn forget(&self, id: Id) {
        if let Some(stream) = self.streams.table[usize::from(id)].get() {
            self.streams.change(stream, lock(&stream.gathered), std::mem::take);
        }
    }

    /// Drops the batched transfers of all streams: the program rolls back to an earlier state.
    pub(crate) fn forget_all(&self) {
        (0..=STREAMS as Id).for_each(|id| self.forget(id));
    }

    /// Notes an operation begun at PE `pe`, which is remote.
    pub(in crate::pgas) fn note(&self, id: Id, pe: Pe) {
        self.streams.of(id).note(pe);
    }

    // ---- requests that no loss delays ---------------------------------------------------------

    /// Announces bytes of PE `pe` that will soon be pulled, if it is remote. If the PE is lost, the
    /// pull reports that.
    pub fn expect(&self, pe: Pe, range: Range<usize>) {
        if self.segments.is_remote(pe) {
            let _ = self.remote().engine.expect(pe, range);
        }
    }

    /// Returns a word of PE `pe` as it is now, faulted or not; None if the PE cannot be reached.
    /// Before the restart only words that no checkpoint restores are meaningful.
    pub fn look(&self, pe: Pe, offset: usize) -> Option<u64> {
        if let Some(segment) = self.segments.if_mapped(pe) {
            let change = Change { how: Update::Load, operand: 0 };
            return segment.update(WordAt { offset, bytes: 8 }, change);
        }
        let mut word = [0; 8];
        let read = Read { pe, offset, into: &mut word };
        self.engine()?.get(&mut [read]).ok().map(|()| u64::from_ne_bytes(word))
    }

    /// Wakes the sleeping threads of PE `pe`, mapped or remote, once this PE's earlier operations
    /// there have arrived.
    pub fn nudge(&self, pe: Pe) {
        if !self.segments.is_remote(pe) {
            return self.segments.wake(pe);
        }
        let Some(engine) = self.engine() else { return };
        // An update that changes nothing makes the target look with every engine.
        let offset = self.segments.layout().mailbox_of(self.segments.me());
        let (word, how) = (WordAt { offset, bytes: 8 }, Update::Or);
        let _ = engine.post(AmoRequest { pe, word, change: Change { how, operand: 0 } });
    }

    // ---- the mailbox --------------------------------------------------------------------------

    /// Returns the store status of PE `pe`, a member of this PE's group.
    pub(crate) fn status_of(&self, pe: Pe) -> PeerStatus {
        match self.segments.if_mapped(pe) {
            Some(segment) => segment.status(),
            None => self.segments.own().mailbox(pe).read(self.known_incarnation(pe)),
        }
    }

    pub(in crate::pgas) fn known_incarnation(&self, pe: Pe) -> Incarnation {
        Incarnation(self.remote().incarnations[pe.at()].load(Ordering::Relaxed))
    }

    /// Waits until all that this PE sent to the living PEs of `view` has arrived. The view reports
    /// any loss meanwhile.
    pub(crate) fn settle(&self, view: &View) {
        let Some(engine) = self.engine() else { return };
        let alive =
            |pe: &Pe| view.pes[pe.at()].state == State::Alive && self.segments.is_remote(*pe);
        let remote: Vec<Pe> = Pe::all(self.segments.n_pes()).filter(alive).collect();
        let _ = engine.quiet(&remote);
    }

    /// Posts this PE's store status in the mailboxes of those `members` that are remote. It has
    /// arrived when the call returns. The view reports any loss meanwhile.
    pub(crate) fn publish(&self, members: &[Pe], incarnation: Incarnation) {
        let Some(engine) = self.engine() else { return };
        let words = self.segments.own().status().words(incarnation);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let entry = self.segments.layout().mailbox_of(self.segments.me());
        let offset = entry + mailbox::place(incarnation);
        let remote: Vec<Pe> =
            members.iter().copied().filter(|&pe| self.segments.is_remote(pe)).collect();
        let write = |&pe: &Pe| Write { pe, offset, from: &bytes };
        let _ = engine.put(&remote.iter().map(write).collect::<Vec<_>>());
        let _ = engine.quiet(&remote);
    }

    // ---- views --------------------------------------------------------------------------------

    /// Returns true if PE `pe` of `view` can be mapped here.
    pub(in crate::pgas) fn mappable(&self, view: &View, pe: Pe) -> bool {
        let node = |pe: Pe| self.homes.node_in(view, pe);
        !self.has_engine() || node(pe) == node(self.segments.me())
    }

    /// Returns the nodes that PEs began on.
    pub(in crate::pgas) fn homes(&self) -> &Homes {
        &self.homes
    }

    /// Returns true if the address of a remote PE of `view` has not arrived yet.
    pub(in crate::pgas) fn awaits_address(&self, view: &View, pe: Pe) -> bool {
        let Some(remote) = &self.remote else { return false };
        let wanted = view.pes[pe.at()].incarnation;
        let links = lock(&remote.links);
        let known = links[pe.at()].address.as_ref().is_some_and(|(known, _)| *known >= wanted);
        !known && !self.mappable(view, pe)
    }

    /// Records an address.
    pub(in crate::pgas) fn learn(&self, pe: Pe, incarnation: Incarnation, address: Vec<u8>) {
        let Some(remote) = &self.remote else { return };
        if let Some(link) = lock(&remote.links).get_mut(pe.at()) {
            let newer = link.address.as_ref().is_none_or(|(known, _)| *known < incarnation);
            if newer {
                link.address = Some((incarnation, address));
            }
        }
    }

    /// Handles a message from the agent that carries no memory.
    pub(in crate::pgas) fn receive(&self, message: ToPe) {
        if let ToPe::Address { pe, incarnation, address } = message {
            self.learn(pe, incarnation, address);
        }
    }

    /// Disconnects from processes that `view` no longer has: nothing of theirs arrives from now on.
    pub(in crate::pgas) fn fence_off(&self, view: &View) {
        let Some(remote) = &self.remote else { return };
        for (pe, link) in lock(&remote.links).iter_mut().enumerate() {
            let member = view.pes[pe];
            let over = |connected: Incarnation| {
                member.state != State::Alive
                    || member.incarnation != connected
                    || self.mappable(view, Pe::of(pe))
            };
            if link.connected.is_some_and(over) {
                info!("cuts the connection to PE {pe}");
                remote.engine.disconnect(Pe::of(pe));
                link.connected = None;
            }
        }
    }

    /// Returns the processes that the engine is connected to.
    pub(in crate::pgas) fn connections(&self) -> impl Iterator<Item = (Pe, Incarnation)> {
        let links = self.remote.as_ref().map(|remote| lock(&remote.links).clone());
        let links = links.unwrap_or_default().into_iter().enumerate();
        links.filter_map(|(pe, link)| Some((Pe::of(pe), link.connected?)))
    }

    /// Passes the remote PEs that are alive in `view` to the engine, which connects at first use.
    /// Returns a message if it cannot connect to one.
    pub(in crate::pgas) fn connect(&self, view: &View) -> Result<(), String> {
        let Some(remote) = &self.remote else { return Ok(()) };
        for (pe, link) in lock(&remote.links).iter_mut().enumerate() {
            let wanted = view.pes[pe].incarnation;
            if view.pes[pe].state == State::Alive {
                remote.incarnations[pe].store(wanted.0, Ordering::Relaxed);
            }
            if view.pes[pe].state != State::Alive
                || self.mappable(view, Pe::of(pe))
                || link.connected == Some(wanted)
            {
                continue;
            }
            if let Some((known, address)) = &link.address
                && *known == wanted
            {
                info!("PE {pe} is incarnation {wanted}");
                match remote.engine.connect(Pe::of(pe), wanted, address) {
                    Ok(()) => link.connected = Some(wanted),
                    Err(error) => return Err(format!("PE {pe} cannot be reached: {error}")),
                }
            }
        }
        Ok(())
    }
}
