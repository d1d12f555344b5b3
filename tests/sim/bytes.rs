//! The steps that move bytes: encode, copy, verify, rebuild, restore, re-encode; and the checks of
//! them. Real stripes, real codes, real stamps, a few tiles at a time.

use raidshmem_core::message::{Flaw, PeMessage};
use raidshmem_core::plan::{self, Lost, StoreFinding, bits, lost_shards};
use raidshmem_core::protocol::driver::OpProgress;
use raidshmem_core::protocol::{Call, Outcome};
use raidshmem_core::quantity::{CheckpointNumber, Pe, ViewNumber};
use raidshmem_core::store::stamp::Stamp;

use super::job::Job;
use super::memory::{Memory, TILE, tiles};
use super::pe::Proc;
use super::plan::Broken;

pub const JOB: u64 = 77;

impl Job {
    pub fn stamp(&self, p: &Proc, pe: usize, number: CheckpointNumber) -> Stamp {
        let others = || self.shown(p).pes[pe].incarnation;
        let incarnation = if pe == p.me() { p.incarnation } else { others() };
        Stamp { number, job: JOB, pe: Pe::of(pe), incarnation, whole: true }
    }

    fn holds(&self, p: &Proc, pe: usize, parity: bool, tile: usize) -> bool {
        let memory = self.memory(p, pe);
        let slot = self.plan.slot_of(p.number.0);
        let snapshot = self.plan.snapshot_of(p.number.0);
        let region = if parity { &memory.slots[slot] } else { &memory.snapshots[snapshot] };
        self.plan.broken == Broken::ChecksumsIgnored
            || region.holds(tile, &self.stamp(p, pe, p.number))
    }

    pub fn per_chunk(&self, p: &Proc) -> usize {
        let groups = p.groups();
        let (shape, _) = groups.place(Pe::of(p.me()));
        shape.layout.chunk_len(p.len, TILE) / TILE
    }

    /// Returns all parity chunks of a PE, as a mask.
    pub fn parities(&self, p: &Proc) -> u64 {
        let groups = p.groups();
        let (shape, place) = groups.place(Pe::of(p.me()));
        bits(shape.layout.parities_of(place).len())
    }

    /// Draws how many tiles one step moves.
    fn portion(&mut self, all: usize) -> usize {
        1 + self.plan.chance.below(all.max(1))
    }

    /// Writes a portion of the parity chunks in `wanted`, and in a checkpoint of its tiles of
    /// second snapshots. Returns true when all are written.
    pub fn encode(&mut self, p: &mut Proc, wanted: u64) -> bool {
        let slot = self.plan.slot_of(p.number.0);
        let per_chunk = self.per_chunk(p);
        let indices: Vec<usize> = (0..64).filter(|index| wanted >> index & 1 == 1).collect();
        let (parity, left) = (indices.len() * per_chunk, self.left(p));
        let all = parity + left.len();
        let end = all.min(p.progress + self.portion(all));
        while p.progress < end {
            let nth = p.progress;
            p.progress += 1;
            if nth >= parity {
                self.copy_tile(p, left[nth - parity]);
                continue;
            }
            let (index, step) = (indices[nth / per_chunk], nth % per_chunk);
            self.copy_along(p, index, step);
            if self.spared(p, index, step) {
                continue;
            }
            let out = self.parity_tile(p, index, step, per_chunk);
            let stamp = self.stamp(p, p.me(), p.number);
            self.own(p).slots[slot].write(index * per_chunk + step, &out, &stamp);
        }
        p.progress == all
    }

    fn parity_tile(&self, p: &Proc, index: usize, step: usize, per_chunk: usize) -> [u8; TILE] {
        let groups = p.groups();
        let (shape, place) = groups.place(Pe::of(p.me()));
        let parity = shape.layout.parities_of(place)[index];
        let stripe = &shape.layout.stripes()[parity.stripe];
        let live = stripe.data.iter().map(|data| {
            let memory = self.memory(p, shape.members[data.member].at());
            self.source(p, memory, data.chunk * per_chunk + step)
        });
        let live: Vec<[u8; TILE]> = live.collect();
        let sources: Vec<&[u8]> = live.iter().map(|tile| &tile[..]).collect();
        let mut out = [0; TILE];
        let code = &shape.codes[parity.stripe];
        code.encode_row(parity.row, &sources, &mut out).expect("tiles are of one length");
        out
    }

    /// Returns a tile from which parity is computed.
    pub fn source(&self, p: &Proc, memory: &Memory, tile: usize) -> [u8; TILE] {
        match p.behind {
            false => memory.live_tile(tile),
            true => {
                let snapshot = &memory.snapshots[self.plan.snapshot_of(p.number.0)];
                let is_inside = tile < tiles(p.len);
                let bytes = if is_inside { snapshot.tile(tile) } else { &[0; TILE] };
                bytes.try_into().expect("a tile")
            }
        }
    }

    /// Counts the new tiles in a second snapshot, which was written with the parity.
    pub fn look(&mut self, p: &mut Proc) {
        let [new, last] =
            [p.number, p.number.previous()].map(|number| self.plan.snapshot_of(number.0));
        let memory = self.own(p);
        let is_new =
            |&tile: &usize| memory.snapshots[new].tile(tile) != memory.snapshots[last].tile(tile);
        let seen = (0..tiles(memory.live.len())).filter(is_new).count();
        p.changes.iter_mut().for_each(|changes| changes.seen = seen);
    }

    /// Copies a portion of live memory into the snapshot. Returns true when all is copied.
    pub fn copy(&mut self, p: &mut Proc) -> bool {
        let all = tiles(self.own(p).live.len());
        let portion = self.portion(all);
        let believed = self.plan.broken == Broken::SnapshotBelieved;
        let left = if believed && self.plan.settings.snapshots == 2 { 0 } else { all };
        let end = all.min(p.progress + portion);
        for tile in p.progress..end.min(left) {
            self.copy_tile(p, tile);
        }
        p.progress = end;
        end == all
    }

    // ---- restart --------------------------------------------------------------------------------

    pub fn verify(&mut self, p: &mut Proc) {
        let (me, target) = (p.me(), p.number);
        let groups = p.groups();
        let (shape, place) = groups.place(Pe::of(me));
        let mut found = StoreFinding::lost(&shape.layout, place);
        let slot = self.plan.slot_of(target.0);
        let memory = self.memory(p, me);
        let snapshot = memory.snapshots[self.plan.snapshot_of(target.0)].record;
        let parity = memory.slots[slot].record;
        let mask = |bad: &dyn Fn(usize) -> bool, count: usize| {
            (0..count).filter(|&chunk| bad(chunk)).fold(0, |mask, chunk| mask | 1u64 << chunk)
        };
        let per_chunk = |len: usize| shape.layout.chunk_len(len, TILE) / TILE;
        if snapshot.0 == target {
            let (each, end) =
                (per_chunk(snapshot.1), if p.checks > 1 { tiles(snapshot.1) } else { 0 });
            let bad = |chunk: usize| {
                !(chunk * each..((chunk + 1) * each).min(end)).all(|t| self.holds(p, me, false, t))
            };
            found.snapshot = mask(&bad, shape.layout.chunks());
        }
        if parity.0 == target {
            let each = if p.checks > 1 { per_chunk(parity.1) } else { 0 };
            let bad = |chunk: usize| {
                !(chunk * each..(chunk + 1) * each).all(|tile| self.holds(p, me, true, tile))
            };
            found.parity = mask(&bad, shape.layout.parities_of(place).len());
        }
        p.empty |= snapshot.0 != target && parity.0 != target;
        found.empty = p.empty;
        let len = if snapshot.0 == target { snapshot.1 } else { parity.1 };
        let len = if snapshot.0 == target || parity.0 == target { len } else { 0 };
        let memory = self.own(p);
        (memory.posted.findings, memory.posted.found_len) = (found, len);
    }

    /// Combines the findings of the own group's members into the plan's verdict.
    pub fn judge(&mut self, p: &mut Proc) {
        let len = p.found.snapshot_len() as usize;
        let groups = p.groups();
        let group = groups.plan.of[p.me()].group;
        let shape = &groups.shapes[group];
        let finding = |(place, &pe): (usize, &Pe)| {
            let posted = self.found_by(p, pe.at());
            if posted.found_len == len {
                posted.findings
            } else {
                StoreFinding::lost(&shape.layout, place)
            }
        };
        let findings: Vec<StoreFinding> = shape.members.iter().enumerate().map(finding).collect();
        let lost = plan::check(group, &shape.layout, &shape.members, &findings, true).err();
        p.lost = lost.map(|lost| Lost::of(&lost, &shape.members));
        (p.len, p.findings) = (len, findings);
    }

    /// Returns the findings about the PE's own memory.
    pub fn finding<'a>(&self, p: &'a mut Proc) -> &'a mut StoreFinding {
        let groups = p.groups();
        let (_, place) = groups.place(Pe::of(p.me()));
        &mut p.findings[place]
    }

    /// Returns the tiles of the own snapshot that must be decoded.
    fn missing(&self, p: &Proc) -> Vec<usize> {
        let groups = p.groups();
        let (shape, place) = groups.place(Pe::of(p.me()));
        let (each, all) = (self.per_chunk(p), tiles(p.len));
        let bad = (0..shape.layout.chunks()).filter(|c| p.findings[place].snapshot >> c & 1 == 1);
        bad.flat_map(|chunk| (chunk * each).min(all)..((chunk + 1) * each).min(all)).collect()
    }

    /// Decodes a portion of the own snapshot's missing tiles.
    pub fn rebuild(&mut self, p: &mut Proc) -> OpProgress {
        let (missing, snapshot) = (self.missing(p), self.plan.snapshot_of(p.number.0));
        let end = missing.len().min(p.progress + self.portion(missing.len()));
        while p.progress < end {
            let tile = missing[p.progress];
            if self.plan.chance.one_in(20) {
                self.spoil(p, tile);
            }
            let bytes = match self.decode(p, tile) {
                Ok(bytes) => bytes,
                Err(_) if self.changed(p) => return OpProgress::Out(Outcome::Changed),
                Err(pe) => {
                    self.complain(p, pe);
                    return OpProgress::Wait;
                }
            };
            let stamp = self.stamp(p, p.me(), p.number);
            self.own(p).snapshots[snapshot].write(tile, &bytes, &stamp);
            p.progress += 1;
        }
        if p.progress < missing.len() { OpProgress::Part } else { OpProgress::Done }
    }

    /// Reports an invalid tile of a PE: in the next view all are checked.
    pub fn complain(&mut self, p: &mut Proc, pe: usize) {
        let (view, pe) = (p.view.number, Pe::of(pe));
        if std::mem::replace(&mut p.complained, view) != view {
            self.say(p, PeMessage::Unusable { view, pe, flaw: Flaw::Damaged });
        }
    }

    /// Decodes a tile of the own snapshot. The error is the PE whose tile is invalid.
    pub fn decode(&self, p: &Proc, tile: usize) -> Result<[u8; TILE], usize> {
        let groups = p.groups();
        let (shape, place) = groups.place(Pe::of(p.me()));
        let (each, all) = (self.per_chunk(p), tiles(p.len));
        let at = shape.layout.place_of(place, tile / each);
        let stripe = &shape.layout.stripes()[at.stripe];
        let found = &p.findings;
        let lost = lost_shards(stripe, found);
        let plan = shape.codes[at.stripe].plan(&lost, at.index).expect("checked by the plan");
        let (slot, snapshot) = (self.plan.slot_of(p.number.0), self.plan.snapshot_of(p.number.0));
        let shard = |&shard: &usize| -> Result<&[u8], usize> {
            let data = stripe.data.get(shard);
            let (member, tile, parity) = match data {
                Some(data) => (data.member, data.chunk * each + tile % each, false),
                None => {
                    let parity = stripe.parity[shard - stripe.data.len()];
                    (parity.member, parity.slot * each + tile % each, true)
                }
            };
            if !parity && tile >= all {
                return Ok(&[0; TILE]);
            }
            let pe = shape.members[member];
            let memory = self.memory(p, pe.at());
            match self.holds(p, pe.at(), parity, tile) {
                true if parity => Ok(memory.slots[slot].tile(tile)),
                true => Ok(memory.snapshots[snapshot].tile(tile)),
                false => Err(pe.at()),
            }
        };
        let sources = plan.sources().iter().map(shard).collect::<Result<Vec<&[u8]>, usize>>()?;
        let mut out = [0; TILE];
        plan.apply(&sources, &mut out).expect("tiles are of one length");
        Ok(out)
    }

    /// Copies the snapshot into live memory.
    pub fn restore(&mut self, p: &mut Proc) -> OpProgress {
        let (me, len, snapshot) = (p.me(), p.len, self.plan.snapshot_of(p.number.0));
        let whole = (0..tiles(len)).all(|tile| self.holds(p, me, false, tile));
        if !whole && self.plan.broken != Broken::RestoredUnchecked {
            self.ending.found += u32::from(!self.changed(p));
            if self.changed(p) {
                return OpProgress::Out(Outcome::Changed);
            }
            self.complain(p, me);
            return OpProgress::Wait;
        }
        let memory = self.own(p);
        let line = (0..tiles(len)).flat_map(|tile| memory.snapshots[snapshot].tile(tile).to_vec());
        memory.live = line.take(len).collect();
        OpProgress::Done
    }

    /// Returns the invalid ones of the own parity chunks that a rebuild did not read whole.
    fn damaged_unread(&self, p: &Proc) -> u64 {
        let groups = p.groups();
        let (shape, place) = groups.place(Pe::of(p.me()));
        let (each, all) = (self.per_chunk(p), tiles(p.len));
        let found = &p.findings;
        let of_chunk = |chunk: usize| ((chunk + 1) * each).min(all).saturating_sub(chunk * each);
        let bad = |&index: &usize| {
            let read = plan::read(shape, shape.layout.parities_of(place)[index], found, of_chunk);
            let unread = index * each + read..(index + 1) * each;
            found[place].parity >> index & 1 == 0
                && !unread.into_iter().all(|tile| self.holds(p, p.me(), true, tile))
        };
        let indices = 0..shape.layout.parities_of(place).len();
        indices.filter(bad).fold(0, |all, index| all | 1 << index)
    }

    /// True if the own parity has missing tiles, or is only now found to be damaged.
    pub fn misses_parity(&mut self, p: &mut Proc) -> bool {
        if p.checks == 1 && self.plan.broken != Broken::UnreadBelieved {
            let unread = self.damaged_unread(p);
            self.finding(p).parity |= unread;
        }
        self.finding(p).parity != 0
    }

    // ---- guarantees -----------------------------------------------------------------------------

    /// Checks a PE that resumes: with the right bytes, from the same checkpoint as all others of
    /// its view, and from none older than one reported saved to any PE.
    pub fn check_resumed(&mut self, p: &Proc) {
        let (me, number, view) = (p.me(), p.number, p.view.number);
        let at_its_end = p.call == Call::Finalize;
        let expected = if at_its_end { self.plan.last.next() } else { number };
        let right = self.memory(p, me).live == self.plan.content(me, expected.0);
        self.ending.compared += self.memory(p, me).live.len() as u64;
        let saved = self.saved;
        let same = *self.resumed.entry(view).or_insert(number);
        if !right {
            self.broken_promise =
                Some(format!("no mix: PE {me} resumes {number} with other bytes"));
        } else if number < saved {
            self.broken_promise =
                Some(format!("durability: PE {me} resumes {number}, {saved} was saved"));
        } else if same != number {
            self.broken_promise =
                Some(format!("agreement: PE {me} resumes {number}, others {same}"));
        }
        if at_its_end || p.ends {
            self.ending.alone += u32::from(!at_its_end);
            return; // parity is not recomputed
        }
        let newest = self.views.len() as u64 - 1;
        let ordered = &mut self.views[view.0 as usize];
        ordered.resumed += 1;
        if ordered.resumed == ordered.living && view == ViewNumber(newest) {
            self.spoils = 0;
            self.ending.recoveries += 1;
        }
    }

    /// Records that all have encoded the missing parity, when the first PE knows: only later losses
    /// count.
    pub fn note_whole(&mut self, p: &Proc) {
        let newest = self.views.len() - 1;
        if p.view.number != ViewNumber(newest as u64) || self.views[newest].whole {
            return; // a PE lost since has not been repaired
        }
        self.views[newest].whole = true;
        let lives = |pe: usize| {
            let other = &self.procs[self.carrier[pe].unwrap_or(p.id) as usize];
            let (alive, node) =
                if pe == p.me() { (true, p.node) } else { (other.alive, other.node) };
            alive && self.nodes[node as usize].alive
        };
        self.lost = self.lost.iter().copied().filter(|&pe| !lives(pe)).collect();
    }
}
