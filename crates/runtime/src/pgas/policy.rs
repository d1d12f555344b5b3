//! The consequences of a loss for a call, by those for the job (`world/policy.rs`).
//!
//! Other modules ask here how a call should behave: a wait, a write, a meeting and a look at the
//! view each have one query.
//!
//! Left out: the logging of calls (`local.rs`) and agreements of the living PEs (`fewer.rs`).

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use raidshmem_core::agree::AgreedBits;
use raidshmem_core::message::PeMessage;
use raidshmem_core::quantity::Pe;
use raidshmem_segment::waits::Waiting;

use super::fewer::Members;
use super::world::finish::TOGETHER;
use super::{Fault, World};

/// The consequences of a loss for the calls of this PE.
#[derive(Clone, Copy)]
pub struct LossResponse<'a> {
    pub(super) world: &'a World,
}

impl World {
    /// Returns the consequences of a loss for the calls of this PE.
    #[inline]
    pub fn loss_response(&self) -> LossResponse<'_> {
        LossResponse { world: self }
    }

    /// Returns true in shrink mode: for calls that only such jobs may make, and for work among the
    /// living PEs.
    #[inline]
    pub fn shrinks(&self) -> bool {
        self.policy.shrinks()
    }

    /// Returns true if every loss rolls back all PEs.
    pub(crate) fn always_rolls_all_back(&self) -> bool {
        self.policy.always_rolls_all_back()
    }

    /// Returns true if PEs, all or the lost ones, roll back to a checkpoint after a loss.
    pub(crate) fn rolls_back_after_loss(&self) -> bool {
        !self.shrinks() && self.store.protection().is_some()
    }
}

impl LossResponse<'_> {
    /// Returns true if a wait for another PE must return: a loss is known that the program has not
    /// acknowledged, or that will roll it back.
    pub(super) fn is_disturbed(self) -> bool {
        if !self.world.shrinks() {
            return self.world.members.faulted()
                && (!self.world.logs() || self.world.all_roll_back());
        }
        self.world.survivors().adopt();
        self.world.fewer.has_news()
    }

    /// Returns true if a call that concerns other PEs does less than it should; called once a loss
    /// is known. Ends the job if this PE has to come to its end without the others.
    #[cold]
    pub(super) fn cut(self) -> bool {
        if self.world.logs() && !self.world.all_roll_back() {
            return false;
        }
        if self.world.shrinks() {
            self.world.survivors().adopt();
            return false;
        }
        if self.is_local_rollback() {
            self.world.members.say(&PeMessage::NeedsOthers);
            loop {
                std::thread::park(); // the launcher ends every PE
            }
        }
        self.note_cut();
        true
    }

    /// Returns true between a death and the restart, if the restart undoes what is done meanwhile.
    pub fn is_undone(self) -> bool {
        !self.world.shrinks() && self.interrupted()
    }

    /// Returns true if a known loss, not yet restored, interrupts what PEs do together.
    pub fn interrupts_meetings(self) -> bool {
        !self.world.shrinks() && self.world.members.faulted()
    }

    /// Returns true between a death and the restart, and for good in a PE that comes to its end
    /// alone.
    pub fn is_faulted(self) -> bool {
        if self.world.shrinks() { self.interrupted() } else { self.world.members.faulted() }
    }

    /// Notes that a call has met a loss, through a broken connection.
    pub(super) fn met_loss(self) {
        if !self.world.shrinks() {
            self.note_cut();
        }
    }

    /// Returns true if the program may have a pointer to memory of PE `pe`. If only lost PEs roll
    /// back, that is its own memory: no log has what is done through a pointer.
    pub fn may_hold_pointer_to(self, pe: Pe) -> bool {
        pe == self.world.me() || !self.world.local.is_on()
    }

    /// Returns true if PE `pe` is lost for good, which happens only in shrink mode.
    pub fn lost_for_good(self, pe: Pe) -> bool {
        self.world.shrinks() && self.world.survivors().is_lost_now(pe)
    }

    /// Acknowledges the losses known to the program. Returns true in shrink mode, in which a
    /// restart does nothing else.
    pub(crate) fn acknowledges(self) -> bool {
        if self.world.shrinks() {
            self.world.survivors().adopt();
            self.world.fewer.acknowledge();
        }
        self.world.shrinks()
    }

    /// Notes that the program queries the losses, which are those that it acknowledges next.
    pub(crate) fn note_query(self) {
        if self.world.shrinks() {
            self.world.fewer.ask(self.world.survivors().adopt());
        }
    }

    /// Returns true if a write to PE `pe` must be dropped.
    #[inline]
    pub fn drops_at(self, pe: Pe) -> bool {
        let cut = self.cut_short_at(pe);
        if cut && self.world.shrinks() {
            self.world.fewer.drop_write();
        }
        cut
    }

    /// Returns true if a request to PE `pe`, in a call that met a loss, is void.
    pub(super) fn is_void(self, pe: Pe) -> bool {
        if self.world.shrinks() {
            self.world.survivors().adopt();
            return self.world.fewer.is_lost(pe);
        }
        true
    }

    /// Returns true if a test of words must report success, since a loop around it would not end.
    pub fn ends_tests(self) -> bool {
        if self.world.shrinks() { self.is_disturbed() } else { self.cut_short() }
    }

    /// Returns the agreement of the living PEs, in shrink mode; None where PEs meet otherwise.
    pub fn agreed(self, members: impl FnOnce() -> Members, with: (u64, u64)) -> Option<AgreedBits> {
        self.world.shrinks().then(|| self.world.survivors().agree(&members(), with))
    }

    /// Leaves a team or an active set, whose words may then be reused.
    pub fn leave_group(self, members: impl FnOnce() -> Members) {
        if self.world.shrinks() {
            self.world.survivors().give_back(&members());
        }
    }

    /// Returns true if collectives may count calls in words of a team. In a job with logs they may
    /// not: a substitute repeats no call before its checkpoint, while others go on counting.
    pub fn keeps_counts(self) -> bool {
        self.world.always_rolls_all_back()
    }

    /// Waits until words are `ready`, or until the PE that should make them so `is_gone`: lost for
    /// good, or with rollback, any PE lost.
    pub fn wait_for_partner(
        self,
        waiting: impl FnOnce() -> Waiting,
        is_gone: impl Fn() -> bool,
        ready: impl Fn() -> bool,
    ) {
        match self.world.shrinks() {
            true => self.world.wait_for_words(waiting, || is_gone() || ready()),
            false => _ = self.world.wait_until(waiting, ready),
        }
    }

    /// Returns true if a call that concerns other PEs must do less than it should. Ends the job if
    /// this PE must finish without them.
    #[inline]
    pub fn cut_short(self) -> bool {
        self.world.members.faulted() && self.cut()
    }

    /// Like `cut_short`, for a call that concerns only PE `pe`.
    #[inline]
    pub fn cut_short_at(self, pe: Pe) -> bool {
        let cut = self.world.members.faulted()
            && !(pe == self.world.me() && self.is_local_rollback())
            && self.cut();
        cut || self.world.fewer.is_lost(pe)
    }

    /// Records that a call of the program has done less than it should.
    pub(crate) fn note_cut(self) {
        self.world.finish.cut.store(true, Ordering::Relaxed);
    }

    /// Returns true if this PE rolled back when other PEs were at their end.
    pub fn is_local_rollback(self) -> bool {
        self.world.finish.company.load(Ordering::Relaxed) != TOGETHER
    }

    /// Returns true if a collective call has no effect: a loss is known, or this PE is alone.
    pub(crate) fn is_apart(self) -> bool {
        self.is_disturbed() || self.is_local_rollback()
    }

    /// Returns true between a death and the restart, or its acknowledgement if no PE rolls back.
    pub fn interrupted(self) -> bool {
        self.is_disturbed() && !self.is_local_rollback()
    }

    /// Returns an error if this PE has seen a fault.
    pub fn healthy(self) -> Result<(), Fault> {
        if self.cut_short() { Err(Fault) } else { Ok(()) }
    }
}
