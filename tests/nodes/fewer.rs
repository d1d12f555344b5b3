//! Jobs in shrink mode, between nodes that do not map each other: the programs that run on one
//! machine (`tests/process/fewer.rs`), over UCX and libfabric.

use rustix::process::Signal;

use super::net::{Net, agent};
use super::support::{Job, Sweep, example, networks, processes, program};

fn with_fewer(job: Job, fabric: &str) -> Job {
    let job = job.env("SHMEM_FT_SUBSTITUTE", "shrink").env("SHMEM_FT_ROLLBACK", "none");
    job.env("SHMEM_SYMMETRIC_SIZE", "4M").args(&["--fabric", fabric])
}

#[test]
fn a_task_farm_over_eight_hosts_that_loses_three_pes_ends_right() {
    let net = Net::new(8);
    for fabric in networks() {
        let job = with_fewer(net.job(&[1; 8]), fabric);
        let outcome = job.program(&program("farm"), &["300", "1@1", "5@2", "0@3"]).run();
        outcome.status(0).says("PEs 0,1,5 were lost, and the remaining PEs finished");
        outcome.prints("300 tasks done, 5 PEs at the end");
    }
}

/// Eight hosts lose three in turn without spares; the five survivors get the right result, and only
/// work in progress is lost.
#[test]
fn farms_over_eight_hosts_that_lose_three_pes_lose_what_was_begun() {
    let net = Net::new(8);
    let programs = [
        (program("tiles"), &["6", "1@0", "4@1", "6@2"][..], 36, "tiles: 36 tiles, 0 cells wrong"),
        (example("contract"), &["16", "5", "1@1", "4@2", "6@3"], 80, "0 wrong"),
    ];
    for (fabric, (program, words, all, end)) in with_each_network(programs) {
        let outcome = with_fewer(net.job(&[1; 8]), fabric).program(&program, words).run();
        outcome.says("PEs 1,4,6 were lost, and the remaining PEs finished");
        outcome.loses_what_was_begun(all, &format!("{end}, 5 PEs at the end"));
    }
}

/// Returns each case over each network.
fn with_each_network<T: Clone, const N: usize>(
    cases: [T; N],
) -> impl Iterator<Item = (&'static str, T)> {
    networks().into_iter().flat_map(move |net| cases.clone().map(|case| (net, case)))
}

#[test]
fn a_death_in_an_update_of_two_copies_leaves_one_whole() {
    for (fabric, seed) in with_each_network([0, 1, 2, 3u32]) {
        let job = with_fewer(Job::new(6), fabric).args(&["--nodes", "6"]);
        let outcome = job.program(&program("twice"), &[&seed.to_string(), "20000000"]).run();
        outcome.status(0).prints("4 writers died, ");
    }
}

/// Whole hosts, killed from outside: the agent, and so its PE and its memory.
#[test]
fn of_eight_hosts_three_are_lost_in_turn() {
    let net = Net::new(8);
    for fabric in networks() {
        let job = with_fewer(net.job(&[1; 8]), fabric).with_orphans();
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
        outcome.prints("5 PEs are left after 3 rounds");
    }
}

/// Deaths at any moment of any collective, one after another until one PE is left; with one, two
/// and three PEs per node.
#[test]
fn the_living_get_equal_results_whenever_one_dies() {
    let networks = networks();
    for (seed, fabric) in (0..24u32).zip(networks.iter().cycle()) {
        let latest = (20_000 + seed * 37 % 16 * 40_000).to_string();
        let nodes = [6, 3, 2][seed as usize / 2 % 3].to_string();
        let job = with_fewer(Job::new(6), fabric).args(&["--nodes", &nodes]);
        let outcome = job.program(&program("sweep"), &[&seed.to_string(), &latest]).run();
        outcome.status(0).prints(" is left, with ");
    }
}

/// Returns a job that keeps checkpoints for degraded reads.
fn kept(job: Job, fabric: &str, mode: &str) -> Job {
    with_fewer(job, fabric).mode(mode).env("SHMEM_SYMMETRIC_SIZE", "8M")
}

/// A whole host is lost at every step of a checkpoint: its PE's data is decoded from the other
/// hosts, and then the survivors protect each other.
#[test]
fn the_last_checkpoint_of_a_pe_lost_with_its_host_is_read_from_the_others() {
    let (net, networks) = (Net::new(5), networks());
    let row = "--kill-node 1@3:{before|encode|encoded|copy|copied|after}";
    Sweep::of([row]).each(|cell| {
        let Some(fabric) = networks.get(cell.nth % networks.len().max(1)) else { return };
        let job = kept(net.job(&[1; 5]), fabric, "raid5").words(&cell.line).with_orphans();
        let outcome = job.program(&program("degraded"), &["point"]).run();
        let number = if cell.nth < 3 { 2 } else { 3 };
        outcome.says("node 1 was lost with PE 1");
        outcome.all_print(4, &format!("has read checkpoint {number}"));
    });
}

/// Two PEs of a host at once, of one group or of two.
#[test]
fn all_pes_of_a_host_are_read_from_the_others() {
    let net = Net::new(4);
    let groups = [("rs", "2", "8"), ("raid5", "1", "4")];
    for (fabric, (mode, parity, group)) in with_each_network(groups) {
        let job = kept(net.job(&[2; 4]), fabric, mode).env("SHMEM_FT_PARITY", parity);
        let job = job.env("SHMEM_FT_GROUP_SIZE", group).kill_node(&["2@3:encode"]);
        let words = ["point", "-1", "2"];
        let outcome = job.with_orphans().program(&program("degraded"), &words).run();
        outcome.status(0).says("node 2 was lost with PEs 4,5");
        outcome.check(outcome.out.matches("has read checkpoint 2").count() == 6, "six read");
    }
}

#[test]
fn the_living_protect_each_other_in_new_groups() {
    let net = Net::new(5);
    for fabric in networks() {
        for (job, mode, lost) in [
            (net.job(&[1; 5]), "raid5", &["1", "4", "0"][..]),
            (net.job(&[2; 3]), "raid5", &["5", "0"]),
            (Job::new(6).args(&["--nodes", "3"]), "rs", &["2", "3"]),
        ] {
            let words = [&["rounds"], lost].concat();
            let outcome = kept(job, fabric, mode).program(&program("degraded"), &words).run();
            outcome.status(0).prints("rounds: as it should be");
        }
        let job = kept(net.job(&[1; 5]), fabric, "raid5").env("SHMEM_FT_INTERVAL", "3600");
        let outcome = job.program(&program("degraded"), &["interval", "1", "4", "0"]).run();
        outcome.status(0).prints("interval: as it should be");
    }
}
