//! Calls as the specification has them: what is allowed is not refused, what is promised is there.

use super::support::{Job, Outcome, program};

#[track_caller]
fn ok(outcome: &Outcome) {
    outcome.status(0);
    let lines = outcome.out.lines().filter(|line| *line == "conform ok").count();
    outcome.check(lines == 1, "`conform ok` was expected");
}

#[test]
fn memory_is_aligned_beyond_a_huge_page() {
    for pes in [1, 3] {
        let job = Job::new(pes).env("SHMEM_SYMMETRIC_SIZE", "64M");
        ok(&job.program(&program("conform"), &["align"]).run());
    }
}

#[test]
fn fence_and_quiet_of_no_context_do_nothing() {
    ok(&Job::new(2).program(&program("conform"), &["no-context"]).run());
}
