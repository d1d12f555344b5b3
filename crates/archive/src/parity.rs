//! The parity file of a PE: a head that describes the protected data, then the parity, in tiles.
//!
//! The tiles are whole, identical to those of the PE's parity slot in memory.

use raidshmem_core::layout::TILE;

use crate::bytes::{self, Kind, REFERRING, Reader, Writer, version};
use crate::error::FormatError;
use crate::owner::Owner;
use crate::references::References;
use crate::tiles::Tiles;

/// The frame of a parity file.
const KIND: Kind = Kind { magic: *b"RAIDPRTY", name: "parity file of a PE", newest: REFERRING };

/// The head of a parity file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParityHead {
    /// Its owner: the PE that keeps the parity.
    pub owner: Owner,
    /// The build of the program.
    pub build: Vec<u8>,
    /// Bytes of each PE's snapshot, including its manifest in memory.
    pub line: u64,
    /// Bytes that each tile occupies in the file; empty if they are not compressed.
    pub stored: Vec<u32>,
    /// The tiles that are in files of earlier sets.
    pub references: References,
    /// The checksum of each tile.
    pub sums: Vec<u32>,
}

impl ParityHead {
    /// Returns the bytes of parity.
    pub fn data_len(&self) -> u64 {
        (self.sums.len() * TILE) as u64
    }

    /// Returns the tiles of the parity.
    pub fn tiles(&self) -> Tiles<'_> {
        let (stored, sources) = (&self.stored, &self.references.sources);
        Tiles { sums: &self.sums, len: self.data_len(), stored, sources }
    }

    /// Returns the tiles in memory that these tiles of the file would fill, and the number of all.
    pub fn in_memory(&self, tiles: &mut dyn Iterator<Item = usize>) -> (Vec<u64>, u64) {
        (tiles.map(|tile| tile as u64).collect(), self.sums.len() as u64)
    }

    /// Returns the length of a head whose frame begins with `bytes`.
    ///
    /// # Errors
    /// They do not begin a parity file.
    pub fn len_of(bytes: &[u8]) -> Result<usize, FormatError> {
        bytes::frame_len(KIND, bytes)
    }

    /// Encodes the head.
    pub fn encode(&self) -> Vec<u8> {
        let refers = !self.references.bases.is_empty();
        let mut out = Writer::new(KIND, version(!self.stored.is_empty(), refers));
        self.owner.write(&mut out);
        out.run(&self.build);
        out.u64(self.line);
        out.stored(&self.stored);
        self.references.write(&mut out);
        out.count(self.sums.len());
        self.sums.iter().for_each(|&sum| out.u32(sum));
        out.finish()
    }

    /// Decodes the head that `bytes` begin with.
    ///
    /// # Errors
    /// The head is missing, damaged, or inconsistent.
    pub fn decode(bytes: &[u8]) -> Result<ParityHead, FormatError> {
        let mut body = bytes::body(KIND, bytes)?;
        let owner = Owner::read(&mut body)?;
        let head = ParityHead {
            owner,
            build: body.run()?.to_vec(),
            line: body.u64()?,
            stored: body.stored()?,
            references: References::read(&mut body, &owner)?,
            sums: body.list(4, Reader::u32)?,
        };
        body.end()?;
        match () {
            () if head.line >= 1 << 62 => Err(FormatError::Impossible("the length of its line")),
            () if !head.tiles().fit() => Err(FormatError::Impossible("the length of a tile")),
            () => Ok(head),
        }
    }
}

#[cfg(test)]
mod tests {
    use raidshmem_core::disk::Entry;
    use raidshmem_core::message::HEAP_MAX;
    use raidshmem_core::quantity::{CheckpointNumber, Pe};

    use super::*;
    use crate::bytes::tests::nothing_else_is_taken;
    use crate::references::Base;

    fn head() -> ParityHead {
        let number = CheckpointNumber(12);
        let owner = Owner { job: 77, number, pe: Pe(1), n_pes: 4, heap_len: 1 << 20 };
        let (stored, sums) = (Vec::new(), vec![7, 8]);
        let references = References::default();
        ParityHead { owner, build: vec![3], line: 200_000, stored, references, sums }
    }

    #[test]
    fn a_head_survives_a_round_trip_and_nothing_else_is_accepted() {
        assert_eq!((head().data_len(), head().tiles().range(1).end), (1 << 17, 1 << 17));
        let base = Base { number: CheckpointNumber(3), entry: Entry { len: 1, sum: 2 } };
        let refers = References { bases: vec![base], sources: vec![1, 0] };
        let none = References::default;
        let all = [(vec![], none()), (vec![1 << 16, 9], none()), (vec![0, 9], refers)];
        for (stored, references) in all {
            let head = ParityHead { stored, references, ..head() };
            let bytes = head.encode();
            assert_eq!(ParityHead::decode(&bytes).as_ref(), Ok(&head));
            assert_eq!(ParityHead::len_of(&bytes), Ok(bytes.len()));
            nothing_else_is_taken(bytes, ParityHead::decode);
        }
    }

    #[test]
    fn an_inconsistent_head_is_refused() {
        type Change = fn(&mut ParityHead);
        let changes: [Change; 5] = [
            |head| head.owner.pe = Pe(4),
            |head| head.owner.heap_len = HEAP_MAX + 1,
            |head| head.line = 1 << 62,
            |head| head.stored = vec![1],
            |head| head.stored = vec![1, (1 << 16) + 1],
        ];
        for change in changes {
            let mut head = head();
            change(&mut head);
            let refused = ParityHead::decode(&head.encode());
            assert!(matches!(refused, Err(FormatError::Impossible(_))), "{refused:?}");
        }
    }
}
