//! The delta path: changes since the last checkpoint, and tiles that need no second pass.
//!
//! The tracking, its cost and the choice for each parity tile are the library's own ([`Changes`]);
//! only the actions of `checkpoint` are modelled here. Damage that is not noticed meanwhile is
//! carried along with an unchanged tile: it must stay recognisable as damage.

use raidshmem_codec::kernel::Made;
use raidshmem_codec::stripe::Data;
use raidshmem_core::mutant::Mutant;
use raidshmem_core::quantity::{CheckpointNumber, Pe, TileIndex};
use raidshmem_core::store::delta::{Changes, SourceCount, StoreCounts, TileStep};

use super::bytes::JOB;
use super::job::Job;
use super::memory::tiles;
use super::pe::Proc;
use super::plan::Broken;

impl Job {
    /// Finds the own tiles that changed and publishes them to the peers.
    pub fn compare(&mut self, p: &mut Proc) {
        let count = tiles(p.len);
        let held = self.parities(p).count_ones() as usize * self.per_chunk(p);
        let slots = self.plan.protection.mode.slots();
        let history = p.history.take();
        let is_new = history.is_none();
        let snapshots = self.plan.settings.snapshots;
        let counts = StoreCounts { tiles: count, parity: held, snapshots, slots };
        let mut changes = Changes::since(history, (p.number, p.len), counts);
        if let Some(written) = self.gather_written(p, count) {
            changes.know(written);
        } else if changes.looks(self.plan.settings.delta, count) {
            let memory = self.memory(p, p.me());
            let last = &memory.snapshots[self.plan.snapshot_of(p.number.previous().0)];
            for tile in 0..count {
                let bytes = memory.live_tile(tile);
                let look = changes.look(JOB, TileIndex::of(tile), &bytes, || last.tile(tile));
                changes.note(look);
            }
        }
        let mut shown = changes.own.clone();
        if is_new && self.plan.broken == Broken::SilenceIsNoChange {
            shown = Default::default();
        }
        self.own(p).changes = shown;
        p.changes = Some(changes);
    }

    /// Brings tile `step` of the own parity chunk `index` to the checkpoint without encoding all of
    /// its sources, if possible, and returns true if it did.
    pub fn spared(&mut self, p: &mut Proc, index: usize, step: usize) -> bool {
        let (each, me) = (self.per_chunk(p), p.me());
        let at = index * each + step;
        let Some(mut changes) = p.changes.take() else { return false };
        let groups = p.groups();
        let (shape, place) = groups.place(Pe::of(me));
        let parity = shape.layout.parities_of(place)[index];
        let data = &shape.layout.stripes()[parity.stripe].data;
        let is_changed = |&position: &usize| {
            let memory = self.memory(p, shape.members[data[position].member].at());
            memory.changes.contains(TileIndex::of(data[position].chunk * each + step))
        };
        let changed: Vec<usize> = (0..data.len()).filter(is_changed).collect();
        let next = match changes
            .next(TileIndex::of(at), SourceCount { changed: changed.len(), all: data.len() })
        {
            TileStep::Carry if self.plan.broken == Broken::Rule(Mutant::KeptThoughChanged) => {
                TileStep::Keep
            }
            next => next,
        };
        let slot = |number: CheckpointNumber| self.plan.slot_of(number.0);
        let (own, other) = (slot(p.number), slot(p.number.previous()));
        let [new, last] = [p.number, p.number.previous()].map(|number| self.stamp(p, me, number));
        let spared = match next {
            TileStep::Keep => {
                let slots = self.plan.protection.mode.slots() as u64;
                let old = self.stamp(p, me, p.number.before(slots));
                self.own(p).slots[own].renew(at, &old, &new)
            }
            TileStep::Carry => {
                let unchecked = self.plan.broken == Broken::CarriedUnchecked;
                let from = &self.memory(p, me).slots[other];
                let bytes = (unchecked || from.holds(at, &last)).then(|| from.tile(at).to_vec());
                let memory = self.own(p);
                bytes.inspect(|bytes| memory.slots[own].write(at, bytes, &new)).is_some()
            }
            TileStep::Update => self.update(p, (index, step), &changed),
            TileStep::Make => false,
        };
        if !spared || next == TileStep::Update {
            changes.made.insert(TileIndex::of(at));
        }
        self.ending.spared += u32::from(spared);
        self.ending.updated += u32::from(spared && next == TileStep::Update);
        p.changes = Some(changes);
        spared
    }

    /// Updates a parity tile from its old contents and the old and new contents of its changed
    /// sources, if all those are valid.
    fn update(&mut self, p: &Proc, (index, step): (usize, usize), changed: &[usize]) -> bool {
        let (each, me, last) = (self.per_chunk(p), p.me(), p.number.previous());
        let unchecked = self.plan.broken == Broken::UpdatedUnchecked;
        let groups = p.groups();
        let (shape, place) = groups.place(Pe::of(me));
        let parity = shape.layout.parities_of(place)[index];
        let data = &shape.layout.stripes()[parity.stripe].data;
        let (own, other) = (self.plan.slot_of(p.number.0), self.plan.slot_of(last.0));
        let at = index * each + step;
        let old = &self.memory(p, me).slots[other];
        if !old.holds(at, &self.stamp(p, me, last)) {
            return false;
        }
        let mut tiles = Vec::new();
        for &position in changed {
            let (pe, tile) =
                (shape.members[data[position].member], data[position].chunk * each + step);
            let memory = self.memory(p, pe.at());
            let snapshot = &memory.snapshots[self.plan.snapshot_of(last.0)];
            if !unchecked && !snapshot.holds(tile, &self.stamp(p, pe.at(), last)) {
                return false;
            }
            tiles.push((position, snapshot.tile(tile).to_vec(), self.source(p, memory, tile)));
        }
        let changes: Vec<(usize, &[u8], &[u8])> =
            tiles.iter().map(|(position, was, is)| (*position, &was[..], &is[..])).collect();
        let mut out = old.tile(at).to_vec();
        let code = &shape.codes[parity.stripe];
        let put = |made: Made<'_>| made.to.copy_from_slice(made.bytes);
        code.update_row_by_pieces(parity.row, old.tile(at), &changes, &mut out, put)
            .expect("tiles are of one length");
        let new = self.stamp(p, me, p.number);
        self.own(p).slots[own].write(at, &out, &new);
        true
    }

    /// Brings an own tile of the snapshot to the checkpoint; an unchanged one gets a new stamp, or
    /// comes from the other snapshot.
    pub fn copy_tile(&mut self, p: &mut Proc, tile: usize) {
        let snapshots = self.plan.settings.snapshots as u64;
        let next = p
            .changes
            .as_ref()
            .map_or(TileStep::Make, |changes| changes.next_own(TileIndex::of(tile)));
        let stamp = |number: CheckpointNumber| self.stamp(p, p.me(), number);
        let (new, last) = (stamp(p.number), stamp(p.number.previous()));
        let old = stamp(p.number.before(snapshots));
        let [own, other] =
            [p.number, p.number.previous()].map(|number| self.plan.snapshot_of(number.0));
        let resealed = self.plan.broken == Broken::StampedAnew;
        let memory = self.own(p);
        let carried = memory.snapshots[other].tile(tile).to_vec();
        let holds = memory.snapshots[other].holds(tile, &last) || resealed;
        let snapshot = &mut memory.snapshots[own];
        match next {
            TileStep::Keep if resealed => {
                let bytes = snapshot.tile(tile).to_vec();
                snapshot.write(tile, &bytes, &new);
            }
            TileStep::Keep if snapshot.renew(tile, &old, &new) => {}
            TileStep::Carry if holds => snapshot.write(tile, &carried, &new),
            _ => {
                let bytes = memory.live_tile(tile);
                memory.snapshots[own].write(tile, &bytes, &new);
                if let Some(changes) = &mut p.changes {
                    changes.seen += usize::from(carried != bytes);
                }
            }
        }
    }

    /// True if this PE maps PE `pe`.
    fn is_near(&self, p: &Proc, pe: usize) -> bool {
        !self.plan.far || p.view.pes[pe].node == p.view.pes[p.me()].node
    }

    /// Returns the own tiles of the second snapshot that no other PE writes in this checkpoint.
    pub fn left(&self, p: &Proc) -> Vec<usize> {
        let copies = self.plan.settings.snapshots == 2 && !p.is_behind();
        let Some(changes) = p.changes.as_ref().filter(|_| copies) else {
            return Vec::new();
        };
        let groups = p.groups();
        let (shape, place) = groups.place(Pe::of(p.me()));
        let each = self.per_chunk(p);
        let alone =
            |tile| shape.copier(place, tile / each).is_none_or(|pe| !self.is_near(p, pe.at()));
        (0..tiles(p.len))
            .filter(|&tile| !changes.own.contains(TileIndex::of(tile)) || alone(tile))
            .collect()
    }

    /// Writes the changed sources of an own parity tile into their owners' second snapshots, if
    /// this PE is their copier.
    pub fn copy_along(&mut self, p: &Proc, index: usize, step: usize) {
        if p.changes.is_none() || self.plan.settings.snapshots == 1 || p.is_behind() {
            return;
        }
        let (each, me, own) = (self.per_chunk(p), p.me(), self.plan.snapshot_of(p.number.0));
        let groups = p.groups();
        let (shape, place) = groups.place(Pe::of(me));
        let stripe = shape.layout.parities_of(place)[index].stripe;
        let spot = |data: &Data| {
            let (pe, tile) = (shape.members[data.member], data.chunk * each + step);
            let mine = shape.copier(data.member, data.chunk) == Some(Pe::of(me))
                && self.is_near(p, pe.at());
            let changed = || self.memory(p, pe.at()).changes.contains(TileIndex::of(tile));
            (mine && tile < tiles(p.len) && changed()).then_some((pe, tile))
        };
        let spots: Vec<_> = shape.layout.stripes()[stripe].data.iter().filter_map(spot).collect();
        for (pe, tile) in spots {
            let stamp = self.stamp(p, pe.at(), p.number);
            let memory = &mut self.memories[pe.at()][p.mapped[pe.at()] as usize];
            let bytes = memory.live_tile(tile);
            memory.snapshots[own].write(tile, &bytes, &stamp);
            self.ending.along += 1;
        }
    }

    /// Keeps the changes found as the base of the next checkpoint, once this one is agreed.
    pub fn keep_changes(&mut self, p: &mut Proc) {
        if self.plan.broken == Broken::WatchedTooLate {
            self.begin_watch(p);
        }
        p.history = p.changes.take().map(|changes| changes.agreed(p.number, p.len));
    }
}
