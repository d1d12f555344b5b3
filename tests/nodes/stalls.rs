//! Long waits, in which each node reports only its own PEs.

use super::net::Net;
use super::support::stall::{goes_on, never_ends, tells_of_a_stopped_pe};
use super::support::{Job, program};

/// `SHMEM_FT_STALL` of these jobs: on a busy machine hosts wait for each other for a second.
const LIMIT: &str = "3";
/// PEs 0 to 2 on two hosts, and PE 3, which is late, on its own.
const PLACES: [usize; 3] = [2, 1, 1];

fn job(net: &Net, how: &str) -> Job {
    let job = net.job(&PLACES).args(&["--fabric", "ucx"]).mode("raid5");
    job.env("SHMEM_FT_STALL", LIMIT).program(&program("stall"), &[how])
}

/// Waits by node counters, by a checkpoint, by a team whose members are on two hosts, and by a word
/// that a PE of another host writes.
#[test]
fn one_line_names_waiting_pes_by_host_and_the_missing_ones() {
    needs!(has_ucx);
    let net = Net::new(PLACES.len());
    for (how, call) in [("barrier", "shmem_barrier_all"), ("checkpoint", "shmem_checkpoint_all")] {
        let begin = format!("PEs 0-2 wait in {call} for ");
        goes_on(job(&net, how), &begin, " s; PE 3 does not (it computes)");
    }
    let begin = "PE 0 waits in shmem_team_sync of PEs 0,2 for ";
    goes_on(job(&net, "team"), begin, " s; PE 2 does not (it computes)");
    let rest = " s; PE 3 does not (it computes), PEs 1,2 do not (they are in shmem_finalize)";
    goes_on(job(&net, "until"), "PE 0 waits in shmem_long_wait_until for ", rest);
}

/// The stopped PE is detected without help from its agent.
#[test]
fn a_stopped_pe_of_another_host_is_reported_as_stopped() {
    needs!(has_ucx);
    let net = Net::new(PLACES.len());
    tells_of_a_stopped_pe(job(&net, "barrier"));
}

/// PEs in `shmem_finalize` are on hosts of their own, or next to those that wait.
#[test]
fn a_call_that_never_ends_ends_the_job_with_its_reason() {
    needs!(has_ucx);
    let net = Net::new(PLACES.len());
    never_ends(
        &job(&net, "some").run(),
        "PEs 0-2 wait in shmem_checkpoint_all for .. s, and PE 3, for which they wait, is in \
         shmem_finalize",
    );
    never_ends(
        &job(&net, "early").run(),
        "PE 0 waits in shmem_barrier_all for .. s, and PEs 1-3, for which it waits, are in \
         shmem_finalize",
    );
}
