//! Checkpoints for which there is no memory: refused on every PE, with the same words, and the last
//! one is as good as before.

use super::support::{Job, Outcome, program};

fn run(mode: &str, how: &str, mib: u64, heap: &str, limit: Option<&str>) -> Outcome {
    let job = Job::new(4).mode(mode).env("SHMEM_SYMMETRIC_SIZE", heap);
    let job = match limit {
        Some(limit) => job.env("SHMEM_FT_MEMORY_LIMIT", limit),
        None => job,
    };
    job.program(&program("large"), &[how, &mib.to_string()]).run()
}

/// Every PE is told the same, `times` times; the words.
#[track_caller]
fn refused(outcome: &Outcome, times: usize) -> &str {
    let told = |pe: usize| {
        let start = format!("PE {pe} is refused: ");
        outcome.out.lines().filter_map(move |line| line.strip_prefix(&start))
    };
    let words = told(0).next().unwrap_or_default();
    for pe in 0..4 {
        let same = told(pe).filter(|&line| line == words).count();
        outcome.check(same == times, &format!("PE {pe} should be refused {times} times"));
    }
    outcome.check(words.starts_with("checkpoint refused: "), "the words should say so");
    words
}

#[track_caller]
fn goes_on(outcome: &Outcome) {
    outcome.status(0);
    let done = outcome.out.lines().filter(|line| line.ends_with(" is done")).count();
    outcome.check(done == 4, "every PE should come to the end");
}

/// Four PEs with 1 MiB and a little: 1 in the snapshot and a third of it in each of two slots, that
/// is 7 in all with `raid5`, 9 with `rs`, 8 with `double`, 4 with `single`. With 8 MiB more all of
/// them are over the limit.
#[test]
fn a_checkpoint_over_the_limit_is_refused_and_the_program_goes_on() {
    for mode in ["single", "double", "raid4", "raid5", "rs"] {
        let outcome = run(mode, "ask", 8, "32M", Some("20M"));
        goes_on(&outcome);
        let words = refused(&outcome, 1);
        let named = words.contains(&format!(" for {mode}, and SHMEM_FT_MEMORY_LIMIT allows 20.0"));
        outcome.check(named, "mode and limit should be named");
        outcome.check(outcome.count(words) == 1, "PE 0 should say it on standard error, once");
    }
}

#[test]
fn a_checkpoint_within_the_limit_is_made() {
    for mode in ["single", "double", "raid4", "raid5", "rs"] {
        let outcome = run(mode, "ask", 8, "32M", Some("128M"));
        goes_on(&outcome);
        outcome.check(!outcome.out.contains("refused"), "nothing should be refused");
    }
}

/// The last checkpoint is intact: a death after the refusal goes back to it.
#[test]
fn after_a_refusal_a_death_goes_back_to_the_last_checkpoint() {
    for mode in ["single", "double", "raid4", "raid5", "rs"] {
        let outcome = run(mode, "die", 8, "32M", Some("20M"));
        goes_on(&outcome);
        outcome.says("oshrun: PE 1 was killed by signal 9");
        // PE 1 is refused, dies, and is refused again; so are the others.
        refused(&outcome, 2);
    }
}

/// A program that only knows the thesis' loop would try the same for ever.
#[test]
fn a_program_that_does_not_ask_ends_with_the_reason() {
    let outcome = run("raid5", "ignore", 8, "32M", Some("20M"));
    let words = refused(&outcome, 1);
    outcome.status(3).check(outcome.count(words) == 4 + 1 + 1, "the words of each, and oshrun's");
    outcome.says(&format!("oshrun: {words}"));
}

/// The same with the memory of the machine as the limit. The heap is not touched, so the test takes
/// none of it.
#[test]
fn a_checkpoint_larger_than_the_machine_is_refused() {
    let total = raidshmem::sys::memory::total().expect("the machine has memory") >> 20;
    let (heap, mib) = (format!("{}M", total / 5), total / 5 - 64);
    let outcome = run("raid5", "ask", mib, &heap, None);
    goes_on(&outcome);
    let words = refused(&outcome, 1);
    let named = words.contains(" MiB more memory for raid5, and the machine has ");
    outcome.check(named && words.ends_with(" MiB free"), "mode and machine should be named");
    goes_on(&run("raid5", "die", mib, &heap, None));
}

/// One PE alone cannot say what it has to save: all refuse, or nobody would come to the next
/// barrier.
#[test]
fn a_manifest_that_is_full_on_one_pe_is_refused_on_all() {
    let outcome = Job::new(4).mode("raid5").program(&program("manifest"), &[]).run();
    outcome.status(0);
    let words = refused(&outcome, 1);
    outcome.check(words.contains("PE 2 has more allocations or registered"), "PE 2 is the one");
}
