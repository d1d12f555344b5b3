//! What a loss means to a job: one value, chosen at its start.
//!
//! ```text
//! global   all go back together to the last checkpoint
//! local    calls are logged, and a lost PE goes back alone while that can be
//! shrink   nobody goes back: what is called is carried out among those that live
//! ```
//!
//! Other modules ask what a call is to do, and never which of them it is. A wait, a write, a meeting
//! and a look at the view each have one question here.
//!
//! Invariant: nothing else sees [`Policy`].
//!
//! Left out: how calls are logged (`local.rs`) and how those that live agree (`fewer.rs`).

#![forbid(unsafe_code)]

use raidshmem_core::agree::AgreedBits;
use raidshmem_core::message::PeMessage;
use raidshmem_core::quantity::Pe;
use raidshmem_core::settings::{Rollback, Settings};
use raidshmem_segment::waits::Waiting;

use super::World;
use super::fewer::Members;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Global,
    Local,
    Shrink,
}

/// What a loss means.
#[derive(Debug, Clone, Copy)]
pub struct LossPolicy(Policy);

impl LossPolicy {
    /// That of a job with these settings; logs need PEs that map each other, and an agent.
    pub(super) fn of(settings: &Settings, may_log: bool) -> LossPolicy {
        LossPolicy(match settings.rollback {
            Rollback::None => Policy::Shrink,
            Rollback::Local if may_log => Policy::Local,
            Rollback::Local | Rollback::Global => Policy::Global,
        })
    }

    /// True if calls are logged as long as nothing speaks against it.
    pub(super) fn keeps_logs(self) -> bool {
        self.0 == Policy::Local
    }

    /// True if those that live go on without the lost.
    pub(super) fn goes_on(self) -> bool {
        self.0 == Policy::Shrink
    }
}

impl World {
    /// True if the job goes on with fewer after a loss: for calls that are for such jobs alone, and
    /// what is done among those that live.
    #[inline]
    pub fn goes_on(&self) -> bool {
        self.policy.goes_on()
    }

    /// True if a loss takes all back, whatever came before.
    pub(crate) fn goes_back_together(&self) -> bool {
        self.policy.0 == Policy::Global
    }

    /// True if PEs go back to a checkpoint after a loss, all or the lost.
    pub(crate) fn goes_back(&self) -> bool {
        !self.goes_on() && self.store.protection().is_some()
    }

    // ---- views --------------------------------------------------------------------------------

    /// True if a wait for another PE is to return: a loss is known that the program has not
    /// acknowledged, or after which it has to go back.
    pub(super) fn is_disturbed(&self) -> bool {
        match self.policy.0 {
            Policy::Global => self.members.faulted(),
            Policy::Local => self.members.faulted() && (!self.logs() || self.all_go_back()),
            Policy::Shrink => {
                self.adopt();
                self.fewer.has_news()
            }
        }
    }

    /// True if a call that concerns other PEs does less than it should, asked once a loss is known.
    /// Ends the job if this PE has to come to its end without the others.
    #[cold]
    pub(super) fn cut(&self) -> bool {
        match self.policy.0 {
            Policy::Local if self.logs() && !self.all_go_back() => return false,
            Policy::Global | Policy::Local => {}
            Policy::Shrink => {
                self.adopt();
                return false;
            }
        }
        if self.is_alone() {
            self.members.say(&PeMessage::NeedsOthers);
            loop {
                std::thread::park(); // the launcher ends every PE
            }
        }
        self.note_cut();
        true
    }

    /// True between a death and the restart where what is done meanwhile is undone.
    pub fn is_undone(&self) -> bool {
        !self.goes_on() && self.interrupted()
    }

    /// True if a loss is known that is not restored, where that ends what PEs do together.
    pub fn breaks_off(&self) -> bool {
        !self.goes_on() && self.members.faulted()
    }

    /// True between a death and the restart; for good in a PE that comes to its end alone.
    pub fn is_faulted(&self) -> bool {
        if self.goes_on() { self.interrupted() } else { self.members.faulted() }
    }

    /// A call has met a loss, by a connection that broke.
    pub(super) fn met_loss(&self) {
        if !self.goes_on() {
            self.note_cut();
        }
    }

    /// True if PE `pe` is lost and stays so: where somebody goes back, nobody is.
    pub fn lost_for_good(&self, pe: Pe) -> bool {
        self.goes_on() && self.is_lost_now(pe)
    }

    /// Acknowledges the losses that the program knows of, where that is all a restart does.
    pub(crate) fn acknowledges(&self) -> bool {
        if self.goes_on() {
            self.adopt();
            self.fewer.acknowledge();
        }
        self.goes_on()
    }

    /// The program asks who is lost: what it acknowledges next are those.
    pub(crate) fn is_asked(&self) {
        if self.goes_on() {
            self.fewer.ask(self.adopt());
        }
    }

    // ---- calls --------------------------------------------------------------------------------

    /// True if a write to PE `pe` is to be dropped.
    #[inline]
    pub fn drops_at(&self, pe: Pe) -> bool {
        let cut = self.cut_short_at(pe);
        if cut && self.goes_on() {
            self.fewer.drop_write();
        }
        cut
    }

    /// True if what was asked of PE `pe` in a call that met a loss is void.
    pub(super) fn is_void(&self, pe: Pe) -> bool {
        !self.goes_on() || self.fewer.is_lost(pe)
    }

    /// True if a test of words is to say that they satisfy: a loop around it would not end.
    pub fn lets_go(&self) -> bool {
        if self.goes_on() { self.is_disturbed() } else { self.cut_short() }
    }

    /// What those that live come to by an agreement, where they do not meet otherwise.
    pub fn agreed(
        &self,
        members: impl FnOnce() -> Members,
        with: (u64, u64),
    ) -> Option<AgreedBits> {
        self.goes_on().then(|| self.agree(&members(), with))
    }

    /// Members leave a team or an active set, whose words may be another's then.
    pub fn leave_group(&self, members: impl FnOnce() -> Members) {
        if self.goes_on() {
            self.give_back(&members());
        }
    }

    /// Waits until words are `ready`, or whoever is to make them so `is_gone`: lost for good, or any
    /// PE is lost where the program goes back.
    pub fn wait_for_partner(
        &self,
        waiting: impl FnOnce() -> Waiting,
        is_gone: impl Fn() -> bool,
        ready: impl Fn() -> bool,
    ) {
        match self.goes_on() {
            true => self.wait_for_words(waiting, || is_gone() || ready()),
            false => _ = self.wait_until(waiting, ready),
        }
    }
}
