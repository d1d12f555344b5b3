//! Collectives of all PEs in a job with logs, recorded once, at the level of the call.
//!
//! Each PE leaves its contribution in its log and enters a meeting, then computes the result from
//! all contributions. So no PE repeats a collective for a PE that rolls back locally, and an
//! interrupted collective completes when the substitute reaches it.
//!
//! If a PE's log is full, or a PE made a call that is not logged, all PEs take the unlogged path.
//!
//! Left out: teams other than that of all PEs, and active sets, which are not logged.

use raidshmem_core::quantity::Pe;

use super::merge::with_scratch;
use super::movement::Movement;
use super::reduction::Reduction;
use crate::openshmem::bits::Zero;
use crate::openshmem::group::Group;
use crate::openshmem::memory::logged::{self, elements, fill, source};
use crate::openshmem::memory::rma;
use raidshmem_runtime::pgas::gathering::MeetingOutcome;
use raidshmem_runtime::pgas::local::Call;
use raidshmem_runtime::pgas::{self, Fault, World};

/// Elements reduced at a time.
const PIECE: usize = 1024;

/// The outcome of a collective, or None if it takes the unlogged path.
pub type Outcome = Option<Result<(), Fault>>;

/// Returns true if the group is that of all PEs and its collectives are currently logged.
pub fn applies(group: &Group) -> bool {
    if !logged::applies() {
        return false;
    }
    if !group.is_world() {
        logged::unlogged(group.call);
    }
    pgas::world().logs() && group.is_world()
}

/// Meets all PEs with the contribution `what`; `make` computes the result from all contributions.
fn meet(
    call: &'static str,
    with: u64,
    what: &[u8],
    mut make: impl FnMut(&World, &[(usize, usize)]),
) -> Outcome {
    let world = pgas::world();
    match world.meet_logged(Call { name: call, with }, what) {
        MeetingOutcome::Cut => Some(Err(Fault)),
        MeetingOutcome::Plain => {
            world.is_met();
            None
        }
        MeetingOutcome::Together(parts) => {
            let is_made = world.work_out(parts, |parts| make(world, parts));
            world.is_met();
            Some(if is_made { Ok(()) } else { Err(Fault) })
        }
    }
}

fn part<'a>(world: &'a World, parts: &[(usize, usize)], index: usize) -> &'a [u8] {
    let (at, len) = parts[index];
    let mapped = world.segments.if_mapped(Pe::of(index)).unwrap_or_else(|| world.segments.own());
    mapped.bytes(at, len)
}

/// Runs a barrier of all PEs.
pub fn barrier(call: &'static str, with: u64) -> Outcome {
    meet(call, with, &[], |_, _| {})
}

/// Moves bytes; returns the total.
pub fn movement(of: &Movement) -> Option<Result<usize, Fault>> {
    let (call, mut all) = (of.group.call, 0);
    let outcome = meet(call, of.digest(), &of.contribution(), |world, parts| {
        all = parts.iter().map(|(_, len)| len).sum();
        of.check_capacity(all);
        for one in of.moves(parts.iter().map(|(_, len)| *len).enumerate()) {
            let from = &part(world, parts, one.giver)[one.packed..][..one.by.bytes()];
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
    let (call, members) = (of.group.call, (0..of.group.size).collect::<Vec<_>>());
    let operands = of.operands(&members);
    let what = source(call, of.source.erase(), of.count * size_of::<T>());
    meet(call, of.digest(), what, |world, parts| {
        for first in (0..of.count).step_by(PIECE) {
            let len = PIECE.min(of.count - first);
            let read = |index: usize, into: &mut [T]| {
                let at = parts[index].0 + first * size_of::<T>();
                elements(world, Pe::of(index), at, into);
            };
            with_scratch(of.scratch_len(operands, len), |scratch| {
                let result = of.combined((operands, len), scratch, read);
                rma::send(call, of.dest.element(first), result, world.me().0 as i32);
            });
        }
    })
}
