//! What a loss means to a call, by what it means to the job (`world/policy.rs`).
//!
//! Other modules ask what a call is to do: a wait, a write, a meeting and a look at the view each
//! have one question here.
//!
//! Left out: how calls are logged (`local.rs`) and how those that live agree (`fewer.rs`).

#![forbid(unsafe_code)]

use raidshmem_core::agree::AgreedBits;
use raidshmem_core::message::PeMessage;
use raidshmem_core::quantity::Pe;
use raidshmem_segment::waits::Waiting;

use super::World;
use super::fewer::Members;

impl World {
    /// True if the job goes on with fewer after a loss: for calls that are for such jobs alone, and
    /// what is done among those that live.
    #[inline]
    pub fn goes_on(&self) -> bool {
        self.policy.goes_on()
    }

    /// True if a loss takes all back, whatever came before.
    pub(crate) fn goes_back_together(&self) -> bool {
        self.policy.goes_back_together()
    }

    /// True if PEs go back to a checkpoint after a loss, all or the lost.
    pub(crate) fn goes_back(&self) -> bool {
        !self.goes_on() && self.store.protection().is_some()
    }

    // ---- views --------------------------------------------------------------------------------

    /// True if a wait for another PE is to return: a loss is known that the program has not
    /// acknowledged, or after which it has to go back.
    pub(super) fn is_disturbed(&self) -> bool {
        if !self.goes_on() {
            return self.members.faulted() && (!self.logs() || self.all_go_back());
        }
        self.adopt();
        self.fewer.has_news()
    }

    /// True if a call that concerns other PEs does less than it should, asked once a loss is known.
    /// Ends the job if this PE has to come to its end without the others.
    #[cold]
    pub(super) fn cut(&self) -> bool {
        if self.logs() && !self.all_go_back() {
            return false;
        }
        if self.goes_on() {
            self.adopt();
            return false;
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

    /// Waits until words are `ready`, or whoever is to make them so `is_gone`: lost for good, or
    /// any PE is lost where the program goes back.
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
