//! Kills from outside, of any process at any moment: no orphan, no hang, nothing left; and a PE
//! that is merely stopped is not dead.
//!
//! The program prints `ready` in its third step and runs on until there is a file `stop`.

use std::time::Instant;

use raidshmem_core::signals::name;
use rustix::process::Signal;

use super::support::jacobi::{self, TINY};
use super::support::processes::{self, Found};
use super::support::stall::let_on;
use super::support::{Job, LIMIT, Outcome, Running, program};

fn steps(mode: &str, words: &str) -> Job {
    Job::line(words).mode(mode).args(&["--verbose"]).program(&program("steps"), &[])
}

#[test]
fn a_launcher_that_is_killed_takes_everything_with_it() {
    for words in ["", "--nodes 4", "--nodes 4 --spares 2"] {
        for moment in ["is process", "ready"] {
            let mut run = steps("raid5", words).with_orphans().start();
            run.wait_for(moment);
            run.signal(Signal::KILL);
            run.finish().status(137);
        }
    }
    // At once: most processes are still starting.
    for _ in 0..5 {
        let run = steps("raid5", "--nodes 4").with_orphans().start();
        run.signal(Signal::KILL);
        run.finish().status(137);
    }
    // In the middle of a recovery.
    let run = steps("raid5", "--nodes 4 --kill-node 1@3").with_orphans().until("node 1 was lost");
    run.signal(Signal::KILL);
    run.finish().status(137);
}

/// A shell may run between launcher and program, whose child is not a child of an agent.
#[test]
fn a_launcher_that_is_killed_takes_a_script_s_program_with_it() {
    let script = format!("{}; exit $?", program("steps").display());
    let job = Job::new(4).mode("raid5").args(&["sh", "-c", &script]);
    let run = job.with_orphans().until("ready");
    run.signal(Signal::KILL);
    run.finish().status(137);
}

#[test]
fn a_signal_to_the_launcher_ends_the_job_with_a_line() {
    let hangup = (!ignores_hangups()).then_some(Signal::HUP);
    for signal in [Signal::INT, Signal::TERM].into_iter().chain(hangup) {
        for moment in ["is process", "ready"] {
            let mut run = steps("raid5", "--nodes 2 --spares 1").start();
            run.wait_for(moment);
            run.signal(signal);
            let outcome = run.finish();
            let number = signal.as_raw();
            let line = format!("oshrun: stopped by {}; every PE is killed", name(number));
            let counted = outcome.count(&line);
            outcome.status(128 + number).check(counted == 1, "one line was expected");
        }
    }
}

/// True if these tests were themselves started by `nohup`, and so is the job.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("the own status");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    u64::from_str_radix(mask.trim(), 16).expect("a hexadecimal number") & 1 == 1
}

/// As `nohup` starts it: no process resets the ignored hangup.
#[test]
fn a_job_that_ignores_hangups_outlives_them() {
    let run = steps("raid5", "--nodes 2 --spares 1").after("trap '' HUP").until("ready");
    for found in run.processes() {
        processes::signal(found.pid, Signal::HUP);
    }
    let outcome = run.end();
    outcome.status(0).check(outcome.count("signal") == 0, "no death was expected");
}

/// Bundled libraries print nothing when the launcher or an agent crashes.
#[test]
fn a_crash_prints_nothing_about_libraries() {
    let mut run = steps("raid5", "--nodes 2").with_orphans().until("ready");
    processes::signal(run.agents()[1].pid, Signal::ILL);
    run.wait_for("all PEs resume from checkpoint");
    run.signal(Signal::FPE);
    let outcome = run.finish();
    let ours = |line: &str| line.starts_with("oshrun: ");
    outcome.status(128 + 8).check(outcome.err.lines().all(ours), "no other word was expected");
}

/// A program's signals are its own: no bundled library handles any, so that all have the kernel's
/// effect.
#[test]
fn no_signal_of_a_program_is_handled_for_it() {
    let mut run = steps("raid5", "--nodes 2").until("ready");
    let pe = run.pid_of(1);
    let status = std::fs::read_to_string(format!("/proc/{pe}/status")).expect("it runs");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    run.end().status(0);
    // Signals 32 and 33 are the C library's own, for threads.
    assert_eq!(caught.map(|mask| mask & 0x7fff_ffff), Some(0));
}

/// An agent is its node: the job continues without it.
#[test]
fn an_agent_that_is_killed_is_a_lost_node() {
    for node in [0, 1, 3] {
        let mut run = steps("raid5", "--nodes 4").until("ready");
        processes::signal(run.agents()[node].pid, Signal::KILL);
        run.wait_for("all PEs resume from checkpoint");
        let outcome = run.end();
        outcome.status(0).says(&format!("oshrun: node {node} was lost with PE {node}"));
        outcome.says(&format!("oshrun: node {node}: its agent was killed by SIGKILL: "));
        outcome.prints("stopped");
    }
    let run = steps("raid5", "").until("ready");
    processes::signal(run.agents()[0].pid, Signal::KILL);
    run.finish().status(3).says("oshrun: unrecoverable: every PE was lost");

    let run = steps("none", "--nodes 2").until("ready");
    processes::signal(run.agents()[1].pid, Signal::KILL);
    run.finish().status(137).says("SHMEM_FT_BACKUP_MODE=none keeps no checkpoint");
}

/// The other nodes continue although a lost node takes longer to end than their leases last.
#[test]
fn a_node_that_takes_long_to_end_takes_no_other_with_it() {
    let job = Job::new(4).mode("raid5").args(&["--verbose", "--nodes", "4"]);
    let job = job.env("SHMEM_FT_NODE_TIMEOUT", "0.5");
    let mut run = job.program(&program("steps"), &["2000"]).until("ready");
    processes::signal(run.agents()[1].pid, Signal::KILL);
    run.wait_for("all PEs resume from checkpoint");
    let outcome = run.end();
    let lost = outcome.count("was lost with PE");
    outcome.status(0).check(lost == 1, "the loss of one node was expected");
    outcome.check(outcome.took.as_secs_f64() > 2.0, "its end should have taken so long");
}

/// A killed process may close its connection long before the kernel reports its end.
#[test]
fn a_pe_that_takes_long_to_end_is_not_blamed_for_closing_its_connection() {
    let job = Job::new(4).mode("raid5").args(&["--verbose"]);
    let mut run = job.program(&program("steps"), &["1500"]).start();
    let pe = run.pid_of(1);
    run.wait_for("ready");
    processes::signal(pe, Signal::KILL);
    run.wait_for("all PEs resume from checkpoint");
    let outcome = run.end();
    outcome.status(0).says("oshrun: PE 1 was killed by SIGKILL");
    outcome.check(outcome.count("it is killed") == 0, "it had not done anything");
    outcome.check(outcome.took.as_secs_f64() > 1.5, "its end should have taken so long");
}

/// Its PE has left `shmem_finalize`, and does something else: the job is done, and a mode with
/// protection keeps the result.
#[test]
fn a_node_that_is_lost_after_finalize_ends_the_job() {
    let done = "all PEs have left shmem_finalize: the loss costs nothing";
    for mode in ["raid5", "double"] {
        node_lost_after_finalize(mode).status(0).says("node 1 was lost with PE 1").says(done);
    }
    node_lost_after_finalize("none").status(137).says("node 1 was lost with PE 1");
}

fn node_lost_after_finalize(mode: &str) -> Outcome {
    let job = Job::new(2).mode(mode).args(&["--nodes", "2"]);
    let mut run = job.program(&program("exits"), &["linger", "0", "1"]).until("lingers");
    let agent = run.agents()[1].pid;
    // The PE's last message has woken it: when it sleeps again, it has forwarded that. A node lost
    // before that loses a PE in `shmem_finalize`, which costs nothing.
    let sleeps = |found: &Found| found.pid == agent && found.state == 'S';
    run.wait_until("the agent should sleep", |found| found.iter().any(sleeps));
    processes::signal(agent, Signal::KILL);
    run.finish()
}

/// The node of the spares can be lost too: then no spares are left, and the job continues.
#[test]
fn spares_that_are_killed_are_missed_only_when_they_are_needed() {
    let mut run = steps("raid5", "--nodes 2 --spares 2").until("ready");
    processes::signal(run.agents()[2].pid, Signal::KILL);
    run.wait_for("node 2 was lost; it carried no PE");
    run.end().status(0);

    let job = steps("raid5", "--nodes 2 --spares 1").env("SHMEM_FT_SUBSTITUTE", "spare");
    let mut run = job.until("ready");
    let agent = run.agents()[2].pid;
    let spare = run.processes().into_iter().find(|found| found.parent == agent);
    processes::signal(spare.expect("a spare sleeps there").pid, Signal::KILL);
    let pe = run.pid_of(1);
    processes::signal(pe, Signal::KILL);
    run.finish().status(3).says("no substitute left for PE 1");
}

/// A spare is a process like any other, and may reach `shmem_init` late, even after the death for
/// which it is the only substitute.
#[test]
fn a_spare_that_is_late_is_waited_for() {
    let script = format!("sleep 0.5; exec {}", program("steps").display());
    let words = ["--nodes", "2", "--spares", "1", "--kill", "1@2", "--verbose", "sh", "-c"];
    let job = Job::new(4).mode("raid5").env("SHMEM_FT_SUBSTITUTE", "spare").args(&words);
    let mut run = job.args(&[&script]).start();
    let spare = loop {
        let agents = run.agents();
        let of = |found: &Found| agents.len() == 3 && found.parent == agents[2].pid;
        match run.processes().into_iter().find(|found| of(found) && found.name == "sh") {
            Some(spare) => break spare.pid,
            None => assert!(run.is_alive(), "the job should wait for its PEs"),
        }
    };
    processes::signal(spare, Signal::STOP);
    run.wait_for("PE 1 was killed");
    processes::signal(spare, Signal::CONT);
    run.wait_for("all PEs resume from checkpoint");
    run.end().status(0);
}

/// Deaths at arbitrary moments, by a signal from outside.
#[test]
fn a_pe_that_is_killed_from_outside_is_replaced() {
    for (mode, signal) in [
        ("raid5", Signal::KILL),
        ("rs", Signal::TERM),
        ("raid4", Signal::SEGV),
        ("double", Signal::ABORT),
        ("single", Signal::KILL),
    ] {
        let mut run = steps(mode, "--nodes 2").leaves("stop").until("ready");
        let pe = run.pid_of(2);
        processes::signal(pe, signal);
        if mode == "single" || mode == "double" {
            // In their write windows these modes may fail to recover.
            run.wait_for("oshrun: PE 2 was killed by SIG");
            let outcome = run.end();
            outcome.check([0, 3].contains(&outcome.status), "0 or 3 was expected");
            continue;
        }
        run.wait_for("all PEs resume from checkpoint");
        let outcome = run.end();
        outcome.status(0).says(&format!("PE 2 was killed by {}", name(signal.as_raw())));
    }
}

/// A script's program that ends while its agent is stopped, between Hello and its number: the agent
/// learns of it when the script has continued, and the process no longer exists.
#[test]
fn a_script_s_program_that_ended_before_it_was_met_is_not_waited_for() {
    let script = format!("read line < go; {}; exec sleep 1000", program("steps").display());
    let job = Job::new(1).after("mkfifo go").leaves("go").args(&["sh", "-c", &script]);
    let mut run = job.start();
    let named = |found: &[Found], name: &str| found.iter().find(|f| f.name == name).cloned();
    let is_agent = |found: &&Found| found.words.contains("--raidshmem-agent ");
    run.wait_until("the script should be started", |found| {
        let agent = found.iter().find(is_agent).map(|agent| agent.pid);
        found.iter().any(|found| Some(found.parent) == agent && found.name == "sh")
    });
    let agent = run.agents()[0].pid;
    processes::signal(agent, Signal::STOP);
    run.wait_until("the agent should be stopped", |found| {
        found.iter().any(|found| found.pid == agent && found.state == 'T')
    });
    let_on(&run);
    // It sleeps only after it has sent Hello and waits for its number.
    let sleeps = |found: &Found| found.name == "steps" && found.state == 'S';
    run.wait_until("the program should wait", |found| found.iter().any(sleeps));
    let pe = named(&run.processes(), "steps").expect("it waits").pid;
    processes::signal(pe, Signal::KILL);
    run.wait_until("the script should go on", |found| named(found, "sleep").is_some());
    processes::signal(agent, Signal::CONT);
    run.finish().status(137).says("oshrun: PE 0 was killed by SIGKILL; ");
}

/// Waits until every process of the job is as it should be. No event reports that a process other
/// than a child has stopped, so this polls.
fn wait_until(run: &Running, is: impl Fn(&Found) -> bool) {
    let begun = Instant::now();
    while !run.processes().iter().all(&is) {
        assert!(begun.elapsed() < LIMIT, "{:?}", run.processes());
    }
}

/// Slow is not dead: a stopped PE is waited for, however long, and no loss is reported.
#[test]
fn a_pe_that_is_stopped_is_waited_for() {
    let mut run = steps("raid5", "--nodes 2").until("ready");
    let pe = run.pid_of(1);
    processes::signal(pe, Signal::STOP);
    wait_until(&run, |found| found.pid != pe || found.state == 'T');
    // The others reach the next barrier, and sleep there.
    wait_until(&run, |found| found.name != "steps" || found.state != 'R');
    run.stop();
    processes::signal(pe, Signal::CONT);
    let outcome = run.finish();
    outcome.status(0).check(outcome.count("was killed") == 0, "no death was expected");
    outcome.check(outcome.count("lost") == 0, "no loss was expected");
}

/// A leak after one run may be too small to see; after a hundred it is not.
#[test]
fn a_hundred_runs_leave_nothing() {
    needs!(long);
    for number in 0..100 {
        let (pe, step) = (number % 4, ["before", "encode", "copy", "after"][number / 4 % 4]);
        let rule = format!("{pe}@{}:{step}", 2 + number % 3);
        let job = Job::new(4).mode("raid5").args(&["--nodes", "4"]);
        let job = if number % 2 == 0 { job.kill(&[&rule]) } else { job.kill_node(&[&rule]) };
        jacobi::job(job, TINY).run().right_sum(TINY);
    }
}
