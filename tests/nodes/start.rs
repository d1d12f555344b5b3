//! Starting a job on hosts: its output and status, and invalid input.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::losses::strict;
use super::net::{Net, SILENCE, agent};
use super::support::{Job, Outcome, another_build, processes, program};
use rustix::process::Signal;

/// Completes the command line with a shell that runs `script`.
fn sh(job: Job, script: &str) -> Job {
    job.args(&["--fabric", "shm", "sh", "-c", script])
}

#[test]
fn pes_run_on_their_hosts_and_their_lines_are_not_mixed() {
    let net = Net::new(4);
    // Each line in two portions, with other work between them.
    let script = "n=$(ip -o -4 addr show eth0 | sed 's/.*inet \\([0-9.]*\\).*/\\1/')
        for i in $(seq 50); do printf 'on %s ' $n; : $(ls /); printf 'line %s%s\n' $i $V; done
        echo error of $n >&2";
    let job = net.job(&[2, 1, 3, 0]).env("V", "!");
    let outcome = sh(job, script).run();
    outcome.status(0);
    for (host, pes) in [(1, 2), (2, 1), (3, 3), (4, 0)] {
        for line in [1, 25, 50] {
            let wanted = format!("on 10.9.0.{host} line {line}!");
            let count = outcome.out.lines().filter(|line| *line == wanted).count();
            outcome.check(count == pes, &format!("{pes} times `{wanted}` was expected"));
        }
        let errors = outcome.count(&format!("error of 10.9.0.{host}"));
        outcome.check(errors == pes, "the lines on standard error were expected");
    }
    outcome.check(outcome.out.lines().count() == 300, "300 lines were expected");
}

/// Programs have long ended when the reader continues.
#[test]
fn a_slow_reader_gets_every_line() {
    let net = Net::new(2);
    let full = "mkfifo full && exec 3<> full > full";
    let mut run = sh(strict(net.job(&[1, 1])), "seq 20000").after(full).leaves("full").start();
    run.wait_until("it begins", |found| found.iter().any(|found| found.name == "oshrun"));
    let mut fifo = File::open(run.folder().join("full")).expect("its fifo");
    std::thread::sleep(Duration::from_secs(4)); // the fault itself
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = fifo.read_to_end(&mut bytes); // until the last process of the job has ended
        String::from_utf8_lossy(&bytes).into_owned()
    });
    run.finish().status(0);
    let lines = reader.join().expect("it reads").lines().count();
    assert_eq!(lines, 40_000);
}

#[test]
fn status_signal_input_and_folder_are_those_of_one_machine() {
    let net = Net::new(2);
    sh(net.job(&[1, 1]), "exit 7").run().status(7);
    sh(net.job(&[1, 1]), "kill -9 $$").run().status(137).says("was killed by SIGKILL");
    let outcome = sh(net.job(&[1, 1]), "cat; pwd; echo $SHMEM_FT_NODE_TIMEOUT $SSH_X").run();
    let folders = outcome.out.lines().filter(|line| line.contains("/run-")).count();
    outcome.status(0).check(folders == 2, "the folder of the job was expected");
    let settings = outcome.out.lines().filter(|line| line.trim_end() == SILENCE.to_string());
    outcome.check(settings.count() == 2, "the settings were expected");
    let outcome = net.job(&[0, 1]).args(&["--fabric", "shm"]);
    let outcome = outcome.program(&program("exits"), &["finalize", "5"]).run();
    outcome.status(5);
    for signal in [Signal::INT, Signal::TERM] {
        let mut run = sh(net.job(&[1, 1]), "echo ready; exec sleep 1000").start();
        run.wait_for("ready");
        run.signal(signal);
        run.finish().status(128 + signal.as_raw()).says("every PE is killed");
    }
    let mut run = sh(net.job(&[1, 1]).with_orphans(), "echo ready; exec sleep 1000").start();
    run.wait_for("ready");
    run.signal(Signal::KILL);
    run.finish().status(137);
}

/// Checks for one line that names the host, and that nothing is left running.
#[track_caller]
fn refused(outcome: &Outcome, status: i32, parts: &[&str]) {
    outcome.status(status);
    let lines: Vec<&str> = outcome.lines("oshrun: ").collect();
    outcome.check(lines.len() == 1, "one line was expected");
    for part in parts {
        outcome.check(lines[0].contains(part), &format!("`{part}` was expected"));
    }
}

#[test]
fn a_host_that_is_not_there_is_named() {
    let net = Net::new(1);
    let list = format!("{},nobody", net.host(0));
    let words = ["--hosts", &list, "-N", "1", "--listen", super::net::HUB];
    let job = Job::of(&words).args(&["--launch-agent", "ip netns exec {host}"]);
    let job = job.inside(&net.hub_path());
    refused(&sh(job, "exit 0").run(), 1, &["node 1 (nobody): no agent: ip exited with status"]);
}

/// An ssh that needs a password fails with an error, because it may not prompt.
#[test]
fn ssh_that_would_ask_for_a_password_is_one_line() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-ssh");
    std::fs::create_dir_all(&folder).expect("a folder");
    let ssh = folder.join("ssh");
    let script = "#!/bin/sh\n[ \"$2\" = BatchMode=yes ] || { read -r password < /dev/tty; }\n\
        echo 'Warning: something' >&2\necho \"$5: Permission denied (publickey).\" >&2\nexit 255\n";
    std::fs::write(&ssh, script).expect("a script");
    std::fs::set_permissions(&ssh, PermissionsExt::from_mode(0o755)).expect("it may be run");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("a PATH"));
    let job = Job::of(&["--hosts", "far:1", "--listen", "127.0.0.1"]).env("PATH", &path);
    let parts = ["node 0 (far): no agent: ssh exited with status 255: far: Permission denied"];
    refused(&sh(job, "exit 0").run(), 1, &parts);
}

#[test]
fn another_build_on_a_host_is_one_line_and_status_2() {
    let net = Net::new(2);
    let other = Path::new(env!("CARGO_TARGET_TMPDIR")).join("oshrun-of-another-build");
    another_build(env!("CARGO_BIN_EXE_oshrun").as_ref(), &other);
    let job = net.job(&[1, 1]).args(&["--oshrun", other.to_str().expect("a plain name")]);
    let outcome = sh(job, "exit 0").run();
    let line = outcome.lines("oshrun: node ").next().unwrap_or_default().to_owned();
    outcome.status(2).check(line.contains("its oshrun is build"), "the builds were expected");
    outcome.check(outcome.count("its oshrun is build") >= 1, "it was expected");
    let job = net.job(&[1, 1]).args(&["--oshrun", "/nowhere/oshrun"]);
    refused(&sh(job, "exit 0").run(), 1, &["(rshm", "no agent", "/nowhere/oshrun"]);
}

#[test]
fn an_agent_that_is_killed_while_the_job_starts_ends_it() {
    let net = Net::new(1);
    let mut run = sh(net.job(&[1]), "echo ready; exec sleep 1000").start();
    run.wait_for("ready");
    processes::signal(agent(&run, 0).pid, Signal::KILL);
    run.finish().status(1).says("node 0 was lost before the job was complete");
}

#[test]
fn bad_options_are_named_before_anything_starts() {
    for (words, parts) in [
        (&["--hosts", "a,,b", "-n", "2"][..], &["--hosts: ``", "NAME:PES"][..]),
        (&["--hosts", "a,a", "-n", "2"], &["a is named twice"]),
        (&["--hosts", "a,b"], &["how many PEs?"]),
        (&["--hosts", "a:1,b:1", "-n", "3"], &["-n 3", "expected 1 to 2"]),
        (&["--hosts", "a:999999999999999"], &["-n 999999999999999", "expected 1 to 16384"]),
        (&["--hosts", "a:1,b", "-N", "3"], &["-N 3", "one of the two"]),
        (&["--hosts", "a", "-N", "0"], &["-N 0", "expected 1 to 16384"]),
        (&["-n", "2", "-N", "2"], &["-N 2", "--hosts"]),
        (&["--hosts", "a", "-n", "2", "--nodes", "2"], &["--hosts and --nodes"]),
        (
            &["--hosts", "a", "-n", "2", "--launch-agent", "rsh"],
            &["--launch-agent `rsh`", "{host}"],
        ),
        (&["--hosts", "a", "-n", "2", "--listen", "here"], &["--listen `here`", "ADDRESS:PORT"]),
        (&["--hosts", "no-such-host.invalid", "-n", "2", "--fabric", "shm"], &["--listen ADDRESS"]),
    ] {
        refused(&Job::of(words).args(&["true"]).run(), 2, parts);
    }
    let slurm = |list: &str| {
        let job = Job::of(&["true"]).env("SLURM_JOB_ID", "7").env("SLURM_JOB_NODELIST", list);
        job.env("SLURM_TASKS_PER_NODE", "2(x2)").run()
    };
    refused(&slurm("n[1-"), 2, &["SLURM_JOB_NODELIST=n[1-"]);
    refused(&slurm("n[1-3]"), 2, &["SLURM_TASKS_PER_NODE=2(x2)"]);
}

/// Programs that do not initialise the library may run so; those that do would hang.
#[test]
fn pes_of_different_hosts_without_a_fabric_between_them_are_refused() {
    let net = Net::new(2);
    let job = net.job(&[1, 1]).args(&["--fabric", "shm"]).program(&program("steps"), &[]);
    refused(&job.run(), 2, &["--fabric shm", "different hosts"]);
}

/// A stand-in for `srun` that starts its one task in the namespace of the given node.
#[test]
fn in_a_slurm_allocation_agents_are_started_by_srun() {
    let net = Net::new(3);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-srun");
    std::fs::create_dir_all(&folder).expect("a folder");
    let srun = folder.join("srun");
    let script = "#!/bin/sh\nfor word; do shift; case $word in\n--nodelist=*) \
        host=${word#*=} ;; --*-of) set -- \"$@\" \"$word\" ;; --*) ;;\n\
        *) set -- \"$@\" \"$word\" ;; esac; done\nexec ip netns exec \"$host\" \"$@\"\n";
    std::fs::write(&srun, script).expect("a script");
    std::fs::set_permissions(&srun, PermissionsExt::from_mode(0o755)).expect("it may be run");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("a PATH"));
    let name = net.host(0);
    let list = format!("{}[0-2]", &name[..name.len() - 1]);
    let hub = net.hub_path();
    let job = |words: &[&str]| {
        let job = Job::of(words).args(&["--listen", super::net::HUB]).inside(&hub);
        let job = job.env("PATH", &path).env("SLURM_JOB_ID", "7");
        let job = job.env("SLURM_JOB_NODELIST", &list).env("SLURM_TASKS_PER_NODE", "2(x2),1");
        sh(job, "ip -o -4 addr show eth0 | sed 's/.*inet \\([0-9.]*\\).*/on \\1/'").run()
    };
    for (words, counts) in [
        (&[][..], [2, 2, 1]),
        (&["-n", "3"], [2, 1, 0]),
        (&["-N", "1"], [1, 1, 1]),
        (&["-N", "4", "-n", "6"], [4, 2, 0]),
    ] {
        let outcome = job(words);
        outcome.status(0);
        for (host, count) in (1..).zip(counts) {
            let line = format!("on 10.9.0.{host}");
            let found = outcome.out.lines().filter(|found| *found == line).count();
            outcome.check(found == count, &format!("{count} on host {host} were expected"));
        }
    }
}
