//! Calls as the specification defines them: valid ones are accepted, and promised ones exist.

use super::support::{Job, Outcome, has_ucx_too, program, program_with};

#[track_caller]
fn ok(outcome: &Outcome) {
    outcome.all_print(1, "conform ok");
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

#[test]
fn unknown_session_options_change_nothing() {
    ok(&Job::new(2).program(&program("conform"), &["hints"]).run());
}

/// As printed it passes an address to `shmem_restart_pes` as the number of PEs.
#[test]
fn the_listing_of_the_thesis_survives_a_loss() {
    for flags in [&["-DNUMPES=&numpes", "-Wno-int-conversion"][..], &["-DNUMPES=numpes"]] {
        let listing = program_with("listing", flags);
        let outcome = Job::new(3).mode("raid5").kill(&["1@3"]).program(&listing, &[]).run();
        outcome.status(0).says("PE 1 was killed by SIGKILL");
    }
}

#[test]
fn the_list_of_a_restart_is_read_as_far_as_the_last_query_filled_it() {
    let job = Job::new(3).mode("raid5").kill(&["1@2"]);
    ok(&job.program(&program("conform"), &["list"]).run());
    let job = Job::new(3).mode("raid5").kill(&["1@2"]);
    let outcome = job.program(&program("conform"), &["wrong-list"]).run();
    outcome.status(2).says("shmem_restart_pes: pe 99: expected 0..2");
}

#[test]
fn collectives_need_nothing_of_the_heap() {
    for mode in ["none", "raid5"] {
        ok(&Job::new(4).mode(mode).program(&program("conform"), &["full"]).run());
    }
}

/// With every collective algorithm: sums and broadcasts use slots in turn.
#[test]
fn a_team_starts_fresh_in_the_words_of_another() {
    for how in ["auto", "direct", "doubling", "halving"] {
        let job = Job::new(4).env("SHMEM_FT_COLLECTIVES", how);
        ok(&job.program(&program("conform"), &["pairs"]).run());
    }
}

/// Trees of one and of two levels; the root changes in the second half.
#[test]
fn small_broadcasts_run_ahead() {
    let ahead = program("ahead");
    let right = |job: Job, lost: bool| {
        let outcome = job.mode("raid5").program(&ahead, &[]).run();
        outcome.status(0).check(outcome.out == "ahead ok\n", "right data was expected");
        outcome.check(outcome.err.contains("lost 1") == lost, "each loss was expected");
    };
    for pes in [2, 3, 5, 11] {
        right(Job::new(pes), false);
    }
    for kill in ["1@2", "0@5", "2@7"] {
        right(Job::new(4).kill(&[kill]), true);
    }
    right(Job::new(4).args(&["--nodes", "4", "--kill-node", "1@4"]), true);
}

/// Output is kept whatever a PE is doing when another one ends the job.
#[test]
fn a_misuse_loses_no_output_of_other_pes() {
    for words in [&[][..], &["--nodes", "4"]] {
        let job = Job::new(4).args(words).program(&program("conform"), &["buffered"]);
        let outcome = job.run();
        outcome.status(2).says("raidshmem: PE 3: shmem_long_p: pe 101");
        for pe in 0..4 {
            let line = format!("PE {pe} has something to say");
            let lines = outcome.out.lines().filter(|said| *said == line).count();
            outcome.check(lines == 1, &format!("`{line}` was expected, once"));
        }
    }
}

/// A free lock, and `pSync` after a collective, are zero on every PE, in every mode and with every
/// collective algorithm.
#[test]
fn words_of_the_program_are_zero_again() {
    let ran = |job: Job, args: &[&str]| {
        let outcome = job.program(&program("words"), args).run();
        outcome.status(0).prints("words ok");
    };
    let over = |fabric: &'static str| ["--nodes", "2", "--fabric", fabric];
    let fabrics: &[&str] = if has_ucx_too() { &["shm", "ucx"] } else { &["shm"] };
    ran(Job::new(4), &[]);
    ran(Job::new(5).mode("raid5").kill(&["1@2"]), &[]);
    ran(Job::new(4).mode("raid5").env("SHMEM_FT_ROLLBACK", "local").kill(&["1@2"]), &[]);
    for fabric in fabrics {
        for how in ["auto", "doubling", "halving"] {
            ran(Job::new(4).args(&over(fabric)).env("SHMEM_FT_COLLECTIVES", how), &[]);
        }
        let fewer = || Job::new(4).env("SHMEM_FT_ROLLBACK", "none");
        let fewer = || fewer().env("SHMEM_FT_SUBSTITUTE", "shrink").args(&over(fabric));
        ran(fewer(), &["whole"]);
        ran(fewer(), &["lost"]);
    }
}

/// `long double` of this processor: 80 bits on x86-64, 128 on AArch64.
#[test]
fn a_long_double_is_passed_and_reduced_to_its_last_bit() {
    for pes in [1, 2, 5] {
        let outcome = Job::new(pes).program(&program("longdouble"), &[]).run();
        outcome.all_print(1, "longdouble ok");
    }
}
