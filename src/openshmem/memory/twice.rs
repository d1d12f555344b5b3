//! Updates of two copies, ordered so that one of them is always whole.
//!
//! ```text
//! first copy, on the PE itself     complete before the second copy starts
//! second copy, on its shadow       complete when the call returns
//! ```
//!
//! A PE that dies in the first step leaves the old data on the shadow; one that dies in the second
//! leaves the new data on the first PE. A version word, which the program updates last, names the
//! valid copy.
//!
//! Invariant: the copies are on two nodes, as long as PEs live on several.

use raidshmem_core::quantity::Pe;

use super::address::{In, Sym};
use super::rma;
use crate::openshmem::check::{self, misuse};
use raidshmem_runtime::fault_tolerance as ft;
use raidshmem_runtime::pgas::stream::Target;
use raidshmem_runtime::pgas::{self, World};

/// Puts bytes to a PE and then to its shadow; returns true if both copies are complete.
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
    pes.into_iter().all(ft::may_use)
}

/// Ends the job if both copies are on one node although the job has several. A program cannot know
/// of a loss that this PE has not adopted: it learns of losses through the same view.
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
