//! The work area of collectives: slots for data that PEs leave for each other, hidden from the
//! program.
//!
//! A slot is a `SegmentRange` located by number instead of by an address of the program. The
//! schedules define which PE may write a slot, and when (`schedule::reduction`).

use raidshmem_core::layout::WORK_SLOT;

use super::address::{In, Out};
use super::place::SegmentRange;
use super::rma::{get_from, put_to};
use crate::openshmem::bits::Zero;
use raidshmem_runtime::pgas;

/// One of the slots that every PE has.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Number of the team.
    pub team: usize,
    /// Index of its set, 0 or 1.
    pub set: usize,
    /// Round of the collective.
    pub round: usize,
}

impl Slot {
    /// Returns the first `bytes` bytes of the slot on a PE.
    fn on(self, call: &'static str, bytes: usize, pe: i32) -> SegmentRange {
        assert!(bytes <= WORK_SLOT, "{bytes} bytes in a slot");
        let layout = pgas::world_for(call).segments.layout();
        SegmentRange::of_library(call, layout.slot(self.team, self.set, self.round), pe)
    }
}

/// Copies elements into a slot of a PE.
pub fn leave<T: Copy + Zero>(call: &'static str, slot: Slot, from: &[T], pe: i32) {
    let bytes = size_of_val(from);
    put_to(slot.on(call, bytes, pe), In(from.as_ptr()).erase(), bytes);
}

/// Copies elements out of a slot of this PE.
pub fn pick<T: Copy + Zero>(call: &'static str, slot: Slot, into: &mut [T]) {
    let (bytes, me) = (size_of_val(into), pgas::world_for(call).me().0 as i32);
    get_from(slot.on(call, bytes, me), Out(into.as_mut_ptr()).erase(), bytes);
}
