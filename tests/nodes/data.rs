//! Jacobi over hosts whose PEs reach each other only through an engine: whatever is lost, the sum
//! is that of plain loops, or the job ends with an error that names the cause.
//!
//! Without an engine on this machine nothing can carry data between hosts: the test reports it.

use std::process::{Command, Output};
use std::time::Instant;

use rustix::process::Signal;

use super::losses::{BUSY, declared, detached, strict};
use super::net::{Net, agent};
use super::support::jacobi;
use super::support::{Job, Running, processes};

/// Long enough that a fault comes before the end; a checkpoint every few steps.
const LONG: &[&str] = &["--bytes", "1M", "--sweeps", "6144", "--halo", "32"];

fn start(job: Job, mode: &str) -> Running {
    let job = job.args(&["--verbose", "--fabric", "ucx"]).mode(mode).with_orphans();
    jacobi::job(job, LONG).until("checkpoint 3: ")
}

/// Makes a request to a job in the network of its launcher, to which its socket belongs.
fn ask(run: &Running, [option, value]: [&str; 2]) -> Output {
    let job = run.launcher().to_string();
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{job}/ns/net")).arg(env!("CARGO_BIN_EXE_oshrun"));
    command.args([option, value, &job]).output().expect("nsenter runs")
}

#[test]
fn an_agent_killed_with_its_pes_is_rebuilt_from_the_other_hosts() {
    for mode in ["raid5", "rs"] {
        needs!(has_ucx);
        let net = Net::new(4);
        let run = start(net.job(&[1, 1, 1, 1]), mode);
        processes::signal(agent(&run, 2).pid, Signal::KILL);
        let outcome = run.finish();
        outcome.right_sum(LONG).says("node 2 was lost with PE 2");
        outcome.says("rebuilt from PE");
    }
}

#[test]
fn a_spare_host_takes_the_place_of_one_whose_link_went_down() {
    for mode in ["raid5", "rs"] {
        needs!(has_ucx);
        let net = Net::new(5);
        let mut run = start(strict(net.job_by(&detached(), &[1, 1, 1, 1, 0])), mode);
        let begun = Instant::now();
        net.link(1, false);
        declared(&mut run, 1, begun, &format!("Jacobi, {mode}, link down"));
        let outcome = run.finish();
        outcome.right_sum(LONG).says("node 1 was lost with PE 1").says("rebuilt from PE");
        outcome.says("node 1: no contact with the launcher for 2 s");
        outcome.check(outcome.count("was lost with") == 1, "one loss was expected");
    }
}

/// The host's PE goes to a spare host, or to a host that has a PE already.
#[test]
fn a_host_is_drained_and_nothing_is_computed_again() {
    needs!(has_ucx);
    for spare in [true, false] {
        let net = Net::new(5);
        let hosts: &[usize] = if spare { &[1, 1, 1, 1, 0] } else { &[1, 1, 1, 1] };
        let run = start(net.job(hosts), "raid5");
        let asked = ask(&run, ["--drain", "2"]);
        assert!(asked.status.success(), "{asked:?}");
        let outcome = run.finish();
        outcome.right_sum(LONG).says("node 2 leaves the job after checkpoint ");
        let to = if spare { "4" } else { "" };
        outcome.says(&format!("node 2 is drained: PE 2 moved to node {to}"));
        outcome.says("; nothing was computed again").says("rebuilt from PE");
        outcome.check(outcome.count(" was lost with") == 0, "no other loss");
    }
}

/// A host is lost, and later another one joins: the PE that shares a host moves there.
#[test]
fn a_host_that_joins_takes_the_pe_that_shares_one() {
    const LONGER: &[&str] = &["--bytes", "1M", "--sweeps", "12288", "--halo", "32"];
    needs!(has_ucx);
    let net = Net::new(5);
    let job = net.job(&[1, 1, 1, 1]).args(&["--verbose", "--fabric", "ucx"]).mode("raid5");
    let mut run = jacobi::job(job.with_orphans(), LONGER).until("checkpoint 3: ");
    processes::signal(agent(&run, 2).pid, Signal::KILL);
    run.wait_for("parity groups change from checkpoint ");
    let none = ask(&run, ["--add", "nowhere"]);
    assert!(none.status.success(), "its agent fails later: {none:?}");
    run.wait_for("nowhere does not join the job: ");
    let twice = String::from_utf8_lossy(&ask(&run, ["--add", &net.host(1)]).stderr).into_owned();
    assert!(twice.contains(" is in the job already, as node 1"), "{twice}");
    let asked = ask(&run, ["--add", &net.host(4)]);
    assert!(asked.status.success(), "{asked:?}");
    run.wait_for("PE 2 moved to node 5; nothing was computed again");
    processes::signal(agent(&run, 5).pid, Signal::KILL);
    let outcome = run.finish();
    outcome.right_sum(LONGER).says("node 5 has joined, and PE 2 moves there");
    outcome.says("node 5 was lost with PE 2").says(": 1 group of 4, parity 1");
}

#[test]
fn of_a_partition_two_from_two_the_launcher_s_side_gives_the_right_sum() {
    needs!(has_ucx);
    let net = Net::new(4);
    let mut run = start(strict(net.job_by(&detached(), &[1, 1, 1, 1])), "rs");
    let others: Vec<u32> = [2, 3].map(|node| agent(&run, node).pid).into();
    let begun = Instant::now();
    net.part(&[2, 3]);
    declared(&mut run, 2, begun, "Jacobi, rs, partition");
    for pid in others {
        assert!(processes::ends_before(pid, Instant::now() + BUSY), "the other side goes on");
    }
    let outcome = run.finish();
    outcome.right_sum(LONG);
    for node in [2, 3] {
        outcome.says(&format!("node {node}: no contact with the launcher for 2 s"));
        outcome.says(&format!("node {node} was lost with PE {node}"));
    }

    // One parity cannot cover two losses: the launcher's side reports it, and no PE continues.
    let net = Net::new(4);
    let run = start(strict(net.job_by(&detached(), &[1, 1, 1, 1])), "raid5");
    net.part(&[2, 3]);
    let outcome = run.finish();
    outcome.status(3).says("oshrun: unrecoverable: group 0 lost ");
    outcome.check(jacobi::sum(&outcome.out).is_none(), "no sum was expected");
}
