//! Whether a loss is for the lost PE alone, or takes all back: one decision, with its reason.
//!
//! Each PE, and for the dead their agent, brings a [`Finding`]: a reason against going back alone,
//! if there is one. Findings are added up on the way to the launcher, which is to write the
//! decision into the view. Invariant: the sum does not depend on the order of adding.

#![allow(missing_docs)] // the sentence of each variant speaks of its fields

use std::fmt::{Display, Formatter, Result};

use crate::quantity::Pe;

/// Why all go back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A node is lost, and the logs of its PEs with it.
    NodeLost,
    /// Its node is lost before a PE that was lost earlier has gone back.
    NodeLostThen,
    /// The memory of its process is not taken over.
    MemoryLost,
    /// PEs do not map each other's memory.
    NotMapped,
    /// There is no checkpoint to go back to, or it and the logs are not of one interval.
    NoCheckpoint,
    /// What it kept of the checkpoint is damaged.
    Damaged,
    /// It was lost while a checkpoint was made.
    InCheckpoint,
    /// The first checkpoint call of the substitute is not the one that was made.
    OtherCall,
    /// It may not be, and nothing in the log shows that it is.
    UnprovenCall,
    /// The PE was killed in the midst of an operation that may not happen twice.
    InDoubt,
    /// The node of a PE was lost while it changed a word there that may not change twice.
    LostMeanwhile,
    /// It is not known what a word holds that is changed atomically.
    Uncertain,
    /// Others leave the order of their looks to a barrier that its kernel refuses.
    NoBarrier,
    /// A routine without a rule was called since the last checkpoint.
    NoRule { routine: String },
    /// The logs of the interval need more than the limit, this many bytes.
    Overflow { bytes: u64 },
    /// Threads call the library at the same time.
    Threads,
    /// The replay made another call than before.
    Differs,
    /// It meets others that make another call.
    Unlike,
    /// A PE has said why.
    Said { why: String },
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Reason::NodeLost => f.write_str("its node is lost, and its logs with it"),
            Reason::NodeLostThen => f.write_str("its node is lost while another PE goes back"),
            Reason::MemoryLost => f.write_str("its memory and its log are not taken over"),
            Reason::NotMapped => f.write_str("others do not map its memory"),
            Reason::NoCheckpoint => f.write_str("its log does not begin at the last checkpoint"),
            Reason::Damaged => f.write_str("a tile of its checkpoint does not hold"),
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
            Reason::Said { why } => f.write_str(why),
        }
    }
}

/// What speaks against going back alone: the reason of the lowest PE that has one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finding(Option<(Pe, Reason)>);

/// Who goes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The lost PEs.
    Local,
    /// All.
    Global(Pe, Reason),
}

impl Finding {
    /// That of one PE.
    pub fn of(pe: Pe, reason: Option<Reason>) -> Finding {
        Finding(reason.map(|reason| (pe, reason)))
    }

    /// Adds that of others.
    pub fn add(&mut self, other: Finding) {
        let least = self.0.take().into_iter().chain(other.0).min();
        self.0 = least;
    }

    /// As words for people; None if nothing speaks against it.
    pub fn words(&self) -> Option<String> {
        self.0.as_ref().map(|(pe, reason)| format!("PE {pe}: {reason}"))
    }

    /// What follows from the findings of all.
    pub fn decide(self) -> Decision {
        match self.0 {
            None => Decision::Local,
            Some((pe, reason)) => Decision::Global(pe, reason),
        }
    }
}

/// What is decided when the decision before was `before`: once all go back, all do until the
/// recovery is over.
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
