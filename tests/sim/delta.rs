//! The delta path: what changed since the last checkpoint, and which tiles need no second trip.
//!
//! What is known, what pays and what to do with a tile of parity is the library's own
//! ([`Changes`]); written here is what `checkpoint` does with the answer. Damage that nobody looks
//! for meanwhile travels along with a tile that did not change: it must stay damage.

use raidshmem::store::delta::{Changes, Next};

use super::bytes::JOB;
use super::job::Job;
use super::memory::tiles;
use super::pe::Proc;
use super::plan::Broken;

impl Job {
    /// Finds the own tiles that changed and shows them to the peers.
    pub fn compare(&mut self, p: &mut Proc) {
        let count = tiles(p.len);
        let held = self.parities(p).count_ones() as usize * self.per_chunk(p);
        let slots = self.plan.protection.mode.slots();
        let history = p.history.take();
        let is_new = history.is_none();
        let mut changes = Changes::since(history, (p.number, p.len), (count, held), slots);
        if let Some(written) = self.gather_written(p, count) {
            changes.know(written);
        } else if changes.looks(self.plan.settings.delta, count) {
            let memory = self.memory(p, p.me());
            for tile in 0..count {
                let bytes = memory.live_tile(tile);
                let look = changes.look(JOB, tile, &bytes, || memory.snapshot.tile(tile));
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

    /// Makes tile `step` of the own parity chunk `index` that of the checkpoint without its
    /// sources, if it can be had so.
    pub fn spared(&mut self, p: &mut Proc, index: usize, step: usize) -> bool {
        let (each, me) = (self.per_chunk(p), p.me());
        let at = index * each + step;
        let Some(mut changes) = p.changes.take() else { return false };
        let (shape, place) = self.plan.protection.place(me);
        let parity = shape.layout.parities_of(place)[index];
        let data = &shape.layout.stripes()[parity.stripe].data;
        let is_changed = |&position: &usize| {
            let memory = self.memory(p, shape.members[data[position].member]);
            memory.changes.contains(data[position].chunk * each + step)
        };
        let mut changed: Vec<usize> = (0..data.len()).filter(is_changed).collect();
        if self.plan.broken == Broken::KeptThoughChanged {
            changed.clear();
        }
        let next = changes.next(at, (changed.len(), data.len()));
        let slot = |number: u64| self.plan.slot_of(number);
        let (own, other) = (slot(p.number), slot(p.number - 1));
        let [new, last] = [p.number, p.number - 1].map(|number| self.stamp(p, me, number));
        let spared = match next {
            Next::Keep => {
                let slots = self.plan.protection.mode.slots() as u64;
                let old = self.stamp(p, me, p.number - slots);
                self.own(p).slots[own].renew(at, &old, &new)
            }
            Next::Carry => {
                let unchecked = self.plan.broken == Broken::CarriedUnchecked;
                let from = &self.memory(p, me).slots[other];
                let bytes = (unchecked || from.holds(at, &last)).then(|| from.tile(at).to_vec());
                let memory = self.own(p);
                bytes.inspect(|bytes| memory.slots[own].write(at, bytes, &new)).is_some()
            }
            Next::Update => self.update(p, (index, step), &changed),
            Next::Make => false,
        };
        if !spared || next == Next::Update {
            changes.made.insert(at);
        }
        self.ending.spared += u32::from(spared);
        self.ending.updated += u32::from(spared && next == Next::Update);
        p.changes = Some(changes);
        spared
    }

    /// Makes a tile of parity that of the checkpoint from what it was and what those of its sources
    /// that changed were and are, if all that holds.
    fn update(&mut self, p: &Proc, (index, step): (usize, usize), changed: &[usize]) -> bool {
        let (each, me, last) = (self.per_chunk(p), p.me(), p.number - 1);
        let unchecked = self.plan.broken == Broken::UpdatedUnchecked;
        let (shape, place) = self.plan.protection.place(me);
        let parity = shape.layout.parities_of(place)[index];
        let data = &shape.layout.stripes()[parity.stripe].data;
        let (own, other) = (self.plan.slot_of(p.number), self.plan.slot_of(last));
        let at = index * each + step;
        let old = &self.memory(p, me).slots[other];
        if !old.holds(at, &self.stamp(p, me, last)) {
            return false;
        }
        let mut tiles = Vec::new();
        for &position in changed {
            let (pe, tile) =
                (shape.members[data[position].member], data[position].chunk * each + step);
            let memory = self.memory(p, pe);
            if !unchecked && !memory.snapshot.holds(tile, &self.stamp(p, pe, last)) {
                return false;
            }
            tiles.push((position, memory.snapshot.tile(tile).to_vec(), memory.live_tile(tile)));
        }
        let changes: Vec<(usize, &[u8], &[u8])> =
            tiles.iter().map(|(position, was, is)| (*position, &was[..], &is[..])).collect();
        let mut out = old.tile(at).to_vec();
        let code = &shape.codes[parity.stripe];
        code.update_row_shown(parity.row, old.tile(at), &changes, &mut out, |_| ())
            .expect("tiles are of one length");
        let new = self.stamp(p, me, p.number);
        self.own(p).slots[own].write(at, &out, &new);
        true
    }

    /// Copies a tile of live memory into the snapshot; one that did not change gets a new stamp.
    pub fn copy_tile(&mut self, p: &mut Proc, tile: usize) {
        let [old, new] = [p.number - 1, p.number].map(|number| self.stamp(p, p.me(), number));
        let resealed = self.plan.broken == Broken::StampedAnew;
        let same = p.changes.as_ref().is_some_and(|changes| !changes.own.contains(tile));
        let memory = self.own(p);
        if same && resealed {
            let bytes = memory.snapshot.tile(tile).to_vec();
            memory.snapshot.write(tile, &bytes, &new);
        } else if !same || !memory.snapshot.renew(tile, &old, &new) {
            let bytes = memory.live_tile(tile);
            let as_it_was = memory.snapshot.tile(tile) == bytes;
            memory.snapshot.write(tile, &bytes, &new);
            if let Some(changes) = &mut p.changes {
                changes.seen += usize::from(!as_it_was);
            }
        }
    }

    /// The checkpoint is agreed: what was found is what the next one builds on.
    pub fn keep_changes(&mut self, p: &mut Proc) {
        if self.plan.broken == Broken::WatchedTooLate {
            self.begin_watch(p);
        }
        p.history = p.changes.take().map(|changes| changes.agreed(p.number, p.len));
    }
}
