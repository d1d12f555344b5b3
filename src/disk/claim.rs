//! A checkpoint in the memory of a PE that is written to disk: while it is claimed, the PE copies
//! aside what it would overwrite of it.
//!
//! Invariant: what was copied aside is given back when the claim ends.

#![forbid(unsafe_code)]

use raidshmem_core::disk::Failure;
use raidshmem_core::layout::Layout;
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_segment::Headed;
use raidshmem_segment::aside::Aside;
use raidshmem_segment::header::Header;
use raidshmem_sys::memory::Part;

/// The memory of a PE, of which a checkpoint is claimed.
pub struct Claim {
    pub part: Part,
    pub layout: Layout,
    headed: Headed,
}

impl Claim {
    /// Claims the checkpoint, with the `parity` that the PE keeps or without; at most so many tiles
    /// of it are copied aside.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub fn new(
        part: Part,
        layout: Layout,
        number: CheckpointNumber,
        parity: bool,
        most: usize,
    ) -> Result<Claim, Failure> {
        let headed = Headed::of(&part, &layout).map_err(|error| refused(&error))?;
        let claim = Claim { part, layout, headed };
        claim.give_back(); // what a PE copied while the one before ended
        claim.aside().want(number, parity, most);
        Ok(claim)
    }

    /// The header of the PE's store.
    pub fn header(&self) -> &Header {
        self.headed.header()
    }

    /// What the PE is told, and says.
    pub fn aside(&self) -> &Aside {
        &self.header().aside
    }

    fn give_back(&self) {
        let [from, _] = self.layout.asides;
        let _ = self.part.give_back(from, self.layout.total - from); // it is taken once more then
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.aside().release();
        self.give_back();
    }
}

/// What the system says of memory.
pub fn refused(error: &rustix::io::Errno) -> Failure {
    Failure::Refused(format!("memory: {error}"))
}
