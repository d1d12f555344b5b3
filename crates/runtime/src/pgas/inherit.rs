//! Adoption of a dead process's memory: its vote, and the part of it to save before the program of
//! the substitute runs ([`raidshmem_core::store::inherited`] decides).
//!
//! Invariants: live memory is read before anything of this process writes to it; a region counts
//! only once its record is sealed, and until then the phase in the header is the old one, so that
//! the next substitute can start over.

use std::sync::atomic::Ordering;

use raidshmem_control::page::Page;
use raidshmem_core::layout::{STAMP, TILE};
use raidshmem_core::quantity::{CheckpointNumber, Incarnation, Pe};
use raidshmem_core::store::coverage::{Coverage, Piece};
use raidshmem_core::store::inherited::{Rescue, is_borne_out, rescue, without_live};
use raidshmem_core::store::phase::{Phase, Vote};
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::stamp::Stamp;
use raidshmem_segment::Segment;
use raidshmem_segment::header::RegionRecord;
use raidshmem_segment::log::Word;
use raidshmem_sys::memory::{self, Part};

use super::World;
use super::world::segments::Segments;

/// The shadow snapshot: the second region of a store that keeps one snapshot, for live memory.
const SHADOW: usize = 1;

/// The process that adopts the memory.
pub(super) struct Successor {
    pub job: u64,
    pub pe: Pe,
    pub incarnation: Incarnation,
    pub checksum: bool,
    /// The number of PEs of this machine, all of which may need memory now.
    pub sharing: usize,
}

/// Waits until no living PE is inside an operation that it began before it saw the loss, which all
/// nodes have published by now: such an operation finds what the predecessor left, and not what
/// this process begins with.
pub(super) fn await_quiet(segments: &Segments, page: &Page) {
    // The predecessor no longer writes anywhere, so PEs that wait for its writes may continue.
    segments.own().log(segments.n_pes()).set(Word::Flight, 0);
    segments.order_others(); // if that fails, all roll back (`recovery/local.rs`)
    while !segments.is_quiet(&page.read()) {
        std::thread::yield_now();
    }
}

/// Returns the vote of the segment's dead owner; an empty one if its memory does not exist.
pub(super) fn inherit(own: &Segment, protection: &Protection, successor: &Successor) -> Vote {
    let store = Store { own, protection, job: successor.job };
    let mut vote = store.vote();
    let saved = match rescue(&vote) {
        Rescue::Nothing => return vote,
        Rescue::Complete(n) if store.is_shadowed(n) => {
            store.bring(n);
            true
        }
        Rescue::Complete(n) => store.copy_live(successor, n, protection.snapshot_of(n)),
        Rescue::Keep(n) => {
            let place = store.place_to_keep(n);
            let fits =
                || place != SHADOW || protection.snapshots > 1 || store.has_memory(successor);
            store.record(place).holds(successor.job, n).is_some()
                || fits() && store.copy_live(successor, n, place)
        }
    };
    let ended = matches!(vote.phase, Some(Phase::Copying(_)));
    if ended || !saved {
        vote.phase = vote.phase.map(without_live);
    }
    // Live memory is not read from here on.
    own.header().phase.store(vote.phase.map_or(0, Phase::pack), Ordering::SeqCst);
    vote
}

struct Store<'a> {
    own: &'a Segment,
    protection: &'a Protection,
    job: u64,
}

impl Store<'_> {
    fn record(&self, snapshot: usize) -> &RegionRecord {
        &self.own.header().snapshots[snapshot]
    }

    fn holds_slot(&self, number: CheckpointNumber) -> Option<usize> {
        self.own.header().slots[self.protection.slot_of(number)].holds(self.job, number)
    }

    /// Returns phase and decision of the header, if they are credible.
    fn vote(&self) -> Vote {
        let header = self.own.header();
        let snapshot = |n: CheckpointNumber| {
            let keeps = self.protection.mode.keeps_snapshot();
            !keeps || self.record(self.protection.snapshot_of(n)).holds(self.job, n).is_some()
        };
        let slot = |n: CheckpointNumber| self.holds_slot(n).is_some();
        let phase = Phase::unpack(header.phase.load(Ordering::SeqCst));
        let phase = phase.filter(|&phase| is_borne_out(phase, snapshot, slot));
        let decided = CheckpointNumber::unpack(header.decision.load(Ordering::SeqCst));
        let known = |&n: &CheckpointNumber| {
            phase.is_some_and(|phase| phase.has(n)) || snapshot(n) || slot(n)
        };
        Vote { phase, decided: decided.filter(known) }
    }

    /// Returns the snapshot that keeps live memory as that of checkpoint `number`.
    fn place_to_keep(&self, number: CheckpointNumber) -> usize {
        match self.protection.snapshots {
            1 => SHADOW,
            _ => self.protection.snapshot_of(number),
        }
    }

    fn is_shadowed(&self, number: CheckpointNumber) -> bool {
        self.protection.snapshots == 1 && self.record(SHADOW).holds(self.job, number).is_some()
    }

    /// Returns true if the machine has memory for another snapshot of each PE.
    fn has_memory(&self, successor: &Successor) -> bool {
        let snapshot = self.record(0).hint().1 as u64;
        let live = self.coverage().map_or(u64::MAX, |coverage| coverage.len() as u64);
        let need = live.max(snapshot).saturating_mul(successor.sharing as u64);
        !self.protection.mode.keeps_snapshot()
            || memory::available().is_some_and(|available| available > need)
    }

    /// Returns the coverage of the checkpoint that was begun.
    fn coverage(&self) -> Option<Coverage> {
        let layout = self.own.layout();
        let bytes = self.own.bytes(layout.manifest, layout.manifest_len);
        let bytes = &bytes[..Coverage::manifest_len(bytes)];
        Coverage::parse(layout, bytes).ok().map(|manifest| manifest.coverage)
    }

    /// Makes snapshot `place` that of checkpoint `number` from live memory. Returns false if the
    /// parity was not computed from this memory.
    fn copy_live(&self, successor: &Successor, number: CheckpointNumber, place: usize) -> bool {
        let coverage = self.coverage().filter(|c| self.holds_slot(number) == Some(c.len()));
        let Some(coverage) = coverage else { return false };
        let keeps = self.protection.mode.keeps_snapshot();
        let Successor { job, pe, incarnation, checksum, .. } = *successor;
        let stamp = Stamp { number, job, pe, incarnation, whole: checksum };
        let layout = self.own.layout();
        let (region, count) = (layout.snapshots[place], coverage.len().div_ceil(TILE));
        self.record(place).void();
        for tile in 0..if keeps { count } else { 0 } {
            let into = self.store_mut(region + tile * TILE, TILE);
            let mut filled = 0;
            for Piece { at, len } in coverage.pieces(tile * TILE..(tile + 1) * TILE) {
                into[filled..filled + len].copy_from_slice(self.own.bytes(at, len));
                filled += len;
            }
            into[filled..].fill(0);
            let seal = stamp.seal(into);
            self.store_mut(layout.stamps(region) + tile * STAMP, STAMP).copy_from_slice(&seal);
        }
        self.record(place).seal(self.job, number, coverage.len());
        true
    }

    /// Returns bytes of the own store, to be written.
    #[allow(clippy::mut_from_ref)] // as `Segment::bytes_mut`
    fn store_mut(&self, at: usize, len: usize) -> &mut [u8] {
        // SAFETY: no other code writes the store of a process that is not a PE yet, nor reads what
        // is not sealed; and no two slices of it live here at a time.
        unsafe { self.own.bytes_mut(at, len) }
    }

    /// Replaces the snapshot by the shadow snapshot.
    fn bring(&self, number: CheckpointNumber) {
        self.record(0).void();
        let len = self.bring_tiles(number);
        self.record(0).seal(self.job, number, len);
    }

    /// Copies the shadow snapshot into the snapshot; returns its length.
    fn bring_tiles(&self, number: CheckpointNumber) -> usize {
        let len = self.record(SHADOW).holds(self.job, number).unwrap_or(0);
        let (layout, count) = (self.own.layout(), len.div_ceil(TILE));
        let [to, from] = layout.snapshots;
        let copy = |to: usize, from: usize, len: usize| {
            self.store_mut(to, len).copy_from_slice(self.own.bytes(from, len));
        };
        if self.protection.mode.keeps_snapshot() {
            copy(to, from, count * TILE);
            copy(layout.stamps(to), layout.stamps(from), count * STAMP);
        }
        len
    }

    /// Discards the shadow snapshot.
    fn clear_shadow(&self, part: &Part) {
        if self.protection.snapshots > 1 {
            return;
        }
        self.record(SHADOW).void();
        let layout = self.own.layout();
        let [at, end] = [layout.snapshots[SHADOW], layout.slots[0]];
        let _ = part.give_back(at, end - at); // on failure it stays occupied until the job ends
    }
}

impl World {
    fn inherited<'a>(&'a self, protection: &'a Protection) -> Store<'a> {
        Store { own: self.segments.own(), protection, job: self.job() }
    }

    /// Returns true if the shadow snapshot holds the dead process's live memory as checkpoint
    /// `number`.
    pub(crate) fn is_shadowed(&self, protection: &Protection, number: CheckpointNumber) -> bool {
        self.inherited(protection).is_shadowed(number)
    }

    /// Copies the shadow snapshot into the snapshot, whose record is void meanwhile; returns its
    /// length in bytes.
    pub(crate) fn bring_inherited(
        &self,
        protection: &Protection,
        number: CheckpointNumber,
    ) -> usize {
        self.inherited(protection).bring_tiles(number)
    }

    /// Discards the shadow snapshot, and releases its memory.
    pub(crate) fn clear_shadow(&self, protection: &Protection) {
        self.inherited(protection).clear_shadow(self.segments.part());
    }
}
