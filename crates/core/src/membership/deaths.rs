//! Response to PEs that die repeatedly: counts deaths and delays substitutes.
//!
//! Part of the machine in [`super`].

use std::collections::BTreeSet;

use super::crashes::rest;
use super::{Action, Membership};
use crate::ended::Ended;
use crate::ended::UNRECOVERABLE;
use crate::mutant::{Mutant, breaks};
use crate::quantity::{CheckpointNumber, Pe, ViewNumber};
use crate::signals::name;

impl Membership {
    /// Records that all PEs continue from checkpoint `number` in `view`, and clears the list of lost
    /// PEs, unless one has been lost since: then the recovery is not over.
    pub(super) fn resumed(&mut self, number: CheckpointNumber, view: ViewNumber) {
        if view >= self.fault_view || breaks(Mutant::OldResumeTaken) {
            (self.lost, self.corrupt) = (BTreeSet::new(), 0);
        }
        (self.checkpoint, self.from_disk) = (number, false);
        self.pes.iter_mut().for_each(|pe| pe.crashes.resume(number));
    }

    /// Counts a death of `pe` against the limit. Returns false if that ends the job.
    pub(super) fn count_death(&mut self, pe: Pe, how: Ended) -> bool {
        let limit = self.max_restarts;
        let deaths = self.pes[pe.at()].crashes.die(self.checkpoint);
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
            self.end(UNRECOVERABLE, Some(words));
        }
        let ms = rest(deaths);
        if ms > 0 && !self.ended {
            self.pes[pe.at()].rests = true;
            self.out.push(Action::Rest { pe, ms });
        }
        !self.ended
    }

    /// Ends the delay of `pe`'s substitute.
    pub(super) fn rested(&mut self, pe: Pe) {
        self.pes[pe.at()].rests = false;
        self.repair();
    }
}
