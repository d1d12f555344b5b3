//! Decisions of PE 0 in a checkpoint call, on saving and on stopping the job, which all PEs read in
//! the call's barrier.
//!
//! A call that skips its checkpoint is only a barrier of the protocol, which therefore contains
//! only calls that save. A PE that knows of a loss saves, because that is how a loss is reported;
//! the others leave the barrier with the decision of PE 0, or with the loss. If they differ because
//! PE 0 was lost after the barrier, no PE has begun to encode, and all roll back.
//!
//! Invariant: PE 0 writes its decision before it enters the barrier, alternating between two bits
//! for each question, so that a late reader does not read the next decision.

#![forbid(unsafe_code)]

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use raidshmem_core::quantity::Pe;
use raidshmem_segment::words::{Barrier, SiteWords, Words};

use super::World;
use super::gathering::MeetingOutcome;
use super::local::Call;

/// A question, by the first of its two alternating bits.
#[derive(Clone, Copy)]
enum Question {
    /// Does this call save?
    Due = 0,
    /// Must the job stop?
    Stop = 2,
}

/// The decisions in a checkpoint call.
#[derive(Clone, Copy)]
pub struct SaveDecisions<'a> {
    pub(super) world: &'a World,
}

impl World {
    /// Returns the decisions in a checkpoint call.
    #[inline]
    pub fn save_decisions(&self) -> SaveDecisions<'_> {
        SaveDecisions { world: self }
    }
}

impl SaveDecisions<'_> {
    /// Returns true if the present checkpoint call of the program saves; by default each does. All
    /// PEs that know of no loss get the same answer.
    pub(crate) fn saves_now(self, call: &'static str) -> bool {
        if self.world.loss_response().is_local_rollback()
            || !self.world.timing.may_pass()
            || self.world.timing.is_promised()
        {
            return true;
        }
        let members = &self.world.members;
        let is_asked = || members.is_stopping() || members.drain().is_some();
        let is_due = || self.world.timing.is_due() || is_asked();
        if self.world.logs() {
            return self.decided_logged(call, is_due);
        }
        if let Some(decision) = self.decided_among(call, is_due) {
            return decision;
        }
        if self.world.members.faulted() {
            return true;
        }
        self.decided(call, Question::Due, is_due).unwrap_or(true)
    }

    /// Returns true if the job must stop once its next checkpoint is on disk. All PEs that know of
    /// no loss get the same answer.
    pub(crate) fn stops(self, call: &'static str) -> bool {
        let may_stop = self.world.timing.may_stop() && !self.world.members.faulted();
        let is_stopping = || self.world.members.is_stopping();
        may_stop && self.decided(call, Question::Stop, is_stopping).unwrap_or(false)
    }

    /// Returns the decision of the living PEs in shrink mode; None in other jobs. A PE for which a
    /// checkpoint is due is enough, or one that knows of a loss since the last checkpoint.
    fn decided_among(self, call: &'static str, is_due: impl Fn() -> bool) -> Option<bool> {
        let world = self.world;
        let all_living_are_in = || {
            let last = world.store.protection();
            let lives = |pe: Pe| !world.fewer.is_lost(pe);
            last.is_some_and(|last| Pe::all(world.n_pes()).all(|pe| lives(pe) || !last.holds(pe)))
        };
        let passes = !is_due() && all_living_are_in();
        let members = || world.barriers().all_members(call);
        let agreed = world.loss_response().agreed(members, (passes.into(), 0))?;
        Some(agreed.value == 0 || agreed.has_news())
    }

    /// Like `decided`, for a logged call.
    fn decided_logged(self, call: &'static str, decide: impl FnOnce() -> bool) -> bool {
        let what = || if self.world.me() == Pe(0) { vec![u8::from(decide())] } else { Vec::new() };
        let met = self.world.log_meetings().meet_bringing(Call { name: call, with: 0 }, what);
        let is_due = match met {
            MeetingOutcome::Together(parts) => {
                let mut says = true;
                let is_read = self.world.log_meetings().work_out(parts, |parts| {
                    says = self.world.segments.bytes_of(Pe(0), parts[0].0, 1) != [0];
                });
                !is_read || says
            }
            // Without a record there is no decision to read.
            MeetingOutcome::Plain | MeetingOutcome::Cut => true,
        };
        self.world.log_meetings().is_met();
        is_due
    }

    /// Returns the decision of PE 0; None if a PE was lost.
    fn decided(
        self,
        call: &'static str,
        question: Question,
        decide: impl FnOnce() -> bool,
    ) -> Option<bool> {
        let turn =
            (self.world.comm.epochs()[Barrier::Protocol as usize].load(Ordering::Relaxed) + 1) & 1;
        let bit = 1 << (question as u64 + turn);
        if self.world.me() == Pe(0) {
            let word = &self.world.segments.own().words().site.due;
            let other = word.load(Ordering::Relaxed) & !bit;
            word.store(if decide() { other | bit } else { other }, Ordering::SeqCst);
        }
        self.world.barriers().barrier_of(Barrier::Protocol, call).ok()?;
        let at = offset_of!(Words, site) + offset_of!(SiteWords, due);
        let mut decision = None;
        self.world.wait_raw(
            || self.world.waiting_for_all(call),
            || {
                decision = self.world.comm.look(Pe(0), at);
                decision.is_some() || self.world.members.faulted()
            },
        );
        decision.map(|word| word & bit != 0)
    }
}
