//! Decoding of a tile from the others of its stripe, which [`Shards`] locates.
//!
//! Each PE works on its own store and only reads its peers'.
//!
//! Invariant: a tile is sealed only if all sources of its decoding are valid, which is checked on
//! the way.

#![forbid(unsafe_code)]

use std::sync::LazyLock;

use raidshmem_codec::code::DecodePlan;
use raidshmem_codec::crc::XorChecksum;
use raidshmem_core::layout::{STAMP, TILE};
use raidshmem_core::quantity::{CheckpointNumber, Pe, TileIndex};
use raidshmem_core::store::protection::{GroupLayout, Protection};
use raidshmem_core::store::readonly::TileRun;

use crate::checkpoint::tiles::{self, Reading, Scratch, StoreTile};
use crate::pgas::World;

/// The rule by which checksums of tiles add up.
static SUM: LazyLock<XorChecksum> = LazyLock::new(|| XorChecksum::new(TILE));

/// A tile of a shard of a stripe.
#[derive(Debug, Clone, Copy)]
pub struct ShardTile {
    /// The stripe.
    pub stripe: usize,
    /// The shard in the stripe: data first, then parity.
    pub shard: usize,
    /// The tile in the shard.
    pub step: usize,
}

impl ShardTile {
    /// Returns the same tile of another shard of the stripe.
    pub fn of(self, shard: usize) -> ShardTile {
        ShardTile { shard, ..self }
    }
}

/// Data and parity of a group with their places: of a checkpoint, or of a read-only range.
pub struct Shards<'a> {
    /// The job.
    pub world: &'a World,
    /// The group.
    pub shape: &'a GroupLayout,
    /// The checkpoint of the tiles' seals.
    pub number: CheckpointNumber,
    /// Bytes of data of each member.
    pub len: usize,
    /// The place of each member's data, and that of parity.
    pub runs: (Vec<TileRun>, TileRun),
}

impl<'a> Shards<'a> {
    /// Returns the snapshots of checkpoint `number`, `len` bytes each, and the parity over them.
    pub fn of_checkpoint(
        world: &'a World,
        protection: &Protection,
        shape: &'a GroupLayout,
        (number, len): (CheckpointNumber, usize),
    ) -> Shards<'a> {
        let layout = world.segments.layout();
        let run = |region| TileRun { region, first: TileIndex(0) };
        let snapshot = run(protection.snapshot_at(layout, number));
        let slot = run(layout.slots[protection.slot_of(number)]);
        Shards { world, shape, number, len, runs: (vec![snapshot; shape.members.len()], slot) }
    }

    /// Returns the number of tiles of a chunk.
    pub fn per_chunk(&self) -> usize {
        self.shape.chunk_len(self.len) / TILE
    }

    /// Returns tile `nth` of the data of the member at `place`.
    pub fn data(&self, place: usize, nth: usize) -> ShardTile {
        let at = self.shape.layout.place_of(place, nth / self.per_chunk());
        ShardTile { stripe: at.stripe, shard: at.index, step: nth % self.per_chunk() }
    }

    /// Returns tile `nth` of the parity of the member at `place`; None beyond its end.
    pub fn parity(&self, place: usize, nth: usize) -> Option<ShardTile> {
        let layout = &self.shape.layout;
        let parity = layout.parities_of(place).get(nth / self.per_chunk())?;
        let shard = layout.stripes()[parity.stripe].data.len() + parity.row;
        Some(ShardTile { stripe: parity.stripe, shard, step: nth % self.per_chunk() })
    }

    /// Returns the place of a tile, even if it lies beyond the end of the data.
    pub fn stored(&self, ShardTile { stripe, shard, step }: ShardTile) -> StoreTile {
        let stripe = &self.shape.layout.stripes()[stripe];
        let (member, run, chunk) = match stripe.data.get(shard) {
            Some(data) => (data.member, self.runs.0[data.member], data.chunk),
            None => {
                let parity = stripe.parity[shard - stripe.data.len()];
                (parity.member, self.runs.1, parity.slot)
            }
        };
        let tile = run.first.after(chunk * self.per_chunk() + step);
        StoreTile { pe: self.shape.members[member], region: run.region, tile }
    }

    /// Returns the place of a tile; None for zeroes, which are not stored.
    pub fn place(&self, tile: ShardTile) -> Option<StoreTile> {
        let data = self.shape.layout.stripes()[tile.stripe].data.get(tile.shard);
        let nth = data.map(|data| data.chunk * self.per_chunk() + tile.step);
        let is_beyond = nth.is_some_and(|nth| nth >= tiles::tiles(self.len));
        (!is_beyond).then(|| self.stored(tile))
    }

    /// Returns the PE that has a shard.
    pub fn holder(&self, tile: ShardTile) -> Pe {
        self.stored(tile).pe
    }

    /// Returns the plan for decoding a tile without the lost shards; None if these are too many.
    pub fn plan(&self, tile: ShardTile, lost: &[bool]) -> Option<DecodePlan> {
        self.shape.codes[tile.stripe].plan(lost, tile.shard).ok()
    }

    /// Begins to read a tile, to be checked while it is used; into `buffer` if its PE is remote.
    pub fn read<'r>(&'r self, tile: ShardTile, buffer: &'r mut Scratch) -> Reading<'r> {
        match self.place(tile) {
            Some(at) => tiles::read(self.world, at, self.number, buffer),
            None => Reading::zeroes(),
        }
    }

    /// Decodes a tile into `out`. The error is a shard with an invalid tile.
    pub fn decode(
        &self,
        (tile, plan): (ShardTile, &DecodePlan),
        buffers: &mut [Scratch],
        out: &mut [u8],
    ) -> Result<(), usize> {
        let mut read = self.sources((tile, plan), buffers);
        apply(plan, &mut read, out, &mut |_| ());
        check(plan, read)
    }

    /// Decodes an own tile into the store. The error is a shard with an invalid tile. If the tile
    /// is a plain sum, its stamp is derived from the checksums of the sources, and so exposes
    /// errors of the addition too.
    pub fn decode_into(
        &self,
        (tile, plan): (ShardTile, &DecodePlan),
        buffers: &mut [Scratch],
    ) -> Result<(), usize> {
        let to = self.stored(tile);
        let mut read = self.sources((tile, plan), buffers);
        let is_sum = plan.coefficients().iter().all(|&factor| factor == 1);
        tiles::write(self.world, to, self.number, |out, seal| {
            if is_sum {
                apply(plan, &mut read, out, &mut |_| ());
                seal.update_sum(&SUM, read.iter().filter_map(Reading::seen));
            } else {
                apply(plan, &mut read, out, &mut |piece| seal.update(piece));
            }
        });
        let checked = check(plan, read);
        if checked.is_err() {
            tiles::set_stamp(self.world.segments, to.region, to.tile, &[0; STAMP]);
        }
        checked
    }

    /// Decodes a tile into `out` without the shards that are `lost`; one with an invalid tile
    /// counts as lost too. Returns the PEs that it was decoded from; None if too much is lost.
    pub fn recover(
        &self,
        tile: ShardTile,
        mut lost: Vec<bool>,
        buffers: &mut Vec<Scratch>,
        out: &mut [u8],
    ) -> Option<Vec<Pe>> {
        loop {
            let plan = self.plan(tile, &lost)?;
            buffers.resize(buffers.len().max(plan.sources().len()), Scratch::empty());
            match self.decode((tile, &plan), buffers, out) {
                Ok(()) => {
                    let holder = |&shard: &usize| self.holder(tile.of(shard));
                    return Some(plan.sources().iter().map(holder).collect());
                }
                Err(bad) => lost[bad] = true,
            }
        }
    }
    /// Returns the tiles from which a tile is decoded.
    fn sources<'r>(
        &'r self,
        (tile, plan): (ShardTile, &DecodePlan),
        buffers: &'r mut [Scratch],
    ) -> Vec<Reading<'r>> {
        let sources = plan.sources().iter().zip(buffers);
        sources.map(|(&shard, buffer)| self.read(tile.of(shard), buffer)).collect()
    }
}

/// Decodes from `read` into `out`, and passes each piece to `show` as it is made.
fn apply(plan: &DecodePlan, read: &mut [Reading], out: &mut [u8], show: &mut dyn FnMut(&[u8])) {
    let sources: Vec<&[u8]> = read.iter().map(|tile| tile.bytes).collect();
    let see = |nth: usize, piece: &[u8]| read[nth].see(piece);
    plan.apply_shown(&sources, out, see, show).expect("tiles are of one length");
}

fn check(plan: &DecodePlan, read: Vec<Reading>) -> Result<(), usize> {
    let mut read = plan.sources().iter().zip(read);
    match read.find_map(|(&shard, tile)| (!tile.holds()).then_some(shard)) {
        None => Ok(()),
        Some(bad) => Err(bad),
    }
}
