//! Locks among real processes: one holder at a time, a turn for every PE, and holders that are
//! killed.

use crate::support::{Job, program};

#[test]
fn a_lock_keeps_steps_apart_and_is_fair() {
    for pes in [1, 2, 4] {
        let outcome = Job::new(pes).program(&program("lock_holder"), &[]).run();
        outcome.status(0).check(outcome.out == "lock_holder: ok\n", "nothing else was expected");
    }
}

/// One PE is the home of the lock: that PE and others are killed.
#[test]
fn a_lock_is_free_again_when_its_holder_was_killed() {
    for holder in ["0", "1", "2", "3"] {
        for mode in ["raid5", "double"] {
            let job = Job::new(4).mode(mode).args(&["--verbose"]);
            let outcome = job.program(&program("lock_holder"), &[holder]).run();
            outcome.status(0);
            outcome.check(outcome.out == "lock_holder: ok\n", "nothing else was expected");
            outcome.check(outcome.count("all PEs resume from checkpoint 3") == 1, "one recovery");
        }
    }
}
