//! PEs that are not mapped here: reached through the job's engine, if it has one.
//!
//! A call that meets a broken connection waits for the view that reports the fate of the peer: then
//! the PE is in the faulted state, and the restart undoes the incomplete call.
//!
//! A substitute maps the PEs of other nodes when it rolls back: until then they are remote, even
//! without an engine. It is in the faulted state, so it begins no operation there.
//!
//! Invariants: the base address of a PE is null exactly while loads and stores cannot reach it; in
//! the faulted state no operation begins at a remote PE.
//!
//! Left out: addresses and connections, and requests that no loss delays (`world/comm.rs`).

#![forbid(unsafe_code)]

use raidshmem_core::quantity::Pe;
use raidshmem_core::update::{Change, Update, WordAt};
use raidshmem_fabric::{AmoRequest, Lost, Read, Write};
use raidshmem_segment::waits::Waiting;

use super::World;
use super::complain::complain;
use super::stream::Id;

/// The transfers of this PE to memory that is not mapped; each waits for the fate of a lost peer.
#[derive(Clone, Copy)]
pub struct Transfers<'a> {
    pub(super) world: &'a World,
}

impl World {
    /// Returns the transfers of this PE to memory that is not mapped.
    #[inline]
    pub fn transfers(&self) -> Transfers<'_> {
        Transfers { world: self }
    }
}

impl Transfers<'_> {
    /// Waits for the view that reports the fate of the peer.
    #[cold]
    fn wait_for_verdict(self, lost: Lost) {
        let events = &self.world.comm.remote().events;
        self.world.loss_response().met_loss();
        let waiting = || Waiting::anyone("a transfer whose connection broke");
        self.world.wait_raw(waiting, || events.gone(lost.pe, lost.incarnation));
    }

    /// Waits for the views that report those of `pes` whose connections broke, if operations on
    /// living PEs count. Those on other PEs are then void (`LossResponse::is_void`).
    #[cold]
    fn wait_for_verdicts(self, first: Lost, pes: impl Iterator<Item = Pe>) {
        self.wait_for_verdict(first);
        for pe in pes.filter(|&pe| !self.world.loss_response().is_void(pe)) {
            while let Err(lost) = self.world.comm.remote().engine.quiet(&[pe]) {
                self.wait_for_verdict(lost);
                self.world.survivors().adopt(); // disconnects
            }
        }
    }

    /// Returns the result, or after a loss `otherwise`, once a view reports the loss.
    fn or<T>(self, result: Result<T, Lost>, otherwise: T) -> T {
        result.unwrap_or_else(|lost| {
            self.wait_for_verdict(lost);
            otherwise
        })
    }

    /// Copies bytes to PE `pe`, which is remote; stream `id` completes it.
    pub fn remote_put(self, id: Id, pe: Pe, offset: usize, from: &[u8]) {
        self.remote_put_all(&[Write { pe, offset, from }]);
        self.world.comm.note(id, pe);
    }

    /// Copies bytes to remote PEs, or drops them in the faulted state. The caller notes the peers.
    pub(super) fn remote_put_all(self, writes: &[Write]) {
        if writes.is_empty() || self.world.loss_response().cut_short() {
            return;
        }
        writes.iter().for_each(|write| self.may_write(write.pe, write.offset, write.from.len()));
        let engine = &self.world.comm.remote().engine;
        self.or(engine.put_and_wake(writes), ());
    }

    /// Ends the process if bytes of a remote PE are read-only: its network card would still write
    /// them.
    #[inline]
    fn may_write(self, pe: Pe, at: usize, len: usize) {
        if self.world.segments.guarded().meets(at, len) {
            let at = self.world.segments.at(at).addr();
            complain(&format!(
                "a write to memory of PE {pe} that is read-only: {len} bytes at {at:#x} \
                 (shmemx_ft_readonly)"
            ));
            std::process::abort();
        }
    }

    /// Reads from several remote PEs at a time. If one of them is lost, all results are zeroes, or
    /// in shrink mode those of the lost PEs; the view has changed when the call returns. Without an
    /// engine every remote PE is lost.
    pub fn pull(self, reads: &mut [Read]) {
        let Some(engine) = self.world.comm.engine() else {
            return reads.iter_mut().for_each(|read| read.into.fill(0));
        };
        if let Err(lost) = engine.get(reads) {
            self.wait_for_verdicts(lost, reads.iter().map(|read| read.pe));
            let void = reads.iter_mut().filter(|read| self.world.loss_response().is_void(read.pe));
            void.for_each(|read| read.into.fill(0));
        }
    }

    /// Updates a word of a remote PE; returns the old value, or zero if the PE is lost meanwhile
    /// and in the faulted state.
    pub fn remote_update(self, ask: AmoRequest) -> u64 {
        self.remote_update_all(&[ask])[0]
    }

    /// Like `remote_update`, for several words, in no order.
    pub(super) fn remote_update_all(self, asks: &[AmoRequest]) -> Vec<u64> {
        let mut before = vec![0; asks.len()];
        let changes = asks.iter().filter(|ask| ask.change.how != Update::Load);
        changes.for_each(|ask| self.may_write(ask.pe, ask.word.offset, ask.word.bytes));
        if !asks.is_empty()
            && !self.world.loss_response().cut_short()
            && let Err(lost) = self.world.comm.remote().engine.update(asks, &mut before)
        {
            self.wait_for_verdicts(lost, asks.iter().map(|ask| ask.pe));
            let void = asks
                .iter()
                .zip(&mut before)
                .filter(|(ask, _)| self.world.loss_response().is_void(ask.pe));
            void.for_each(|(_, before)| *before = 0);
        }
        before
    }

    /// Like `remote_update`, without waiting for it; stream `id` completes it.
    pub fn remote_post(self, id: Id, ask: AmoRequest) {
        if !self.world.loss_response().cut_short() {
            self.may_write(ask.pe, ask.word.offset, ask.word.bytes);
            self.or(self.world.comm.remote().engine.post(ask), ());
            self.world.comm.note(id, ask.pe);
        }
    }

    /// Stores a word of the library on PE `pe`, which is remote; no quiet waits for it.
    pub(super) fn remote_store(self, pe: Pe, offset: usize, operand: u64) {
        let (word, how) = (WordAt { offset, bytes: 8 }, Update::Store);
        let ask = AmoRequest { pe, word, change: Change { how, operand } };
        if !self.world.members.faulted() {
            self.or(self.world.comm.remote().engine.post(ask), ());
        }
    }

    /// Orders what was begun at `peers` before what follows there, which is nothing in the faulted
    /// state.
    pub(super) fn remote_fence(self, peers: &[Pe]) {
        if !peers.is_empty() && !self.world.loss_response().cut_short() {
            self.or(self.world.comm.remote().engine.fence(peers), ());
        }
    }

    /// Waits until operations begun at `peers` have arrived; returns false if one of them was lost.
    pub(super) fn remote_quiet(self, peers: &[Pe]) -> bool {
        let Some(engine) = self.world.comm.engine() else { return false };
        self.or(engine.quiet(peers).map(|()| true), false)
    }
}
