//! Parity that is computed while the program runs, between hosts. PEs of other hosts read the
//! copies over the network.

use super::net::Net;
use super::support::stall::at_its_stop;
use super::support::{Job, program};

const HOSTS: usize = 4;

fn job(net: &Net, options: &[&str], action: &str) -> Job {
    let job = net.job(&[1; HOSTS]).args(&["--verbose", "--fabric", "ucx"]).mode("raid5");
    let job = job.env("SHMEM_FT_SNAPSHOTS", "2").env("SHMEM_FT_BACKGROUND", "auto");
    let job = job.with_orphans();
    job.args(options).program(&program("behind"), &[action])
}

/// The host of PE 1, or its process, is lost while it copies, while parity is computed, and once it
/// protects; the program meanwhile puts into other hosts.
#[test]
fn a_loss_in_the_background_rolls_back_to_one_checkpoint() {
    needs!(has_ucx);
    let net = Net::new(HOSTS);
    for (nth, point) in ["copy", "encode", "encoded", "after"].into_iter().enumerate() {
        let rule = format!("1@4:{point}");
        let what = ["--kill-node", "--kill"][nth % 2];
        let action = ["put", "flush", "free", "protect"][nth];
        let outcome = job(&net, &[what, &rule], action).run();
        outcome.status(0).prints("behind ok").says("all PEs resume from checkpoint ");
        outcome.says(" of the program's time, and ");
    }
}

/// PE 1 is stopped while it computes parity. The others get past the call, and the checkpoint does
/// not protect until PE 1 continues.
#[test]
fn a_call_returns_once_all_have_copied() {
    needs!(has_ucx);
    let net = Net::new(HOSTS);
    let mut run = job(&net, &[], "ahead").env("SHMEM_FT_INJECT", "stop:1@4:encode").start();
    run.wait_for("PE 0 is ahead, protected 0");
    at_its_stop(&mut run, || ());
    run.finish().status(0).prints("behind ok");
}
