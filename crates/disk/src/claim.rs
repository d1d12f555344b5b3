//! A checkpoint in the memory of a PE that is written to disk: while it is claimed, the PE copies
//! aside what it would overwrite of it.
//!
//! Invariant: what was copied aside is given back when the claim ends.

#![forbid(unsafe_code)]

use raidshmem_core::disk::Failure;
use raidshmem_core::layout::{Layout, TILE};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_segment::Headed;
use raidshmem_segment::aside::Aside;
use raidshmem_segment::header::Header;
use raidshmem_sys::memory::Part;

/// Most tiles that are read ahead.
const AHEAD: usize = 16;

/// A checkpoint of all PEs of a node, which may be still to come.
pub struct Claims {
    /// Which.
    pub number: CheckpointNumber,
    /// Tiles that may be aside at a time.
    room: usize,
    /// Those that were not read yet.
    left: std::vec::IntoIter<(Pe, Claim)>,
}

impl Claims {
    /// Claims it, with the `parity` that the PEs keep or without; at most `room` tiles of it are
    /// aside at a time.
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

    /// The next PE to be read. What the one before it had of the room, which is read, is for the
    /// others.
    fn next(&mut self) -> Option<(Pe, Claim)> {
        let left = self.left.as_slice();
        let share = self.room / left.len().max(1);
        left.iter().for_each(|(_, claim)| claim.aside().allow(share));
        self.left.next()
    }
}

/// Tiles that are read ahead, and tiles that may be aside, where a node has so many bytes for its
/// disk.
pub fn shares(memory: u64) -> (usize, usize) {
    let room = usize::try_from(memory / TILE as u64).unwrap_or(usize::MAX);
    let ahead = (room / 2).clamp(1, AHEAD);
    (ahead, room.saturating_sub(ahead))
}

/// The memory of a PE, of which a checkpoint is claimed.
pub struct Claim {
    /// Its part of the job.
    pub part: Part,
    /// Where everything is in its segment.
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
