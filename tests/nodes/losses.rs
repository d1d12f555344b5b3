//! Lost nodes: killed, cut off, stopped; and one that resumes.
//!
//! One PE on host 0; the other hosts carry no PE, but are watched all the same.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::net::{Net, agent, supervisor};
use super::support::{self, Job, Outcome, Running, note, processes, program};

/// `SHMEM_FT_NODE_TIMEOUT` of jobs that lose a node because it is silent.
const LIMIT: Duration = Duration::from_secs(2);
/// The longest wait for an end: not a figure, but the limit of every test.
pub const BUSY: Duration = support::LIMIT;

/// Returns a job whose nodes may not be silent for longer than [`LIMIT`].
pub fn strict(job: Job) -> Job {
    job.env("SHMEM_FT_NODE_TIMEOUT", &LIMIT.as_secs().to_string())
}

fn patient(job: Job) -> Job {
    job.args(&["--fabric", "shm"]).program(&program("steps"), &[]).with_orphans()
}

fn steps(job: Job) -> Job {
    patient(strict(job))
}

fn end(run: Running) -> Outcome {
    let outcome = run.end();
    outcome.status(0).prints("stopped");
    outcome
}

/// Waits until `node` is declared lost after its silence since `begun`, and prints the time: a busy
/// machine may only lengthen it.
#[track_caller]
pub fn declared(run: &mut Running, node: usize, begun: Instant, what: &str) {
    run.wait_for(&format!("node {node} was lost"));
    let took = begun.elapsed();
    let limits = took.as_secs_f64() / LIMIT.as_secs_f64();
    note(&format!("{what}: declared after {limits:.2} limits"));
    assert!(took >= LIMIT / 2, "declared lost before its lease was over: {took:?}");
}

/// Returns the number of the standard-error line that contains `text`.
#[track_caller]
fn line_of(outcome: &Outcome, text: &str) -> usize {
    let at = outcome.err.lines().position(|line| line.contains(text));
    at.unwrap_or_else(|| panic!("`{text}` was expected\n{outcome}"))
}

/// Returns a command whose agent outlives it, and whose supervisor's last message is lost: an
/// unreachable host.
pub fn detached() -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("detached");
    std::fs::create_dir_all(&folder).expect("a folder");
    let script: PathBuf = folder.join("detached");
    // Written under another name first: concurrent tests share it.
    let draft = folder.join(format!("draft-{:?}", std::thread::current().id()));
    let text = "#!/bin/sh\nhost=$1\nshift\nread -r secret\n{ (echo \"$secret\"; exec sleep 1000) | \
        ip netns exec \"$host\" \"$@\" 2>&1 >&3 | sed -u /raidshmem-node-/d >&2; } 3>&1 &\n\
        wait $!\nexit 1\n";
    std::fs::write(&draft, text).expect("a script");
    std::fs::set_permissions(&draft, PermissionsExt::from_mode(0o755)).expect("it may be run");
    std::fs::rename(&draft, &script).expect("it is put in place");
    format!("{} {{host}}", script.display())
}

#[test]
fn a_killed_agent_is_known_at_once() {
    let net = Net::new(3);
    let mut run = patient(net.job(&[1, 0, 0])).until("ready");
    let begun = Instant::now();
    processes::signal(agent(&run, 1).pid, Signal::KILL);
    run.wait_for("node 1 was lost; it carried no PE");
    let took = begun.elapsed();
    note(&format!(
        "a killed agent of another host: known after {:.1} ms",
        1e3 * took.as_secs_f64()
    ));
    let outcome = end(run);
    outcome.check(outcome.count("no sign of life") == 0, "its supervisor knows: no limit passes");
    // Without its only PE no PE is left.
    let run = patient(net.job(&[0, 1])).until("ready");
    processes::signal(agent(&run, 1).pid, Signal::KILL);
    run.finish().status(137).says("node 1 was lost with PE 0").says("keeps no checkpoint");
}

#[test]
fn a_dead_link_is_a_lost_node_and_a_short_break_is_not() {
    let net = Net::new(3);
    let mut run = steps(net.job_by(&detached(), &[1, 0, 0])).until("ready");
    net.link(1, false);
    std::thread::sleep(LIMIT / 4); // the fault itself: a break of this length
    net.link(1, true);
    net.link(2, false);
    declared(&mut run, 2, Instant::now(), "link down");
    let outcome = end(run);
    outcome.says("no sign of life for").says("(SHMEM_FT_NODE_TIMEOUT=2)");
    outcome.check(outcome.count("node 1 was") == 0, "node 1 was away for a moment only");
    let over = line_of(&outcome, "node 2: no contact with the launcher for 2 s");
    assert!(over < line_of(&outcome, "declared lost"), "it ends itself first\n{outcome}");
}

/// Nothing makes the other side end: the launcher can only kill the command that started its
/// agents.
#[test]
fn after_a_partition_exactly_the_launcher_s_side_continues() {
    let net = Net::new(4);
    let mut run = steps(net.job_by(&detached(), &[1, 0, 0, 0])).until("ready");
    let others: Vec<u32> = [2, 3].map(|node| agent(&run, node).pid).into();
    let begun = Instant::now();
    net.part(&[2, 3]);
    declared(&mut run, 2, begun, "partition two from two, node 2");
    declared(&mut run, 3, begun, "partition two from two, node 3");
    for pid in others {
        let end = Instant::now() + BUSY;
        assert!(processes::ends_before(pid, end), "an agent of the other side goes on");
    }
    net.part(&[]);
    let outcome = end(run);
    for node in [2, 3] {
        let line = format!("node {node}: no contact with the launcher for 2 s");
        outcome.check(outcome.count(&line) == 1, &format!("`{line}` was expected"));
        outcome.check(outcome.count(&format!("node {node} was lost")) == 1, "once");
    }
    outcome.check(outcome.count("node 0 was") + outcome.count("node 1 was") == 0, "they are here");
}

/// With the only PE on the other side the job is over, and so is the PE.
#[test]
fn the_side_without_the_launcher_stops_though_it_has_the_pes() {
    let net = Net::new(2);
    let mut run = steps(net.job_by(&detached(), &[0, 1])).start();
    let pe = run.pid_of(0);
    run.wait_for("ready");
    let begun = Instant::now();
    net.part(&[1]);
    assert!(processes::ends_before(pe, begun + LIMIT + BUSY), "the PE goes on");
    assert!(begun.elapsed() >= LIMIT / 2, "it had its lease until then");
    let outcome = run.finish();
    outcome.status(137).says("declared lost").says("node 1 was lost with PE 0");
    // On a busy machine the kernel acts first.
    let ends = ["no contact with the launcher for 2 s", "its agent was killed by SIGKILL"];
    let said = ends.map(|how| outcome.count(&format!("node 1: {how}")));
    outcome.check(said.iter().sum::<usize>() == 1, "it says how it ends");
}

/// Agent and PEs are stopped, but not the supervisor. Then the supervisor too: a whole host.
#[test]
fn a_stopped_node_is_ended_and_does_not_return() {
    let net = Net::new(3);
    let mut run = steps(net.job_by(&detached(), &[1, 0, 0])).until("ready");
    let (first, second, third) = (agent(&run, 1).pid, agent(&run, 2).pid, supervisor(&run, 2).pid);
    let begun = Instant::now();
    processes::signal(first, Signal::STOP);
    declared(&mut run, 1, begun, "stopped agent");
    assert!(processes::ends_before(first, Instant::now() + BUSY), "the kernel ends it");
    let begun = Instant::now();
    for pid in [third, second] {
        processes::signal(pid, Signal::STOP);
    }
    declared(&mut run, 2, begun, "stopped host");
    assert!(processes::ends_before(second, Instant::now() + BUSY), "the kernel ends it");
    processes::signal(third, Signal::CONT);
    assert!(processes::ends_before(third, Instant::now() + BUSY), "it comes back");
    let outcome = end(run);
    for node in [1, 2] {
        outcome.says(&format!("node {node}: its agent was killed by SIGKILL"));
    }
}

/// Every process that could end the PEs is stopped, but not the PEs.
#[test]
fn pes_whose_agent_and_supervisor_are_stopped_end_with_the_lease() {
    let net = Net::new(2);
    let mut run = steps(net.job_by(&detached(), &[0, 1])).start();
    let pe = run.pid_of(0);
    run.wait_for("ready");
    let (agent, supervisor) = (agent(&run, 1).pid, supervisor(&run, 1).pid);
    let begun = Instant::now();
    for pid in [supervisor, agent] {
        processes::signal(pid, Signal::STOP);
    }
    assert!(processes::ends_before(pe, begun + LIMIT + BUSY), "the PE goes on");
    assert!(begun.elapsed() >= LIMIT / 2, "it had its lease until then");
    run.wait_for("declared lost");
    processes::signal(supervisor, Signal::CONT);
    run.finish().status(137).says("node 1 was lost with PE 0");
}

/// A PE that a script started is not a child of the agent, and here it is stopped too: a process
/// that continues after such a pause must not be a PE that was declared dead.
#[test]
fn a_script_s_pe_that_stands_still_with_its_agent_and_supervisor_ends_with_the_lease() {
    let net = Net::new(2);
    let script = format!("{}; exit $?", program("steps").display());
    let job = strict(net.job_by(&detached(), &[0, 1]));
    let job = job.args(&["--fabric", "shm", "sh", "-c", &script]);
    let mut run = job.with_orphans().until("ready");
    let (agent, supervisor) = (agent(&run, 1).pid, supervisor(&run, 1).pid);
    let found = run.processes();
    let [shell] = &found.iter().filter(|found| found.parent == agent).collect::<Vec<_>>()[..]
    else {
        panic!("the agent should have one child");
    };
    let pe =
        found.iter().find(|found| found.parent == shell.pid).expect("the shell has a child").pid;
    let begun = Instant::now();
    for pid in [supervisor, agent, pe] {
        processes::signal(pid, Signal::STOP);
    }
    assert!(processes::ends_before(pe, begun + LIMIT + BUSY), "the PE would go on");
    assert!(begun.elapsed() >= LIMIT / 2, "it had its lease until then");
    run.wait_for("declared lost");
    processes::signal(supervisor, Signal::CONT);
    run.finish().status(137).says("node 1 was lost with PE 0");
}

/// A command that hides the agent's status: the supervisor's last message carries the status.
#[test]
fn a_killed_agent_is_known_at_once_though_its_status_is_not_passed_on() {
    let net = Net::new(2);
    let command = "sh -c 'host=$0; ip netns exec $host \"$@\"; exit 1' {host}";
    let mut run = patient(net.job_by(command, &[1, 0])).until("ready");
    processes::signal(agent(&run, 1).pid, Signal::KILL);
    run.wait_for("node 1 was lost; it carried no PE");
    let outcome = end(run);
    outcome.check(outcome.count("no sign of life") == 0, "its supervisor's word is enough");
    outcome.check(!outcome.err.contains("raidshmem-node-"), "the word is for the launcher");
}
