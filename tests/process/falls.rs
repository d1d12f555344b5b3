//! Falling back to disk inside the job: more nodes are lost than the parity covers, and all PEs
//! begin again from the newest set that holds.

use rustix::process::Signal;

use super::disk::{LONG, Store, flip_last};
use super::support::processes::signal;
use super::support::{Job, Running, jacobi, sample};

/// A part of the line of a job that begins again from disk.
pub(super) const FELL: &str = ": all PEs begin again from set ";

/// Starts a job on four nodes, and waits until it has at least two sets.
fn stored(job: Job) -> Running {
    let mut run = jacobi::job(job.args(&["--nodes", "4"]), LONG).start();
    run.wait_for_nth("is on disk", 2);
    run
}

/// Kills the agents of these nodes.
pub(super) fn kill_nodes(run: &Running, nodes: &[usize]) {
    let agents = run.agents();
    nodes.iter().for_each(|&node| signal(agents[node].pid, Signal::KILL));
}

/// The nodes of one machine share its disk, so in both layouts the files of lost nodes are there.
#[test]
fn all_begin_again_from_disk_when_more_is_lost_than_the_parity_covers() {
    for layout in sample(vec!["shared", "local"], 2) {
        let store = Store::new();
        let job = store.job("raid5", &[]).env("SHMEM_FT_STORE_LAYOUT", layout);
        let mut run = stored(job);
        kill_nodes(&run, &[1, 2]);
        run.wait_for(FELL);
        let outcome = run.finish();
        outcome.right_sum(LONG).says("all PEs resume from checkpoint ");
        outcome.check(outcome.count("all PEs begin again from set ") == 1, "one line was expected");
        outcome.check(!outcome.err.contains("oshrun: unrecoverable"), "nor another");
    }
}

/// A loss while all PEs begin again is repaired, or makes them begin once more.
#[test]
fn a_loss_while_all_begin_again_is_survived() {
    needs!(long);
    for node in [0, 3] {
        let store = Store::new();
        let mut run = stored(store.job("raid5", &[]));
        let agents = run.agents();
        kill_nodes(&run, &[1, 2]);
        run.wait_for(FELL);
        signal(agents[node].pid, Signal::KILL);
        run.finish().right_sum(LONG);
    }
}

/// Damages two data files of the newest set: more than its parity can decode.
#[test]
fn a_damaged_set_is_passed_over_by_a_job_that_falls() {
    let store = Store::new();
    let mut run = stored(store.job("raid5", &[]).env("SHMEM_FT_STORE_INCREMENTAL", "0"));
    let (damaged, folder) = store.newest();
    for pe in [0, 2] {
        flip_last(&folder.join(format!("pe-{pe}")));
    }
    kill_nodes(&run, &[1, 2]);
    let line = run.wait_for(FELL);
    let outcome = run.finish();
    outcome.right_sum(LONG);
    let taken = line.split(FELL).nth(1).and_then(|rest| rest.split_whitespace().next());
    let taken: u64 = taken.and_then(|set| set.parse().ok()).expect("a number");
    outcome.check(taken != damaged, "another set was expected");
    // If the job wrote no newer one, it takes the older one, with a line on the damaged one.
    let is_reported = outcome.err.contains(&format!("set {damaged} is skipped: "));
    outcome.check(taken > damaged || is_reported, "a reason was expected");
}

/// A batch system may submit the job again: it lost nodes, and came further than its last set.
#[test]
fn a_job_without_nodes_left_says_how_to_continue() {
    let store = Store::new();
    let run = stored(store.job("raid5", &[]));
    kill_nodes(&run, &[0, 1, 2, 3]);
    let outcome = run.finish();
    outcome.status(75).says("unrecoverable: every ");
    outcome.says(&format!("oshrun --resume {} continues from", store.text()));
    jacobi::job(store.resume(&[]), LONG).run().right_sum(LONG);
}

/// Without a lost node a crash of the program is likely: a script must not submit the job again.
#[test]
fn a_job_that_lost_processes_only_is_not_submitted_again() {
    let store = Store::new();
    let job = store.job("raid5", &[]).env("SHMEM_FT_ADOPT", "0").env("SHMEM_FT_MAX_RESTARTS", "0");
    let mut run = jacobi::job(job, LONG).start();
    run.wait_for_nth("is on disk", 2);
    let pes = run.processes();
    let agents: Vec<u32> = run.agents().iter().map(|agent| agent.pid).collect();
    let pes = pes.iter().filter(|found| agents.contains(&found.parent));
    pes.for_each(|pe| signal(pe.pid, Signal::KILL));
    run.finish().status(3).says("continues from the newest set that holds");
}
