//! PEs that are not mapped here: reached through the job's engine, if it has one.
//!
//! A call that meets a broken connection waits for the view that reports the fate of the peer: then
//! the PE is in the faulted state, and the restart undoes the incomplete call.
//!
//! A substitute maps the PEs of other nodes when it rolls back: until then they are remote, even
//! without an engine. It is in the faulted state, so it begins no operation there.
//!
//! Invariants: `World::base` of a PE is null exactly while loads and stores cannot reach it; an
//! engine knows the incarnations of the last view passed to `refresh`; in the faulted state no
//! operation begins at a remote PE.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::Ordering;

use raidshmem_core::message::ToPe;
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::status::PeerStatus;
use raidshmem_core::update::{Change, Update, WordAt};
use raidshmem_core::view::{State, View};
use raidshmem_fabric::{AmoRequest, Lost, Read, Write};
use raidshmem_segment::mailbox;
use raidshmem_segment::waits::Waiting;
use raidshmem_sys::lock;
use tracing::info;

use super::World;
use super::complain::complain;
use super::stream::Id;

impl World {
    /// Waits for the view that reports the fate of the peer.
    #[cold]
    fn wait_for_verdict(&self, lost: Lost) {
        let events = &self.comm.remote().events;
        self.met_loss();
        let waiting = || Waiting::anyone("a transfer whose connection broke");
        self.wait_raw(waiting, || events.gone(lost.pe, lost.incarnation));
    }

    /// Waits, in shrink mode, for the views that report all of `pes` whose connections broke:
    /// operations on living PEs count. A request to a PE is then void if [`World::is_void`].
    #[cold]
    fn wait_for_verdicts(&self, first: Lost, pes: impl Iterator<Item = Pe>) {
        self.wait_for_verdict(first);
        if !self.shrinks() {
            return;
        }
        for pe in pes {
            while let Err(lost) = self.comm.remote().engine.quiet(&[pe]) {
                self.wait_for_verdict(lost);
                self.adopt(); // disconnects
            }
        }
        self.adopt();
    }

    /// Returns the result, or after a loss `otherwise`, once a view reports the loss.
    fn or<T>(&self, result: Result<T, Lost>, otherwise: T) -> T {
        result.unwrap_or_else(|lost| {
            self.wait_for_verdict(lost);
            otherwise
        })
    }

    /// Copies bytes to PE `pe`, which is remote; stream `id` completes it.
    pub fn remote_put(&self, id: Id, pe: Pe, offset: usize, from: &[u8]) {
        self.remote_put_all(&[Write { pe, offset, from }]);
        self.note(id, pe);
    }

    /// Copies bytes to remote PEs, or drops them in the faulted state. The caller notes the peers.
    pub(super) fn remote_put_all(&self, writes: &[Write]) {
        if writes.is_empty() || self.cut_short() {
            return;
        }
        writes.iter().for_each(|write| self.may_write(write.pe, write.offset, write.from.len()));
        let engine = &self.comm.remote().engine;
        self.or(engine.put_and_wake(writes), ());
    }

    /// Ends the process if bytes of a remote PE are read-only: its network card would still write
    /// them.
    #[inline]
    fn may_write(&self, pe: Pe, at: usize, len: usize) {
        if self.segments.is_guarded(at, len) {
            let at = self.segments.at(at).addr();
            complain(&format!(
                "a write to memory of PE {pe} that is read-only: {len} bytes at {at:#x} \
                 (shmemx_ft_readonly)"
            ));
            std::process::abort();
        }
    }

    /// Copies bytes from PE `pe`, which is remote; zeroes if it is lost meanwhile.
    pub fn remote_get(&self, pe: Pe, offset: usize, into: &mut [u8]) {
        self.pull(&mut [Read { pe, offset, into }]);
    }

    /// Reads from several remote PEs at a time. If one of them is lost, all results are zeroes, or
    /// in shrink mode those of the lost PEs; the view has changed when the call returns. Without an
    /// engine every remote PE is lost.
    pub fn pull(&self, reads: &mut [Read]) {
        let Some(engine) = self.comm.engine() else {
            return reads.iter_mut().for_each(|read| read.into.fill(0));
        };
        if let Err(lost) = engine.get(reads) {
            self.wait_for_verdicts(lost, reads.iter().map(|read| read.pe));
            let void = reads.iter_mut().filter(|read| self.is_void(read.pe));
            void.for_each(|read| read.into.fill(0));
        }
    }

    /// Announces bytes of PE `pe` that will soon be pulled, if it is remote. If the PE is lost, the
    /// pull reports that.
    pub fn expect(&self, pe: Pe, range: Range<usize>) {
        if self.segments.is_remote(pe) {
            let _ = self.comm.remote().engine.expect(pe, range);
        }
    }

    /// Updates a word of a remote PE; returns the old value, or zero if the PE is lost meanwhile
    /// and in the faulted state.
    pub fn remote_update(&self, ask: AmoRequest) -> u64 {
        self.remote_update_all(&[ask])[0]
    }

    /// Like `remote_update`, for several words, in no order.
    pub(super) fn remote_update_all(&self, asks: &[AmoRequest]) -> Vec<u64> {
        let mut before = vec![0; asks.len()];
        let changes = asks.iter().filter(|ask| ask.change.how != Update::Load);
        changes.for_each(|ask| self.may_write(ask.pe, ask.word.offset, ask.word.bytes));
        if !asks.is_empty()
            && !self.cut_short()
            && let Err(lost) = self.comm.remote().engine.update(asks, &mut before)
        {
            self.wait_for_verdicts(lost, asks.iter().map(|ask| ask.pe));
            let void = asks.iter().zip(&mut before).filter(|(ask, _)| self.is_void(ask.pe));
            void.for_each(|(_, before)| *before = 0);
        }
        before
    }

    /// Like `remote_update`, without waiting for it; stream `id` completes it.
    pub fn remote_post(&self, id: Id, ask: AmoRequest) {
        if !self.cut_short() {
            self.may_write(ask.pe, ask.word.offset, ask.word.bytes);
            self.or(self.comm.remote().engine.post(ask), ());
            self.note(id, ask.pe);
        }
    }

    /// Stores a word of the library on PE `pe`, which is remote; no quiet waits for it.
    pub(super) fn remote_store(&self, pe: Pe, offset: usize, operand: u64) {
        let (word, how) = (WordAt { offset, bytes: 8 }, Update::Store);
        let ask = AmoRequest { pe, word, change: Change { how, operand } };
        if !self.members.faulted() {
            self.or(self.comm.remote().engine.post(ask), ());
        }
    }

    /// Orders what was begun at `peers` before what follows there, which is nothing in the faulted
    /// state.
    pub(super) fn remote_fence(&self, peers: &[Pe]) {
        if !peers.is_empty() && !self.cut_short() {
            self.or(self.comm.remote().engine.fence(peers), ());
        }
    }

    /// Waits until operations begun at `peers` have arrived; returns false if one of them was lost.
    pub(super) fn remote_quiet(&self, peers: &[Pe]) -> bool {
        let Some(engine) = self.comm.engine() else { return false };
        self.or(engine.quiet(peers).map(|()| true), false)
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
        self.comm.engine()?.get(&mut [read]).ok().map(|()| u64::from_ne_bytes(word))
    }

    /// Wakes the sleeping threads of PE `pe`, mapped or remote, once this PE's earlier operations
    /// there have arrived.
    pub fn nudge(&self, pe: Pe) {
        if !self.segments.is_remote(pe) {
            return self.segments.wake(pe);
        }
        let Some(engine) = self.comm.engine() else { return };
        // An update that changes nothing makes the target look with every engine.
        let offset = self.segments.layout().mailbox_of(self.me());
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

    pub(super) fn known_incarnation(&self, pe: Pe) -> Incarnation {
        Incarnation(self.comm.remote().incarnations[pe.at()].load(Ordering::Relaxed))
    }

    /// Waits until all that this PE sent to the living PEs of `view` has arrived. The view reports
    /// any loss meanwhile.
    pub(crate) fn settle(&self, view: &View) {
        let Some(engine) = self.comm.engine() else { return };
        let alive =
            |pe: &Pe| view.pes[pe.at()].state == State::Alive && self.segments.is_remote(*pe);
        let remote: Vec<Pe> = Pe::all(self.n_pes()).filter(alive).collect();
        let _ = engine.quiet(&remote);
    }

    /// Posts this PE's store status in the mailboxes of those `members` that are remote. It has
    /// arrived when the call returns. The view reports any loss meanwhile.
    pub(crate) fn publish(&self, members: &[Pe]) {
        let Some(engine) = self.comm.engine() else { return };
        let incarnation = self.members.incarnation();
        let words = self.segments.own().status().words(incarnation);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let entry = self.segments.layout().mailbox_of(self.me());
        let offset = entry + mailbox::place(incarnation);
        let remote: Vec<Pe> =
            members.iter().copied().filter(|&pe| self.segments.is_remote(pe)).collect();
        let write = |&pe: &Pe| Write { pe, offset, from: &bytes };
        let _ = engine.put(&remote.iter().map(write).collect::<Vec<_>>());
        let _ = engine.quiet(&remote);
    }

    // ---- views --------------------------------------------------------------------------------

    /// Returns true if PE `pe` of `view` can be mapped here.
    pub(super) fn mappable(&self, view: &View, pe: Pe) -> bool {
        !self.comm.has_engine() || view.pes[pe.at()].node == view.pes[self.me().at()].node
    }

    /// Records an address.
    pub(super) fn learn(&self, pe: Pe, incarnation: Incarnation, address: Vec<u8>) {
        let Some(remote) = &self.comm.remote else { return };
        if let Some(link) = lock(&remote.links).get_mut(pe.at()) {
            let newer = link.address.as_ref().is_none_or(|(known, _)| *known < incarnation);
            if newer {
                link.address = Some((incarnation, address));
            }
        }
    }

    /// Returns true if the address of a remote PE of `view` has not arrived yet.
    pub(super) fn awaits_address(&self, view: &View, pe: Pe) -> bool {
        let Some(remote) = &self.comm.remote else { return false };
        let wanted = view.pes[pe.at()].incarnation;
        let links = lock(&remote.links);
        let known = links[pe.at()].address.as_ref().is_some_and(|(known, _)| *known >= wanted);
        !known && !self.mappable(view, pe)
    }

    /// Disconnects from processes that `view` no longer has: nothing of theirs arrives from now on.
    pub(super) fn fence_off(&self, view: &View) {
        let Some(remote) = &self.comm.remote else { return };
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

    /// Passes the remote PEs that are alive in `view` to the engine, which connects at first use.
    pub(super) fn connect(&self, view: &View) {
        let Some(remote) = &self.comm.remote else { return };
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
                    Err(error) => {
                        self.members.abort(&format!("PE {pe} cannot be reached: {error}"))
                    }
                }
            }
        }
    }

    /// Handles a message from the agent that carries no memory.
    pub(super) fn receive(&self, message: ToPe) {
        if let ToPe::Address { pe, incarnation, address } = message {
            self.learn(pe, incarnation, address);
        }
    }
}
