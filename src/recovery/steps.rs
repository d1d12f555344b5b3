//! The steps of a recovery that move bytes: verify, rebuild, restore, re-encode.
//!
//! Each PE works on its own store and its own live memory and only reads its peers'.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::plan::{self, Finding, Unrecoverable, bits, lost_shards};
use crate::control::message::Report;
use crate::pgas::World;
use crate::segment::layout::TILE;
use crate::store::checkpoint;
use crate::store::coverage::Coverage;
use crate::store::protection::{Protection, Shape};
use crate::store::tiles::{self, ZEROES};

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
        let bad = |chunk: &usize| {
            let end = ((chunk + 1) * per_chunk).min(tiles::tiles(len));
            let region = world.layout().snapshot;
            !(chunk * per_chunk..end).all(|tile| tiles::holds(world, region, tile, target))
        };
        found.snapshot = mask((0..shape.layout.chunks()).filter(bad));
    }
    if let Some(len) = parity {
        let per_chunk = shape.chunk_len(len) / TILE;
        let bad = |chunk: &usize| {
            let region = world.layout().slots[slot];
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
    let words = |pe: usize| &world.peer(pe).words().findings;
    let len = (0..world.n_pes())
        .map(|pe| words(pe).len.load(Ordering::SeqCst))
        .find(|&len| len != 0)
        .unwrap_or(0);
    let finding = |pe: usize| {
        let (shape, place) = protection.place(pe);
        if words(pe).len.load(Ordering::SeqCst) != len {
            return Finding::lost(&shape.layout, place);
        }
        Finding {
            snapshot: words(pe).snapshot.load(Ordering::SeqCst),
            parity: words(pe).parity.load(Ordering::SeqCst),
        }
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
    findings: &[Finding],
    target: u64,
    len: usize,
    begun: Instant,
) -> Result<Option<Vec<u8>>, SourceLost> {
    let (shape, place) = protection.place(world.me());
    let own = findings[world.me()].snapshot & bits(shape.layout.chunks());
    let keeps = protection.mode.keeps_snapshot();
    let mut line = (!keeps).then(|| vec![0; tiles::tiles(len) * TILE]);
    if keeps && own == 0 {
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
    let mut bytes = 0;
    for chunk in (0..shape.layout.chunks()).filter(|chunk| own >> chunk & 1 == 1) {
        let found = of_group(shape, findings);
        let job = Decode { world, protection, shape, found: &found, target, len };
        bytes += job.chunk(place, chunk, &mut from, line.as_deref_mut())?;
    }
    if keeps {
        record.seal(world.job(), target, len);
    }
    if keeps || world.is_new() {
        world.report(Report::Rebuilt {
            pe: world.me() as u32,
            number: target,
            bytes: bytes as u64,
            from: from.into_iter().collect(),
            micros: begun.elapsed().as_micros() as u64,
        });
    }
    Ok(line)
}

/// A tile that held when its owner verified it does not hold when it is read.
#[derive(Debug, thiserror::Error)]
#[error("a tile of PE {0} that held a moment ago does not hold any more")]
pub struct SourceLost(usize);

struct Decode<'a> {
    world: &'a World,
    protection: &'a Protection,
    shape: &'a Shape,
    found: &'a [Finding],
    target: u64,
    len: usize,
}

impl Decode<'_> {
    /// Decodes one chunk of the own snapshot into the store, or into `line`. Returns its bytes.
    fn chunk(
        &self,
        place: usize,
        chunk: usize,
        from: &mut BTreeSet<u32>,
        mut line: Option<&mut [u8]>,
    ) -> Result<usize, SourceLost> {
        let at = self.shape.layout.place_of(place, chunk);
        let stripe = &self.shape.layout.stripes()[at.stripe];
        let lost = lost_shards(stripe, self.found);
        let plan = self.shape.codes[at.stripe].plan(&lost, at.index).expect("checked by the plan");
        let holders: Vec<usize> = stripe.holders().collect();
        from.extend(plan.sources().iter().map(|&shard| self.shape.members[holders[shard]] as u32));
        let per_chunk = self.shape.chunk_len(self.len) / TILE;
        let first = chunk * per_chunk;
        let end = (first + per_chunk).min(tiles::tiles(self.len));
        for tile in first..end {
            let step = tile - first;
            let sources: Vec<&[u8]> = plan
                .sources()
                .iter()
                .map(|&shard| self.shard(at.stripe, shard, step))
                .collect::<Result<_, _>>()?;
            match &mut line {
                Some(line) => {
                    let out = &mut line[tile * TILE..(tile + 1) * TILE];
                    plan.apply(&sources, out).expect("tiles are of one length");
                }
                None => {
                    let region = self.world.layout().snapshot;
                    let out = tiles::own_tile(self.world, region, tile);
                    plan.apply(&sources, out).expect("tiles are of one length");
                    tiles::seal(self.world, region, tile, self.target);
                }
            }
        }
        Ok(end.saturating_sub(first) * TILE)
    }

    /// Tile `step` of a surviving shard, checked as it is read.
    fn shard(&self, stripe: usize, shard: usize, step: usize) -> Result<&[u8], SourceLost> {
        let per_chunk = self.shape.chunk_len(self.len) / TILE;
        let stripe = &self.shape.layout.stripes()[stripe];
        let layout = self.world.layout();
        let (member, region, tile) = match stripe.data.get(shard) {
            Some(data) => (data.member, layout.snapshot, data.chunk * per_chunk + step),
            None => {
                let parity = stripe.parity[shard - stripe.data.len()];
                let slot = layout.slots[self.protection.slot_of(self.target)];
                (parity.member, slot, parity.slot * per_chunk + step)
            }
        };
        if region == layout.snapshot && tile >= tiles::tiles(self.len) {
            return Ok(&ZEROES);
        }
        let pe = self.shape.members[member];
        tiles::fetch(self.world, pe, region, tile, self.target).ok_or(SourceLost(pe))
    }
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
    let (coverage, heap, private) = match Coverage::parse(world.layout(), bytes) {
        Ok(parsed) => parsed,
        Err(error) => world.condemn(&format!(
            "unrecoverable: the snapshot of checkpoint {target} does not explain itself: {error}"
        )),
    };
    for tile in 0..tiles::tiles(len) {
        tiles::restore(world, &coverage, tile, &bytes[tile * TILE..len.min((tile + 1) * TILE)]);
    }
    world.adopt(heap, coverage.clone(), private);
    if !protection.mode.keeps_snapshot() {
        world.segment().header().snapshot.seal(world.job(), target, len);
    }
    coverage
}

/// Computes the parity this PE misses anew, from the live memory of all, which is at `target` now.
/// The caller seals the slot once it knows that nobody was lost meanwhile.
pub fn reencode(
    world: &World,
    protection: &Protection,
    findings: &[Finding],
    coverage: &Coverage,
    target: u64,
) {
    let missing = findings[world.me()].parity;
    let slot = protection.slot_of(target);
    let record = &world.segment().header().slots[slot];
    if missing != 0 {
        record.void();
        let wanted = |index: usize| missing >> index & 1 == 1;
        checkpoint::encode(world, protection, coverage, target, &wanted, false);
    }
    checkpoint::account(world, protection, coverage.len());
}
