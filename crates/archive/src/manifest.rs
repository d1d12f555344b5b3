//! The manifest of a set: which files belong to it, and what must fit to resume from it.
//!
//! A folder with a manifest is a set: the manifest comes into place after every file is on disk.
//! It names the file of each PE by its length and by the checksum of its head, so that a file of
//! another set is not taken for one of this.

use raidshmem_core::disk::Entry;
use raidshmem_core::message::HEAP_MAX;
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::view::PES_MAX;

use crate::bytes::{self, Kind, Writer};
use crate::error::FormatError;

/// What a manifest begins with, and its version.
const KIND: Kind = Kind { magic: *b"RAIDSETM", version: 1, name: "manifest" };

/// What a set is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The job that wrote it.
    pub job: u64,
    /// The checkpoint.
    pub number: CheckpointNumber,
    /// Bytes of the symmetric heap of each PE.
    pub heap_len: u64,
    /// When it was written, in seconds since 1970.
    pub seconds: u64,
    /// `SHMEM_FT_BACKUP_MODE` of the job.
    pub mode: String,
    /// The program and its arguments, for people.
    pub program: String,
    /// The file of each PE.
    pub entries: Vec<Entry>,
}

impl Manifest {
    /// The manifest as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new(KIND);
        out.u64(self.job);
        out.u64(self.number.0);
        out.u64(self.heap_len);
        out.u64(self.seconds);
        out.run(self.mode.as_bytes());
        out.run(self.program.as_bytes());
        out.count(self.entries.len());
        for Entry { len, sum } in &self.entries {
            out.u64(*len);
            out.u32(*sum);
        }
        out.finish()
    }

    /// The manifest that these bytes, all of them, are.
    ///
    /// # Errors
    /// They are none, they are damaged, or they say what cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, FormatError> {
        let mut body = bytes::body(KIND, bytes)?;
        let manifest = Manifest {
            job: body.u64()?,
            number: CheckpointNumber(body.u64()?),
            heap_len: body.u64()?,
            seconds: body.u64()?,
            mode: body.text()?,
            program: body.text()?,
            entries: body.list(12, |body| Ok(Entry { len: body.u64()?, sum: body.u32()? }))?,
        };
        body.end()?;
        let pes = (1..=PES_MAX).contains(&manifest.entries.len());
        if bytes.len() != bytes::frame_len(KIND, bytes)? {
            return Err(FormatError::Impossible("a manifest that goes on after its end"));
        }
        match pes && manifest.number.0 > 0 && manifest.heap_len <= HEAP_MAX {
            true => Ok(manifest),
            false => Err(FormatError::Impossible("its PEs, its checkpoint or its heap")),
        }
    }

    /// Bytes of all files that it names.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().fold(0, |sum, entry| sum.saturating_add(entry.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            job: 5,
            number: CheckpointNumber(40),
            heap_len: 1 << 20,
            seconds: 1_700_000_000,
            mode: "raid5".into(),
            program: "jacobi 512".into(),
            entries: (1..5).map(|nth| Entry { len: 70_000 * nth, sum: nth as u32 }).collect(),
        }
    }

    #[test]
    fn a_manifest_is_read_back_as_it_was_written_and_nothing_else_is_taken() {
        let mut bytes = manifest().encode();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest()));
        assert_eq!(manifest().bytes(), 700_000);
        for cut in 0..bytes.len() {
            let refused = Manifest::decode(&bytes[..cut]);
            assert!(matches!(refused, Err(FormatError::Short { .. })), "{cut}");
        }
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        bytes.push(0);
        assert!(Manifest::decode(&bytes).is_err(), "a byte more");
    }

    #[test]
    fn a_manifest_that_says_what_cannot_be_is_refused() {
        type Change = fn(&mut Manifest);
        let changes: [Change; 3] = [
            |manifest| manifest.number = CheckpointNumber::START,
            |manifest| manifest.heap_len = u64::MAX,
            |manifest| manifest.entries.clear(),
        ];
        for change in changes {
            let mut manifest = manifest();
            change(&mut manifest);
            let refused = Manifest::decode(&manifest.encode());
            assert!(matches!(refused, Err(FormatError::Impossible(_))), "{refused:?}");
        }
    }
}
