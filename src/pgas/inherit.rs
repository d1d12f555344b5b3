//! Taking over the memory of a dead process: what it says, and what of it must be saved before the
//! program of the substitute runs ([`raidshmem_core::store::inherited`] decides).
//!
//! Invariants: live memory is read before anything of this process writes to it; a region counts
//! only once its record is sealed, and until then the phase in the header is the old one, so that
//! the next substitute can begin again.

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

/// The second snapshot of a store that keeps one: where live memory is kept.
const BESIDE: usize = 1;

/// The process that takes over.
pub(super) struct Heir {
    pub job: u64,
    pub pe: Pe,
    pub incarnation: Incarnation,
    pub checksum: bool,
    /// PEs of this machine, which may all need room now.
    pub sharing: usize,
}

/// Waits until no living PE is in the midst of an operation that it began before it saw the loss,
/// which all nodes have shown by now: what that finds is what the predecessor left, and not what
/// this process begins with.
pub(super) fn await_quiet(segments: &Segments, page: &Page) {
    // The predecessor writes nowhere any more; who waits for it to have written goes on.
    segments.own().log(segments.n_pes()).set(Word::Flight, 0);
    segments.order_others(); // if that cannot be, all go back (`recovery/alone.rs`)
    while !segments.is_quiet(&page.read()) {
        std::thread::yield_now();
    }
}

/// What the dead owner of the segment brings to a decision; none if its memory is not there.
pub(super) fn inherit(own: &Segment, protection: &Protection, heir: &Heir) -> Vote {
    let store = Store { own, protection, job: heir.job };
    let mut vote = store.vote();
    let saved = match rescue(&vote) {
        Rescue::Nothing => return vote,
        Rescue::Complete(n) if store.is_beside(n) => {
            store.bring(n);
            true
        }
        Rescue::Complete(n) => store.copy_live(heir, n, protection.snapshot_of(n)),
        Rescue::Keep(n) => {
            let place = store.place_to_keep(n);
            let room = || place != BESIDE || protection.snapshots > 1 || store.has_room(heir);
            store.record(place).holds(heir.job, n).is_some()
                || room() && store.copy_live(heir, n, place)
        }
    };
    let ended = matches!(vote.phase, Some(Phase::Copying(_)));
    if ended || !saved {
        vote.phase = vote.phase.map(without_live);
    }
    // From here on live memory is not looked at any more.
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

    /// Phase and decision of the header, if they are believed.
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

    /// Where live memory is kept as that of checkpoint `number`.
    fn place_to_keep(&self, number: CheckpointNumber) -> usize {
        match self.protection.snapshots {
            1 => BESIDE,
            _ => self.protection.snapshot_of(number),
        }
    }

    fn is_beside(&self, number: CheckpointNumber) -> bool {
        self.protection.snapshots == 1 && self.record(BESIDE).holds(self.job, number).is_some()
    }

    /// The machine has room for another snapshot of each PE.
    fn has_room(&self, heir: &Heir) -> bool {
        let snapshot = self.record(0).hint().1 as u64;
        let live = self.coverage().map_or(u64::MAX, |coverage| coverage.len() as u64);
        let need = live.max(snapshot).saturating_mul(heir.sharing as u64);
        !self.protection.mode.keeps_snapshot()
            || memory::available().is_some_and(|available| available > need)
    }

    /// What the checkpoint that was begun covers.
    fn coverage(&self) -> Option<Coverage> {
        let layout = self.own.layout();
        let bytes = self.own.bytes(layout.manifest, layout.manifest_len);
        let bytes = &bytes[..Coverage::manifest_len(bytes)];
        Coverage::parse(layout, bytes).ok().map(|manifest| manifest.coverage)
    }

    /// Makes snapshot `place` that of checkpoint `number` from live memory. False if that is not
    /// what the parity was made of.
    fn copy_live(&self, heir: &Heir, number: CheckpointNumber, place: usize) -> bool {
        let coverage = self.coverage().filter(|c| self.holds_slot(number) == Some(c.len()));
        let Some(coverage) = coverage else { return false };
        let keeps = self.protection.mode.keeps_snapshot();
        let Heir { job, pe, incarnation, checksum, .. } = *heir;
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

    /// Own store, to be written.
    #[allow(clippy::mut_from_ref)] // as `Segment::bytes_mut`
    fn store_mut(&self, at: usize, len: usize) -> &mut [u8] {
        // SAFETY: nobody else writes the store of a process that is not a PE yet, nor reads what is
        // not sealed; and no two slices of it live here at a time.
        unsafe { self.own.bytes_mut(at, len) }
    }

    /// Makes the snapshot what lies beside it.
    fn bring(&self, number: CheckpointNumber) {
        self.record(0).void();
        let len = self.bring_tiles(number);
        self.record(0).seal(self.job, number, len);
    }

    /// Copies what lies beside the snapshot into it; its length.
    fn bring_tiles(&self, number: CheckpointNumber) -> usize {
        let len = self.record(BESIDE).holds(self.job, number).unwrap_or(0);
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

    /// Forgets what lies beside the snapshot.
    fn clear_beside(&self, part: &Part) {
        if self.protection.snapshots > 1 {
            return;
        }
        self.record(BESIDE).void();
        let layout = self.own.layout();
        let [at, end] = [layout.snapshots[BESIDE], layout.slots[0]];
        let _ = part.give_back(at, end - at); // it is taken until the end of the job then
    }
}

impl World {
    fn inherited<'a>(&'a self, protection: &'a Protection) -> Store<'a> {
        Store { own: self.segments.own(), protection, job: self.job() }
    }

    /// True if the dead's live memory is kept beside the snapshot as that of checkpoint `number`.
    pub(crate) fn is_beside(&self, protection: &Protection, number: CheckpointNumber) -> bool {
        self.inherited(protection).is_beside(number)
    }

    /// Copies it into the snapshot, whose record is void meanwhile; its length in bytes.
    pub(crate) fn bring_inherited(
        &self,
        protection: &Protection,
        number: CheckpointNumber,
    ) -> usize {
        self.inherited(protection).bring_tiles(number)
    }

    /// Gives back what lies beside the snapshot.
    pub(crate) fn clear_beside(&self, protection: &Protection) {
        self.inherited(protection).clear_beside(self.segments.part());
    }
}
