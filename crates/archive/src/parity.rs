//! The parity file of a PE: a head that says over what, then the parity that it keeps, in tiles.
//!
//! Its tiles are whole ones: those of the parity slot of the PE in memory, as they are.

use raidshmem_core::layout::TILE;

use crate::bytes::{self, Kind, Reader, VERSION, Writer};
use crate::error::FormatError;
use crate::owner::Owner;
use crate::tiles::Tiles;

/// What a parity file begins with, and its version.
const KIND: Kind = Kind { magic: *b"RAIDPRTY", version: VERSION, name: "parity file of a PE" };

/// What a parity file begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParityHead {
    /// Whose it is: the PE keeps the parity.
    pub owner: Owner,
    /// Which build of the program.
    pub build: Vec<u8>,
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
        self.owner.write(&mut out);
        out.run(&self.build);
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
            owner: Owner::read(&mut body)?,
            build: body.run()?.to_vec(),
            line: body.u64()?,
            sums: body.list(4, Reader::u32)?,
        };
        body.end()?;
        match head.line < 1 << 62 {
            true => Ok(head),
            false => Err(FormatError::Impossible("the length of its line")),
        }
    }
}

#[cfg(test)]
mod tests {
    use raidshmem_core::message::HEAP_MAX;
    use raidshmem_core::quantity::{CheckpointNumber, Pe};

    use super::*;
    use crate::bytes::tests::nothing_else_is_taken;

    fn head() -> ParityHead {
        let number = CheckpointNumber(12);
        let owner = Owner { job: 77, number, pe: Pe(1), n_pes: 4, heap_len: 1 << 20 };
        ParityHead { owner, build: vec![3], line: 200_000, sums: vec![7, 8] }
    }

    #[test]
    fn a_head_is_read_back_as_it_was_written_and_nothing_else_is_taken() {
        let bytes = head().encode();
        assert_eq!(ParityHead::decode(&bytes), Ok(head()));
        assert_eq!(ParityHead::len_of(&bytes), Ok(bytes.len()));
        assert_eq!((head().data_len(), head().tiles().range(1).end), (1 << 17, 1 << 17));
        nothing_else_is_taken(bytes, ParityHead::decode);
    }

    #[test]
    fn a_head_that_says_what_cannot_be_is_refused() {
        type Change = fn(&mut ParityHead);
        let changes: [Change; 3] = [
            |head| head.owner.pe = Pe(4),
            |head| head.owner.heap_len = HEAP_MAX + 1,
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
