//! Numbers as bytes, and the frame around a file's head.
//!
//! ```text
//! frame      magic 8 | version u32 | frame length u32 | body ... | crc u32
//! ```
//!
//! All numbers are little-endian. The CRC-32 (IEEE 802.3) covers all bytes before it. A frame is
//! read only if its checksum matches, so damage is never taken for a foreign file.

use raidshmem_codec::crc::crc32;

use crate::error::FormatError;

/// Bytes of a frame before its body.
pub const BEGIN: usize = 16;
/// Bytes of a frame after its body.
const END: usize = 4;
/// Largest frame in bytes: a head of a file of some terabytes.
const LARGEST: usize = 1 << 30;

/// The version of files with uncompressed tiles.
pub const PLAIN: u32 = 3;
/// The version of files whose tiles may be compressed, and of their manifest.
pub const COMPRESSED: u32 = 4;
/// The version of files that refer to those of earlier sets, and of their manifest.
pub const REFERRING: u32 = 5;

/// The version of a manifest with the NUMA nodes of pages.
pub const PLACING: u32 = 6;

/// The kind of file that a frame begins.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub magic: [u8; 8],
    pub name: &'static str,
    /// The newest version of such files.
    pub newest: u32,
}

/// Returns the version of a file: the oldest that suffices.
pub fn version(is_compressed: bool, refers: bool) -> u32 {
    match (refers, is_compressed) {
        (true, _) => REFERRING,
        (false, true) => COMPRESSED,
        (false, false) => PLAIN,
    }
}

/// Returns the length of a frame, from its first bytes.
pub fn frame_len(kind: Kind, bytes: &[u8]) -> Result<usize, FormatError> {
    let short = |expected: usize| FormatError::Short {
        expected: expected as u64,
        found: bytes.len() as u64,
    };
    let begin = bytes.first_chunk::<BEGIN>().ok_or(short(BEGIN))?;
    let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| begin[at + byte]));
    let (found, len) = (number(8), number(12) as usize);
    match () {
        () if begin[..8] != kind.magic => Err(FormatError::Magic(kind.name)),
        () if !(PLAIN..=kind.newest).contains(&found) => {
            Err(FormatError::Version { found, oldest: PLAIN, newest: kind.newest })
        }
        () if !(BEGIN + END..=LARGEST).contains(&len) => {
            Err(FormatError::Impossible("the length of its head"))
        }
        () => Ok(len),
    }
}

/// Returns the body of the frame that `bytes` begin with.
pub fn body(kind: Kind, bytes: &[u8]) -> Result<Reader<'_>, FormatError> {
    let len = frame_len(kind, bytes)?;
    let short = FormatError::Short { expected: len as u64, found: bytes.len() as u64 };
    let (covered, rest) = bytes.split_at_checked(len - END).ok_or(short.clone())?;
    let sum = rest.first_chunk::<END>().ok_or(short)?;
    match crc32(covered) == u32::from_le_bytes(*sum) {
        true => Ok(Reader { bytes: &covered[BEGIN..], version: u32::from(covered[8]) }),
        false => Err(FormatError::Damaged),
    }
}

/// Writes a frame.
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn new(kind: Kind, version: u32) -> Writer {
        let mut bytes = kind.magic.to_vec();
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        Writer(bytes)
    }

    pub fn u8(&mut self, number: u8) {
        self.0.push(number);
    }

    pub fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes the number of the items that follow, as u64.
    pub fn count(&mut self, count: usize) {
        self.u64(count as u64);
    }

    pub fn run(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// Writes the stored length of each tile, in files of versions with such lengths only.
    pub fn stored(&mut self, stored: &[u32]) {
        if self.0[8] > PLAIN as u8 {
            self.count(stored.len());
            stored.iter().for_each(|&len| self.u32(len));
        }
    }

    /// Returns the frame, with its length and its checksum.
    pub fn finish(mut self) -> Vec<u8> {
        let len = (self.0.len() + END) as u32;
        self.0[BEGIN - 4..BEGIN].copy_from_slice(&len.to_le_bytes());
        let sum = crc32(&self.0);
        self.u32(sum);
        self.0
    }
}

/// Reads a body to its end.
pub struct Reader<'a> {
    bytes: &'a [u8],
    version: u32,
}

impl<'a> Reader<'a> {
    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let short = FormatError::Impossible("a head that ends before what it says");
        let (chunk, rest) = self.bytes.split_first_chunk::<N>().ok_or(short)?;
        self.bytes = rest;
        Ok(*chunk)
    }

    pub fn u8(&mut self) -> Result<u8, FormatError> {
        self.chunk().map(u8::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, FormatError> {
        self.chunk().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, FormatError> {
        self.chunk().map(u64::from_le_bytes)
    }

    /// Reads the number of items that follow, each at least `size` bytes long; fails if they cannot
    /// fit.
    pub fn count(&mut self, size: usize) -> Result<usize, FormatError> {
        let count = self.u64()?;
        let fits = count <= (self.bytes.len() / size.max(1)) as u64;
        fits.then_some(count as usize).ok_or(FormatError::Impossible("a count beyond its head"))
    }

    pub fn run(&mut self) -> Result<&'a [u8], FormatError> {
        let count = self.count(1)?;
        let (run, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        Ok(run)
    }

    pub fn text(&mut self) -> Result<String, FormatError> {
        let text = std::str::from_utf8(self.run()?);
        text.map(str::to_owned).map_err(|_| FormatError::Impossible("a name that is no UTF-8"))
    }

    /// Reads a counted list of items, each at least `size` bytes long.
    pub fn list<T>(
        &mut self,
        size: usize,
        mut item: impl FnMut(&mut Reader<'a>) -> Result<T, FormatError>,
    ) -> Result<Vec<T>, FormatError> {
        (0..self.count(size)?).map(|_| item(self)).collect()
    }

    /// Returns true if the version has sizes before compression, and lengths of stored tiles.
    pub fn has_sizes(&self) -> bool {
        self.version > PLAIN
    }

    /// Returns true if the version has references.
    pub fn refers(&self) -> bool {
        self.version >= REFERRING
    }

    /// Returns true if the version has the NUMA nodes of pages.
    pub fn places(&self) -> bool {
        self.version == PLACING
    }

    /// Reads the stored length of each tile; empty if they are not compressed.
    pub fn stored(&mut self) -> Result<Vec<u32>, FormatError> {
        let stored = if self.has_sizes() { self.list(4, Reader::u32)? } else { Vec::new() };
        match self.version == COMPRESSED && stored.is_empty() {
            true => Err(FormatError::Impossible("a compressed file without tiles")),
            false => Ok(stored),
        }
    }

    pub fn end(self) -> Result<(), FormatError> {
        let left = FormatError::Impossible("a head that goes on after its end");
        if self.bytes.is_empty() { Ok(()) } else { Err(left) }
    }
}

#[cfg(test)]
pub mod tests {
    use raidshmem_codec::crc::Hasher;
    use raidshmem_codec::stripe::Layout;
    use raidshmem_core::settings::BackupMode;

    use super::*;

    /// Fails if a frame is accepted that is cut at any byte, or has any bit flipped.
    #[track_caller]
    pub fn nothing_else_is_taken<T>(
        mut bytes: Vec<u8>,
        decode: impl Fn(&[u8]) -> Result<T, FormatError>,
    ) {
        for cut in 0..bytes.len() {
            let refused = decode(&bytes[..cut]).err();
            assert!(matches!(refused, Some(FormatError::Short { .. })), "{cut}: {refused:?}");
        }
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// Parity in files is found by the layout of its group, of which files hold only the name. If a
    /// layout changes, older files must be refused: give it another name (`Code::of`) or raise the
    /// version, and then change the digest here.
    #[test]
    fn parity_in_files_of_this_version_has_this_layout() {
        let mut digest = Hasher::new();
        for mode in BackupMode::ALL {
            for (parity, members) in (1..=4).flat_map(|parity| (2..=9).map(move |g| (parity, g))) {
                let layout = mode.scheme(parity).and_then(|it| Layout::new(it, members).ok());
                for stripe in layout.iter().flat_map(Layout::stripes) {
                    let data = stripe.data.iter().flat_map(|data| [data.member, data.chunk]);
                    let parity = stripe.parity.iter().flat_map(|at| [at.member, at.slot]);
                    let all: Vec<u8> = data.chain(parity).map(|number| number as u8).collect();
                    digest.update(&all);
                }
            }
        }
        assert_eq!((REFERRING, digest.finish()), (5, 47_854_578));
    }
}
