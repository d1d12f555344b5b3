//! Claims on checkpoints in the memory of PEs: while a checkpoint is claimed, its PE spills the
//! tiles of it that it would overwrite.
//!
//! Invariant: the spill is freed when the claim ends.

#![forbid(unsafe_code)]

use raidshmem_core::disk::Failure;
use raidshmem_core::layout::{Layout, TILE};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_segment::Headed;
use raidshmem_segment::header::Header;
use raidshmem_segment::spill::Spill;
use raidshmem_sys::memory::Part;

/// Maximum number of tiles read ahead.
const AHEAD: usize = 16;

/// A checkpoint of all PEs of a node, which may not exist yet.
pub struct Claims {
    /// The number of the checkpoint.
    pub number: CheckpointNumber,
    /// Tiles that may be spilled at a time.
    spilled_max: usize,
    /// The PEs that have not been read.
    left: std::vec::IntoIter<(Pe, SnapshotPin)>,
}

impl Claims {
    /// Claims a checkpoint, with the PEs' parity if `parity`; at most `spilled_max` tiles of it
    /// are spilled at a time.
    ///
    /// # Errors
    /// Memory cannot be mapped.
    pub fn new(
        number: CheckpointNumber,
        pes: &[(Pe, Part)],
        layout: Layout,
        parity: bool,
        spilled_max: usize,
    ) -> Result<Claims, Failure> {
        let most = spilled_max / pes.len().max(1);
        let claim = |(pe, part): &(Pe, Part)| {
            SnapshotPin::new(part.clone(), layout, number, parity, most).map(|claim| (*pe, claim))
        };
        let claims: Vec<(Pe, SnapshotPin)> = pes.iter().map(claim).collect::<Result<_, _>>()?;
        Ok(Claims { number, spilled_max, left: claims.into_iter() })
    }
}

impl Iterator for Claims {
    type Item = (Pe, SnapshotPin);

    /// Returns the next PE to read, and divides the spill limit among the PEs left: the preceding
    /// PE, which has been read, needs no share.
    fn next(&mut self) -> Option<(Pe, SnapshotPin)> {
        let left = self.left.as_slice();
        let share = self.spilled_max / left.len().max(1);
        left.iter().for_each(|(_, claim)| claim.spill().allow(share));
        self.left.next()
    }
}

/// Returns how many tiles are read ahead, and how many may be spilled, if a node has `memory` bytes
/// for its disk.
pub fn shares(memory: u64) -> (usize, usize) {
    let all = usize::try_from(memory / TILE as u64).unwrap_or(usize::MAX);
    let ahead = (all / 2).clamp(1, AHEAD);
    (ahead, all.saturating_sub(ahead))
}

/// The memory of a PE with a claimed checkpoint.
pub struct SnapshotPin {
    /// Its part of the job.
    pub part: Part,
    /// The layout of its segment.
    pub layout: Layout,
    headed: Headed,
}

impl SnapshotPin {
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
    ) -> Result<SnapshotPin, Failure> {
        let headed = Headed::of(&part, &layout).map_err(|error| refused(&error))?;
        let claim = SnapshotPin { part, layout, headed };
        claim.give_back(); // tiles that a PE spilled while the previous claim ended
        claim.spill().want(number, parity, most);
        Ok(claim)
    }

    /// Returns the header of the PE's store.
    pub fn header(&self) -> &Header {
        self.headed.header()
    }

    /// Returns the words that the agent and the PE exchange.
    pub fn spill(&self) -> &Spill {
        &self.header().spill
    }

    fn give_back(&self) {
        let [from, _] = self.layout.spills;
        let _ = self.part.give_back(from, self.layout.total - from); // else it is reused
    }
}

impl Drop for SnapshotPin {
    fn drop(&mut self) {
        self.spill().release();
        self.give_back();
    }
}

/// Returns the failure for an error of the system in mapping memory.
pub fn refused(error: &rustix::io::Errno) -> Failure {
    Failure::Refused(format!("memory: {error}"))
}
