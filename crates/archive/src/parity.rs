//! The parity file of a PE: a head that says over what, then the parity that it keeps, in tiles.
//!
//! Its tiles are whole ones: those of the parity slot of the PE in memory, as they are.

use raidshmem_core::layout::TILE;
use raidshmem_core::message::HEAP_MAX;
use raidshmem_core::quantity::{CheckpointNumber, Pe};

use crate::bytes::{self, Kind, Reader, VERSION, Writer};
use crate::error::FormatError;
use crate::tiles::Tiles;

/// What a parity file begins with, and its version.
const KIND: Kind = Kind { magic: *b"RAIDPRTY", version: VERSION, name: "parity file of a PE" };

/// What a parity file begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParityHead {
    /// The job that wrote it.
    pub job: u64,
    /// The checkpoint.
    pub number: CheckpointNumber,
    /// The PE that keeps it.
    pub pe: Pe,
    /// How many there are.
    pub n_pes: u32,
    /// Bytes of the symmetric heap.
    pub heap_len: u64,
    /// Bytes of what each PE saved, with what it begins with in memory.
    pub line: u64,
    /// The checksum of each tile.
    pub sums: Vec<u32>,
}

impl ParityHead {
    /// Bytes of parity.
    pub fn data_len(&self) -> u64 {
        (self.sums.len() * TILE) as u64
    }

    /// The tiles of those.
    pub fn tiles(&self) -> Tiles<'_> {
        Tiles { sums: &self.sums, len: self.data_len() }
    }

    /// Bytes of a head whose frame begins with `bytes`.
    ///
    /// # Errors
    /// They do not begin a parity file.
    pub fn len_of(bytes: &[u8]) -> Result<usize, FormatError> {
        bytes::frame_len(KIND, bytes)
    }

    /// The head as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new(KIND);
        out.u64(self.job);
        out.u64(self.number.0);
        out.u32(self.pe.0);
        out.u32(self.n_pes);
        out.u64(self.heap_len);
        out.u64(self.line);
        out.count(self.sums.len());
        self.sums.iter().for_each(|&sum| out.u32(sum));
        out.finish()
    }

    /// The head that `bytes` begin with.
    ///
    /// # Errors
    /// There is none, it is damaged, or it says what cannot be.
    pub fn decode(bytes: &[u8]) -> Result<ParityHead, FormatError> {
        let mut body = bytes::body(KIND, bytes)?;
        let head = ParityHead {
            job: body.u64()?,
            number: CheckpointNumber(body.u64()?),
            pe: Pe(body.u32()?),
            n_pes: body.u32()?,
            heap_len: body.u64()?,
            line: body.u64()?,
            sums: body.list(4, Reader::u32)?,
        };
        body.end()?;
        match head.pe.0 < head.n_pes && head.heap_len <= HEAP_MAX && head.line < 1 << 62 {
            true => Ok(head),
            false => Err(FormatError::Impossible("the number of its PE, its heap or its line")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> ParityHead {
        let number = CheckpointNumber(12);
        let (job, pe, n_pes, heap_len) = (77, Pe(1), 4, 1 << 20);
        ParityHead { job, number, pe, n_pes, heap_len, line: 200_000, sums: vec![7, 8] }
    }

    #[test]
    fn a_head_is_read_back_as_it_was_written_and_nothing_else_is_taken() {
        let mut bytes = head().encode();
        assert_eq!(ParityHead::decode(&bytes), Ok(head()));
        assert_eq!(ParityHead::len_of(&bytes), Ok(bytes.len()));
        assert_eq!((head().data_len(), head().tiles().range(1).end), (1 << 17, 1 << 17));
        for cut in 0..bytes.len() {
            let refused = ParityHead::decode(&bytes[..cut]);
            assert!(matches!(refused, Err(FormatError::Short { .. })), "{cut}: {refused:?}");
        }
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(ParityHead::decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_head_that_says_what_cannot_be_is_refused() {
        type Change = fn(&mut ParityHead);
        let changes: [Change; 3] = [
            |head| head.pe = Pe(4),
            |head| head.heap_len = HEAP_MAX + 1,
            |head| head.line = 1 << 62,
        ];
        for change in changes {
            let mut head = head();
            change(&mut head);
            let refused = ParityHead::decode(&head.encode());
            assert!(matches!(refused, Err(FormatError::Impossible(_))), "{refused:?}");
        }
    }
}
