//! Ranges of the symmetric heap that the program has declared read-only, and the location of their
//! protection in a segment.
//!
//! The live memory of such a range is its snapshot, since it cannot change. Checkpoints leave it
//! out. Its parity is computed once, when the range is declared, over the same bytes of each PE of
//! the group. The manifest of a checkpoint names the range. So a range needs only its parity as
//! extra memory, and adds nothing to the cost of a checkpoint.
//!
//! Parity over a range has two slots: a recovery that encodes a checkpoint again in new groups
//! encodes the range again, too, into the other slot. The number of the checkpoint decided on
//! determines the slot, so a range needs no decision of its own.
//!
//! Before a range becomes writable again, each PE copies it. The copy serves as its snapshot until
//! a checkpoint covers the range again.
//!
//! Invariant: the stored parts of different ranges do not overlap in a segment. A range consists of
//! whole pages and whole tiles; its n-th tile has the same place in the tables as in the segment,
//! rounded up, and its parity is never longer than the range.

use std::ops::Range;

use super::protection::Protection;
use crate::layout::{Layout, TILE};
use crate::page::page_up;
use crate::quantity::{CheckpointNumber, TileIndex};

/// Maximum number of read-only ranges.
pub const RANGES: usize = 16;

/// A read-only range of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadOnly {
    /// Offset in the segment, page-aligned.
    pub at: usize,
    /// Number of tiles.
    pub tiles: usize,
}

/// A run of tiles of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileRun {
    /// Offset of the region that contains the tiles.
    pub region: usize,
    /// Index of the first tile in the region.
    pub first: TileIndex,
}

impl ReadOnly {
    /// Returns the part of a range of a segment that can be protected separately. None if it is
    /// less than a tile.
    pub fn within(range: &Range<usize>) -> Option<ReadOnly> {
        let at = page_up(range.start);
        let tiles = range.end.checked_sub(at)? / TILE;
        (tiles > 0).then_some(ReadOnly { at, tiles })
    }

    /// Returns the range that a manifest names.
    pub fn of(range: &Range<usize>) -> Option<ReadOnly> {
        ReadOnly::within(range).filter(|found| found.range() == *range)
    }

    /// Returns its length in bytes.
    pub fn len(self) -> usize {
        self.tiles * TILE
    }

    /// True if the range is empty.
    pub fn is_empty(self) -> bool {
        self.tiles == 0
    }

    /// Returns its offsets.
    pub fn range(self) -> Range<usize> {
        self.at..self.at + self.len()
    }

    /// True if separate protection saves memory: the parity is smaller than the snapshot.
    pub fn saves_memory(self, protection: &Protection) -> bool {
        self.most_parity(protection).is_some_and(|most| most + TILE <= self.len())
    }

    /// True if there is room for its parity in these groups.
    pub fn fits(self, protection: &Protection) -> bool {
        self.most_parity(protection).is_some_and(|most| most <= self.len())
    }

    /// Returns the length of the longest parity over it that a PE keeps, in bytes.
    fn most_parity(self, protection: &Protection) -> Option<usize> {
        let of = |shape: &super::protection::GroupLayout| {
            let places = 0..shape.members.len();
            places.map(|place| shape.parity_len(place, self.len())).max()
        };
        protection.shapes.iter().filter_map(of).max()
    }

    fn first(self, layout: &Layout) -> TileIndex {
        TileIndex((self.at - layout.statics).div_ceil(TILE))
    }

    /// Returns the tiles of the range itself.
    pub fn live(self, layout: &Layout) -> TileRun {
        let first = self.first(layout);
        TileRun { region: self.at - first.offset(), first }
    }

    /// Returns the tiles of its copy.
    pub fn copy(self, layout: &Layout) -> TileRun {
        let TileRun { region, first } = self.live(layout);
        TileRun { region: layout.copies + TILE + region - layout.statics, first }
    }

    /// Returns the tiles of the local parity over it in the groups of checkpoint `number`.
    pub fn parity(self, layout: &Layout, number: CheckpointNumber) -> TileRun {
        let slot = number.healed_times() % layout.readonly.len() as u64;
        TileRun { region: layout.readonly[slot as usize], first: self.first(layout) }
    }
}

impl TileRun {
    /// Returns the offset of its first byte in the segment.
    pub fn offset(self) -> usize {
        self.region + self.first.offset()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::STAMP;
    use crate::page::PAGE;

    #[test]
    fn copies_of_adjacent_ranges_never_overlap() {
        let layout = Layout::new(64 << 20, 4);
        let first = CheckpointNumber(3);
        let numbers = [first, first.next().healed(), first.healed().healed()];
        let mut seed = 1u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (seed >> 33) as usize % below
        };
        for _ in 0..2000 {
            let mut at = layout.heap + random(3 * TILE);
            let mut ranges = Vec::new();
            for _ in 0..4 {
                let end = at + random(9 * TILE);
                ranges.extend(ReadOnly::within(&(at..end)));
                at = end + random(2) * random(2 * PAGE);
            }
            for range in &ranges {
                assert_eq!(ReadOnly::of(&range.range()), Some(*range));
                let (live, copy) = (range.live(&layout), range.copy(&layout));
                assert_eq!(live.offset(), range.at);
                assert_eq!(copy.offset(), layout.copies + TILE + range.at - layout.statics);
                let stamps = [live, copy].map(|run| layout.stamps(run.region));
                assert_eq!(stamps, [layout.readonly_stamps; 2]);
                for (number, slot) in numbers.into_iter().zip([0, 1, 0]) {
                    let parity = layout.stamps(range.parity(&layout, number).region);
                    assert_eq!(parity, layout.readonly[slot] + layout.region_len);
                }
            }
            for two in ranges.windows(2) {
                let (one, next) = (two[0], two[1]);
                assert!(one.range().end <= next.at);
                let stamp = |range: ReadOnly| range.live(&layout).first.at() * STAMP;
                assert!(stamp(one) + one.tiles * STAMP <= stamp(next));
                assert!(one.copy(&layout).offset() + one.len() <= next.copy(&layout).offset());
                let [one_parity, next_parity] =
                    [one, next].map(|it| it.parity(&layout, numbers[0]));
                assert!(one_parity.offset() + one.len() <= next_parity.offset());
            }
        }
    }

    #[test]
    fn a_range_shorter_than_a_tile_is_not_kept_apart() {
        assert_eq!(ReadOnly::within(&(1..TILE)), None);
        assert_eq!(ReadOnly::within(&(PAGE..PAGE + TILE)), Some(ReadOnly { at: PAGE, tiles: 1 }));
        assert_eq!(ReadOnly::within(&(PAGE + 1..PAGE + 1 + TILE)), None);
        assert_eq!(ReadOnly::of(&(PAGE..PAGE + TILE + TILE / 2)), None);
    }
}
