//! The handling of a refused checkpoint: no PE was lost, and the last checkpoint is still valid.
//!
//! The call fails and reports the reason. A program that queries the reason reacts to it as it sees
//! fit. A program that only has the loop of the thesis, `while (checkpoint fails) restart`, calls
//! for a restart although no PE was lost, and would loop forever. For such a program, the next
//! refused checkpoints are *passed over*: their calls succeed, and the job continues as between two
//! checkpoints. This ends with the next checkpoint that succeeds.
//!
//! Invariant: checkpoints, their outcomes and restarts are the same on all PEs, hence so is this
//! state; a loss resets it on every PE.

use crate::mutant::{Mutant, breaks};

/// The refusals since the last successful checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    words: Option<String>,
    passed_over: bool,
}

impl Refused {
    /// Returns the reason why the last checkpoint was refused.
    pub fn words(&self) -> Option<&str> {
        self.words.as_deref()
    }

    /// Records that a checkpoint was refused. Returns true if it is passed over.
    pub fn again(&mut self, words: String) -> bool {
        self.words = Some(words);
        self.passed_over && !breaks(Mutant::RefusedForever)
    }

    /// Records a restart call although no PE was lost. Returns true if refused checkpoints are
    /// passed over from now on, and were not before.
    pub fn restart(&mut self) -> bool {
        self.words.is_some() && !std::mem::replace(&mut self.passed_over, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_asks_is_answered_every_time() {
        let mut refused = Refused::default();
        assert_eq!(refused.words(), None);
        for words in ["a", "b", "c"] {
            assert!(!refused.again(words.to_owned()), "the call fails");
            assert_eq!(refused.words(), Some(words));
        }
    }

    #[test]
    fn the_loop_of_the_thesis_ends() {
        let mut refused = Refused::default();
        let mut calls = 0;
        while !refused.again("no memory".to_owned()) {
            assert_eq!(refused.restart(), calls == 0, "said once");
            calls += 1;
            assert!(calls < 10, "for ever");
        }
        assert_eq!((calls, refused.words()), (1, Some("no memory")));
        assert!(refused.again("no memory".to_owned()) && !refused.restart());
    }

    #[test]
    fn a_restart_without_a_refusal_is_nothing() {
        let mut refused = Refused::default();
        assert!(!refused.restart());
        assert!(!refused.again("no memory".to_owned()), "the program does not know yet");
    }
}
