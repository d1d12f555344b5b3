//! Jobs in shrink mode: a lost PE has no substitute, and no PE rolls back.

use std::path::Path;

use rustix::process::Signal;

use super::support::{Job, Outcome, Sweep, processes, program};

mod walk;

/// Returns a job in shrink mode.
fn job(pes: usize) -> Job {
    let job = Job::new(pes).env("SHMEM_FT_SUBSTITUTE", "shrink");
    job.env("SHMEM_FT_ROLLBACK", "none").env("SHMEM_SYMMETRIC_SIZE", "2M")
}

fn run(pes: usize, name: &str, args: &[&str]) -> Outcome {
    job(pes).program(&program(name), args).run()
}

#[test]
fn a_task_farm_that_loses_pes_ends_right() {
    for (losses, left) in [
        (&[][..], 6),
        (&["1@1"], 5),
        (&["0@0", "5@2"], 4),
        (&["1@1", "2@1", "3@1"], 3),
        (&["0@1", "1@2", "2@3", "3@4", "4@5"], 1),
    ] {
        let outcome = run(6, "farm", &[&["300"], losses].concat());
        outcome.status(0).prints(&format!("300 tasks done, {left} PEs at the end"));
        let told = match losses {
            [] => continue,
            [_] => "PE 1 was lost, and the remaining PEs finished",
            [_, _] => "PEs 0,5 were lost, and the remaining PEs finished",
            [_, _, _] => "PEs 1-3 were lost, and the remaining PEs finished",
            _ => "PEs 0-4 were lost, and the remaining PEs finished",
        };
        outcome.says(told);
    }
}

/// A whole node at a time, killed from outside: its agent, and so its PEs and their memory.
#[test]
fn a_farm_loses_nodes_in_turn() {
    let mut running =
        job(8).args(&["--nodes", "4"]).program(&program("fewer"), &["nodes", "2"]).start();
    for (node, round) in [(1, 0), (3, 1), (0, 2)] {
        running.wait_for(&format!("round {round} begins"));
        let agents = running.agents();
        processes::signal(agents[node.min(agents.len() - 1)].pid, Signal::KILL);
    }
    let outcome = running.finish();
    outcome.status(0).prints("2 PEs are left after 3 rounds");
}

/// Deaths at any moment of any collective, one after another until one PE is left.
#[test]
fn the_living_get_equal_results_whenever_one_dies() {
    for seed in 0..16u32 {
        let latest = (20_000 + seed * 37 % 16 * 20_000).to_string();
        let outcome = run(6, "sweep", &[&seed.to_string(), &latest]);
        outcome.status(0).prints(" is left, with ");
    }
}

/// A team that ended may still have a member in its last call, and that member reads the words.
#[test]
fn a_team_reuses_the_words_of_another_once_no_pe_reads_them() {
    let outcome = run(3, "reuse", &["stopped", "100"]);
    outcome.status(0).prints("stopped: as it should be");
}

/// Teams have all kinds of numbers; their words do not conflict.
#[test]
fn a_collect_is_right_in_teams_of_any_number() {
    let outcome = run(3, "reuse", &["collect", "120"]);
    outcome.status(0).prints("collect: as it should be");
}

#[test]
fn a_product_of_matrices_loses_the_tasks_that_were_begun() {
    for (losses, left) in [
        (&[][..], 8),
        (&["0@0"], 7),
        (&["1@0", "4@1", "6@2"], 5),
        (&["1@0", "4@0", "6@0"], 5),
        (&["0@0", "1@1", "2@2", "3@3", "4@4", "5@5", "6@6"], 1),
    ] {
        let outcome = run(8, "tiles", &[&["8"], losses].concat());
        let end = format!("tiles: 64 tiles, 0 cells wrong, {left} PEs at the end");
        outcome.loses_what_was_begun(64, &end);
    }
}

#[test]
fn a_death_in_an_update_of_two_copies_leaves_one_whole() {
    let torn = |args: &[&str]| -> [u32; 2] {
        let outcome = run(6, "twice", args);
        outcome.status(0).prints("4 writers died, ");
        let words: Vec<&str> = outcome.out.split(' ').collect();
        [3, 8].map(|at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0))
    };
    let seeds = (0..8u32).flat_map(|seed| torn(&[&seed.to_string(), "4000000"]));
    assert!(seeds.sum::<u32>() > 0, "no writer died in the midst of a copy");
    // Each copy has 64 pages.
    assert_eq!(torn(&["at", "0", "-1", "0", "-1"]), [0, 0]);
    assert_eq!(torn(&["at", "5", "20", "40", "60"]), [4, 0]);
    assert_eq!(torn(&["at", "72", "85", "105", "120"]), [0, 4]);
}

/// If PEs live on several nodes the copies are on two of them.
#[test]
fn two_copies_are_kept_on_two_nodes() {
    let nodes = |args: &[&str]| {
        let job = job(6).args(&["--nodes", "3"]).program(&program("fewer"), args);
        job.run()
    };
    let line = "shmemx_ft_put2: shadow 1: expected a PE on another node than pe 0, so that no loss";
    let outcome = nodes(&["one-node"]);
    outcome.status(2).says(line);
    for args in [["shadows", "2"], ["one-node-left", "2"]] {
        let outcome = nodes(&args);
        outcome.status(0).prints(&format!("{}: as it should be", args[0]));
    }
}

#[test]
fn two_copies_are_kept_on_two_pes() {
    let outcome = run(3, "fewer", &["one-copy"]);
    outcome.status(2).says("shmemx_ft_put2: shadow 1: expected another PE");
}

/// Returns a job that keeps checkpoints for degraded reads.
fn kept(pes: usize, mode: &str) -> Job {
    job(pes).mode(mode).env("SHMEM_SYMMETRIC_SIZE", "8M")
}

#[test]
fn the_last_checkpoint_of_a_lost_pe_is_read_from_parity() {
    let rs = || kept(6, "rs").env("SHMEM_FT_PARITY", "2");
    for (job, lost) in [
        (kept(5, "raid5"), &["1"][..]),
        (kept(4, "raid4"), &["0"]),
        (kept(4, "raid5").env("SHMEM_FT_SNAPSHOTS", "2"), &["3"]),
        (kept(4, "raid5").args(&["--nodes", "4"]), &["2"]),
        (rs(), &["1", "4"]),
        (rs(), &["0", "5"]),
    ] {
        let outcome = job.program(&program("degraded"), &[&["read"], lost].concat()).run();
        outcome.status(0).prints("read: as it should be");
    }
}

#[test]
fn more_than_the_parity_covers_is_a_status() {
    let words = ["fallen", "1", "2"];
    let outcome = kept(4, "raid5").program(&program("degraded"), &words).run();
    outcome.status(0).prints("fallen: as it should be");
}

/// PEs die one after another, and each is read from the last checkpoint of its survivors.
#[test]
fn the_living_protect_each_other_in_new_groups() {
    for (job, lost) in [
        (kept(6, "raid5"), &["1", "4", "0", "5"][..]),
        (kept(5, "raid5").env("SHMEM_FT_SNAPSHOTS", "2"), &["0", "3", "1"]),
        (kept(4, "raid4"), &["3", "0"]),
        (kept(6, "rs").env("SHMEM_FT_PARITY", "2"), &["2", "5", "3"]),
        (kept(8, "raid5").args(&["--nodes", "4"]).env("SHMEM_FT_GROUP_SIZE", "3"), &["7", "6"]),
        (kept(4, "raid5").env("SHMEM_FT_DELTA", "on").env("SHMEM_FT_TRACK", "pages"), &["2", "0"]),
    ] {
        let outcome = job.program(&program("degraded"), &[&["rounds"], lost].concat()).run();
        outcome.status(0).prints("rounds: as it should be");
    }
}

/// Calls pass while no checkpoint is due; the first one after a loss protects the living PEs.
#[test]
fn calls_pass_until_a_checkpoint_is_due() {
    for job in [kept(5, "raid5"), kept(5, "raid4").env("SHMEM_FT_SNAPSHOTS", "2")] {
        let job = job.env("SHMEM_FT_INTERVAL", "3600");
        let outcome = job.program(&program("degraded"), &["interval", "1", "4", "0"]).run();
        outcome.status(0).prints("interval: as it should be").says("4 checkpoints took");
    }
}

#[test]
fn too_few_to_protect_each_other_keep_the_last_checkpoint() {
    let outcome = kept(2, "raid5").program(&program("degraded"), &["last", "0"]).run();
    outcome.status(0).prints("last: as it should be");
    let line = "PE 1: checkpoint refused: a group of 1 PE cannot hold 1 parity: needs at least 2";
    outcome.says(line);
}

/// A death at every step of the first checkpoint in new groups: all have the previous one, from
/// which both lost PEs can be read, or this one, which lacks the first. At `before` it is the call
/// that reports the first loss.
#[test]
fn a_death_in_the_first_checkpoint_of_new_groups_leaves_one_of_both() {
    let steps = "{quiesce|encode|encoded|copy|copied|after}";
    Sweep::of([format!("SHMEM_FT_SNAPSHOTS={{1|2}} --kill 3@3:{steps}")]).each(|cell| {
        let job = kept(6, "rs").env("SHMEM_FT_PARITY", "2").words(&cell.line);
        let outcome = job.program(&program("degraded"), &["point", "1"]).run();
        let number = if cell.nth < 3 { 2 } else { 3 };
        outcome.all_print(4, &format!("has read checkpoint {number}"));
    });
}

/// A death at every step of a checkpoint: all PEs, including the lost one, are read from the
/// previous checkpoint or from this one, and from the same one everywhere.
#[test]
fn a_death_in_a_checkpoint_leaves_one_that_can_be_read_of_all() {
    Sweep::of(["SHMEM_FT_SNAPSHOTS={1|2} --kill 1@3:{checkpoint}"]).each(|cell| {
        let job = kept(4, "raid5").words(&cell.line);
        let outcome = job.program(&program("degraded"), &["point"]).run();
        let number = if cell.nth < 4 { 2 } else { 3 };
        outcome.all_print(3, &format!("has read checkpoint {number}"));
    });
}

#[test]
fn a_wait_returns_until_the_loss_is_acknowledged() {
    let outcome = run(3, "fewer", &["waits"]);
    outcome.status(0);
    ["PE 0 waited", "PE 2 waited"].iter().for_each(|text| _ = outcome.prints(text));
}

/// A death at every step of a checkpoint. Nothing is saved in such a job, but the steps exist.
#[test]
fn a_checkpoint_call_fails_once_and_on_all_alike() {
    Sweep::of(["{--kill|--nodes 2 --kill-node} 1@3:{checkpoint}"]).each(|cell| {
        let left = if cell.line.contains("--nodes") { 2 } else { 3 };
        let outcome = job(4).words(&cell.line).program(&program("fewer"), &["checkpoints"]).run();
        outcome.all_print(left, "has seen the failure");
    });
}

#[test]
fn each_callback_runs_once_per_loss_in_its_thread() {
    let outcome = run(4, "fewer", &["handlers"]);
    outcome.status(0);
    ["PE 0 learned of 1 2", "PE 3 learned of 1 2"].iter().for_each(|text| _ = outcome.prints(text));
}

#[test]
fn a_lock_that_a_lost_pe_must_hand_on_ends_the_job_by_name() {
    for (what, cause) in [
        ("home", "PE 1, its home, was lost"),
        ("holder", "PE 1, which held it or waited for it, was lost"),
        ("tested", "PE 1, which held it or waited for it, was lost"),
    ] {
        let outcome = run(4, "fewer", &["lock", what]);
        outcome.status(3).says(cause);
    }
    run(4, "fewer", &["lock", "cleared"]).status(0);
}

#[test]
fn the_status_is_that_of_the_living_pes() {
    for (args, status) in [(["exit", "0"], 0), (["exit", "5"], 5)] {
        let outcome = run(3, "fewer", &args);
        outcome.status(status).says("PE 1 was lost");
    }
}

#[test]
fn a_job_whose_pes_are_all_lost_ends() {
    let outcome = run(2, "fewer", &["all"]);
    outcome.status(3).says("unrecoverable: every PE was lost");
}

#[test]
fn the_state_of_a_lost_pe_is_shown() {
    let running = job(3).program(&program("fewer"), &["hold"]).until("PE 1 is lost, and we wait");
    let launcher = running.launcher().to_string();
    let oshrun = Path::new(env!("CARGO_BIN_EXE_oshrun"));
    let shown = std::process::Command::new(oshrun).args(["--status", &launcher]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("2 alive, 1 lost"), "{shown}");
    assert!(!shown.contains("recovery"), "{shown}");
    running.signal(Signal::TERM);
    running.finish();
}

#[test]
fn conflicting_settings_are_one_line() {
    let refused = |job: Job, line: &str| {
        let outcome = job.program(&program("fewer"), &["exit", "0"]).run();
        outcome.status(2).check(outcome.err.contains(line), line);
        outcome.check(outcome.err.lines().count() == 1, "one line");
    };
    refused(job(2).env("SHMEM_FT_SUBSTITUTE", "spawn"), "SHMEM_FT_ROLLBACK=none with");
    refused(
        job(2).env("SHMEM_FT_ROLLBACK", "global"),
        "SHMEM_FT_ROLLBACK=global with SHMEM_FT_SUBSTITUTE=shrink",
    );
    refused(job(2).mode("double"), "SHMEM_FT_ROLLBACK=none with SHMEM_FT_BACKUP_MODE=double");
    let store = job(2).mode("raid5").env("SHMEM_FT_STORE", "/tmp");
    refused(store, "SHMEM_FT_STORE=/tmp with SHMEM_FT_ROLLBACK=none");
    refused(job(2).args(&["--spares", "1"]), "--spares 1 with SHMEM_FT_SUBSTITUTE=shrink");
}
