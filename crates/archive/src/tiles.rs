//! The tiles that follow a head: consecutive bytes, each tile with its checksum. Tiles may be
//! compressed independently; the checksum is that of the original tile.

use std::ops::Range;

use raidshmem_codec::crc::crc32;
use raidshmem_core::layout::TILE;

use crate::bytes;
use crate::error::FormatError;

/// Bytes that suffice to determine the length of a head.
pub const BEGIN: usize = bytes::BEGIN;

/// Bytes of a block of a file, independent of the page size.
const BLOCK: usize = 4096;

/// Returns the offset of the first tile in a file with a head of `len` bytes.
pub fn data_at(len: usize) -> u64 {
    len.next_multiple_of(BLOCK) as u64
}

/// The tiles of a file.
#[derive(Debug, Clone, Copy)]
pub struct Tiles<'a> {
    /// The checksum of each.
    pub sums: &'a [u32],
    /// Their total bytes.
    pub len: u64,
    /// Bytes that each occupies in the file if they are compressed; else empty.
    pub stored: &'a [u32],
    /// The place of each, not 0 if another file holds it; empty if all are here.
    pub sources: &'a [u8],
}

impl Tiles<'_> {
    /// Returns the range of a tile in the uncompressed bytes.
    pub fn range(&self, tile: usize) -> Range<u64> {
        let at = (tile * TILE) as u64;
        at.min(self.len)..(at + TILE as u64).min(self.len)
    }

    /// Returns true if the tile is in this file.
    pub fn is_here(&self, tile: usize) -> bool {
        self.sources.get(tile).is_none_or(|&source| source == 0)
    }

    /// Returns true if every tile has a place, and every stored length is valid: zero if the tile
    /// is elsewhere, else more than that, and no more than the tile's length.
    pub fn fit(&self) -> bool {
        let fits = |(tile, &stored): (usize, &u32)| {
            let range = self.range(tile);
            let most = if self.is_here(tile) { 1..=range.end - range.start } else { 0..=0 };
            most.contains(&u64::from(stored))
        };
        let one_each = |len: usize| len == 0 || len == self.sums.len();
        let all = one_each(self.stored.len()) && one_each(self.sources.len());
        all && self.stored.iter().enumerate().all(fits)
    }

    /// Returns the offset of each tile in a file whose first tile is at `at`, and the end of the
    /// last.
    pub fn places(&self, at: u64) -> Vec<u64> {
        let mut end = at;
        let ends = (0..self.sums.len()).map(|tile| {
            let range = self.range(tile);
            let len = if self.is_here(tile) { range.end - range.start } else { 0 };
            end += self.stored.get(tile).map_or(len, |&len| u64::from(len));
            end
        });
        std::iter::once(at).chain(ends).collect()
    }

    /// Verifies the checksum of a tile.
    ///
    /// # Errors
    /// It does not match.
    pub fn check(&self, tile: usize, bytes: &[u8]) -> Result<(), FormatError> {
        let whole = self.range(tile).count() == bytes.len();
        match self.sums.get(tile) {
            Some(&sum) if whole && crc32(bytes) == sum => Ok(()),
            _ => Err(FormatError::Tile(tile)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_holds_by_its_bytes_and_its_length() {
        let len = 4096 + 200_000 + 8;
        let tiles = Tiles { sums: &[crc32(&[7; TILE]), 2, 3, 4], len, stored: &[], sources: &[] };
        assert_eq!(tiles.check(0, &[7; TILE]), Ok(()));
        let mut bytes = vec![7; TILE];
        bytes[99] ^= 4;
        assert_eq!(tiles.check(0, &bytes), Err(FormatError::Tile(0)));
        assert_eq!(tiles.check(0, &bytes[..99]), Err(FormatError::Tile(0)));
        assert_eq!(tiles.check(4, &[]), Err(FormatError::Tile(4)));
        assert_eq!(tiles.range(3), 3 * TILE as u64..len);
        assert_eq!(tiles.range(9), len..len);
        assert_eq!((data_at(1), data_at(4096), data_at(4097)), (4096, 4096, 8192));
    }

    #[test]
    fn tiles_lie_one_after_another_and_none_takes_more_than_it_has() {
        let (tile, last) = (TILE as u32, 1000);
        fn of(stored: &[u32]) -> Tiles<'_> {
            Tiles { sums: &[1, 2, 3], len: 2 * TILE as u64 + 1000, stored, sources: &[] }
        }
        let [first, second] = [4096 + TILE as u64, 4096 + 2 * TILE as u64];
        assert_eq!(of(&[]).places(4096), [4096, first, second, second + 1000]);
        assert_eq!(of(&[tile, 7, 1]).places(4096), [4096, first, first + 7, first + 8]);
        for fitting in [&[][..], &[tile, tile, last], &[1, 1, 1]] {
            assert!(of(fitting).fit(), "{fitting:?}");
        }
        let wrong = [[0, 1, 1], [1, 1, 0], [tile + 1, 1, 1], [1, 1, last + 1], [1, u32::MAX, 1]];
        assert!(wrong.iter().all(|wrong| !of(wrong).fit()));
        assert!(!of(&[1, 1]).fit() && !of(&[1; 4]).fit(), "one of each");
        let refers = |stored, sources| Tiles { sources, ..of(stored) };
        assert_eq!(refers(&[], &[0, 3, 0]).places(4096), [4096, first, first, first + 1000]);
        assert_eq!(refers(&[9, 0, 1], &[0, 3, 0]).places(0), [0, 9, 9, 10]);
        assert!(refers(&[9, 0, 1], &[0, 3, 0]).fit() && refers(&[], &[1, 3, 0]).fit());
        assert!(!refers(&[9, 1, 1], &[0, 3, 0]).fit() && !refers(&[], &[0, 3]).fit());
    }
}
