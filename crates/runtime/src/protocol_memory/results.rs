//! The results of the meetings of one call.

#![forbid(unsafe_code)]

use raidshmem_core::plan::{Lost, Unrecoverable};
use raidshmem_core::protocol::At;
use raidshmem_core::protocol::brought::{Brought, Found};
use raidshmem_core::protocol::driver::Judgement;
use raidshmem_core::quantity::Pe;
use raidshmem_core::store::grouped::GroupedCheckpoints;
use raidshmem_core::store::phase::Votes;
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::site::Calls;

/// The results of the meetings so far.
pub(super) struct MeetingResults {
    /// All contributions to barrier Q, or to the meeting that agrees.
    pub met: Brought,
    /// The results of the checks on all PEs.
    pub found: Found,
    pub verdict: Result<(), Unrecoverable>,
}

impl MeetingResults {
    /// Begins without a meeting.
    pub fn none() -> MeetingResults {
        MeetingResults { met: Brought::Nothing, found: Found::default(), verdict: Ok(()) }
    }

    /// Returns the combined values of the settling meeting.
    pub fn settled(&self) -> (&Votes, &Calls, &u64, &GroupedCheckpoints) {
        match &self.met {
            Brought::Settling(votes, calls, ending, grouped) => (votes, calls, ending, grouped),
            _ => unreachable!("the meeting before the decision settles"),
        }
    }

    /// Takes over all contributions.
    pub fn take(&mut self, at: At, all: Brought, protection: &Protection) {
        match (at, all) {
            (At::BarrierQ | At::MeetSettling, all) => self.met = all,
            (_, Brought::Found(found)) => self.found = found,
            (_, Brought::Judged(lost)) => {
                let keeps = protection.mode.keeps_snapshot();
                let named = |lost: Lost| lost.named(&protection.shapes[lost.group()], keeps);
                self.verdict = lost.map_or(Ok(()), |lost| Err(named(lost)));
            }
            _ => {}
        }
    }

    /// Returns the judgement about the data of all PEs.
    pub fn judgement(&self) -> Judgement {
        match &self.verdict {
            Ok(()) => Judgement::Recoverable,
            Err(lost) if lost.damaged.is_empty() => Judgement::Unrecoverable,
            Err(_) => Judgement::Damaged,
        }
    }

    /// Returns a PE with damaged data, in a job that was judged so.
    pub fn damaged(&self) -> Pe {
        let damaged = self.verdict.as_ref().err().and_then(|lost| lost.damaged.first());
        *damaged.expect("the judgement was that")
    }
}
