//! Response to PEs that die repeatedly: counts deaths and delays substitutes.
//!
//! Part of the machine in [`super`].

use super::crashes::rest;
use super::{Action, Membership};
use crate::ended::Ended;
use crate::ended::UNRECOVERABLE;
use crate::mutant::{Mutant, breaks};
use crate::quantity::{CheckpointNumber, Pe, ViewNumber};
use crate::signals::name;

impl Membership {
    /// Records that all PEs continue from checkpoint `number` in `view`, and clears the list of
    /// lost PEs, unless one has been lost since: then the recovery is not over.
    pub(super) fn resumed(&mut self, number: CheckpointNumber, view: ViewNumber) {
        if !self.members.has_lost_since(view) || breaks(Mutant::OldResumeTaken) {
            self.recovery.forget();
        }
        self.recovery.resume(number);
        self.members.pes.iter_mut().for_each(|pe| pe.crashes.resume(number));
    }

    /// Counts a death of `pe` against the limit. Returns false if that ends the job.
    pub(super) fn count_death(&mut self, pe: Pe, how: Ended) -> bool {
        let limit = self.max_restarts;
        let deaths = self.members.pes[pe.at()].crashes.die(self.recovery.checkpoint);
        if deaths > limit {
            let cause = match how {
                Ended::Exited(status) => format!("with exit status {status}"),
                Ended::Killed(signal) => format!("by {}", name(signal)),
            };
            let times = if deaths == 1 { "once".to_owned() } else { format!("{deaths} times") };
            let words = format!(
                "unrecoverable: PE {pe} crashed {times} at the same place, {cause}: more than \
                 SHMEM_FT_MAX_RESTARTS={limit}"
            );
            self.out.end(UNRECOVERABLE, Some(words));
        }
        let ms = rest(deaths);
        if ms > 0 && !self.out.is_ended() {
            self.members.pes[pe.at()].rests = true;
            self.out.push(Action::Rest { pe, ms });
        }
        !self.out.is_ended()
    }
}
