//! Collectives by every algorithm: the bits of a sum are those of one tree, and a loss in the midst
//! of them costs nothing.

use std::path::PathBuf;

use raidshmem_core::settings::Collectives;

use super::net::Net;
use super::support::{Job, has_ucx_too, program};

fn together() -> PathBuf {
    program("together")
}

fn by(job: Job, way: &str) -> Job {
    job.env("SHMEM_FT_COLLECTIVES", way)
}

/// Returns the bits of all sums of one step.
fn bits(job: Job) -> String {
    let outcome = job.program(&together(), &["1"]).run();
    outcome.status(0);
    let line = outcome.out.lines().find(|line| line.starts_with("bits "));
    line.unwrap_or_else(|| panic!("the bits were expected\n{outcome}")).to_owned()
}

#[test]
fn sums_have_equal_bits_by_every_path_and_placement() {
    for pes in [4usize, 7] {
        let one_node = || Job::new(pes).env("SHMEM_SYMMETRIC_SIZE", "16M");
        let expected = bits(by(one_node(), "direct"));
        let check = |job: Job, what: &str| assert_eq!(bits(job), expected, "{pes} PEs, {what}");
        for way in Collectives::ALL.map(Collectives::name) {
            check(by(one_node(), way), &format!("one node, {way}"));
            check(by(one_node().args(&["--nodes", "2"]), way), &format!("two nodes, {way}"));
        }
        if !has_ucx_too() {
            continue;
        }
        let places: &[&[usize]] =
            if pes == 4 { &[&[1, 1, 1, 1], &[2, 2], &[1, 3]] } else { &[&[2, 2, 2, 1], &[6, 1]] };
        let net = Net::new(4);
        for counts in places {
            for way in Collectives::ALL.map(Collectives::name) {
                let job = net.job(counts).args(&["--fabric", "ucx"]);
                check(by(job, way), &format!("{counts:?}, {way}"));
            }
        }
    }
}

/// Runs a job in which PE 2 kills itself or its node some time after a checkpoint, amid
/// collectives.
fn survives(way: &str, microseconds: &str, words: &[&str], lost: &str) {
    let net = Net::new(4);
    let job = by(net.job(&[1, 1, 1, 1]), way).args(&["--verbose", "--fabric", "ucx"]);
    let args = [&["0", "2", microseconds], words].concat();
    let run = job.mode("raid5").with_orphans().program(&together(), &args).until("back");
    let outcome = run.end();
    outcome.status(0).says(lost).check(outcome.out.contains("stopped"), "the end was expected");
}

#[test]
fn a_process_and_a_host_lost_amid_collectives_lose_no_bit() {
    needs!(has_ucx);
    let delays = ["200", "1500", "6000", "14000", "27000", "41000", "58000", "83000"];
    let mut delays = delays.into_iter();
    for way in ["nodes", "doubling", "halving", "auto"] {
        survives(way, delays.next().expect("a delay"), &[], "PE 2 was killed by SIGKILL");
        survives(way, delays.next().expect("a delay"), &["node"], "node 2 was lost with PE 2");
    }
}
