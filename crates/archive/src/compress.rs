//! Compression of tiles: each is an independent frame of Zstandard (RFC 8878), if that is shorter.
//!
//! So each tile can be read, checked and reconstructed without the others.
//!
//! Invariants: the stored form of a tile is no longer than the tile, and if it is as long, it is
//! the tile itself; even hostile input expands to no more bytes than requested.
//!
//! Left out: the verification of the bytes, which the tile's checksum does.

use std::io;

use zstd::bulk::{Compressor, Decompressor};

/// Compresses tiles, one after another.
pub struct TileCompressor {
    zstd: Compressor<'static>,
    stored: Vec<u8>,
}

impl TileCompressor {
    /// Makes a compressor for a level of Zstandard, from 1.
    ///
    /// # Errors
    /// There is no such level.
    pub fn new(level: u32) -> io::Result<TileCompressor> {
        Ok(TileCompressor { zstd: Compressor::new(level as i32)?, stored: Vec::new() })
    }

    /// Returns the stored form of a tile.
    pub fn compress<'a>(&'a mut self, tile: &'a [u8]) -> &'a [u8] {
        self.stored.resize(tile.len().saturating_sub(1), 0);
        match self.zstd.compress_to_buffer(tile, self.stored.as_mut_slice()) {
            Ok(len) => &self.stored[..len],
            Err(_) => tile, // the buffer only fits a shorter form
        }
    }
}

/// Decompresses tiles, one after another.
#[derive(Default)]
pub struct TileDecompressor(Option<Decompressor<'static>>);

impl TileDecompressor {
    /// Restores `tile`, whose length is known, from its stored form; returns false if that is
    /// invalid.
    pub fn decompress(&mut self, stored: &[u8], tile: &mut [u8]) -> bool {
        if stored.len() == tile.len() {
            tile.copy_from_slice(stored);
            return true;
        }
        let zstd = self.0.get_or_insert_with(Decompressor::default);
        zstd.decompress_to_buffer(stored, tile).is_ok_and(|len| len == tile.len())
    }
}

#[cfg(test)]
mod tests {
    use raidshmem_core::layout::TILE;

    use super::*;

    /// Returns pseudo-random bytes, from all values or from a few.
    fn noise(len: usize, few: bool) -> Vec<u8> {
        let mut word = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            if few { (word >> 20) as u8 & 3 } else { (word >> 20) as u8 }
        };
        (0..len).map(|_| next()).collect()
    }

    fn stored(tile: &[u8], level: u32) -> Vec<u8> {
        TileCompressor::new(level).expect("a level").compress(tile).to_vec()
    }

    fn read(stored: &[u8], len: usize) -> Option<Vec<u8>> {
        let mut tile = vec![0xa5; len];
        TileDecompressor::default().decompress(stored, &mut tile).then_some(tile)
    }

    #[test]
    fn tiles_of_all_lengths_survive_a_round_trip_and_never_grow() {
        for level in [1, 3, 19] {
            let mut compressor = TileCompressor::new(level).expect("a level");
            let mut decompressor = TileDecompressor::default();
            for len in [0, 1, 2, 3, 8, 9, 100, 4095, TILE - 1, TILE] {
                for tile in [vec![0; len], noise(len, true), noise(len, false)] {
                    let stored = compressor.compress(&tile).to_vec();
                    assert!(stored.len() <= len && (stored.len() < len || stored == tile));
                    let mut bytes = vec![0xa5; len];
                    assert!(decompressor.decompress(&stored, &mut bytes) && bytes == tile, "{len}");
                }
            }
            let lens = [vec![0; TILE], noise(TILE, true), noise(TILE, false)];
            let lens = lens.map(|tile| compressor.compress(&tile).len());
            assert!(lens[0] < 100 && lens[1] < TILE / 2 && lens[2] == TILE, "{lens:?}");
        }
    }

    #[test]
    fn truncated_tiles_and_other_lengths_are_refused() {
        let tile = noise(TILE, true);
        let stored = stored(&tile, 3);
        assert_eq!(read(&stored, TILE), Some(tile));
        for cut in 0..stored.len() {
            assert_eq!(read(&stored[..cut], TILE), None, "cut at {cut}");
        }
        for len in [0, 1, TILE / 2, TILE - 1, TILE + 1, 2 * TILE] {
            assert_eq!(read(&stored, len), None, "{len} bytes");
        }
    }

    /// Tests a frame that expands to a mebibyte, and two frames that expand to half of it each.
    #[test]
    fn decompression_never_exceeds_the_requested_length() {
        let much = stored(&vec![0; 1 << 20], 19);
        let twice = stored(&vec![0; 1 << 19], 19).repeat(2);
        assert!(much.len() < 200 && twice.len() < 400);
        for bomb in [much, twice] {
            assert_eq!(read(&bomb, TILE), None);
            assert_eq!(read(&bomb, 1 << 20), Some(vec![0; 1 << 20]));
        }
    }

    /// With any bit flipped, decompression fails, or returns other bytes or the very same.
    #[test]
    fn flipped_bits_are_seen_by_the_frame_or_by_the_checksum() {
        use raidshmem_codec::crc::crc32;
        let tile = noise(2000, true);
        let mut stored = stored(&tile, 3);
        let mut refused = 0;
        for bit in 0..stored.len() * 8 {
            stored[bit / 8] ^= 1 << (bit % 8);
            match read(&stored, tile.len()) {
                Some(other) => assert_eq!(other == tile, crc32(&other) == crc32(&tile), "{bit}"),
                None => refused += 1,
            }
            stored[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(refused > 100, "{refused} of {} bits", stored.len() * 8);
    }
}
