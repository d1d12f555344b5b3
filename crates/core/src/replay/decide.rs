//! The choice between local and global rollback after a loss: one decision, with its reason.
//!
//! Each PE contributes a [`Finding`]: a reason against local rollback, if there is one. For a dead
//! PE, its agent does. Findings are combined on the way to the launcher, which writes the decision
//! into the view. Invariant: the result does not depend on the order of combining.

#![allow(missing_docs)] // each variant's message describes its fields

use std::fmt::{Display, Formatter, Result};

use crate::quantity::Pe;

/// The reason for a global rollback.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The node of the PE is lost, and the logs of its PEs with it.
    NodeLost,
    /// Like that, between hosts: PEs on it mapped each other, so no other host has their logs.
    MappedLogsLost,
    /// Its node is lost before a PE that was lost earlier has rolled back.
    NodeLostThen,
    /// The memory of its process was not adopted.
    MemoryLost,
    /// There is no checkpoint to restore, or it belongs to another interval than the logs.
    NoCheckpoint,
    /// A part of its checkpoint is corrupt.
    Damaged,
    /// It was lost during a checkpoint.
    InCheckpoint,
    /// The first checkpoint call of the substitute is not the call that made the checkpoint.
    OtherCall,
    /// The first checkpoint call may be another one, and no log entry proves that it is not.
    UnprovenCall,
    /// The PE was killed during an operation that must not be executed twice.
    InDoubt,
    /// The node of a PE was lost while the PE changed a word there that must not be changed twice.
    LostMeanwhile,
    /// The value of a word under atomic operations is unknown.
    Uncertain,
    /// Peers rely on membarrier, which its kernel refuses.
    NoBarrier,
    /// A routine without a rule was called since the last checkpoint.
    NoRule { routine: String },
    /// The logs of the interval need this many bytes, more than the limit.
    Overflow { bytes: u64 },
    /// Threads call the library concurrently.
    Threads,
    /// The replay made a different call than the predecessor.
    Differs,
    /// It meets PEs that make a different call.
    Unlike,
    /// A reason that a PE reported in words.
    Reported { why: String },
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Reason::NodeLost => f.write_str("its node is lost, and its logs with it"),
            Reason::MappedLogsLost => f.write_str(
                "its node is lost, and its logs with it; with SHMEM_FT_MAP=0 other hosts have them",
            ),
            Reason::NodeLostThen => f.write_str("its node is lost while another PE rolls back"),
            Reason::MemoryLost => f.write_str("its memory and its log are not taken over"),
            Reason::NoCheckpoint => f.write_str("its log does not begin at the last checkpoint"),
            Reason::Damaged => f.write_str("a tile of its checkpoint does not match its checksum"),
            Reason::InCheckpoint => f.write_str("a checkpoint was being made"),
            Reason::OtherCall => f.write_str("it calls the first checkpoint from another place"),
            Reason::UnprovenCall => {
                f.write_str("no logged call shows that it calls the checkpoint from the same place")
            }
            Reason::InDoubt => f.write_str("it was killed in the midst of an atomic operation"),
            Reason::LostMeanwhile => {
                f.write_str("it was in the midst of an atomic operation on a node that was lost")
            }
            Reason::Uncertain => f.write_str("atomic operations on it do not follow each other"),
            Reason::NoBarrier => f.write_str("it may not call membarrier, as others may"),
            Reason::NoRule { routine } => write!(f, "it called {routine}, which is not logged"),
            Reason::Overflow { bytes } => write!(f, "its log needs {bytes} bytes"),
            Reason::Threads => f.write_str("its threads call the library at the same time"),
            Reason::Differs => f.write_str("its replay makes another call than before"),
            Reason::Unlike => f.write_str("others make another call where it meets them"),
            Reason::Reported { why } => f.write_str(why),
        }
    }
}

/// The reason of the lowest PE that has one against local rollback.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finding(Option<(Pe, Reason)>);

/// The PEs that roll back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The lost PEs.
    Local,
    /// All PEs, for this reason of this PE.
    Global(Pe, Reason),
}

impl Finding {
    /// Returns the finding of one PE.
    pub fn of(pe: Pe, reason: Option<Reason>) -> Finding {
        Finding(reason.map(|reason| (pe, reason)))
    }

    /// Combines two findings: the reason of the lowest PE remains.
    pub fn add(&mut self, other: Finding) {
        let least = self.0.take().into_iter().chain(other.0).min();
        self.0 = least;
    }

    /// Formats the finding for people; None if there is no reason.
    pub fn words(&self) -> Option<String> {
        self.0.as_ref().map(|(pe, reason)| format!("PE {pe}: {reason}"))
    }

    /// Returns the decision, given the findings of all PEs.
    pub fn decide(self) -> Decision {
        match self.0 {
            None => Decision::Local,
            Some((pe, reason)) => Decision::Global(pe, reason),
        }
    }
}

/// Returns the next decision after `before`: a global rollback stands until the recovery is over.
pub fn later(before: &Decision, now: Finding) -> Decision {
    match before {
        Decision::Local => now.decide(),
        Decision::Global(..) => before.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Finding> {
        let reasons = [
            None,
            Some(Reason::NodeLost),
            Some(Reason::InDoubt),
            Some(Reason::Uncertain),
            Some(Reason::NoRule { routine: "shmem_ptr".to_owned() }),
            Some(Reason::Overflow { bytes: 1 << 20 }),
            Some(Reason::Threads),
            Some(Reason::Differs),
        ];
        let pes = (0..2).map(Pe);
        pes.flat_map(|pe| reasons.clone().map(|reason| Finding::of(pe, reason))).collect()
    }

    #[test]
    fn findings_are_added_in_any_order_and_one_is_enough() {
        for (one, two) in all().iter().flat_map(|one| all().into_iter().map(move |two| (one, two)))
        {
            let (mut there, mut back) = (one.clone(), two.clone());
            there.add(two.clone());
            back.add(one.clone());
            assert_eq!(there, back);
            let local = *one == Finding::default() && two == Finding::default();
            assert_eq!(there.decide() == Decision::Local, local);
        }
    }

    #[test]
    fn a_global_decision_stands() {
        let global = Finding::of(Pe(1), Some(Reason::InDoubt)).decide();
        for finding in all() {
            assert_eq!(later(&global, finding.clone()), global);
            assert_eq!(later(&Decision::Local, finding.clone()), finding.decide());
        }
    }

    #[test]
    fn the_lowest_pe_gives_the_reason() {
        let mut sum = Finding::of(Pe(2), Some(Reason::NodeLost));
        sum.add(Finding::of(Pe(1), Some(Reason::Differs)));
        assert_eq!(sum.decide(), Decision::Global(Pe(1), Reason::Differs));
        assert_eq!(Reason::Overflow { bytes: 9 }.to_string(), "its log needs 9 bytes");
    }
}
