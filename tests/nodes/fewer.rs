//! Jobs in shrink mode, between nodes that do not map each other: the programs that run on one
//! machine (`tests/process/fewer.rs`).

use raidshmem_core::settings::Fabric;
use rustix::process::Signal;

use super::net::{Net, agent};
use super::support::{Job, Sweep, example, processes, program};

fn with_fewer(job: Job) -> Job {
    over(job, "ucx")
}

fn over(job: Job, fabric: &str) -> Job {
    let job = job.env("SHMEM_FT_SUBSTITUTE", "shrink").env("SHMEM_FT_ROLLBACK", "none");
    job.env("SHMEM_SYMMETRIC_SIZE", "4M").args(&["--fabric", fabric])
}

#[test]
fn a_task_farm_over_eight_hosts_that_loses_three_pes_ends_right() {
    needs!(has_ucx);
    let net = Net::new(8);
    let job = with_fewer(net.job(&[1; 8]));
    let outcome = job.program(&program("farm"), &["300", "1@1", "5@2", "0@3"]).run();
    outcome.status(0).says("PEs 0,1,5 were lost, and the remaining PEs finished");
    let end = "300 tasks done, 5 PEs at the end";
    outcome.prints(end);
}

/// Eight hosts lose three in turn without spares; the five survivors get the right result, and only
/// work in progress is lost.
#[test]
fn farms_over_eight_hosts_that_lose_three_pes_lose_what_was_begun() {
    needs!(has_ucx);
    let net = Net::new(8);
    for (program, words, all, end) in [
        (program("tiles"), ["6", "1@0", "4@1", "6@2", ""], 36, "tiles: 36 tiles, 0 cells wrong"),
        (example("contract"), ["16", "5", "1@1", "4@2", "6@3"], 80, "0 wrong"),
    ] {
        let words = words.iter().copied().filter(|word| !word.is_empty()).collect::<Vec<_>>();
        let outcome = with_fewer(net.job(&[1; 8])).program(&program, &words).run();
        outcome.says("PEs 1,4,6 were lost, and the remaining PEs finished");
        outcome.loses_what_was_begun(all, &format!("{end}, 5 PEs at the end"));
    }
}

#[test]
fn a_death_in_an_update_of_two_copies_leaves_one_whole() {
    needs!(has_ucx);
    for seed in 0..4u32 {
        let job = with_fewer(Job::new(6)).args(&["--nodes", "6"]);
        let outcome = job.program(&program("twice"), &[&seed.to_string(), "20000000"]).run();
        outcome.status(0).prints("4 writers died, ");
    }
}

/// Whole hosts, killed from outside: the agent, and so its PE and its memory.
#[test]
fn of_eight_hosts_three_are_lost_in_turn() {
    needs!(has_ucx);
    let net = Net::new(8);
    let job = with_fewer(net.job(&[1; 8])).with_orphans();
    let mut run = job.program(&program("fewer"), &["nodes", "1"]).until("round 0 begins");
    let killed: Vec<u32> = [2, 7, 0].map(|node| agent(&run, node).pid).into();
    for (round, pid) in killed.into_iter().enumerate() {
        if round > 0 {
            run.wait_for(&format!("round {round} begins"));
        }
        processes::signal(pid, Signal::KILL);
    }
    let outcome = run.finish();
    outcome.status(0).says("node 2 was lost with PE 2");
    outcome.says("PEs 0,2,7 were lost, and the remaining PEs finished");
    let end = "5 PEs are left after 3 rounds";
    outcome.prints(end);
}

/// Deaths at any moment of any collective, one after another until one PE is left; with one, two
/// and three PEs per node.
#[test]
fn the_living_get_equal_results_whenever_one_dies() {
    needs!(has_ucx);
    for seed in 0..24u32 {
        let latest = (20_000 + seed * 37 % 16 * 40_000).to_string();
        let nodes = [6, 3, 2][seed as usize % 3].to_string();
        let job = with_fewer(Job::new(6)).args(&["--nodes", &nodes]);
        let outcome = job.program(&program("sweep"), &[&seed.to_string(), &latest]).run();
        outcome.status(0).prints(" is left, with ");
    }
}

#[test]
fn untested_combinations_are_refused() {
    if raidshmem_engines::load(Fabric::Verbs).is_err() {
        return; // the line that reports it comes first
    }
    let outcome = over(Job::new(2), "verbs").program(&program("farm"), &["1"]).run();
    outcome
        .status(2)
        .says("SHMEM_FT_ROLLBACK=none over verbs: expected SHMEM_FT_FABRIC=shm or ucx");
}

/// Returns a job that keeps checkpoints for degraded reads.
fn kept(job: Job, mode: &str) -> Job {
    with_fewer(job).mode(mode).env("SHMEM_SYMMETRIC_SIZE", "8M")
}

/// A whole host is lost at every step of a checkpoint: its PE's data is decoded from the other
/// hosts, and then the survivors protect each other.
#[test]
fn the_last_checkpoint_of_a_pe_lost_with_its_host_is_read_from_the_others() {
    needs!(has_ucx);
    let net = Net::new(5);
    let row = "--kill-node 1@3:{before|encode|encoded|copy|copied|after}";
    Sweep::of([row]).each(|cell| {
        let job = kept(net.job(&[1; 5]), "raid5").words(&cell.line).with_orphans();
        let outcome = job.program(&program("degraded"), &["point"]).run();
        let number = if cell.nth < 3 { 2 } else { 3 };
        outcome.says("node 1 was lost with PE 1");
        outcome.all_print(4, &format!("has read checkpoint {number}"));
    });
}

/// Two PEs of a host at once, of one group or of two.
#[test]
fn all_pes_of_a_host_are_read_from_the_others() {
    needs!(has_ucx);
    let net = Net::new(4);
    for (mode, parity, group) in [("rs", "2", "8"), ("raid5", "1", "4")] {
        let job = kept(net.job(&[2; 4]), mode).env("SHMEM_FT_PARITY", parity);
        let job = job.env("SHMEM_FT_GROUP_SIZE", group).kill_node(&["2@3:encode"]);
        let words = ["point", "-1", "2"];
        let outcome = job.with_orphans().program(&program("degraded"), &words).run();
        outcome.status(0).says("node 2 was lost with PEs 4,5");
        outcome.check(outcome.out.matches("has read checkpoint 2").count() == 6, "six read");
    }
}

#[test]
fn the_living_protect_each_other_in_new_groups() {
    needs!(has_ucx);
    let net = Net::new(5);
    for (job, lost) in [
        (kept(net.job(&[1; 5]), "raid5"), &["1", "4", "0"][..]),
        (kept(net.job(&[2; 3]), "raid5"), &["5", "0"]),
        (kept(Job::new(6).args(&["--nodes", "3"]), "rs"), &["2", "3"]),
    ] {
        let outcome = job.program(&program("degraded"), &[&["rounds"], lost].concat()).run();
        outcome.status(0).prints("rounds: as it should be");
    }
}
