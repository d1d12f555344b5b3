//! New parity groups after PEs have moved, so that the job survives the next loss, too.

use super::HEAL;
use super::disk::{LONG, Store};
use super::falls::{FELL, kill_nodes};
use super::support::jacobi::{self, SMALL};
use super::support::{Cell, Job, Outcome, RECOVERY, Running, Sweep};

/// The line of a job that survives every single loss again, thanks to new groups.
pub(super) const SURVIVES: &str = "the job now survives the loss of any one node or domain";
/// The start of the line on a node whose loss would end the job.
const RISK: &str = "the job now does not survive the loss of node";
/// PEs 1 and 2, both on node 1, are each rebuilt from the other member of its new group.
const FROM_PAIRS: &str = "(PE 1 rebuilt from PE 3; PE 2 rebuilt from PE 0)";
/// The start of the line on new groups.
pub(super) const ANEW: &str = "parity groups change from checkpoint ";

fn job(pes: usize, losses: &[&str]) -> Job {
    let nodes = pes.to_string();
    Job::new(pes).mode("raid5").args(&["--verbose", "--nodes", &nodes]).kill_node(losses)
}

fn run(pes: usize, losses: &[&str]) -> Outcome {
    jacobi::job(job(pes, losses), SMALL).run()
}

/// Runs a job whose PE 2 moves.
fn moved(cell: &Cell) -> Outcome {
    jacobi::job(cell.job().args(&["--verbose", "--nodes", "4"]), SMALL).run()
}

/// PE 2 moves to node 1, which holds a member of its group; then node 1 is lost.
#[test]
fn the_node_that_took_a_member_of_its_own_group_is_lost_next() {
    let outcome = run(4, &["2@3", "1@5"]);
    outcome.right_sum(SMALL).says(&format!("{RISK}1 (2 members of group 0 are in node1)"));
    outcome.says(&format!("{ANEW}3 on: 2 groups of 2, parity 1")).says(SURVIVES);
    outcome.says(FROM_PAIRS);
}

/// Each loss hits the node that the last PE moved to, and is reported as survivable beforehand.
#[test]
fn eight_nodes_lose_five_one_after_the_other() {
    let outcome = run(8, &["4@2", "3@4", "2@6", "1@8", "0@10"]);
    outcome.right_sum(SMALL);
    outcome.check(outcome.count("was lost with PE") == 5, "five losses");
    let said = |line: &&str| line.contains("the job now ");
    let lines: Vec<&str> = outcome.err.lines().filter(said).collect();
    let last_word = lines.last().is_some_and(|line| line.contains(SURVIVES));
    outcome.check(last_word, "it survives the next loss");
    let pairs = lines.chunks(2).all(|pair| pair[0].contains(RISK) && pair[1].contains(SURVIVES));
    outcome.check(pairs, "each risk is over before the next one");
}

/// The recovery from the loss of node 2 encodes the third checkpoint again, with new groups. A loss
/// during it is decoded by the old groups until all PEs have encoded it, and by the new ones then.
/// For a loss in the encode step, timing decides which of the two stand. Whichever do, the number
/// that people see stays.
#[test]
fn a_loss_at_each_step_of_the_change_is_borne_by_the_groups_of_the_checkpoint_that_stands() {
    for (nth, step) in HEAL.into_iter().enumerate() {
        let both = run(4, &["2@3", &format!("1@3:{step}")]);
        if nth < 1 {
            let words = "unrecoverable: group 0 lost PEs 1,2, parity 1";
            assert_eq!(both.same_verdict(), words, "{step}\n{both}");
        } else if nth > 2 {
            both.right_sum(SMALL).says(FROM_PAIRS);
            both.check(both.count("all PEs resume from checkpoint 3 ") == 2, "one number");
        }
    }
    Sweep::of([second_node("{0|3}", &HEAL)]).each(|cell| {
        let one = moved(cell);
        one.right_sum(SMALL).says(ANEW);
        one.check(one.count("all PEs resume from checkpoint 3 ") == 2, "one number");
    });
}

/// Returns the row of jobs that lose node 2, and another one at each of these steps.
fn second_node(node: &str, steps: &[&str]) -> String {
    format!("--mode raid5 --kill-node 2@3 --kill-node {node}@3:{{{}}}", steps.join("|"))
}

/// A process dies in the recovery that moves PE 2, or in the encoding with the new groups, and its
/// memory is adopted. PE 2 may die on its new node.
#[test]
fn a_process_that_dies_in_the_recovery_or_in_the_change_is_adopted() {
    let row = |pe: &str, steps: &[&str]| {
        format!("--mode raid5 --kill-node 2@3 --kill {pe}@3:{{{}}}", steps.join("|"))
    };
    // The substitute has no number while it agrees.
    let rows = [row("{0|1|3}", &RECOVERY), row("2", &RECOVERY[1..]), row("{0|1|2|3}", &HEAL)];
    Sweep::of(rows).sample(24).each(|cell| {
        let outcome = moved(cell);
        outcome.right_sum(SMALL).says(SURVIVES).says("was killed by SIGKILL");
        let resumed = outcome.count("all PEs resume from checkpoint 3 ");
        let twice = cell.line.contains(":heal");
        outcome.check(resumed == 2 || resumed == 1 && !twice, "one number");
    });
}

/// A node is lost in the recovery that moves PE 2. That is one loss too many until the parity is
/// whole again; node 1, to which PE 2 moves, is one too many then, too, until groups have changed.
#[test]
fn a_node_that_is_lost_in_the_recovery_is_survived_once_parity_is_whole() {
    Sweep::of([second_node("{0|1|3}", &RECOVERY)]).sample(6).each(|cell| {
        let outcome = moved(cell);
        let is_node_1 = cell.line.contains("--kill-node 1@");
        match RECOVERY[cell.nth] {
            "resume" | "reencode" if outcome.status == 0 => {
                outcome.right_sum(SMALL).says(SURVIVES);
                outcome.check(!is_node_1 || outcome.count(FROM_PAIRS) == 1, "by the new groups");
            }
            "resume" if !is_node_1 => panic!("a loss of one PE\n{outcome}"),
            _ => {
                let words = outcome.same_verdict();
                let lost = cell.line.split("--kill-node ").nth(2).expect("two losses");
                let pes = ["0,2", "1,2", "", "2,3"][usize::from(lost.as_bytes()[0] - b'0')];
                assert_eq!(words, format!("unrecoverable: group 0 lost PEs {pes}, parity 1"));
            }
        }
    });
}

/// The next loss may come before the program has made another checkpoint.
#[test]
fn the_next_loss_is_survived_before_the_next_checkpoint() {
    let outcome = run(4, &["2@3", "1@3:healed"]);
    outcome.right_sum(SMALL).says(&format!("{ANEW}3 on: 2 groups of 2, parity 1"));
    outcome.says(FROM_PAIRS);
    outcome.check(outcome.count("all PEs resume from checkpoint 3 ") == 2, "twice from the third");
}

/// Processes that saw no move recompute the new groups from the records in the memory of the dead,
/// and from the moves that the launcher sends.
#[test]
fn new_groups_are_known_though_all_processes_die() {
    let kills = [0, 1, 2, 3].map(|pe| format!("--kill {pe}@{{4,5}}:{{}}")).join(" ");
    let kills = kills.replacen("{}", "{checkpoint}", 1);
    Sweep::of([format!("--mode raid5 --kill-node 2@3 --kill-node 1@7 {kills}")])
        .each(|cell| _ = moved(cell).right_sum(SMALL).says(FROM_PAIRS));
}

/// A second loss strikes during a recovery that uses the new groups.
#[test]
fn a_loss_in_a_recovery_by_new_groups_is_a_further_loss() {
    let row = "--mode raid5 --kill-node 2@3 --kill-node 1@5 --kill {0|3}@5:{recovery}";
    Sweep::of([row]).each(|cell| _ = moved(cell).right_sum(SMALL));
}

/// Groups change in every mode that has groups, also with a requested group size.
#[test]
fn groups_change_in_every_mode() {
    let settings = [
        "--mode {double|raid5} SHMEM_FT_GROUP_SIZE=4",
        "--mode {raid4|raid5} SHMEM_FT_DELTA=on",
        "--mode raid5 SHMEM_FT_SNAPSHOTS=2",
        "--mode rs SHMEM_FT_PARITY=1",
    ];
    Sweep::of(settings.map(|settings| format!("{settings} --kill-node 2@3 --kill-node 1@5")))
        .each(|cell| _ = moved(cell).right_sum(SMALL).says(SURVIVES));
}

/// Groups of two take more memory than one of four. If memory is short, the groups do not change.
#[test]
fn groups_stay_where_memory_for_others_is_short() {
    let limited = |losses: &[&str]| {
        let job = job(4, losses).env("SHMEM_FT_MEMORY_LIMIT", "5M");
        jacobi::job(job, SMALL).run()
    };
    let outcome = limited(&["2@3"]);
    outcome.right_sum(SMALL).says("parity groups stay as they are: ");
    outcome.check(outcome.count("parity groups stay") == 1, "said once");
    outcome.check(outcome.count(ANEW) + outcome.count(SURVIVES) == 0, "they stay");
    let words = "unrecoverable: group 0 lost PEs 1,2, parity 1";
    assert_eq!(limited(&["2@3", "1@5"]).same_verdict(), words);
}

/// New groups are taken only if there is memory for the checkpoints after the first one, too.
#[test]
fn new_groups_that_are_taken_leave_memory_for_later_checkpoints() {
    let limits = (5_800..=8_200).step_by(400);
    let mut stayed = 0;
    for limit in limits.clone() {
        let job = job(4, &["2@3"]).env("SHMEM_FT_MEMORY_LIMIT", &format!("{limit}K"));
        let outcome = jacobi::job(job, SMALL).run();
        outcome.right_sum(SMALL);
        outcome.check(outcome.count("checkpoint refused") == 0, "memory was counted before");
        let stays = outcome.count("parity groups stay as they are: ");
        outcome.check(stays + outcome.count(ANEW) == 1, "they change, or a line says why not");
        stayed += stays;
    }
    assert!(stayed > 0 && stayed < limits.count(), "both happen");
}

/// Starts a job that writes sets, and waits until it has one of a checkpoint under new groups: at
/// most three are older. Its node 2 is lost while the set of the third checkpoint is written.
fn stored_anew(store: &Store) -> Running {
    let job = store.job("raid5", &["--nodes", "4"]).kill_node(&["2@3"]);
    let mut run = jacobi::job(job, LONG).with_orphans().start();
    run.wait_for(ANEW);
    run.wait_for_nth("is on disk", 4);
    run
}

/// Resumed from such a set, a job has groups for its own places again.
#[test]
fn a_job_with_new_groups_is_resumed_from_disk() {
    let store = Store::new();
    stored_anew(&store).kill();
    let checked = store.oshinfo(&["--verify"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let job = store.resume(&["--nodes", "4", "--verbose"]).kill_node(&["1@400"]);
    let outcome = jacobi::job(job, LONG).run();
    outcome.right_sum(LONG).says("oshrun: begins from set ").says(ANEW);
}

/// Two nodes of three are lost at once: more than the new groups cover.
#[test]
fn a_job_with_new_groups_begins_again_from_disk() {
    let store = Store::new();
    let mut run = stored_anew(&store);
    kill_nodes(&run, &[0, 1]);
    run.wait_for(FELL);
    run.finish().right_sum(LONG).says("all PEs resume from checkpoint ");
}
