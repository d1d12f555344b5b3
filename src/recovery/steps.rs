//! The steps of a recovery that move bytes: verify, rebuild, restore, re-encode.
//!
//! Each PE works on its own store and its own live memory and only reads its peers'.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::plan::{self, Finding, Unrecoverable, bits, lost_shards};
use super::{Changed, unchanged};
use crate::checkpoint;
use crate::checkpoint::pipeline;
use crate::checkpoint::tiles::{self, Room, ZEROES};
use crate::control::message::Report;
use crate::control::view::View;
use crate::inject::Point;
use crate::pgas::World;
use crate::segment::board::Told;
use crate::segment::layout::TILE;
use crate::store::coverage::Coverage;
use crate::store::protection::{Protection, Shape};

/// Checks every tile of the own store as of checkpoint `target` and shows what does not hold.
pub fn verify(world: &World, protection: &Protection, target: u64) {
    let (shape, place) = protection.place(world.me());
    let header = world.segment().header();
    let slot = protection.slot_of(target);
    let whole = Finding::lost(&shape.layout, place);
    let mut found = whole;
    let snapshot = header.snapshot.holds(world.job(), target);
    let parity = header.slots[slot].holds(world.job(), target);
    if let Some(len) = snapshot.filter(|_| protection.mode.keeps_snapshot()) {
        let per_chunk = shape.chunk_len(len) / TILE;
        if world.is_new() {
            let all = 0..tiles::tiles(len);
            tiles::map_store(world, world.me(), world.layout().snapshot, all);
        }
        let bad = |chunk: &usize| {
            let end = ((chunk + 1) * per_chunk).min(tiles::tiles(len));
            let region = world.layout().snapshot;
            !(chunk * per_chunk..end).all(|tile| tiles::holds(world, region, tile, target))
        };
        found.snapshot = mask((0..shape.layout.chunks()).filter(bad));
    }
    if let Some(len) = parity {
        let per_chunk = shape.chunk_len(len) / TILE;
        let region = world.layout().slots[slot];
        if world.is_new() {
            let all = 0..shape.layout.parities_of(place).len() * per_chunk;
            tiles::map_store(world, world.me(), region, all);
        }
        let bad = |chunk: &usize| {
            let mut own = chunk * per_chunk..(chunk + 1) * per_chunk;
            !own.all(|tile| tiles::holds(world, region, tile, target))
        };
        found.parity = mask((0..shape.layout.parities_of(place).len()).filter(bad));
    }
    let words = &world.segment().words().findings;
    words.snapshot.store(found.snapshot, Ordering::SeqCst);
    words.parity.store(found.parity, Ordering::SeqCst);
    words.len.store(snapshot.or(parity).unwrap_or(0) as u64, Ordering::SeqCst);
}

fn mask(bad: impl Iterator<Item = usize>) -> u64 {
    bad.fold(0, |mask, bit| mask | 1 << bit)
}

/// What all PEs found, by PE, and the snapshot length they speak of.
pub fn findings(world: &World, protection: &Protection) -> (usize, Vec<Finding>) {
    let told: Vec<Told> = (0..world.n_pes()).map(|pe| world.told(pe)).collect();
    let len = told.iter().map(|told| told.found_len).find(|&len| len != 0).unwrap_or(0);
    let finding = |pe: usize| {
        let (shape, place) = protection.place(pe);
        if told[pe].found_len != len {
            return Finding::lost(&shape.layout, place);
        }
        Finding { snapshot: told[pe].bad_snapshot, parity: told[pe].bad_parity }
    };
    (len as usize, (0..world.n_pes()).map(finding).collect())
}

fn of_group(shape: &Shape, findings: &[Finding]) -> Vec<Finding> {
    shape.members.iter().map(|&pe| findings[pe]).collect()
}

/// The plan's verdict over all groups; the same on every PE.
pub fn check(protection: &Protection, findings: &[Finding]) -> Result<(), Unrecoverable> {
    let keeps = protection.mode.keeps_snapshot();
    protection.shapes.iter().enumerate().try_for_each(|(group, shape)| {
        let found = of_group(shape, findings);
        plan::check(group, &shape.layout, &shape.members, &found, keeps)
    })
}

/// Makes the own snapshot of `target` whole. In a mode without snapshots the bytes are returned.
pub fn rebuild(
    world: &World,
    protection: &Protection,
    view: &View,
    findings: &[Finding],
    target: u64,
    len: usize,
    begun: Instant,
) -> Result<Option<Vec<u8>>, Changed> {
    let (shape, place) = protection.place(world.me());
    let own = findings[world.me()].snapshot & bits(shape.layout.chunks());
    let keeps = protection.mode.keeps_snapshot();
    let mut line = (!keeps).then(|| vec![0; tiles::tiles(len) * TILE]);
    if keeps && own == 0 {
        world.point(Point::Rebuild, target);
        if world.is_new() {
            world.report(Report::Adopted {
                pe: world.me() as u32,
                number: target,
                bytes: len as u64,
                micros: begun.elapsed().as_micros() as u64,
            });
        }
        return Ok(None);
    }
    let record = &world.segment().header().snapshot;
    if keeps {
        record.void();
    }
    let mut from = BTreeSet::new();
    let found = of_group(shape, findings);
    let job = Decode { world, protection, view, shape, found: &found, target, len };
    let wanted = || (0..shape.layout.chunks()).filter(|chunk| own >> chunk & 1 == 1);
    let all: usize = wanted().map(|chunk| job.tiles(chunk).len()).sum();
    let mut done = 0..all;
    for chunk in wanted() {
        job.chunk(place, chunk, &mut from, line.as_deref_mut(), &mut || {
            if done.next() == Some(all / 2) {
                world.point(Point::Rebuild, target);
            }
        })?;
    }
    if all == 0 {
        world.point(Point::Rebuild, target);
    }
    unchanged(world, view)?;
    if keeps {
        record.seal(world.job(), target, len);
    }
    if keeps || world.is_new() {
        world.report(Report::Rebuilt {
            pe: world.me() as u32,
            number: target,
            bytes: (all * TILE) as u64,
            from: from.into_iter().collect(),
            micros: begun.elapsed().as_micros() as u64,
        });
    }
    Ok(line)
}

struct Decode<'a> {
    world: &'a World,
    protection: &'a Protection,
    view: &'a View,
    shape: &'a Shape,
    found: &'a [Finding],
    target: u64,
    len: usize,
}

impl Decode<'_> {
    /// The tiles of a chunk of a snapshot; those beyond its end are no tiles.
    fn tiles(&self, chunk: usize) -> Range<usize> {
        let (per_chunk, end) = (self.shape.chunk_len(self.len) / TILE, tiles::tiles(self.len));
        (chunk * per_chunk).min(end)..((chunk + 1) * per_chunk).min(end)
    }

    /// Decodes one chunk of the own snapshot into the store, or into `line`. Calls `next` before
    /// each tile.
    fn chunk(
        &self,
        place: usize,
        chunk: usize,
        from: &mut BTreeSet<u32>,
        mut line: Option<&mut [u8]>,
        next: &mut dyn FnMut(),
    ) -> Result<(), Changed> {
        let at = self.shape.layout.place_of(place, chunk);
        let stripe = &self.shape.layout.stripes()[at.stripe];
        let lost = lost_shards(stripe, self.found);
        let plan = self.shape.codes[at.stripe].plan(&lost, at.index).expect("checked by the plan");
        let holders: Vec<usize> = stripe.holders().collect();
        from.extend(plan.sources().iter().map(|&shard| self.shape.members[holders[shard]] as u32));
        let own = self.tiles(chunk);
        let batches = (0..own.len()).step_by(pipeline::STEPS);
        let batches = batches.map(|from| from..own.len().min(from + pipeline::STEPS));
        let batches: Vec<Range<usize>> = batches.collect();
        let far = self.shape.members.iter().any(|&pe| self.world.is_far(pe));
        let rooms = || vec![vec![Room::empty(); plan.sources().len()]; pipeline::STEPS];
        let fetch = |steps: &Range<usize>, rooms: &mut Vec<Vec<Room>>| {
            self.map(plan.sources(), at.stripe, steps.clone(), own.start);
            self.pull(plan.sources(), at.stripe, steps.clone(), rooms);
        };
        pipeline::run(&batches, rooms, far, fetch, |steps, rooms| {
            for (step, rooms) in steps.clone().zip(rooms) {
                next();
                let shards = plan.sources().iter().zip(rooms);
                let sources = shards.map(|(&shard, room)| self.shard(at.stripe, shard, step, room));
                let sources = sources.collect::<Result<Vec<&[u8]>, Changed>>()?;
                let line = line.as_deref_mut();
                self.decode(own.start + step, line, |out, show| {
                    plan.apply_shown(&sources, out, show).expect("tiles are of one length");
                });
            }
            Ok(())
        })
    }

    /// Fills an own tile of the snapshot, or of `line`, with what `fill` writes and shows.
    fn decode(
        &self,
        tile: usize,
        line: Option<&mut [u8]>,
        fill: impl FnOnce(&mut [u8], &mut dyn FnMut(&[u8])),
    ) {
        match line {
            Some(line) => fill(&mut line[tile * TILE..(tile + 1) * TILE], &mut |_| ()),
            None => {
                let region = self.world.layout().snapshot;
                tiles::write(self.world, region, tile, self.target, |out, seal| {
                    fill(out, &mut |piece| seal.update(piece));
                });
            }
        }
    }

    /// Pulls the next tiles of shards that far PEs hold, as many steps as there are rooms for.
    fn pull(&self, sources: &[usize], stripe: usize, steps: Range<usize>, rooms: &mut [Vec<Room>]) {
        let per_chunk = self.shape.chunk_len(self.len) / TILE;
        let spot = |&shard: &usize| {
            let at = (stripe, shard);
            place_of(self.world, self.protection, self.shape, at, self.target)
        };
        let spots: Vec<(usize, usize, usize)> = sources.iter().map(spot).collect();
        let mut wanted = Vec::new();
        for (step, rooms) in steps.zip(rooms) {
            let tile = |&(pe, region, chunk): &_| (pe, region, chunk * per_chunk + step);
            wanted.extend(spots.iter().map(tile).zip(rooms));
        }
        tiles::pull_store(self.world, wanted.into_iter());
    }

    /// Maps the pages of tiles to be decoded, the own counted from `own`, and of what they are
    /// decoded from. A few at a time, behind the thread that touches fresh pages.
    fn map(&self, sources: &[usize], stripe: usize, steps: Range<usize>, own: usize) {
        let per_chunk = self.shape.chunk_len(self.len) / TILE;
        for &shard in sources {
            let at = (stripe, shard);
            let (pe, region, chunk) =
                place_of(self.world, self.protection, self.shape, at, self.target);
            let from = chunk * per_chunk;
            tiles::map_store(self.world, pe, region, from + steps.start..from + steps.end);
        }
        if self.protection.mode.keeps_snapshot() {
            let region = self.world.layout().snapshot;
            tiles::map_store(
                self.world,
                self.world.me(),
                region,
                own + steps.start..own + steps.end,
            );
        }
    }

    /// Tile `step` of a surviving shard, checked as it is read.
    fn shard<'a>(
        &'a self,
        stripe: usize,
        number: usize,
        step: usize,
        room: &'a mut Room,
    ) -> Result<&'a [u8], Changed> {
        let (at, target) = ((stripe, number, step), (self.target, self.len));
        let (pe, tile) = shard(self.world, self.protection, self.shape, at, target, room);
        if let Some(tile) = tile {
            return Ok(tile);
        }
        unchanged(self.world, self.view)?;
        self.world.spoiled(self.view, pe);
        Err(Changed)
    }
}

/// Tile `step` of a shard of a stripe as of checkpoint `number`, whose snapshots have `len` bytes,
/// and the PE that holds it; in `room` if that PE is far. None in place of the tile if that does
/// not hold.
pub fn shard<'a>(
    world: &'a World,
    protection: &Protection,
    shape: &Shape,
    (stripe, shard, step): (usize, usize, usize),
    (number, len): (u64, usize),
    room: &'a mut Room,
) -> (usize, Option<&'a [u8]>) {
    let per_chunk = shape.chunk_len(len) / TILE;
    let (pe, region, chunk) = place_of(world, protection, shape, (stripe, shard), number);
    let tile = chunk * per_chunk + step;
    if region == world.layout().snapshot && tile >= tiles::tiles(len) {
        return (pe, Some(&ZEROES));
    }
    (pe, tiles::fetch(world, pe, region, tile, number, room))
}

/// Where a shard of a stripe is kept as of checkpoint `number`: PE, region, chunk of the region.
fn place_of(
    world: &World,
    protection: &Protection,
    shape: &Shape,
    (stripe, shard): (usize, usize),
    number: u64,
) -> (usize, usize, usize) {
    let (stripe, layout) = (&shape.layout.stripes()[stripe], world.layout());
    let (member, region, chunk) = match stripe.data.get(shard) {
        Some(data) => (data.member, layout.snapshot, data.chunk),
        None => {
            let parity = stripe.parity[shard - stripe.data.len()];
            (parity.member, layout.slots[protection.slot_of(number)], parity.slot)
        }
    };
    (shape.members[member], region, chunk)
}

/// Puts live memory and the allocator back to checkpoint `target`.
pub fn restore(
    world: &World,
    protection: &Protection,
    line: Option<Vec<u8>>,
    target: u64,
    len: usize,
) -> Coverage {
    let own;
    let bytes: &[u8] = match &line {
        Some(line) => &line[..len],
        None => {
            own = world.segment().bytes(world.layout().snapshot, len);
            own
        }
    };
    let manifest = match Coverage::parse(world.layout(), bytes) {
        Ok(parsed) => parsed,
        Err(error) => world.condemn(&format!(
            "unrecoverable: the snapshot of checkpoint {target} does not explain itself: {error}"
        )),
    };
    if world.is_new() {
        tiles::map_live(world, &manifest.coverage);
    }
    let count = tiles::tiles(len);
    for tile in 0..count {
        if tile == count / 2 {
            world.point(Point::Restore, target);
        }
        tiles::restore(
            world,
            &manifest.coverage,
            tile,
            &bytes[tile * TILE..len.min((tile + 1) * TILE)],
        );
    }
    let coverage = manifest.coverage.clone();
    world.adopt(manifest);
    if !protection.mode.keeps_snapshot() {
        world.segment().header().snapshot.seal(world.job(), target, len);
    }
    coverage
}

/// Computes the parity this PE misses anew, from the live memory of all, which is at `target` now.
pub fn reencode(
    world: &World,
    protection: &Protection,
    view: &View,
    findings: &[Finding],
    coverage: &Coverage,
    target: u64,
) -> Result<(), Changed> {
    let missing = findings[world.me()].parity;
    let slot = protection.slot_of(target);
    let record = &world.segment().header().slots[slot];
    if missing != 0 {
        record.void();
        checkpoint::prepare(world, protection, coverage.len());
        checkpoint::ahead::look(world, protection, coverage);
    }
    let wanted = |index: usize| missing >> index & 1 == 1;
    checkpoint::encode(world, protection, coverage, target, &wanted, None, Point::Reencode);
    unchanged(world, view)?;
    record.seal(world.job(), target, coverage.len());
    checkpoint::account(world, protection, coverage.len());
    Ok(())
}
