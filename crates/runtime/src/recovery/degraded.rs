//! Degraded read: bytes of a PE's last checkpoint, decoded while that PE is lost and has no
//! substitute.
//!
//! ```text
//! line      position of the bytes in the PE's snapshot, by its manifest, decoded first and kept
//! batch     the remote sources of a few tiles, all fetched at once
//! tile      from its snapshot if the PE is alive, else decoded from its stripe; each is checked
//! ```
//!
//! No PE makes the next checkpoint while this one reads, because that takes all living PEs. So
//! everything read belongs to one checkpoint as long as its number stays the same. A PE that was
//! lost before the checkpoint is in none of its groups.
//!
//! Left out: the destination of the bytes, and the jobs that may ask for them.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use raidshmem_core::layout::TILE;
use raidshmem_core::quantity::{CheckpointNumber, Pe, TileIndex};
use raidshmem_core::store::coverage::{Coverage, LinePlaces};
use raidshmem_core::store::protection::Protection;
use raidshmem_sys::lock;

use super::decode::{ShardTile, Shards};
use crate::checkpoint::pipeline::STEPS;
use crate::checkpoint::tiles::{self, Scratch};
use crate::pgas::World;

/// The places of segment bytes in snapshots, by PE and checkpoint.
static KNOWN: Mutex<BTreeMap<(Pe, CheckpointNumber), Arc<LinePlaces>>> =
    Mutex::new(BTreeMap::new());

/// The snapshot of a PE as of a checkpoint.
struct Snapshot<'a> {
    shards: Shards<'a>,
    place: usize,
    /// True for members that are lost, by place.
    lost: Vec<bool>,
}

/// Passes `range` of a PE's segment as of the last checkpoint to `give`, piece by piece and in
/// order. Returns false if the checkpoint does not hold all of it, or more was lost than its parity
/// covers.
pub fn read(
    world: &World,
    protection: &Protection,
    pe: Pe,
    range: Range<usize>,
    mut give: impl FnMut(&[u8]),
) -> bool {
    let number = world.store.agreed();
    let header = world.segments.own().header();
    let record = &header.snapshots[protection.snapshot_of(number)];
    let Some(len) = record.holds(world.job(), number) else { return false };
    if !protection.holds(pe) {
        return false;
    }
    let (shape, place) = protection.place(pe);
    let lost = shape.members.iter().map(|&member| world.fewer.is_lost(member)).collect();
    let shards = Shards::of_checkpoint(world, protection, shape, (number, len));
    let snapshot = Snapshot { shards, place, lost };
    let Some(places) = snapshot.places(pe) else { return false };
    let held: usize = places.of(range.clone()).map(|part| part.len()).sum();
    let mut poller = Poller::new();
    held == range.len()
        && places.of(range).all(|part| snapshot.bytes(part, &mut poller, &mut give).is_some())
}

/// Scratch for tiles.
struct Poller {
    tile: Vec<u8>,
    /// Scratch for the remote sources of each tile of a batch.
    buffers: Vec<Vec<Scratch>>,
}

impl Poller {
    fn new() -> Poller {
        Poller { tile: vec![0; TILE], buffers: vec![Vec::new(); STEPS] }
    }
}

/// A tile of the PE's snapshot: its place in a stripe, and the lost shards of that stripe.
struct Wanted {
    tile: ShardTile,
    lost: Vec<bool>,
}

impl Snapshot<'_> {
    /// Returns the places of the PE's memory in the snapshot.
    fn places(&self, pe: Pe) -> Option<Arc<LinePlaces>> {
        let Shards { world, number, len, .. } = self.shards;
        let key = (pe, number);
        if let Some(places) = lock(&KNOWN).get(&key) {
            return Some(places.clone());
        }
        let (mut bytes, mut poller, first) = (Vec::new(), Poller::new(), TILE.min(len));
        self.bytes(0..first, &mut poller, &mut |piece| bytes.extend_from_slice(piece))?;
        let says = bytes.get(8..16).and_then(|at| at.try_into().ok()).map(u64::from_le_bytes)?;
        let all = usize::try_from(says).ok().filter(|&all| all <= len)?.max(first);
        self.bytes(first..all, &mut poller, &mut |piece| bytes.extend_from_slice(piece))?;
        let manifest = Coverage::parse(world.segments.layout(), &bytes).ok()?;
        let places = Arc::new(manifest.coverage.places());
        let mut known = lock(&KNOWN);
        known.retain(|(_, of), _| *of == number);
        known.insert(key, places.clone());
        Some(places)
    }

    /// Passes bytes of the snapshot to `give`, tile by tile.
    fn bytes(
        &self,
        range: Range<usize>,
        poller: &mut Poller,
        give: &mut dyn FnMut(&[u8]),
    ) -> Option<()> {
        let tiles: Vec<usize> = (range.start / TILE..range.end.div_ceil(TILE)).collect();
        for batch in tiles.chunks(STEPS) {
            let wanted = batch.iter().map(|&tile| self.wanted(TileIndex(tile)));
            let wanted: Vec<Wanted> = wanted.collect();
            self.pull(&wanted, &mut poller.buffers);
            for ((tile, wanted), buffers) in batch.iter().zip(wanted).zip(&mut poller.buffers) {
                self.tile(wanted, &mut poller.tile, buffers)?;
                let (begin, end) = (tile * TILE, (tile + 1) * TILE);
                let part = range.start.max(begin) - begin..range.end.min(end) - begin;
                give(&poller.tile[part]);
            }
        }
        Some(())
    }

    fn wanted(&self, tile: TileIndex) -> Wanted {
        let tile = self.shards.data(self.place, tile.at());
        let holders = self.shards.shape.layout.stripes()[tile.stripe].holders();
        let lost = holders.map(|member| self.lost[member]).collect();
        Wanted { tile, lost }
    }

    /// Returns the shards to read first for a tile: itself, or those from which it is decoded. None
    /// if too much is lost.
    fn sources(&self, Wanted { tile, lost }: &Wanted) -> Option<Vec<usize>> {
        if !lost[tile.shard] {
            return Some(vec![tile.shard]);
        }
        Some(self.shards.plan(*tile, lost)?.sources().to_vec())
    }

    /// Pulls the sources of a batch that remote PEs hold.
    fn pull(&self, batch: &[Wanted], buffers: &mut [Vec<Scratch>]) {
        let world = self.shards.world;
        if !world.comm.has_engine() {
            return;
        }
        let mut pulled = Vec::new();
        for (wanted, buffers) in batch.iter().zip(buffers) {
            let sources = self.sources(wanted).unwrap_or_default();
            buffers.resize(buffers.len().max(sources.len()), Scratch::empty());
            for (shard, buffer) in sources.into_iter().zip(buffers) {
                pulled.extend(self.shards.place(wanted.tile.of(shard)).map(|at| (at, buffer)));
            }
        }
        tiles::pull_store(world, pulled.into_iter());
    }

    /// Reads or decodes one tile; None if neither is possible. An invalid tile counts as lost.
    fn tile(
        &self,
        Wanted { tile, mut lost }: Wanted,
        out: &mut [u8],
        buffers: &mut Vec<Scratch>,
    ) -> Option<()> {
        if !lost[tile.shard] {
            buffers.resize(buffers.len().max(1), Scratch::empty());
            let mut own = self.shards.read(tile, &mut buffers[0]);
            own.see(own.bytes);
            out.copy_from_slice(own.bytes);
            if own.holds() {
                return Some(());
            }
            lost[tile.shard] = true;
        }
        self.shards.recover(tile, lost, buffers, out).map(drop)
    }
}
