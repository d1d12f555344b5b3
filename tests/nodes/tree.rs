//! More hosts than the launcher renews leases for: agents in a tree, in which node 0 is the parent
//! of nodes 8 to 15, node 1 of 16 to 23.

use std::process::Command;
use std::time::{Duration, Instant};

use raidshmem_core::detector::DEGREE;

use super::losses::{BUSY, declared, detached, strict};
use super::net::{Net, agent};
use super::support::{Job, Outcome, Running, note, processes, program};

/// Returns a job on this many hosts, with its one PE on host `at`.
fn steps(net: &Net, hosts: usize, at: usize) -> Job {
    let counts: Vec<usize> = (0..hosts).map(|host| usize::from(host == at)).collect();
    let job = strict(net.job_by(&detached(), &counts)).args(&["--fabric", "shm"]);
    job.program(&program("steps"), &[]).with_orphans()
}

/// Waits for the end of a job that lost exactly these nodes.
#[track_caller]
fn end(run: Running, lost: &[usize]) -> Outcome {
    let outcome = run.end();
    outcome.status(0).prints("stopped");
    for node in lost {
        let line = format!("node {node} was lost");
        outcome.check(outcome.count(&line) == 1, &format!("`{line}` was expected once"));
    }
    outcome.check(outcome.count("was lost") == lost.len(), "and nobody else");
    outcome
}

/// Returns the datagrams that arrived in the launcher's network, which has no other traffic.
fn datagrams(net: &Net) -> u64 {
    let words = ["netns", "exec", &net.hub(), "cat", "/proc/net/snmp"];
    let output = Command::new("ip").args(words).output().expect("ip runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let (_, count) = pairs.find(|(name, _)| *name == "InDatagrams").expect("a count");
    count.parse().expect("a number")
}

#[test]
fn the_launcher_exchanges_heartbeats_only_with_its_children() {
    const HOSTS: usize = 24;
    let net = Net::new(HOSTS);
    let run = steps(&net, HOSTS, HOSTS - 1).until("ready");
    // Twenty periods, measured: an agent sends one datagram in each.
    let (before, begun) = (datagrams(&net), Instant::now());
    std::thread::sleep(Duration::from_secs(4)); // the time over which datagrams are counted
    let heard = (datagrams(&net) - before) as f64;
    let periods = begun.elapsed().as_secs_f64() / 0.2;
    note(&format!("{HOSTS} hosts: {:.1} heartbeats reach oshrun in a period", heard / periods));
    end(run, &[]);
    let most = (DEGREE + 4) as f64 * periods;
    assert!(heard <= most, "{heard} in {periods:.1} periods, of {HOSTS} hosts");
    assert!(heard >= periods, "{heard} in {periods:.1} periods: they were not seen");
}

/// Its last child replaces it, and is lost too.
#[test]
fn the_death_of_an_inner_node_takes_none_of_those_below_it_along() {
    let net = Net::new(12);
    let mut run = steps(&net, 12, 9).until("ready");
    for node in [0, 11] {
        net.link(node, false);
        declared(&mut run, node, Instant::now(), "an inner node of twelve, link down");
    }
    let outcome = end(run, &[0, 11]);
    outcome.says("node 0: no contact with the launcher for 2 s");
}

/// They reach each other, but the parent has no lease to grant: both end on time.
#[test]
fn a_parent_that_is_cut_off_with_a_child_gives_it_no_time() {
    let net = Net::new(12);
    let mut run = steps(&net, 12, 9).until("ready");
    let others: Vec<u32> = [0, 8].map(|node| agent(&run, node).pid).into();
    let begun = Instant::now();
    net.part(&[0, 8]);
    declared(&mut run, 0, begun, "an inner node and its child cut off, the node");
    declared(&mut run, 8, begun, "an inner node and its child cut off, the child");
    for pid in others {
        let end = Instant::now() + BUSY;
        assert!(processes::ends_before(pid, end), "an agent of the other side goes on");
    }
    net.part(&[]);
    let outcome = end(run, &[0, 8]);
    for node in [0, 8] {
        let line = format!("node {node}: no contact with the launcher for 2 s");
        outcome.check(outcome.count(&line) == 1, &format!("`{line}` was expected"));
    }
}
