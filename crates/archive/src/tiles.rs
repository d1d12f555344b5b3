//! What follows a head: bytes in tiles, each with its checksum.

use std::ops::Range;

use raidshmem_codec::crc::crc32;
use raidshmem_core::layout::TILE;
use raidshmem_core::page::PAGE;

use crate::bytes;
use crate::error::FormatError;

/// Bytes with which the length of a head is known.
pub const BEGIN: usize = bytes::BEGIN;

/// Where the first tile begins in a file with a head of `len` bytes.
pub fn data_at(len: usize) -> u64 {
    len.next_multiple_of(PAGE) as u64
}

/// The tiles of a file.
#[derive(Debug, Clone, Copy)]
pub struct Tiles<'a> {
    /// The checksum of each.
    pub sums: &'a [u32],
    /// Their bytes in all.
    pub len: u64,
}

impl Tiles<'_> {
    /// Where a tile lies among those bytes.
    pub fn range(&self, tile: usize) -> Range<u64> {
        let at = (tile * TILE) as u64;
        at.min(self.len)..(at + TILE as u64).min(self.len)
    }

    /// Whether the bytes of a tile are those that were saved.
    ///
    /// # Errors
    /// They are not.
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
        let tiles = Tiles { sums: &[crc32(&[7; TILE]), 2, 3, 4], len };
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
}
