//! What follows a checkpoint that was refused: nobody was lost, and the last one is as good as
//! before.
//!
//! The call fails, and says why. A program that asks for the reason does what it likes. One that
//! knows the loop of the thesis only, `while (checkpoint fails) restart`, calls for a restart
//! though nobody was lost, and would do so for ever. For it the next checkpoints that are refused
//! are *passed over*: their calls succeed, and the job goes on as it would between two checkpoints.
//! This ends with the next checkpoint that is made.
//!
//! Invariant: checkpoints, their outcomes and restarts are the same on all PEs, hence so is this;
//! after a loss everybody begins anew.

use crate::mutant::{Mutant, breaks};

/// What a PE knows of the checkpoints refused since the last that was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    words: Option<String>,
    passed_over: bool,
}

impl Refused {
    /// Why the last checkpoint was not made.
    pub fn words(&self) -> Option<&str> {
        self.words.as_deref()
    }

    /// A checkpoint was refused. True if it is passed over.
    pub fn again(&mut self, words: String) -> bool {
        self.words = Some(words);
        self.passed_over && !breaks(Mutant::RefusedForEver)
    }

    /// The program calls for a restart, and nobody was lost. True if further checkpoints that are
    /// refused are passed over from now on.
    pub fn restart(&mut self) -> bool {
        self.words.is_some() && !std::mem::replace(&mut self.passed_over, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_is_told_every_time() {
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
        assert!(!refused.again("no memory".to_owned()), "the program has yet to be told");
    }
}
