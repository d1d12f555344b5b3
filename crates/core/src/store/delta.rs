//! Change detection between two checkpoints, tile by tile, and the work that it saves the next one.
//!
//! A snapshot tile that did not change is not copied again; a parity tile none of whose sources
//! changed is not recomputed. Such a tile only gets a new stamp ([`super::stamp`]), so that all
//! valid tiles carry the number of the checkpoint they belong to. If few sources of a parity tile
//! changed, it is updated from its old value and the old and new values of those sources.
//!
//! A parity slot holds the checkpoint before the last one, or, if there is only one slot, the last
//! one; [`next`] derives the step for a tile from that, for snapshots as well. A process remembers
//! earlier checkpoints only in its own memory ([`History`]). That memory is lost with the process,
//! and every recovery discards it; the next checkpoint is then a full one. While a checkpoint is
//! being made, the history is part of [`Changes`].
//!
//! A PE finds changes by comparing tiles, or knows them from the pages that were written
//! ([`super::track`]); in the second case every written tile counts as changed, regardless of
//! content.
//!
//! Invariant: a choice made here by one PE does not bind any other. A PE that has nothing to
//! compare with reports all of its tiles as changed.

use twox_hash::XxHash3_128;

use crate::message::FoundBy;
use crate::mutant::{Mutant, breaks};
use crate::quantity::{CheckpointNumber, TileIndex};
use crate::settings::Delta;

/// A set of tiles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TileSet {
    bits: Vec<u8>,
}

impl TileSet {
    /// Returns an empty set with space for `count` tiles.
    pub fn none(count: usize) -> TileSet {
        TileSet { bits: vec![0; count.div_ceil(8)] }
    }

    /// Returns the set of the first `count` tiles.
    pub fn all(count: usize) -> TileSet {
        let mut all = TileSet { bits: vec![u8::MAX; count.div_ceil(8)] };
        if let Some(last) = all.bits.last_mut().filter(|_| !count.is_multiple_of(8)) {
            *last = (1 << (count % 8)) - 1;
        }
        all
    }

    /// Restores a set from [`TileSet::bytes`].
    pub fn from_bytes(bytes: &[u8]) -> TileSet {
        TileSet { bits: bytes.to_vec() }
    }

    /// Returns one bit per tile, the lowest first.
    pub fn bytes(&self) -> &[u8] {
        &self.bits
    }

    /// Adds a tile within the capacity of the set.
    pub fn insert(&mut self, tile: TileIndex) {
        self.bits[tile.at() / 8] |= 1 << (tile.at() % 8);
    }

    /// True if the set contains `tile`; false for tiles beyond its capacity.
    pub fn contains(&self, tile: TileIndex) -> bool {
        self.bits.get(tile.at() / 8).is_some_and(|bits| bits >> (tile.at() % 8) & 1 == 1)
    }

    /// Adds all tiles of `other`, whose capacity is at most that of `self`.
    pub fn add(&mut self, other: &TileSet) {
        self.bits.iter_mut().zip(&other.bits).for_each(|(bits, more)| *bits |= more);
    }

    /// Returns the number of tiles in the set.
    pub fn count(&self) -> usize {
        self.bits.iter().map(|bits| bits.count_ones() as usize).sum()
    }
}

/// The data that a process remembers of the last checkpoint, which it saw agreed.
#[derive(Debug)]
pub struct History {
    /// Number of the checkpoint.
    pub number: CheckpointNumber,
    /// Bytes of its snapshot.
    pub len: usize,
    /// Digests of the live tiles at the checkpoint; empty if it computed no digests.
    pub digests: Vec<u128>,
    /// The PE's tiles that may differ from those of the checkpoint before.
    pub own: TileSet,
    /// The PE's parity tiles that differ from those of the checkpoint before.
    pub parity: TileSet,
    /// Number of changed tiles in the PE's snapshot, as far as known.
    pub changed: usize,
}

/// The result of checking one tile.
#[derive(Debug, Clone, Copy, Default)]
pub struct Look {
    digest: u128,
    changed: bool,
}

/// Sizes of a PE's store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreCounts {
    /// Tiles of a snapshot.
    pub tiles: usize,
    /// Parity tiles in a slot.
    pub parity: usize,
    /// Number of snapshots.
    pub snapshots: usize,
    /// Number of parity slots.
    pub slots: usize,
}

/// The known changes since the last checkpoint, while the next one is being made.
#[derive(Debug)]
pub struct Changes {
    /// The PE's tiles that may have changed.
    pub own: TileSet,
    /// Method that found them; None if nothing was checked, so that all tiles count as changed.
    pub by: Option<FoundBy>,
    /// Number of tiles.
    pub tiles: usize,
    /// The last checkpoint, if this process saw it agreed and it covered the same number of bytes.
    before: Option<History>,
    digests: Vec<u128>,
    /// Number of changed tiles that the copy found in the PE's snapshot, if tiles were not checked
    /// before.
    pub seen: usize,
    /// The PE's parity tiles that were recomputed.
    pub made: TileSet,
    snapshots: usize,
    slots: usize,
}

impl Changes {
    /// Starts checkpoint `number` of `len` bytes with the `history` of an earlier one. All of the
    /// PE's tiles count as changed at first.
    pub fn since(
        history: Option<History>,
        (number, len): (CheckpointNumber, usize),
        counts: StoreCounts,
    ) -> Changes {
        let StoreCounts { tiles, parity, snapshots, slots } = counts;
        let before = history.filter(|h| h.number.next() == number && h.len == len);
        let (own, made) = (TileSet::all(tiles), TileSet::none(parity));
        let (by, digests) = (None, Vec::new());
        Changes { own, by, tiles, before, digests, seen: 0, made, snapshots, slots }
    }

    /// Takes the tiles in `written` as the PE's changed tiles, if there is a last checkpoint to
    /// build on.
    pub fn know(&mut self, written: TileSet) {
        if self.before.is_some() {
            (self.own, self.by) = (written, Some(FoundBy::Pages));
        }
    }

    /// True if checking which of the PE's `tiles` tiles changed pays off. The caller must then pass
    /// each tile to [`Changes::look`], and the result to [`Changes::note`].
    pub fn looks(&mut self, delta: Delta, tiles: usize) -> bool {
        let looks = self.before.as_ref().is_some_and(|h| pays(delta, h.changed, tiles));
        if looks {
            self.by = Some(FoundBy::Digests);
            self.own = TileSet::none(tiles);
            self.digests.reserve(tiles);
        }
        looks
    }

    /// Compares a tile's current `bytes` with the last checkpoint: with the digest recorded then,
    /// or otherwise with the snapshot tile that `was` returns. `job` seeds the digests.
    pub fn look<'a>(
        &self,
        job: u64,
        tile: TileIndex,
        bytes: &[u8],
        was: impl FnOnce() -> &'a [u8],
    ) -> Look {
        let digest = XxHash3_128::oneshot_with_seed(job, bytes);
        let changed = match self.before.as_ref().and_then(|before| before.digests.get(tile.at())) {
            Some(&before) => before != digest,
            None => bytes != was(),
        };
        Look { digest, changed }
    }

    /// Records the result for the next tile. The caller must record all tiles, in order.
    pub fn note(&mut self, look: Look) {
        if look.changed {
            self.own.insert(TileIndex::of(self.digests.len()));
        }
        self.digests.push(look.digest);
    }

    /// Returns the step for tile `tile` of the PE's parity, which has these sources.
    pub fn next(&self, tile: TileIndex, sources: SourceCount) -> TileStep {
        next(self.slots, sources, self.before.as_ref().map(|before| before.parity.contains(tile)))
    }

    /// Returns the step for tile `tile` of the PE's snapshot, whose only source is the live tile.
    pub fn next_own(&self, tile: TileIndex) -> TileStep {
        let changed = usize::from(self.own.contains(tile));
        let before = self.before.as_ref().map(|before| before.own.contains(tile));
        next(self.snapshots, SourceCount { changed, all: 1 }, before)
    }

    /// Converts the changes into the history for the next checkpoint, once this checkpoint is
    /// agreed.
    pub fn agreed(self, number: CheckpointNumber, len: usize) -> History {
        let looked = self.by.is_some();
        let changed = if looked { self.own.count() } else { self.seen };
        let Changes { own, made: parity, digests, .. } = self;
        History { number, len, digests, own, parity, changed }
    }
}

/// The step that brings a parity or snapshot tile up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TileStep {
    /// Keep the tile, with a new stamp.
    Keep,
    /// Copy it from the other slot or snapshot.
    Carry,
    /// Compute it from the other slot's tile and the old and new values of the changed sources.
    Update,
    /// Recompute it from all sources.
    Make,
}

/// The number of sources of a parity tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceCount {
    /// Sources that changed.
    pub changed: usize,
    /// All sources.
    pub all: usize,
}

/// Returns the step for a parity tile in one of `slots` slots; `before` is true if the last
/// checkpoint changed the tile, None if unknown. An update reads the tile, and each changed source
/// twice; it is chosen if that is less than reading all sources.
pub fn next(slots: usize, sources: SourceCount, before: Option<bool>) -> TileStep {
    let SourceCount { changed, all } = sources;
    match (changed, slots, before) {
        (0, 1, Some(_)) | (0, _, Some(false)) => TileStep::Keep,
        (0, _, Some(true)) if breaks(Mutant::KeptThoughChanged) => TileStep::Keep,
        (0, _, Some(true)) => TileStep::Carry,
        (_, 2, Some(_)) if 1 + 2 * changed < all => TileStep::Update,
        _ => TileStep::Make,
    }
}

/// True if checking for changes pays off: always or never by setting, in `auto` if less than a
/// quarter of `tiles` changed with the last checkpoint.
pub fn pays(delta: Delta, changed: usize, tiles: usize) -> bool {
    match delta {
        Delta::On => true,
        Delta::Off => false,
        Delta::Auto => changed < tiles / 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_into_it() {
        for count in [0, 1, 7, 8, 9, 64, 100] {
            let (mut set, all) = (TileSet::none(count), TileSet::all(count));
            assert_eq!((set.count(), all.count()), (0, count));
            for tile in (0..count).step_by(3) {
                set.insert(TileIndex::of(tile));
            }
            for tile in 0..count + 20 {
                assert_eq!(set.contains(TileIndex::of(tile)), tile < count && tile % 3 == 0);
                assert_eq!(all.contains(TileIndex::of(tile)), tile < count);
            }
            assert_eq!(TileSet::from_bytes(set.bytes()), set);
        }
    }

    /// In every pattern of changes, a tile that is kept or carried has the right content.
    #[test]
    fn a_slot_never_keeps_stale_parity() {
        for (slots, sources) in [(1, 7), (2, 3), (2, 7), (1, 1), (2, 1)] {
            for pattern in 0u32..1 << 12 {
                // The content of a tile is the number of the checkpoint that changed it last.
                let (mut held, mut content, mut before) = (vec![0u64; slots], 0, None);
                for number in 1..=6u64 {
                    let bits = pattern >> ((number - 1) * 2);
                    let (changed, forgotten) = (bits & 1 == 1, bits & 2 == 2);
                    let known = before.filter(|_| !forgotten);
                    let last = content;
                    content = if changed { number } else { content };
                    let (slot, other) = (number as usize % slots, (number as usize - 1) % slots);
                    let next = next(
                        slots,
                        SourceCount {
                            changed: usize::from(changed || known.is_none()),
                            all: sources,
                        },
                        known,
                    );
                    held[slot] = match next {
                        TileStep::Keep => held[slot],
                        TileStep::Carry => held[other],
                        TileStep::Update => held[other] ^ last ^ content,
                        TileStep::Make => content,
                    };
                    assert_eq!(held[slot], content, "{slots} {pattern:b} {number}");
                    before = Some(matches!(next, TileStep::Update | TileStep::Make));
                }
            }
        }
    }

    #[test]
    fn parity_is_updated_where_that_reads_less() {
        let next = |changed, sources| next(2, SourceCount { changed, all: sources }, Some(true));
        assert_eq!([next(1, 3), next(1, 4), next(3, 7), next(3, 8)], {
            [TileStep::Make, TileStep::Update, TileStep::Make, TileStep::Update]
        });
        assert_eq!(super::next(2, SourceCount { changed: 1, all: 9 }, None), TileStep::Make);
    }

    #[test]
    fn looking_pays_where_little_changes_or_where_it_is_asked_for() {
        assert!(pays(Delta::On, 100, 100) && !pays(Delta::Off, 0, 100));
        assert!(pays(Delta::Auto, 24, 100) && !pays(Delta::Auto, 25, 100));
    }
}
