//! Collectives in a job with logs, recorded once, at the level of the call.
//!
//! Each PE leaves its contribution in its log and enters a meeting, then computes the result from
//! all contributions. So no PE repeats a collective for a PE that rolls back locally, and an
//! interrupted collective completes when the substitute reaches it.
//!
//! If a PE's log is full, or a PE made a call that is not logged, all PEs take the unlogged path.

use raidshmem_core::quantity::Pe;
use raidshmem_runtime::pgas::gathering::MeetingOutcome;
use raidshmem_runtime::pgas::local::Call;
use raidshmem_runtime::pgas::{self, Fault, World};

use super::merge::with_scratch;
use super::movement::Movement;
use super::reduction::Reduction;
use crate::openshmem::bits::Zero;
use crate::openshmem::group::Group;
use crate::openshmem::memory::logged::{elements, fill, source};
use crate::openshmem::memory::rma;

/// Elements reduced at a time.
const PIECE: usize = 1024;

/// The outcome of a collective, or None if it takes the unlogged path.
pub type Outcome = Option<Result<(), Fault>>;

/// Returns true if collectives are currently logged.
pub fn applies() -> bool {
    pgas::world().logs()
}

/// Meets the PEs of a group with the contribution `what`; `make` computes the result from all
/// contributions.
fn meet(
    group: &Group,
    with: u64,
    what: &[u8],
    mut make: impl FnMut(&World, &[(usize, usize)]),
) -> Outcome {
    let world = pgas::world();
    let call = Call { name: group.call, with };
    match world.log_meetings().meet_group(&group.meeting_group(), call, what) {
        MeetingOutcome::Cut => Some(Err(Fault)),
        MeetingOutcome::Plain => {
            world.log_meetings().is_met();
            None
        }
        MeetingOutcome::Together(parts) => {
            let is_made = world.log_meetings().work_out(parts, |parts| make(world, parts));
            world.log_meetings().is_met();
            Some(if is_made { Ok(()) } else { Err(Fault) })
        }
    }
}

/// Returns the member of a group with an index.
fn member(group: &Group, index: usize) -> Pe {
    Pe(group.pe(index).cast_unsigned())
}

/// Runs a barrier of a group.
pub fn barrier(group: &Group) -> Outcome {
    meet(group, 0, &[], |_, _| {})
}

/// Gathers one number from each PE, by index.
pub fn gather(group: &Group, number: u64) -> Option<Result<Vec<u64>, Fault>> {
    let mut all = Vec::new();
    let outcome = meet(group, 0, &number.to_ne_bytes(), |world, parts| {
        let number = |(index, &(at, bytes)): (usize, &(usize, usize))| {
            let bytes = world.segments.bytes_of(member(group, index), at, bytes);
            bytes.try_into().map_or(0, u64::from_ne_bytes)
        };
        all = parts.iter().enumerate().map(number).collect();
    });
    outcome.map(|outcome| outcome.map(|()| all))
}

/// Moves bytes; returns the total.
pub fn movement(of: &Movement) -> Option<Result<usize, Fault>> {
    let (call, mut all) = (of.group.call, 0);
    let outcome = meet(&of.group, of.digest(), &of.contribution(), |world, parts| {
        all = parts.iter().map(|(_, len)| len).sum();
        of.check_capacity(all);
        for one in of.moves(parts.iter().map(|(_, len)| *len).enumerate()) {
            let (at, bytes) = (parts[one.giver].0 + one.packed, one.by.bytes());
            let from = world.segments.bytes_of(member(&of.group, one.giver), at, bytes);
            let blocks = from.chunks_exact(one.by.block_bytes.max(1));
            for (nth, block) in blocks.enumerate() {
                fill(call, of.dest.element(one.to + nth * one.by.dest_bytes), block);
            }
        }
    });
    outcome.map(|outcome| outcome.map(|()| all))
}

/// Combines elements.
pub fn reduction<T: Copy + Zero>(of: &Reduction<T>) -> Outcome {
    let (group, call) = (&of.group, of.group.call);
    let members = (0..group.size).collect::<Vec<_>>();
    let operands = of.operands(&members);
    let what = source(call, of.source.erase(), of.count * size_of::<T>());
    meet(group, of.digest(), what, |world, parts| {
        for first in (0..of.count).step_by(PIECE) {
            let len = PIECE.min(of.count - first);
            let read = |index: usize, into: &mut [T]| {
                let at = parts[index].0 + first * size_of::<T>();
                elements(world, member(group, index), at, into);
            };
            with_scratch(of.scratch_len(operands, len), |scratch| {
                let result = of.combined((operands, len), scratch, read);
                rma::send(call, of.dest.element(first), result, world.me().0 as i32);
            });
        }
    })
}
