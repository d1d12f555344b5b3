//! Decoding a tile from the others of its stripe, wherever they are stored: where, [`Shards`] says.
//!
//! Each PE works on its own store and only reads its peers'.
//!
//! Invariant: a tile is sealed only if all that it was decoded from holds, which is checked on the
//! way.

#![forbid(unsafe_code)]

use std::sync::LazyLock;

use raidshmem_codec::code::Plan;
use raidshmem_codec::crc::XorChecksum;
use raidshmem_core::layout::{STAMP, TILE};
use raidshmem_core::quantity::{CheckpointNumber, Pe, TileIndex};
use raidshmem_core::store::protection::{GroupLayout, Protection};

use crate::checkpoint::tiles::{self, Reading, Room, StoreTile};
use crate::pgas::World;

/// How checksums of tiles add up.
static SUM: LazyLock<XorChecksum> = LazyLock::new(|| XorChecksum::new(TILE));

/// Which tile of a shard of a stripe.
#[derive(Debug, Clone, Copy)]
pub struct ShardTile {
    /// The stripe.
    pub stripe: usize,
    /// The shard of it: data first, then parity.
    pub shard: usize,
    /// The tile of that.
    pub step: usize,
}

impl ShardTile {
    /// That of another shard of the stripe.
    pub fn of(self, shard: usize) -> ShardTile {
        ShardTile { shard, ..self }
    }
}

/// Data and parity of a group, and where they are stored.
pub trait Shards: Sync {
    /// The job.
    fn world(&self) -> &World;

    /// The group.
    fn shape(&self) -> &GroupLayout;

    /// The checkpoint that the tiles are sealed as of.
    fn number(&self) -> CheckpointNumber;

    /// Where a tile is; None for zeroes, which are stored nowhere.
    fn place(&self, tile: ShardTile) -> Option<StoreTile>;

    /// The PE that has a shard.
    fn holder(&self, tile: ShardTile) -> Pe {
        let stripe = &self.shape().layout.stripes()[tile.stripe];
        let member = stripe.holders().nth(tile.shard).expect("a shard of the stripe");
        self.shape().members[member]
    }

    /// How a tile is decoded without those of the shards that are lost; None if these are too many.
    fn plan(&self, tile: ShardTile, lost: &[bool]) -> Option<Plan> {
        self.shape().codes[tile.stripe].plan(lost, tile.shard).ok()
    }

    /// A tile to be checked while it is used; in `room` if its PE is far.
    fn read<'a>(&'a self, tile: ShardTile, room: &'a mut Room) -> Reading<'a> {
        match self.place(tile) {
            Some(at) => tiles::read(self.world(), at, self.number(), room),
            None => Reading::zeroes(),
        }
    }

    /// Decodes a tile into `out`. The error is a shard whose tile does not hold.
    fn decode(
        &self,
        (tile, plan): (ShardTile, &Plan),
        rooms: &mut [Room],
        out: &mut [u8],
    ) -> Result<(), usize> {
        let mut read = readings(self, (tile, plan), rooms);
        apply(plan, &mut read, out, &mut |_| ());
        check(plan, read)
    }

    /// Decodes a tile into an own one of the store. The error is a shard whose tile does not hold.
    /// The stamp of a mere sum follows from what was seen of the sources, and so finds errors of
    /// adding, too.
    fn decode_into(
        &self,
        (tile, plan): (ShardTile, &Plan),
        rooms: &mut [Room],
        to: StoreTile,
    ) -> Result<(), usize> {
        let mut read = readings(self, (tile, plan), rooms);
        let is_sum = plan.coefficients().iter().all(|&factor| factor == 1);
        tiles::write(self.world(), to, self.number(), |out, seal| {
            if is_sum {
                apply(plan, &mut read, out, &mut |_| ());
                seal.update_sum(&SUM, read.iter().filter_map(Reading::seen));
            } else {
                apply(plan, &mut read, out, &mut |piece| seal.update(piece));
            }
        });
        let checked = check(plan, read);
        if checked.is_err() {
            tiles::set_stamp(self.world().segments, to.region, to.tile, &[0; STAMP]);
        }
        checked
    }

    /// Decodes a tile into `out` without the shards that are `lost`; one whose tile does not hold
    /// is taken for lost, too. The PEs that it was decoded from; None if too much is lost.
    fn recover(
        &self,
        tile: ShardTile,
        mut lost: Vec<bool>,
        rooms: &mut Vec<Room>,
        out: &mut [u8],
    ) -> Option<Vec<Pe>> {
        loop {
            let plan = self.plan(tile, &lost)?;
            rooms.resize(rooms.len().max(plan.sources().len()), Room::empty());
            match self.decode((tile, &plan), rooms, out) {
                Ok(()) => {
                    let holder = |&shard: &usize| self.holder(tile.of(shard));
                    return Some(plan.sources().iter().map(holder).collect());
                }
                Err(bad) => lost[bad] = true,
            }
        }
    }
}

/// What a tile is decoded from.
fn readings<'a>(
    shards: &'a (impl Shards + ?Sized),
    (tile, plan): (ShardTile, &Plan),
    rooms: &'a mut [Room],
) -> Vec<Reading<'a>> {
    let sources = plan.sources().iter().zip(rooms);
    sources.map(|(&shard, room)| shards.read(tile.of(shard), room)).collect()
}

/// Decodes from `read` into `out`, whose pieces are shown as they are made.
fn apply(plan: &Plan, read: &mut [Reading], out: &mut [u8], show: &mut dyn FnMut(&[u8])) {
    let sources: Vec<&[u8]> = read.iter().map(|tile| tile.bytes).collect();
    let see = |nth: usize, piece: &[u8]| read[nth].see(piece);
    plan.apply_shown(&sources, out, see, show).expect("tiles are of one length");
}

fn check(plan: &Plan, read: Vec<Reading>) -> Result<(), usize> {
    let mut read = plan.sources().iter().zip(read);
    match read.find_map(|(&shard, tile)| (!tile.holds()).then_some(shard)) {
        None => Ok(()),
        Some(bad) => Err(bad),
    }
}

/// Snapshots of a checkpoint, and the parity over them.
pub struct CheckpointShards<'a> {
    /// The job.
    pub world: &'a World,
    /// How it is protected.
    pub protection: &'a Protection,
    /// The group.
    pub shape: &'a GroupLayout,
    /// The checkpoint.
    pub number: CheckpointNumber,
    /// Bytes of each snapshot.
    pub len: usize,
}

impl CheckpointShards<'_> {
    /// Where a tile is, or would be that lies beyond the end of a snapshot.
    pub fn stored(&self, ShardTile { stripe, shard, step }: ShardTile) -> StoreTile {
        let (protection, layout) = (self.protection, self.world.segments.layout());
        let stripe = &self.shape.layout.stripes()[stripe];
        let (member, region, chunk) = match stripe.data.get(shard) {
            Some(data) => (data.member, protection.snapshot_at(layout, self.number), data.chunk),
            None => {
                let parity = stripe.parity[shard - stripe.data.len()];
                (parity.member, layout.slots[protection.slot_of(self.number)], parity.slot)
            }
        };
        let tile = chunk * self.per_chunk() + step;
        StoreTile { pe: self.shape.members[member], region, tile: TileIndex::of(tile) }
    }

    /// Tiles of a chunk.
    pub fn per_chunk(&self) -> usize {
        self.shape.chunk_len(self.len) / TILE
    }
}

impl Shards for CheckpointShards<'_> {
    fn world(&self) -> &World {
        self.world
    }

    fn shape(&self) -> &GroupLayout {
        self.shape
    }

    fn number(&self) -> CheckpointNumber {
        self.number
    }

    fn place(&self, tile: ShardTile) -> Option<StoreTile> {
        let at = self.stored(tile);
        let is_data = tile.shard < self.shape.layout.stripes()[tile.stripe].data.len();
        (!is_data || at.tile.at() < tiles::tiles(self.len)).then_some(at)
    }
}
