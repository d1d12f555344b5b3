//! Several losses: in turn, at once, during a recovery, more than the parity covers, without a
//! substitute. `modes.rs` has the table of single losses.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::support::jacobi::{self, SMALL};
use super::support::processes::{self, Found};
use super::support::{Cell, Job, Outcome, Sweep, program, sample};

/// Runs four PEs, or the number that the line gives.
fn run(line: &str) -> Outcome {
    jacobi::job(Job::line(line).args(&["--verbose"]), SMALL).run()
}

/// Checks for the right sum after this many losses. Two in quick succession may be seen together,
/// and a rule that one PE has not reached when another is lost triggers when the step is repeated:
/// so there may be fewer recoveries than losses.
#[track_caller]
fn goes_on(outcome: &Outcome, losses: usize) {
    outcome.right_sum(SMALL);
    let counted = outcome.count("was killed by SIGKILL") + outcome.count("was lost with PE");
    outcome.check(counted == losses, &format!("{losses} losses were expected"));
    let recoveries = outcome.count("all PEs resume from checkpoint");
    let right = (1..=losses).contains(&recoveries);
    outcome.check(right, &format!("1 to {losses} recoveries were expected"));
}

/// Runs each cell of these rows, and checks for the right sum after as many losses as it has rules.
fn all_go_on<T: AsRef<str>>(rows: impl IntoIterator<Item = T>) {
    Sweep::of(rows).each(|cell| goes_on(&run(&cell.line), cell.line.matches("--kill").count()));
}

/// Losses in turn. With nodes: a PE of a lost node restarts on the node that has fewest of its
/// group, the first of equals, so PE 1 of node 1 moves to node 0, and then PE 2 of node 2 to node
/// 3.
const IN_TURN: &[&str] = &[
    "--kill 1@3 --kill 2@5",
    "--kill 1@3 --kill 1@5",
    "--kill 1@3:copy --kill 1@4:encode --kill 1@6",
    "--kill 0@2:encode --kill 3@5:copied --kill 0@8:before",
    "--kill 2@10 --kill 3@11:before",
    "--nodes 4 --kill-node 1@3 --kill-node 2@5",
    "--nodes 4 --kill-node 1@3:before --kill 1@4:copy --kill-node 2@5",
    "--nodes 4 --kill-node 0@3:copy --kill 0@5:copied --kill 0@7:before",
    "--nodes 4 --kill 2@2 --kill-node 2@4:copied",
    "--nodes 2 --kill 0@4:before --kill 3@4:quiesce",
];

/// More PEs than one counter serves: the leader of the second counter, a PE that waits there, and a
/// whole node.
#[test]
fn losses_among_forty_pes() {
    Sweep::of([
        "-n 40 --mode raid5 --kill 16@2:copy --kill 39@4",
        "-n 40 --mode raid5 --nodes 2 --kill 16@2",
        "-n 40 --mode raid5 --nodes 20 --kill-node 8@3",
    ])
    .each(|cell| _ = run(&cell.line).right_sum(SMALL).says("all PEs resume from checkpoint"));
}

#[test]
fn two_and_three_losses_in_turn() {
    for mode in sample(vec!["double", "raid4", "rs", "raid5"], 1) {
        // double: modes.rs explains why not in encode
        let rows = IN_TURN.iter().filter(|row| mode != "double" || !row.contains(":encode"));
        all_go_on(rows.map(|row| format!("--mode {mode} {row}")));
    }
}

#[test]
fn losses_in_turn_with_spares_that_are_used_up_or_not() {
    all_go_on([
        "--mode raid5 SHMEM_FT_SUBSTITUTE=spare --spares 2 --kill 1@3 --kill {2@5|1@5:copy}",
        "--mode raid5 SHMEM_FT_SUBSTITUTE=spawn --spares 1 --kill 1@3 --kill 2@5",
        "--mode raid5 SHMEM_FT_SUBSTITUTE=spare --spares 3 --nodes 4 --kill-node 1@3 --kill 2@5 \
         --kill 1@7",
        "--mode raid5 SHMEM_FT_SUBSTITUTE=spawn --spares 1 --nodes 4 --kill-node 1@3 \
         --kill-node {2|4}@5:copy",
    ]);
}

/// The memory of a dead process is adopted as it was, and a write in progress is completed, unless
/// adoption is off; the memory of a dead node is always rebuilt.
#[test]
fn memory_is_adopted_from_a_process_and_rebuilt_from_parity_otherwise() {
    let adopted = "PE 1: memory of the dead process adopted";
    let rebuilt = "PE 1: 576.0 KiB of checkpoint 3 rebuilt from PE";
    for (row, expected) in [
        ("SHMEM_FT_ADOPT=1 --kill {1@3|1@3:copy}", adopted),
        ("SHMEM_FT_ADOPT=0 --kill {1@3|1@3:copy}", rebuilt),
        ("SHMEM_FT_ADOPT=1 --nodes 4 --kill-node 1@3", rebuilt),
        ("SHMEM_FT_ADOPT=1 --nodes 4 --spares 1 --kill 1@3", adopted),
    ] {
        Sweep::of(["--mode {double|raid4|raid5|rs} ".to_owned() + row]).each(|cell| {
            let outcome = run(&cell.line);
            goes_on(&outcome, 1);
            let both = outcome.count(adopted) + outcome.count(rebuilt);
            let right = both == 1 && outcome.count(expected) == 1;
            outcome.check(right, &format!("`{expected}` was expected, once"));
        });
    }
}

/// Survivors and substitutes, early and late, get the same report: the lost PEs, and whether with
/// their nodes.
#[test]
fn every_pe_learns_the_same_about_a_loss() {
    for (line, told) in [
        ("--kill 1@3", "1 by its self"),
        ("--kill 0@3:copy", "0 by its self"),
        ("SHMEM_FT_ADOPT=0 --kill 1@3", "1 by its self"),
        ("--nodes 4 --spares 1 --kill 2@3", "2 by its self"),
        ("--nodes 4 --kill-node 1@3", "1 by its node"),
        ("--nodes 4 --spares 1 --kill-node 3@3:copy", "3 by its node"),
        ("--nodes 2 --kill-node 1@3", "2 by its node 3 by its node"),
    ] {
        let outcome = Job::line(line).mode("rs").program(&program("faults"), &[]).run();
        outcome.status(0);
        for pe in 0..4 {
            let said = |what: &str| {
                let said = |line: &&str| {
                    line.starts_with(&format!("PE {pe} of life ")) && line.ends_with(what)
                };
                outcome.out.lines().filter(said).count()
            };
            let line = format!("is told: {told}");
            outcome.check(said(&line) == 1, &format!("PE {pe}: `{line}` was expected, once"));
            outcome.check(said("goes on from 2") == 1, &format!("PE {pe} should go on from 2"));
        }
    }
}

/// The status of a get says whether its data is valid, on one machine.
#[test]
fn a_get_with_a_status_reports_a_death() {
    for nodes in ["1", "2", "4"] {
        let job = Job::new(4).mode("raid5").args(&["--nodes", nodes]);
        let outcome = job.program(&program("get_status"), &[]).run();
        outcome.all_print(1, "learns that a get failed").all_print(4, "is at the end");
    }
}

/// A spare on another node cannot adopt: the memory is on the dead PE's node.
#[test]
fn a_spare_of_another_node_rebuilds() {
    let outcome = run("--mode raid5 SHMEM_FT_SUBSTITUTE=spare --nodes 4 --spares 1 --kill 1@3");
    goes_on(&outcome, 1);
    outcome.says("PE 1: 576.0 KiB of checkpoint 3 rebuilt from PEs 0,2,3");
}

#[test]
fn as_many_at_once_as_there_are_parities() {
    all_go_on([
        "--mode rs --kill 1@3:{checkpoint} --kill 2@3:{}",
        "--mode rs --nodes 4 --kill-node 1@3:{checkpoint} --kill-node 3@3:{}",
        // Dead processes leave whole snapshots, so one parity is enough.
        "--mode raid5 --kill 1@3 --kill 2@3",
        "--mode raid5 --kill 1@3:before --kill 2@3:before --kill 3@3:before",
        "--mode rs --nodes 2 --kill-node 0@3:{checkpoint}", // with PEs 0 and 1
    ]);
}

/// Two groups of four on four nodes: one node takes one PE of each group, a second node one too
/// many.
#[test]
fn groups_bear_their_losses_apart() {
    let row = "-n 8 --mode raid5 SHMEM_FT_GROUP_SIZE=4 --nodes 4";
    all_go_on([
        format!("{row} --kill-node 1@3:copy"),
        format!("{row} --kill-node 0@3 --kill 5@5:copy --kill 2@5:copy"),
    ]);
    let outcome = run(&format!("{row} --kill-node 1@3 --kill-node 2@3"));
    assert_eq!(outcome.same_verdict(), "unrecoverable: group 0 lost PEs 2,4, parity 1");
}

/// Numbers of PEs other than four, and group sizes that do not divide them.
#[test]
fn odd_numbers_of_pes() {
    Sweep::of([
        "-n 2 --mode raid5 --kill 0@3:copy",
        "-n 2 --mode double --nodes 2 --kill-node 1@3",
        "-n 3 --mode rs --nodes 3 --kill-node 0@3:encode --kill-node 2@3:encode",
        "-n 5 --mode raid5 --nodes 5 --kill-node 4@3:encoded",
        "-n 7 --mode raid4 --nodes 7 --kill-node 6@3:copy --kill 0@5:encode",
    ])
    .each(|cell| _ = run(&cell.line).right_sum(SMALL));
}

/// Barriers are counted in the memory of PE 0: if its node is lost, the others may not learn that
/// they had passed, and roll back instead of taking the next step. So where node 0 is lost with
/// others, it is before a barrier.
#[test]
fn one_loss_more_than_the_parity_is_an_agreed_error() {
    for (mode, words, verdict) in [
        ("raid5", "--kill-node 1@3 --kill-node 2@3", "lost PEs 1,2, parity 1"),
        ("raid4", "--kill-node 0@3:before --kill-node 3@3:before", "lost PEs 0,3, parity 1"),
        ("raid5", "--kill-node 1@3:copy --kill-node 2@3:copy", "lost PEs 1,2, parity 1"),
        ("raid5", "--kill-node 1@3:before --kill-node 2@3:before", "lost PEs 1,2, parity 1"),
        ("raid5", "--kill-node 1@3 --kill-node 2@3 --kill-node 3@3", "lost PEs 1-3, parity 1"),
        ("rs", "--kill-node 1@3 --kill-node 2@3 --kill-node 3@3", "lost PEs 1-3, parity 2"),
        (
            "rs",
            "--kill-node 0@3:before --kill-node 1@3:before --kill-node 3@3:before",
            "lost PEs 0,1,3, parity 2",
        ),
    ] {
        let outcome = run(&format!("--mode {mode} --nodes 4 {words}"));
        let verdict = format!("unrecoverable: group 0 {verdict}");
        outcome.check(outcome.same_verdict() == verdict, &format!("`{verdict}` was expected"));
    }
}

#[test]
fn the_launcher_reports_the_loss_of_every_pe() {
    for words in ["--kill-node 0@3", "--nodes 2 --kill-node 0@3:copy --kill-node 1@2:settle"] {
        let outcome = run(&format!("--mode rs {words}"));
        outcome.status(3).says("oshrun: unrecoverable: every PE was lost");
    }
    // One by one: each may have a substitute, without any state, before the next is dead, and the
    // last may live to see that three losses exceed two parities.
    let outcome = run("--mode rs SHMEM_FT_ADOPT=0 --kill 0@3 --kill 1@3 --kill 2@3 --kill 3@3");
    let named = ["every PE was lost", "no PE that saw a checkpoint is left", "group 0 lost "];
    let count = named.map(|reason| outcome.count(&format!("oshrun: unrecoverable: {reason}")));
    outcome.status(3).check(count.iter().sum::<usize>() == 1, "the reason should be named");
}

/// The time that PEs wait at a step for others before they are resumed.
const SENT_ON: Duration = Duration::from_secs(5);

/// Runs a job whose rules stop PEs, and then kills all processes. PEs that reach the step again are
/// resumed.
fn all_at_once(cell: &Cell) -> Outcome {
    let pes = cell.line.matches("stop:").count();
    let job = cell.job().args(&["--verbose"]).env("SHMEM_FT_SCRUB", "off");
    let mut run = jacobi::job(job, SMALL).start();
    let stopped = |found: &Found| found.state == 'T';
    // One PE may take a step in a view that is over for another, which then waits for it in the
    // next view: it is resumed, and reaches the step again with the others.
    let mut since: Option<Instant> = None;
    run.wait_until("the PEs stand at the step", |found| {
        let standing: Vec<&Found> = found.iter().filter(|found| stopped(found)).collect();
        let first = *since.get_or_insert_with(Instant::now);
        if standing.is_empty() {
            since = None;
        } else if standing.len() < pes && first.elapsed() > SENT_ON {
            standing.iter().for_each(|found| processes::signal(found.pid, Signal::CONT));
            since = None;
        }
        standing.len() == pes
    });
    for found in run.processes().iter().filter(|found| found.name == "jacobi") {
        processes::signal(found.pid, Signal::KILL);
    }
    while run.is_alive() {
        for found in run.processes().iter().filter(|found| stopped(found)) {
            processes::signal(found.pid, Signal::CONT);
        }
        std::thread::yield_now();
    }
    run.finish()
}

/// The agents are alive, and hold the memory of all.
#[test]
fn all_processes_at_once_at_every_step() {
    let stops = "stop:0@3:{checkpoint},stop:1@3:{},stop:2@3:{},stop:3@3:{}";
    Sweep::of([
        format!("--nodes 2 --mode raid5 SHMEM_FT_SNAPSHOTS={{1|2}} SHMEM_FT_INJECT={stops}"),
        format!("--nodes 2 --mode double SHMEM_FT_SNAPSHOTS=1 SHMEM_FT_INJECT={stops}"),
    ])
    .each(|cell| goes_on(&all_at_once(cell), 4));
}

/// The substitute of the first lost PE may be at any point.
#[test]
fn all_processes_at_once_in_a_recovery() {
    let stops = "SHMEM_FT_INJECT=stop:0@3:{recovery},stop:2@3:{},stop:3@3:{}";
    let row = "--mode raid5 --nodes 4 {--kill|--kill-node} 1@3 ";
    Sweep::of([row.to_owned() + stops]).each(|cell| {
        let outcome = all_at_once(cell);
        outcome.right_sum(SMALL);
        outcome.check(outcome.count("was killed by SIGKILL") > 2, "three more were expected");
    });
}

#[test]
fn before_the_first_checkpoint_there_is_nothing_to_go_back_to() {
    let modes = "--mode {double|raid4|raid5|rs}";
    Sweep::of([format!("{modes} --kill 1@1:{{before|quiesce}}")]).each(|cell| {
        let words = "unrecoverable: PE 1 was lost before the first checkpoint";
        assert_eq!(run(&cell.line).same_verdict(), words);
    });
    all_go_on([format!("{modes} --kill 1@1:{{copy|copied|after}}")]);
}

/// The second checkpoint covers memory allocated since the first, so stripes and slots grow.
#[test]
fn a_checkpoint_that_grows_is_survived_at_every_step() {
    needs!(long);
    all_go_on([
        "--mode {raid4|raid5|rs} --nodes 4 --kill-node 2@2:{checkpoint}",
        "--mode {raid4|raid5|rs} --kill 0@2:{checkpoint}",
    ]);
}

#[test]
fn without_a_substitute_left_the_job_ends() {
    for (words, pe) in [
        ("--kill 1@3", 1),
        ("--spares 1 --kill 1@3 --kill 2@5", 2),
        ("--spares 2 --kill 1@3 --kill 2@5 --kill 1@7", 1),
        ("--nodes 4 --spares 1 --kill-node 1@3 --kill-node 3@5", 3),
        ("--nodes 4 --spares 2 --kill-node 1@3 --kill-node 4@5", 1), // with both spares on it
    ] {
        let outcome = run(&format!("--mode raid5 SHMEM_FT_SUBSTITUTE=spare {words}"));
        let line = format!(
            "oshrun: unrecoverable: no substitute left for PE {pe}: SHMEM_FT_SUBSTITUTE=spare and \
             every spare is used"
        );
        outcome.status(3).check(outcome.count(&line) == 1, &format!("one `{line}` was expected"));
    }
}

/// A program that dies again and again without progress is itself at fault.
#[test]
fn a_pe_that_dies_too_often_ends_the_job() {
    let rules = "--mode raid5 --kill 1@3".to_owned() + &" --kill 1@3:resume".repeat(4);
    run(&rules).status(3).says(
        "oshrun: unrecoverable: PE 1 crashed 4 times at the same place, by SIGKILL: more than \
         SHMEM_FT_MAX_RESTARTS=3",
    );
    all_go_on([
        &format!("{rules} SHMEM_FT_MAX_RESTARTS=5"),
        // Progress in between restarts the count.
        "--mode raid5 --kill 1@3 --kill 1@3:resume --kill 1@8 --kill 1@8:resume",
    ]);
    run("--mode raid5 SHMEM_FT_MAX_RESTARTS=0 --kill 1@3").status(3);
}

/// Every restart makes a checkpoint of the same state, so its number grows.
#[test]
fn a_program_that_crashes_at_one_place_ends_the_job() {
    let outcome = Job::new(3).mode("raid5").program(&program("places"), &["crashes"]).run();
    outcome.status(3).says(
        "oshrun: unrecoverable: PE 1 crashed 4 times at the same place, by SIGSEGV: more than \
         SHMEM_FT_MAX_RESTARTS=3",
    );
}

/// After the last checkpoint a program leaves its loop, and cannot return to it from
/// `shmem_finalize`: a loss there is an error, even though the result may have been written.
#[test]
fn a_loss_between_the_last_checkpoint_and_the_end_is_survived_or_named() {
    let outcome = run("--mode raid5 --kill 2@11");
    if outcome.status == 0 {
        outcome.right_sum(SMALL).says("the others are in shmem_finalize");
        return;
    }
    let line = outcome.lines("oshrun: ").find(|line| line.starts_with("unrecoverable: PE "));
    let right = line.is_some_and(|line| {
        line.contains("shmem_finalize")
            && line.ends_with("checkpoint before it to be safe to the end")
    });
    outcome.status(3).check(right, "the reason should be named");
}
