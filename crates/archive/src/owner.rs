//! The owner of a file, with which the head of every file of a PE begins.
//!
//! Invariant of a decoded one: the PE number and the heap length are valid.

use raidshmem_core::message::HEAP_MAX;
use raidshmem_core::quantity::{CheckpointNumber, Pe};

use crate::bytes::{Reader, Writer};
use crate::error::FormatError;

/// A PE, and the checkpoint of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The job that wrote the file.
    pub job: u64,
    /// The checkpoint.
    pub number: CheckpointNumber,
    /// The PE that owns the file.
    pub pe: Pe,
    /// The number of PEs.
    pub n_pes: u32,
    /// Bytes of the symmetric heap.
    pub heap_len: u64,
}

impl Owner {
    pub(crate) fn write(&self, out: &mut Writer) {
        out.u64(self.job);
        out.u64(self.number.0);
        out.u32(self.pe.0);
        out.u32(self.n_pes);
        out.u64(self.heap_len);
    }

    pub(crate) fn read(body: &mut Reader<'_>) -> Result<Owner, FormatError> {
        let owner = Owner {
            job: body.u64()?,
            number: CheckpointNumber(body.u64()?),
            pe: Pe(body.u32()?),
            n_pes: body.u32()?,
            heap_len: body.u64()?,
        };
        match owner.pe.0 < owner.n_pes && owner.heap_len <= HEAP_MAX {
            true => Ok(owner),
            false => Err(FormatError::Impossible("the number of its PE, or its heap")),
        }
    }
}
