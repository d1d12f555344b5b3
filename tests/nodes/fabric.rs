//! PEs of different hosts reach each other by the engine over UCX, and survive the loss of a host.

use raidshmem::sys::written::Watch;

use super::net::Net;
use super::support::jacobi::{self, TINY};
use super::support::{Job, partly, program, program_with};

fn over_ucx(net: &Net, counts: &[usize]) -> Job {
    net.job(counts).args(&["--fabric", "ucx"])
}

#[test]
fn transfers_and_order_are_as_promised_between_hosts() {
    let net = Net::new(2);
    let outcome = over_ucx(&net, &[1, 1]).program(&program("litmus"), &["apart"]).run();
    outcome.status(0).check(outcome.out.contains("all as promised"), "`all as promised` expected");
}

#[test]
fn a_lost_process_and_a_lost_host_cost_no_byte() {
    let net = Net::new(4);
    for mode in ["raid5", "rs"] {
        let job = over_ucx(&net, &[1, 1, 1, 1]).mode(mode).kill(&["1@3"]);
        jacobi::job(job, TINY).run().right_sum(TINY);
        let job = over_ucx(&net, &[1, 1, 1, 1]).mode(mode).kill_node(&["2@3"]).with_orphans();
        jacobi::job(job, TINY).run().right_sum(TINY);
    }
}

/// What other hosts put arrives through the target's own process: its page tables show it.
#[test]
fn pages_that_other_hosts_write_are_in_the_next_checkpoint() {
    let net = Net::new(3);
    let path = program_with("written", &["-pthread"]);
    for (seed, words) in [
        (1, ""),
        (2, "--kill 2@9:copy"),
        (3, "--kill-node 1@8"),
        (4, "--kill 0@5 --kill-node 2@11"),
    ] {
        let words: Vec<&str> = words.split_whitespace().collect();
        let job = over_ucx(&net, &[2, 2, 2]).mode("raid5").args(&["--verbose"]).args(&words);
        let job = job.env("SHMEM_FT_GROUP_SIZE", "3").env("SHMEM_FT_ADOPT", "0").with_orphans();
        let job = job.env("SHMEM_FT_DELTA", "on").env("SHMEM_FT_TRACK", "pages");
        let outcome = job.program(&path, &[&seed.to_string()]).run();
        let right = outcome.out.lines().filter(|line| line.ends_with(" is right")).count();
        outcome.status(0).check(right == 6, "every PE should find its memory right");
        match Watch::new(true) {
            Ok(_) => outcome.check(outcome.count(", by pages") >= 4, "checkpoints by pages"),
            Err(error) => partly("page-watch", &format!("no pages are watched: {error}")),
        }
    }
}

#[test]
fn what_the_user_set_for_the_network_library_holds_on_every_host() {
    let net = Net::new(2);
    let job = over_ucx(&net, &[1, 1]).mode("none").env("UCX_KEEPALIVE_INTERVAL", "3s");
    let outcome = job.program(&program("exits"), &["show"]).run();
    outcome.status(0);
    let count = |word: &str| outcome.out.lines().filter(|line| *line == word).count();
    let counts = ["UCX_KEEPALIVE_INTERVAL=3s", "UCX_MEM_EVENTS=n"].map(count);
    outcome.check(counts == [2, 2], "both PEs should have both");
}
