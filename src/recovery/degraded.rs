//! Degraded read: bytes of a PE's last checkpoint, decoded where that PE is lost and nobody has
//! taken its place.
//!
//! ```text
//! line      where the bytes are in the PE's snapshot: its manifest says so, decoded first and kept
//! tile      from its snapshot if the PE lives, else from the others of its stripe; each is checked
//! ```
//!
//! The group of a lost PE makes no checkpoint any more, so what is read belongs to one checkpoint
//! as long as its number is the same.
//!
//! Left out: where the bytes go, and which jobs may ask.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use raidshmem_core::layout::TILE;
use raidshmem_core::quantity::{CheckpointNumber, Pe, TileIndex};
use raidshmem_core::store::coverage::{Coverage, LinePlaces};
use raidshmem_core::store::protection::{GroupLayout, Protection};
use raidshmem_sys::lock;

use super::rebuild::{ShardTile, reading};
use crate::checkpoint::tiles::{Reading, Room};
use crate::pgas::World;

/// Where bytes of segments are in their snapshots: of a PE and a checkpoint.
static KNOWN: Mutex<BTreeMap<(Pe, CheckpointNumber), Arc<LinePlaces>>> =
    Mutex::new(BTreeMap::new());

/// The snapshot of a PE as of a checkpoint.
struct Snapshot<'a> {
    world: &'a World,
    protection: &'a Protection,
    shape: &'a GroupLayout,
    place: usize,
    number: CheckpointNumber,
    /// Bytes of it: of all PEs as many.
    len: usize,
    /// Members that are lost, by place.
    lost: Vec<bool>,
}

/// Hands out `range` of a PE's segment as of the last checkpoint, piece by piece and in order.
/// False if the checkpoint does not hold all of it, or more was lost than its parity covers.
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
    let (shape, place) = protection.place(pe);
    let lost = shape.members.iter().map(|&member| world.fewer.is_lost(member)).collect();
    let snapshot = Snapshot { world, protection, shape, place, number, len, lost };
    let Some(places) = snapshot.places(pe) else { return false };
    let held: usize = places.of(range.clone()).map(|part| part.len()).sum();
    let mut desk = Desk::new();
    held == range.len()
        && places.of(range).all(|part| snapshot.bytes(part, &mut desk, &mut give).is_some())
}

/// Where tiles are made.
struct Desk {
    tile: Vec<u8>,
    /// For tiles of PEs that are far.
    rooms: Vec<Room>,
}

impl Desk {
    fn new() -> Desk {
        Desk { tile: vec![0; TILE], rooms: Vec::new() }
    }
}

impl Snapshot<'_> {
    /// Where the PE's memory is in it.
    fn places(&self, pe: Pe) -> Option<Arc<LinePlaces>> {
        let key = (pe, self.number);
        if let Some(places) = lock(&KNOWN).get(&key) {
            return Some(places.clone());
        }
        let (mut bytes, mut desk, first) = (Vec::new(), Desk::new(), TILE.min(self.len));
        self.bytes(0..first, &mut desk, &mut |piece| bytes.extend_from_slice(piece))?;
        let says = bytes.get(8..16).and_then(|at| at.try_into().ok()).map(u64::from_le_bytes)?;
        let all = usize::try_from(says).ok().filter(|&all| all <= self.len)?.max(first);
        self.bytes(first..all, &mut desk, &mut |piece| bytes.extend_from_slice(piece))?;
        let manifest = Coverage::parse(self.world.segments.layout(), &bytes).ok()?;
        let places = Arc::new(manifest.coverage.places());
        let mut known = lock(&KNOWN);
        known.retain(|(_, number), _| *number == self.number);
        known.insert(key, places.clone());
        Some(places)
    }

    /// Bytes of the snapshot, tile by tile.
    fn bytes(
        &self,
        range: Range<usize>,
        desk: &mut Desk,
        give: &mut dyn FnMut(&[u8]),
    ) -> Option<()> {
        let mut at = range.start;
        while at < range.end {
            let (tile, from) = (TileIndex(at / TILE), at % TILE);
            let count = (TILE - from).min(range.end - at);
            self.tile(tile, desk)?;
            give(&desk.tile[from..from + count]);
            at += count;
        }
        Some(())
    }

    /// One tile; None if it can neither be read nor be decoded. A tile that does not hold is taken
    /// for lost.
    fn tile(&self, tile: TileIndex, Desk { tile: out, rooms }: &mut Desk) -> Option<()> {
        let per_chunk = self.shape.chunk_len(self.len) / TILE;
        let at = self.shape.layout.place_of(self.place, tile.at() / per_chunk);
        let stripe = &self.shape.layout.stripes()[at.stripe];
        let mut lost: Vec<bool> = stripe.holders().map(|member| self.lost[member]).collect();
        let of = |shard| ShardTile { stripe: at.stripe, shard, step: tile.at() % per_chunk };
        if !lost[at.index] {
            rooms.resize(rooms.len().max(1), Room::empty());
            let mut own = self.reading(of(at.index), &mut rooms[0]);
            own.see(own.bytes);
            out.copy_from_slice(own.bytes);
            if own.holds() {
                return Some(());
            }
            lost[at.index] = true;
        }
        loop {
            let plan = self.shape.codes[at.stripe].plan(&lost, at.index).ok()?;
            rooms.resize(rooms.len().max(plan.sources().len()), Room::empty());
            let shards = plan.sources().iter().zip(&mut *rooms);
            let mut read: Vec<Reading> =
                shards.map(|(&shard, room)| self.reading(of(shard), room)).collect();
            let sources: Vec<&[u8]> = read.iter().map(|tile| tile.bytes).collect();
            let see = |nth: usize, piece: &[u8]| read[nth].see(piece);
            plan.apply_shown(&sources, out, see, |_| ()).expect("tiles are of one length");
            let mut read = plan.sources().iter().zip(read);
            match read.find_map(|(&shard, tile)| (!tile.holds()).then_some(shard)) {
                None => return Some(()),
                Some(bad) => lost[bad] = true,
            }
        }
    }

    fn reading<'a>(&'a self, tile: ShardTile, room: &'a mut Room) -> Reading<'a> {
        let of = (self.number, self.len);
        reading(self.world, self.protection, self.shape, tile, of, room).1
    }
}
