//! Claims on checkpoints in the memory of PEs: while a checkpoint is claimed, its PE spills the
//! tiles of it that it would overwrite.
//!
//! Invariant: the spill is freed when the claim ends.

#![forbid(unsafe_code)]

use raidshmem_core::disk::Failure;
use raidshmem_core::layout::{Layout, TILE};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_segment::Headed;
use raidshmem_segment::aside::Aside;
use raidshmem_segment::header::Header;
use raidshmem_sys::memory::Part;

/// Maximum number of tiles read ahead.
const AHEAD: usize = 16;

/// A checkpoint of all PEs of a node, which may not exist yet.
pub struct Claims {
    /// The number of the checkpoint.
    pub number: CheckpointNumber,
    /// Tiles that may be spilled at a time.
    room: usize,
    /// The PEs that have not been read.
    left: std::vec::IntoIter<(Pe, Claim)>,
}

impl Claims {
    /// Claims a checkpoint, with the `parity` that the PEs keep or without; at most `room` tiles of
    /// it are spilled at a time.
    ///
    /// # Errors
    /// Memory cannot be mapped.
    pub fn new(
        number: CheckpointNumber,
        pes: &[(Pe, Part)],
        layout: Layout,
        parity: bool,
        room: usize,
    ) -> Result<Claims, Failure> {
        let most = room / pes.len().max(1);
        let claim = |(pe, part): &(Pe, Part)| {
            Claim::new(part.clone(), layout, number, parity, most).map(|claim| (*pe, claim))
        };
        let claims: Vec<(Pe, Claim)> = pes.iter().map(claim).collect::<Result<_, _>>()?;
        Ok(Claims { number, room, left: claims.into_iter() })
    }
}

impl Iterator for Claims {
    type Item = (Pe, Claim);

    /// Returns the next PE to read, and divides the room among those left: the PE before it, which
    /// is read, needs none.
    fn next(&mut self) -> Option<(Pe, Claim)> {
        let left = self.left.as_slice();
        let share = self.room / left.len().max(1);
        left.iter().for_each(|(_, claim)| claim.aside().allow(share));
        self.left.next()
    }
}

/// Returns how many tiles are read ahead, and how many may be spilled, if a node has `memory` bytes
/// for its disk.
pub fn shares(memory: u64) -> (usize, usize) {
    let room = usize::try_from(memory / TILE as u64).unwrap_or(usize::MAX);
    let ahead = (room / 2).clamp(1, AHEAD);
    (ahead, room.saturating_sub(ahead))
}

/// The memory of a PE with a claimed checkpoint.
pub struct Claim {
    /// Its part of the job.
    pub part: Part,
    /// The layout of its segment.
    pub layout: Layout,
    headed: Headed,
}

impl Claim {
    /// Claims the checkpoint, with the `parity` that the PE keeps or without; at most `most` tiles
    /// of it are spilled.
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
        claim.give_back(); // tiles that a PE spilled while the previous claim ended
        claim.aside().want(number, parity, most);
        Ok(claim)
    }

    /// Returns the header of the PE's store.
    pub fn header(&self) -> &Header {
        self.headed.header()
    }

    /// Returns the words that the agent and the PE exchange.
    pub fn aside(&self) -> &Aside {
        &self.header().aside
    }

    fn give_back(&self) {
        let [from, _] = self.layout.asides;
        let _ = self.part.give_back(from, self.layout.total - from); // else it is reused
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.aside().release();
        self.give_back();
    }
}

/// Returns the failure for an error of the system in mapping memory.
pub fn refused(error: &rustix::io::Errno) -> Failure {
    Failure::Refused(format!("memory: {error}"))
}
