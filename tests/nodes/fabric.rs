//! PEs of different hosts reach each other by the engine over UCX, and survive the loss of a host.

use super::net::Net;
use super::support::jacobi::{self, TINY};
use super::support::{Job, program};

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
