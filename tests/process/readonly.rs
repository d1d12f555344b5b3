//! Read-only memory declared by the program: its protection, losses at every point, and mistakes.
//! The program compares all of its memory.

use super::support::random::Random;
use super::support::{Job, Outcome, Sweep, program};
use super::{HEAL, READONLY};

/// The table of `tests/c/readonly.c`: 3 MiB that are read-only except in some steps.
const TABLE: u64 = 400 * 1024 * 8;

fn run(line: &str, args: &[&str]) -> Outcome {
    Job::line(line).program(&program("readonly"), args).run()
}

/// A process of four, a node of four, whose PE goes to a spare, and a node of six.
const PROCESS: &str = "--mode raid5 --kill";
const NODE: &str = "--mode raid5 --nodes 4 --spares 1 --kill-node";
const NODE_OF_SIX: &str = "-n 6 --mode rs --nodes 6 --kill-node";
/// A second loss after each of them.
const SECOND: &str = "{--kill 2,--kill 2,--kill-node 4}";

fn all_of_four(step: &str) -> String {
    format!("--mode raid5 --kill 0@{step} --kill 1@{step} --kill 2@{step} --kill 3@{step}")
}

/// Runs some cells of these rows.
fn some_are_right(rows: impl IntoIterator<Item = String>) {
    Sweep::of(rows).long(6, 24).each(|cell| {
        let outcome = run(&cell.line, &[]);
        outcome.says(if cell.line.contains("--kill-node") {
            "was lost with"
        } else {
            "was killed"
        });
        is_right(&outcome);
    });
}

#[track_caller]
fn is_right(outcome: &Outcome) {
    outcome.status(0).prints("readonly ok");
}

/// Deaths in every step of the checkpoints before and after the table is declared, written, and
/// declared again.
#[test]
fn a_loss_in_any_step_of_a_checkpoint_is_survived() {
    some_are_right([1, 4, 5, 6, 7, 8].into_iter().flat_map(|at| {
        // Before the first one there is nothing to roll back to.
        let all = ["encode", "encoded", "copy", "copied", "after"].into_iter();
        let points = all.skip(if at == 1 { 2 } else { 0 }).enumerate();
        points.map(move |(nth, point)| {
            format!("{{{PROCESS}|{NODE}}} {}@{at}:{point}", (nth + at) % 4)
        })
    }));
}

/// Returns the steps of the two calls, and of the checkpoint after each, with its number.
fn steps_of_calls() -> Vec<String> {
    let of = |step| match step {
        "readonly-agreed" => &[1, 5, 6, 8][..],
        "writable" | "writable-copy" | "writable-copied" => &[6],
        _ => &[8],
    };
    let numbered = |step| of(step).iter().map(move |at| format!("{at}:{step}"));
    READONLY.into_iter().flat_map(numbered).collect()
}

/// Deaths of each PE, and of its node, in every step of the two calls.
#[test]
fn a_loss_in_any_step_of_a_call_is_survived() {
    some_are_right(steps_of_calls().into_iter().flat_map(|step| {
        let each = format!("@{step} {{,,--kill-node 5@{step}}}");
        let mut rows = [0, 1, 2, 3]
            .map(|pe| format!("{{{PROCESS}|{NODE}|{NODE_OF_SIX}}} {pe}{each}"))
            .to_vec();
        rows.push(all_of_four(&step));
        rows
    }));
}

/// Deaths in every step of the two calls, and a second loss in every step of the recovery.
#[test]
fn a_loss_in_any_step_of_a_recovery_from_a_loss_in_a_call_is_survived() {
    some_are_right(steps_of_calls().into_iter().flat_map(|step| {
        let (number, name) = step.split_once(':').expect("a number and a name");
        let number: u32 = number.parse().expect("a number");
        let back = if name == "readonly-agreed" { number } else { number - 1 };
        [format!("{SECOND}@{back}:{{recovery}} {{{PROCESS}|{NODE}|{NODE_OF_SIX}}} 1@{step}")]
    }));
}

/// A second loss in every step of a recovery; all at once; two nodes under two parities.
#[test]
fn a_loss_in_any_step_of_a_recovery_is_survived() {
    let steps = "{settle|decided|verify|restore|resume}";
    some_are_right([1, 5, 7, 8].into_iter().flat_map(|at| {
        let both = format!("{SECOND}@{at}:{steps} {{{PROCESS}|{NODE}|{NODE_OF_SIX}}} 1@{at}");
        [both, all_of_four(&at.to_string())]
    }));
}

/// A job on four nodes without spares loses node 2, and then another one, in any step of the change
/// to new groups or later: the parity over the table is encoded again, too.
#[test]
fn new_groups_protect_what_is_read_only() {
    let steps = HEAL.join("|");
    let at = |(pes, number): (u32, u32)| {
        let first = format!("-n {pes} --nodes {pes} --mode raid5 --kill-node 2@{number}");
        let (next, process) = (number + 1, format!("--kill {{0|1|3}}@{number}:{{{steps}}}"));
        [format!("{first} --kill-node 1@{{{number}:healed|{next}}}"), format!("{first} {process}")]
    };
    Sweep::of([(4, 1), (4, 3), (4, 7), (5, 3), (6, 6)].into_iter().flat_map(at)).long(8, 20).each(
        |cell| {
            let outcome = run(&cell.line, &["any"]);
            is_right(&outcome);
            outcome.says("parity groups change from checkpoint ");
        },
    );
}

/// A PE that rolls back locally has the table, also if its node is lost; in the two calls a loss
/// rolls back all.
#[test]
fn a_lost_pe_that_rolls_back_locally_has_what_is_read_only() {
    let local = "--mode raid5 --nodes 4 --spares 1 SHMEM_FT_ROLLBACK=local";
    for how in ["process", "node"] {
        for kill in ["", "--kill 1@3:restore", "--kill 0@3:settle"] {
            let words = [how, "1", "3", "readonly"];
            let job = Job::line(&format!("{local} {kill}"));
            let outcome = job.with_orphans().program(&program("capabilities"), &words).run();
            outcome.status(0).prints("capabilities: as they should be");
            outcome.says("PE 1 rolled back locally").says("for 512.0 KiB read-only");
        }
    }
    let steps = steps_of_calls().into_iter().filter(|step| !step.starts_with("1:"));
    Sweep::of(steps.map(|step| format!("{local} {{--kill 1|--kill-node 2}}@{step}")))
        .long(4, 20)
        .each(|cell| {
            let outcome = run(&cell.line, &["any"]);
            is_right(&outcome);
            outcome.check(outcome.count("rolled back locally") == 0, "all roll back");
        });
}

/// A node is lost while the parity over the table is encoded again. Until all PEs have agreed on
/// the new groups the old ones decode the table, with parity that is still there.
#[test]
fn old_groups_protect_what_is_read_only_until_the_new_ones_do() {
    let second = "--kill-node {0|3}@3:{heal-encode|heal-encoded}";
    // No process is left that has encoded anything in the new groups.
    let all = [0, 1, 2].map(|pe| format!("--kill {pe}@3:heal-encode")).join(" ");
    let all = format!("--kill-node 3@3:heal-encode {all}");
    let rows = [second, &all];
    Sweep::of(rows.map(|losses| format!("--mode raid5 --nodes 4 --kill-node 2@3 {losses}"))).each(
        |cell| {
            let outcome = run(&cell.line, &["any"]);
            is_right(&outcome);
            outcome.says("parity groups change from checkpoint ");
        },
    );
}

/// A PE is killed at an arbitrary moment, even in the calls that declare.
#[test]
fn a_loss_at_any_time_is_survived() {
    let mut random = Random::new(4);
    let mut below = |most: usize| random.below(most);
    let all = (0..200).map(|_| format!("{} {} {}", below(4), below(9), below(6000)));
    Sweep::of(all).long(8, 24).each(|cell| {
        let args: Vec<&str> = cell.line.split(' ').collect();
        is_right(&run("--mode raid5", &args));
    });
}

/// Read-only data is in memory once, with its parity.
#[test]
fn no_copy_is_kept_of_what_is_read_only() {
    let with = |args: &[&str]| {
        let outcome = run("--mode raid5", args);
        is_right(&outcome);
        let bytes = outcome.out.lines().find_map(|line| line.strip_prefix("store bytes: "));
        bytes.and_then(|bytes| bytes.parse::<u64>().ok()).expect("a number")
    };
    let (declared, not) = (with(&["store"]), with(&["store", "not"]));
    // A snapshot and two slots of parity over three peers; and one slot.
    let (all, apart) = (TABLE + 2 * TABLE / 3, TABLE / 3);
    let saved = (not as f64 - declared as f64) / (4 * (all - apart)) as f64;
    assert!((0.98..1.02).contains(&saved), "{declared} and {not} bytes: {saved}");
}

#[test]
fn every_misuse_has_a_line() {
    let end = |how: &str, status: i32, line: &str| {
        run("--mode raid5", &[how]).status(status).says(line);
    };
    end("write", 3, "PE 1: a write to memory of PE 1 that is read-only: 3276800 bytes at 0x");
    end("put", 3, "PE 1: a write to memory of PE 2 that is read-only: 3276800 bytes at 0x");
    end("free", 2, "it has a range that is read-only: shmemx_ft_writable comes first");
    end("part", 2, "expected the range that was declared");
    end("static", 2, "expected memory of one block of the symmetric heap");
    end("other", 2, "names another range");
}

/// If nothing is gained, the call reports it, and the range is saved like all memory.
#[test]
fn unsupported_read_only_ranges_are_saved_normally() {
    for (words, why) in [
        ("--mode double --kill 1@5", "with a mode other than raid5 and rs, the range is saved"),
        (
            "--mode none",
            "with a mode other than raid5 and rs, the range is saved like other memory",
        ),
        (
            "--mode raid5 SHMEM_FT_ROLLBACK=none SHMEM_FT_SUBSTITUTE=shrink",
            "with SHMEM_FT_ROLLBACK=none, the range is saved like other memory",
        ),
    ] {
        let outcome = run(words, &["any"]);
        is_right(&outcome);
        outcome.says(&format!("shmemx_ft_readonly: the range stays as it is: {why}"));
    }
}
