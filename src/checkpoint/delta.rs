//! Finding what changed since the last checkpoint, and telling the peers.
//!
//! A PE compares its live tiles with its snapshot the first time, and takes a digest of each on the
//! way; from then on the digests (XXH3, 128 bits) are compared and the snapshot is not read. It
//! shows the set in its store, and who protects a tile looks at it after the barrier that follows.
//!
//! Invariant: what is taken from the history comes back only when the checkpoint is agreed.
//!
//! Left out: the kernel's page tables as a witness of what was written. They see no write that
//! comes from another process, or from a network card.

#![forbid(unsafe_code)]

use twox_hash::XxHash3_128;

use super::tiles;
use crate::pgas::World;
use crate::pgas::world::lock;
use crate::segment::layout::TILE;
use crate::store::coverage::Coverage;
use crate::store::delta::{History, Next, TileSet, next, pays};
use crate::store::protection::Protection;

/// What is known of the changes since the last checkpoint, while the next is made.
#[derive(Debug)]
pub struct Changes {
    /// The own tiles that are not as they were.
    pub own: TileSet,
    /// The last checkpoint, if this process saw it agreed and it covered as many bytes.
    pub before: Option<History>,
    digests: Vec<u128>,
    /// Changed tiles of the own snapshot that the copy came upon, where no look was taken.
    pub seen: usize,
    /// Tiles of the own parity computed anew.
    pub made: TileSet,
    slots: usize,
}

/// Finds the own tiles that changed since checkpoint `number - 1` and shows them to the peers.
pub fn compare(
    world: &World,
    protection: &Protection,
    coverage: &Coverage,
    number: u64,
) -> Changes {
    let history = lock(&world.history).take();
    let before = history.filter(|h| h.number + 1 == number && h.len == coverage.len());
    let count = tiles::tiles(coverage.len());
    let looks = |h: &&History| pays(world.settings().delta, h.changed, count);
    let (own, digests) = match before.as_ref().filter(looks) {
        Some(before) if protection.mode.keeps_snapshot() => look(world, coverage, &before.digests),
        _ => (TileSet::all(count), Vec::new()),
    };
    tiles::show_changes(world, &own);
    let (shape, place) = protection.place(world.me());
    let held = shape.layout.parities_of(place).len() * shape.chunk_len(coverage.len()) / TILE;
    let (made, slots) = (TileSet::none(held), protection.mode.slots());
    Changes { own, before, digests, seen: 0, made, slots }
}

/// The live tiles that are not as in the snapshot, and the digests of all.
fn look(world: &World, coverage: &Coverage, before: &[u128]) -> (TileSet, Vec<u128>) {
    let count = tiles::tiles(coverage.len());
    let (mut changed, mut digests) = (TileSet::none(count), Vec::with_capacity(count));
    let mut scratch = vec![0; TILE];
    for tile in 0..count {
        let bytes = tiles::live(world, world.me(), coverage, tile, &mut scratch);
        let digest = XxHash3_128::oneshot_with_seed(world.job(), bytes);
        let same = match before.get(tile) {
            Some(&before) => before == digest,
            None => bytes == tiles::snapshot(world, tile),
        };
        if !same {
            changed.insert(tile);
        }
        digests.push(digest);
    }
    (changed, digests)
}

impl Changes {
    /// What to do with tile `tile` of the own parity, of whose sources one `changed` or none.
    pub fn next(&self, tile: usize, changed: bool) -> Next {
        next(self.slots, changed, self.before.as_ref().map(|before| before.parity.contains(tile)))
    }

    /// The checkpoint is agreed: what the next one may build on.
    pub fn keep(self, world: &World, number: u64, len: usize) {
        let looked = !self.digests.is_empty();
        let changed = if looked { self.own.count() } else { self.seen };
        let (digests, parity) = (self.digests, self.made);
        *lock(&world.history) = Some(History { number, len, digests, parity, changed });
    }
}
