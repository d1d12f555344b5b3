//! An update of two copies, in an order in which one of both is always whole.
//!
//! ```text
//! the copy of the first PE     complete there before the other one begins
//! the copy of its shadow       complete there when the call returns
//! ```
//!
//! A PE that dies in the first step leaves what the shadow had, and in the second one what is new
//! in the copy of the first. Which of both it is says a word that the program updates after the
//! bytes.
//!
//! Invariant: the copies are on two nodes, as long as PEs live on several.

use raidshmem_core::quantity::Pe;

use super::address::{In, Sym};
use super::rma;
use crate::faults;
use crate::openshmem::check::{self, misuse};
use crate::pgas::stream::Target;
use crate::pgas::{self, World};

/// Puts bytes to a PE and then to its shadow; true if both have them.
pub fn put(
    call: &'static str,
    dest: Sym<u8>,
    source: In<u8>,
    bytes: usize,
    [first, shadow]: [Target; 2],
) -> bool {
    let world = pgas::world();
    let pes = [first, shadow].map(|target| check::pe(call, world, target.pe));
    if first.pe == shadow.pe {
        misuse(call, format_args!("shadow {}: expected another PE than pe", shadow.pe));
    }
    let is_one_node = world.segments.node_of(pes[0]) == world.segments.node_of(pes[1]);
    if is_one_node && world.comm.has_several_nodes() {
        check_apart(call, world, pes);
    }
    for target in [first, shadow] {
        rma::put(call, dest, source, bytes, target);
        world.quiet_of(target.stream);
    }
    pes.into_iter().all(faults::may_use)
}

/// Ends the job if the copies of two PEs of one node could be on two nodes. A program cannot know
/// of a loss that is not adopted here: who told it of that was told by the same view.
#[cold]
fn check_apart(call: &'static str, world: &World, [first, shadow]: [Pe; 2]) {
    if [first, shadow].into_iter().any(|pe| world.lost_for_good(pe)) {
        return;
    }
    if world.comm.has_several_nodes() {
        misuse(
            call,
            format_args!(
                "shadow {shadow}: expected a PE on another node than pe {first}, so that no loss \
                 takes both copies"
            ),
        );
    }
}
