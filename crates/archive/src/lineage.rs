//! The sets that a running job may fall back to: those that it wrote, and the one it began from.
//! Its folder may also hold sets of other jobs, and sets of a course that it has given up.
//!
//! Invariant: every set of the lineage holds a state that the job has passed.

use raidshmem_core::quantity::CheckpointNumber;

/// The jobs whose sets are a job's own, each with the last checkpoint that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage(Vec<(u64, CheckpointNumber)>);

impl Lineage {
    /// Creates the lineage of `job`, which may have begun from a set: that job and checkpoint.
    pub fn new(job: u64, begun: Option<(u64, CheckpointNumber)>) -> Lineage {
        let own = (job, CheckpointNumber(u64::MAX));
        Lineage(begun.into_iter().chain([own]).collect())
    }

    /// Returns true if a set of checkpoint `number` of `job` is a job's own.
    pub fn holds(&self, job: u64, number: CheckpointNumber) -> bool {
        self.0.iter().any(|&(own, last)| job == own && number <= last)
    }

    /// Begins from checkpoint `number`: later sets no longer count, and new ones are those of
    /// `job`.
    pub fn begin_from(&mut self, number: CheckpointNumber, job: u64) {
        self.0.iter_mut().for_each(|(_, last)| *last = (*last).min(number));
        self.0.push((job, CheckpointNumber(u64::MAX)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sets_of_the_present_course_count() {
        let holds = |lineage: &Lineage, job, number| lineage.holds(job, CheckpointNumber(number));
        let mut lineage = Lineage::new(7, Some((5, CheckpointNumber(10))));
        assert!(holds(&lineage, 7, 900) && holds(&lineage, 5, 10));
        assert!(!holds(&lineage, 5, 11) && !holds(&lineage, 6, 1));
        lineage.begin_from(CheckpointNumber(20), 8);
        assert!(holds(&lineage, 7, 20) && holds(&lineage, 8, 21) && holds(&lineage, 5, 10));
        assert!(!holds(&lineage, 7, 21), "that course was given up");
        lineage.begin_from(CheckpointNumber(9), 9);
        assert!(!holds(&lineage, 5, 10) && !holds(&lineage, 8, 21) && holds(&lineage, 9, 10));
    }
}
