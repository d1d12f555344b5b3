//! The work area of collectives: slots for data that PEs leave for each other, hidden from the
//! program.
//!
//! A slot is a `SegmentRange` located by number instead of by an address of the program. The
//! schedules define which PE may write a slot, and when (`schedule::reduction`).

use raidshmem_core::layout::WORK_SLOT;
use raidshmem_runtime::pgas;

use super::address::{In, Out};
use super::direct::{get_from, put_to};
use super::place::SegmentRange;
use super::strides::Strides;
use crate::openshmem::bits::Zero;

/// One of the slots that every PE has.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Number of the team.
    pub team: usize,
    /// Index of its set, 0 or 1.
    pub set: usize,
    /// Round of the collective.
    pub round: usize,
    /// Offset in the slot, in bytes.
    pub at: usize,
}

impl Slot {
    /// Returns `bytes` bytes of the slot on a PE.
    fn on(self, call: &'static str, bytes: usize, pe: i32) -> SegmentRange {
        assert!(self.at + bytes <= WORK_SLOT, "{bytes} bytes at {} of a slot", self.at);
        let layout = pgas::world_for(call).segments.layout();
        let slot = layout.slot(self.team, self.set, self.round);
        SegmentRange::of_library(call, slot + self.at, pe)
    }
}

/// Copies elements into a slot of a PE.
pub fn leave<T: Copy + Zero>(call: &'static str, slot: Slot, from: &[T], pe: i32) {
    let bytes = size_of_val(from);
    put_to(slot.on(call, bytes, pe), In(from.as_ptr()).erase(), Strides::one(bytes));
}

/// Copies elements out of a slot of this PE.
pub fn pick<T: Copy + Zero>(call: &'static str, slot: Slot, into: &mut [T]) {
    let (bytes, me) = (size_of_val(into), pgas::world_for(call).me().0 as i32);
    get_from(slot.on(call, bytes, me), Out(into.as_mut_ptr()).erase(), Strides::one(bytes));
}
