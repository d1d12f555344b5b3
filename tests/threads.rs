//! Threads of a PE in different calls at once, with and without deaths; and under ThreadSanitizer.
//!
//! The sanitizer sees the program's own accesses and the library's copies by routines of the C
//! library; not the atomics of the library, which is not instrumented. The program therefore keeps
//! the data of its threads apart. A separate test checks that the sanitizer works.

#[path = "support/mod.rs"]
mod support;

use support::{Job, Outcome, program_with};

/// `threads.c`, by its parts.
const PARTS: [&str; 4] = ["0", "1", "2", "3"];

#[track_caller]
fn ok(outcome: &Outcome) {
    outcome.status(0).check(outcome.out == "threads: ok\n", "nothing else was expected");
    outcome.check(!outcome.err.contains("ThreadSanitizer"), "the sanitizer complains");
}

#[test]
fn threads_in_all_kinds_of_calls_at_once() {
    let program = program_with("threads", &["-pthread"]);
    for pes in [1, 2, 3, 4] {
        ok(&Job::new(pes).program(&program, &[]).run());
    }
}

#[test]
fn a_pe_is_killed_by_one_of_its_threads_while_all_are_in_calls() {
    let program = program_with("threads", &["-pthread"]);
    for part in PARTS {
        for pe in ["0", "1", "3"] {
            let job = Job::new(4).mode("raid5").args(&["--verbose"]);
            let outcome = job.program(&program, &[pe, part]).run();
            ok(&outcome);
            outcome.says("all PEs resume from checkpoint 3");
        }
    }
    let nodes = Job::new(4).mode("rs").args(&["--nodes", "4", "--spares", "1"]);
    ok(&nodes.kill_node(&["2@4:after"]).with_orphans().program(&program, &["1", "2"]).run());
}

#[test]
fn the_thread_sanitizer_has_nothing_to_say() {
    let flags = ["-pthread", "-fsanitize=thread"];
    let race = program_with("race", &flags);
    let raced = Job::new(1).program(&race, &[]).run();
    raced.says("WARNING: ThreadSanitizer: data race");
    raced.check(raced.status != 0, "a failure was expected");
    Job::new(1).program(&race, &["locked"]).run().status(0);

    let program = program_with("threads", &flags);
    ok(&Job::new(2).program(&program, &[]).run());
    ok(&Job::new(4).mode("raid5").program(&program, &["1", "2"]).run());
}
