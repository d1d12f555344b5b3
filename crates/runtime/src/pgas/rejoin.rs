//! Meetings before a checkpoint and at the end, after which all PEs of a job with logs are members
//! of one view.
//!
//! Survivors of a loss have adopted its views one by one; the substitute has joined no view. So all
//! PEs meet until they see the same view, without a lost PE, and join it. Each meeting is logged
//! like any other: a PE that is lost before the last of them rolls back locally.
//!
//! Invariant: a PE that is lost after the deciding meeting has no part in what follows, so all PEs
//! roll back, except at the end of the job, where nothing follows.

#![forbid(unsafe_code)]

use raidshmem_core::message::PeMessage;
use raidshmem_core::protocol::Call as Which;
use raidshmem_core::quantity::{Pe, ViewNumber};
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::port::LogMode;
use raidshmem_core::view::View;
use raidshmem_segment::waits::Waiting;

use super::World;
use super::gathering::MeetingOutcome;
use super::local::Call;

/// The contribution of a PE: the view that it has joined, and the one that it sees.
type Seen = [u64; 2];

impl World {
    /// Waits until all PEs have reached `call` and are members of one view. Returns false if all
    /// PEs roll back. `forget` drops the known changes since the last checkpoint, if a PE rolled
    /// back since then.
    pub(crate) fn agree_on_view(
        &self,
        call: &'static str,
        at_end: bool,
        forget: impl Fn(),
    ) -> bool {
        let mut first = true;
        loop {
            let seen = || first || self.members.view().whole();
            self.wait_raw(|| self.waiting_for_all(call), || seen() || self.all_go_back());
            let replayed = self.local.way() == LogMode::Replayed;
            let bring = || [self.members.joined().0, self.members.view_number().0];
            let all = match self.meet_to_agree(Call { name: call, with: 1 }, bring) {
                Err(goes_on) => return goes_on,
                Ok(all) => all,
            };
            let number = all[0][1];
            let alike = all.iter().all(|seen| seen[1] == number);
            let joined = all.iter().all(|seen| seen[0] == number);
            if alike && (joined || !first) {
                return match replayed {
                    true => self.agreed_without(at_end),
                    false => joined || self.join_with_all(call, ViewNumber(number), forget),
                };
            }
            first = false;
        }
    }

    /// Returns all contributions. The error is true if a PE left no record, false if all PEs roll
    /// back.
    fn meet_to_agree(&self, call: Call, bring: impl FnOnce() -> Seen) -> Result<Vec<Seen>, bool> {
        let what = || bring().iter().flat_map(|number| number.to_ne_bytes()).collect();
        match self.meet_bringing(call, what) {
            MeetingOutcome::Cut => Err(false),
            MeetingOutcome::Plain => {
                self.is_met();
                self.members.work_in(self.members.joined());
                Err(true)
            }
            MeetingOutcome::Together(parts) => {
                let mut all = Vec::new();
                let is_read = self.work_out(parts, |parts| {
                    let word = |(pe, &(at, _)): (Pe, &(usize, usize))| {
                        [0, 8].map(|more| self.part_word(pe, at + more))
                    };
                    all = Pe::all(self.n_pes()).zip(parts).map(word).collect();
                });
                self.is_met();
                if is_read { Ok(all) } else { Err(false) }
            }
        }
    }

    fn part_word(&self, pe: Pe, at: usize) -> u64 {
        let mapped = self.segments.if_mapped(pe).unwrap_or_else(|| self.segments.own());
        mapped.bytes(at, 8).try_into().map_or(0, u64::from_ne_bytes)
    }

    /// Handles the loss of this PE's predecessor after the deciding meeting.
    fn agreed_without(&self, at_end: bool) -> bool {
        if !at_end {
            self.roll_all_back(&Reason::InCheckpoint);
            return false;
        }
        self.join_local_at_end();
        self.report_replay();
        true
    }

    /// Joins the view that all PEs see, together with them.
    fn join_with_all(&self, call: &'static str, number: ViewNumber, forget: impl Fn()) -> bool {
        let view = self.members.view();
        if view.number != number {
            self.roll_all_back(&Reason::InCheckpoint);
            return false;
        }
        self.reset_control();
        forget();
        self.join(&view);
        self.members.work_in(number);
        if matches!(self.meet_logged(Call { name: call, with: 2 }, &[]), MeetingOutcome::Cut) {
            return false;
        }
        self.is_met();
        self.report_replay();
        true
    }

    /// Adopts, in `shmem_finalize`, a view in which a PE rolls back locally and finishes.
    /// Returns false if all PEs roll back.
    pub(super) fn join_local_at_end(&self) -> bool {
        if !self.local.is_on() || !self.members.view().local {
            return false;
        }
        let over = |view: &View| !view.local || view.whole();
        self.wait_raw(|| Waiting::anyone(Which::Finalize.name()), || over(&self.members.view()));
        let view = self.members.view();
        if view.local {
            self.join(&view);
            self.members.work_in(view.number);
        }
        view.local
    }

    /// Requests a global rollback after a loss that prevented a checkpoint.
    pub(crate) fn lost_in_checkpoint(&self) {
        if self.logs() {
            let why = Reason::InCheckpoint.to_string();
            self.members.say(&PeMessage::GoBack { why: format!("PE {}: {why}", self.me()) });
            self.local.set_way(LogMode::Plain);
        }
    }
}
