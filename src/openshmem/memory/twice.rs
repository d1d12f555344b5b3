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

use super::address::{In, Sym};
use super::rma;
use crate::faults;
use crate::openshmem::check::{self, misuse};
use crate::pgas;
use crate::pgas::stream::Target;

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
    for target in [first, shadow] {
        rma::put(call, dest, source, bytes, target);
        world.quiet_of(target.stream);
    }
    pes.into_iter().all(faults::may_use)
}
