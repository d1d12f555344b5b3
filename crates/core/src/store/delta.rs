//! Finds what changed between two checkpoints, tile by tile, and how the next one does less for it.
//!
//! A tile of a snapshot that did not change is not copied again; a tile of parity none of whose
//! sources changed is not computed again. Either gets only a new stamp ([`super::stamp`]), so that
//! all valid tiles carry the number of the checkpoint they belong to. If few sources of a parity
//! tile changed, it is updated from what it was, and from what they were and are.
//!
//! A parity slot holds the checkpoint before the last one, or the last one where there is but one
//! slot: [`next`] says what follows from that, for the snapshots of a PE as well. What a process
//! knows of earlier checkpoints is in its own memory ([`History`]): it is gone with the process,
//! and forgotten in every recovery, and then the next checkpoint is a full one. While a checkpoint
//! is made it is part of [`Changes`].
//!
//! What changed is found by comparing tiles, or known from the pages that were written
//! ([`super::track`]); then a tile that was written counts as changed, whatever is in it.
//!
//! Invariant: a choice made here by one PE binds no other. A PE that has nothing to compare with
//! says that all of its tiles changed.

use twox_hash::XxHash3_128;

use crate::mutant::{Mutant, breaks};
use crate::quantity::{CheckpointNumber, TileIndex};
use crate::settings::Delta;

/// A set of tiles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TileSet {
    bits: Vec<u8>,
}

impl TileSet {
    /// No tile, with room for `count`.
    pub fn none(count: usize) -> TileSet {
        TileSet { bits: vec![0; count.div_ceil(8)] }
    }

    /// The first `count` tiles.
    pub fn all(count: usize) -> TileSet {
        let mut all = TileSet { bits: vec![u8::MAX; count.div_ceil(8)] };
        if let Some(last) = all.bits.last_mut().filter(|_| !count.is_multiple_of(8)) {
            *last = (1 << (count % 8)) - 1;
        }
        all
    }

    /// The set that [`TileSet::bytes`] shows.
    pub fn from_bytes(bytes: &[u8]) -> TileSet {
        TileSet { bits: bytes.to_vec() }
    }

    /// One bit per tile, the lowest first.
    pub fn bytes(&self) -> &[u8] {
        &self.bits
    }

    /// Adds a tile there is room for.
    pub fn insert(&mut self, tile: TileIndex) {
        self.bits[tile.at() / 8] |= 1 << (tile.at() % 8);
    }

    /// True if `tile` is one of them; what there is no room for is not.
    pub fn contains(&self, tile: TileIndex) -> bool {
        self.bits.get(tile.at() / 8).is_some_and(|bits| bits >> (tile.at() % 8) & 1 == 1)
    }

    /// Adds all tiles of `other`, which has no more room.
    pub fn add(&mut self, other: &TileSet) {
        self.bits.iter_mut().zip(&other.bits).for_each(|(bits, more)| *bits |= more);
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.bits.iter().map(|bits| bits.count_ones() as usize).sum()
    }
}

/// What a process remembers of the last checkpoint, which it saw agreed.
#[derive(Debug)]
pub struct History {
    /// Its number.
    pub number: CheckpointNumber,
    /// Bytes of its snapshot.
    pub len: usize,
    /// Digests of the tiles of the own live data at that time; empty if none were taken.
    pub digests: Vec<u128>,
    /// Own tiles that may differ from those of the checkpoint before.
    pub own: TileSet,
    /// Tiles of the own parity that differ from those of the checkpoint before.
    pub parity: TileSet,
    /// Tiles of the own snapshot that changed with it, as far as was seen.
    pub changed: usize,
}

/// How a PE knows which of its tiles changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// It did not look: all count as changed.
    Nothing,
    /// By comparing them.
    Digests,
    /// By the pages that were written.
    Pages,
}

/// What a look at a tile found.
#[derive(Debug, Clone, Copy, Default)]
pub struct Look {
    digest: u128,
    changed: bool,
}

/// How much the store of a PE has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreCounts {
    /// Tiles of a snapshot.
    pub tiles: usize,
    /// Tiles of parity in a slot.
    pub parity: usize,
    /// Snapshots.
    pub snapshots: usize,
    /// Parity slots.
    pub slots: usize,
}

/// What is known of the changes since the last checkpoint, while the next is made.
#[derive(Debug)]
pub struct Changes {
    /// The own tiles that are not as they were.
    pub own: TileSet,
    /// How they were found.
    pub by: By,
    /// How many tiles there are.
    pub tiles: usize,
    /// The last checkpoint, if this process saw it agreed and it covered as many bytes.
    before: Option<History>,
    digests: Vec<u128>,
    /// Changed tiles of the own snapshot that the copy came upon, where no look was taken.
    pub seen: usize,
    /// Tiles of the own parity computed anew.
    pub made: TileSet,
    snapshots: usize,
    slots: usize,
}

impl Changes {
    /// Before checkpoint `number` of `len` bytes, with what is known of an earlier one: all own
    /// tiles are taken for changed.
    pub fn since(
        history: Option<History>,
        (number, len): (CheckpointNumber, usize),
        counts: StoreCounts,
    ) -> Changes {
        let StoreCounts { tiles, parity, snapshots, slots } = counts;
        let before = history.filter(|h| h.number.next() == number && h.len == len);
        let (own, made) = (TileSet::all(tiles), TileSet::none(parity));
        let by = By::Nothing;
        let digests = Vec::new();
        Changes { own, by, tiles, before, digests, seen: 0, made, snapshots, slots }
    }

    /// Takes the tiles of `written` for the own ones that changed since the last checkpoint, if
    /// there is one to build on.
    pub fn know(&mut self, written: TileSet) {
        if self.before.is_some() {
            (self.own, self.by) = (written, By::Pages);
        }
    }

    /// True if it pays to look which of the `tiles` own tiles changed: then each is to be shown to
    /// [`Changes::look`], and what that finds to [`Changes::note`].
    pub fn looks(&mut self, delta: Delta, tiles: usize) -> bool {
        let looks = self.before.as_ref().is_some_and(|h| pays(delta, h.changed, tiles));
        if looks {
            self.by = By::Digests;
            self.own = TileSet::none(tiles);
            self.digests.reserve(tiles);
        }
        looks
    }

    /// Looks at a tile: `bytes` now, and in the snapshot what `was` says, which is asked for if no
    /// digest was taken the last time. `job` seeds the digests.
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

    /// Notes what a look at the next tile found; they are noted in their order, all of them.
    pub fn note(&mut self, look: Look) {
        if look.changed {
            self.own.insert(TileIndex::of(self.digests.len()));
        }
        self.digests.push(look.digest);
    }

    /// What to do with tile `tile` of the own parity, which has such sources.
    pub fn next(&self, tile: TileIndex, sources: SourceCount) -> TileStep {
        next(self.slots, sources, self.before.as_ref().map(|before| before.parity.contains(tile)))
    }

    /// What to do with own tile `tile` of the snapshot: the same, with the live tile as its one
    /// source.
    pub fn next_own(&self, tile: TileIndex) -> TileStep {
        let changed = usize::from(self.own.contains(tile));
        let before = self.before.as_ref().map(|before| before.own.contains(tile));
        next(self.snapshots, SourceCount { changed, all: 1 }, before)
    }

    /// The checkpoint is agreed: what the next one may build on.
    pub fn agreed(self, number: CheckpointNumber, len: usize) -> History {
        let looked = self.by != By::Nothing;
        let changed = if looked { self.own.count() } else { self.seen };
        let Changes { own, made: parity, digests, .. } = self;
        History { number, len, digests, own, parity, changed }
    }
}

/// What is done with a tile of parity, or of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TileStep {
    /// It is right as it is, with a new stamp.
    Keep,
    /// The other slot, or the other snapshot, has it.
    Carry,
    /// It is computed from what the other slot has and what the changed sources were and are.
    Update,
    /// It is computed anew from all sources.
    Make,
}

/// How many sources a tile of parity has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceCount {
    /// Those that changed.
    pub changed: usize,
    /// All of them.
    pub all: usize,
}

/// What to do with a tile of parity in one of `slots` slots; `before` says whether the last
/// checkpoint changed it; None if that is not known. An update reads the tile, and each changed
/// source twice: it is done where that is less than all sources.
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

/// True if it pays to look for what changed: as asked for, or if less than a quarter of `tiles`
/// had with the checkpoint before.
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

    /// Slots hold tiles of checkpoints: whatever changes when, what is kept or carried is right.
    #[test]
    fn a_slot_never_keeps_what_is_not_so_any_more() {
        for (slots, sources) in [(1, 7), (2, 3), (2, 7), (1, 1), (2, 1)] {
            for pattern in 0u32..1 << 12 {
                // The content of a tile is the number of the checkpoint that changed it.
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
