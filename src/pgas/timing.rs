//! Whether a call of the checkpoint saves: PE 0 decides, and all read that in the call's barrier.
//!
//! A call that passes is a barrier of the protocol, and nothing else of it. So the protocol has
//! only calls that save. A PE that knows of a loss saves, which is how a loss is reported; the
//! others come out of the barrier with what PE 0 decided, or with the loss. If they differ because
//! PE 0 was lost after the barrier, no PE has begun to encode, and all go back.
//!
//! Invariant: PE 0 writes its decision before it comes to the barrier, in one of two bits in turn,
//! so that nobody who reads it late reads the next.

#![forbid(unsafe_code)]

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use raidshmem_core::quantity::Pe;
use raidshmem_segment::words::{Barrier, Site, Words};

use super::World;

impl World {
    /// True if the checkpoint that the program calls now saves. The same answer on all PEs that
    /// know of no loss.
    pub(crate) fn saves_now(&self, call: &'static str) -> bool {
        if !self.timing.may_pass() || self.timing.is_promised() || self.members.faulted() {
            return true;
        }
        let turn = (self.comm.epochs()[Barrier::Protocol as usize].load(Ordering::Relaxed) + 1) & 1;
        if self.me() == Pe(0) {
            let word = &self.segments.own().words().site.due;
            let other = word.load(Ordering::Relaxed) & !(1 << turn);
            word.store(other | u64::from(self.timing.is_due()) << turn, Ordering::SeqCst);
        }
        if self.barrier_of(Barrier::Protocol, call).is_err() {
            return true;
        }
        let at = offset_of!(Words, site) + offset_of!(Site, due);
        let mut decision = None;
        self.wait_raw(
            || self.waiting_for_all(call),
            || {
                decision = self.look(Pe(0), at);
                decision.is_some() || self.members.faulted()
            },
        );
        decision.is_none_or(|word| word >> turn & 1 == 1)
    }
}
