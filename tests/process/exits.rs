//! The end of a job when its programs end: the status, the line, and nothing left.

use std::path::Path;
use std::process::Command;

use super::support::{Job, Outcome, program};

fn run(mode: &str, args: &[&str]) -> Outcome {
    Job::new(4).mode(mode).program(&program("exits"), args).run()
}

/// Returns lines of the launcher and the library, without those about survivable losses and the
/// summary of a job without losses.
fn said(outcome: &Outcome) -> Vec<&str> {
    let ours = |line: &&str| line.starts_with("oshrun: ") || line.starts_with("raidshmem: ");
    let other = [": survives", " took ", "oshrun: each PE needed "];
    let of_end = |line: &&str| !other.iter().any(|part| line.contains(part));
    outcome.err.lines().filter(ours).filter(of_end).collect()
}

#[track_caller]
fn one_line(outcome: &Outcome, line: &str) {
    outcome.check(said(outcome) == [line], &format!("`{line}` was expected, and no other"));
}

#[test]
fn the_status_of_a_program_is_that_of_the_job() {
    for mode in ["none", "raid5"] {
        let outcome = run(mode, &["finalize", "0"]);
        outcome.status(0).check(said(&outcome).is_empty(), "no word was expected");
        let outcome = run(mode, &["global", "0", "3"]);
        outcome.status(0).check(said(&outcome).is_empty(), "no word was expected");
        for (args, status, line) in [
            (&["finalize", "7"][..], 7, "PE 0 exited with status 7 after shmem_finalize"),
            (&["finalize", "7", "2"], 7, "PE 2 exited with status 7 after shmem_finalize"),
            (&["global", "5", "1"], 5, "PE 1 called shmem_global_exit(5)"),
            (&["global", "3", "2"], 3, "PE 2 called shmem_global_exit(3)"),
        ] {
            one_line(run(mode, args).status(status), &format!("oshrun: {line}"));
        }
    }
}

/// Return from `main` with 0, and `exit(0)`, leave the job as `shmem_finalize` does: all together,
/// with all output. A child that a PE forked does not leave the job.
#[test]
fn an_end_with_status_0_is_a_good_one() {
    for mode in ["none", "raid5"] {
        for how in ["silent", "thread", "fork", "twice"] {
            for only in ["-1", "2"] {
                let outcome = run(mode, &[how, "0", only]);
                outcome.status(0).check(said(&outcome).is_empty(), "no word was expected");
                let of = if only == "2" { 1 } else { 4 };
                let lines = outcome.out.lines().filter(|line| line.starts_with("unflushed"));
                let lines = lines.count();
                outcome.check(lines == if how == "silent" { of } else { 0 }, "lines are missing");
            }
        }
    }
}

/// The C library ends a process with its last thread, whichever that is.
#[test]
fn a_process_ends_with_the_last_thread_of_its_program() {
    for mode in ["none", "raid5"] {
        for how in ["last", "lastly", "latest"] {
            for (only, of) in [("-1", 4), ("2", 1)] {
                let outcome = run(mode, &[how, "0", only]);
                outcome.status(0).check(said(&outcome).is_empty(), "no word was expected");
                let lines = outcome.out.lines().filter(|line| line.starts_with("unflushed"));
                outcome.check(lines.count() == of, "lines are missing");
            }
        }
    }
    for how in ["last", "lastly", "latest"] {
        let output = Command::new(program("exits")).args([how, "0"]).output();
        let output = output.expect("it starts without oshrun");
        assert!(output.status.success(), "{how}: {output:?}");
        assert_eq!(output.stdout, b"unflushed words of the last thread\n", "{how}: {output:?}");
    }
}

/// Two programs one after another, or at once, or the second after the first failed.
#[test]
fn a_second_program_of_a_pe_is_refused_with_a_line() {
    let program = program("exits").display().to_string();
    let line = "raidshmem: an earlier program of this PE has called shmem_init, and a PE runs one: \
                start this program by an oshrun of its own";
    for mode in ["none", "raid5"] {
        for (script, refused) in
            [("$0; exec $0", 4), ("$0; $0; exit 2", 4), ("(exec $0); (exec $0)", 4)]
        {
            let job = Job::new(4).mode(mode).args(&["sh", "-c", script, &program]);
            let outcome = job.run();
            outcome.status(2).check(outcome.count(line) == refused, "a line of each PE");
        }
    }
    let script = "$0 finalize 0 && $0 finalize 7";
    let output = Command::new("sh").args(["-c", script, &program]).output();
    let output = output.expect("without oshrun each is a job");
    assert_eq!((output.status.code(), output.stderr), (Some(7), Vec::new()));
}

#[test]
fn an_end_without_finalize_is_a_death() {
    let line = |how: &str| {
        format!(
            "oshrun: PE 2 {how}; SHMEM_FT_BACKUP_MODE=none keeps no checkpoint, so the job ends"
        )
    };
    for (args, status, how) in [
        (["nothing", "0", "2"], 1, "exited with status 0, without shmem_finalize"),
        (["silent", "6", "2"], 6, "exited with status 6, without shmem_finalize"),
        (["abort", "0", "2"], 134, "was killed by SIGABRT"),
        (["segfault", "0", "2"], 139, "was killed by SIGSEGV"),
    ] {
        let outcome = run("none", &args);
        one_line(outcome.status(status), &line(how));
        // With checkpoints it is a loss like any other, even when others are in shmem_finalize; one
        // that happens again and again is a bug, not a fault.
        let outcome = run("raid5", &args);
        outcome.status(3).says("crashed 4 times at the same place");
        let args = [args[0], args[1]];
        let outcome = run("raid5", &args);
        let often = outcome.count("at the same place, ");
        let nobody = outcome.count("unrecoverable: every PE was lost");
        let nobody = nobody + outcome.count("unrecoverable: no PE that saw a checkpoint is left");
        outcome.status(3).check(often + nobody >= 1, "the reason should be named");
    }
}

/// Without its connection a PE cannot even report its end: all would wait for it.
#[test]
fn a_pe_that_closes_its_connection_is_ended() {
    let outcome = run("none", &["close", "0", "2"]);
    outcome.status(137).says("oshrun: PE 2 closed its connection to oshrun: it is killed");
}

#[test]
fn a_program_without_shmem_may_be_run() {
    for mode in ["none", "raid5"] {
        let job = |path: &str| Job::new(4).mode(mode).program(Path::new(path), &[]).run();
        let outcome = job("/bin/true");
        outcome.status(0).check(said(&outcome).is_empty(), "no word was expected");
        let outcome = job("/bin/false");
        outcome.status(1).check(said(&outcome).len() == 1, "one line was expected");
        outcome.says("exited with status 1 before shmem_init was complete");
        let outcome = run(mode, &["early", "0"]);
        outcome.status(0).check(said(&outcome).is_empty(), "no word was expected");
        run(mode, &["early", "4"]).status(4).says("exited with status 4 before shmem_init");
    }
    // A bare name is looked up in PATH.
    Job::new(2).args(&["true"]).run().status(0);
}

/// Nearly as long as the kernel allows.
#[test]
fn a_long_command_line_reaches_the_program() {
    let word = "x".repeat(99);
    let words = vec![word.as_str(); 12_000];
    let job = Job::new(2).args(&["--nodes", "2", "sh", "-c", "echo $# words", "sh"]).args(&words);
    let outcome = job.run();
    outcome.status(0);
    let right = outcome.out.lines().filter(|line| *line == "12000 words").count();
    outcome.check(right == 2, "both PEs should have all of it");
}

/// One PE ends without `shmem_init`, before or after others have called it: none hangs. It is the
/// one that makes the folder `first`.
#[test]
fn one_pe_without_shmem_init_ends_the_job() {
    let hello = program("hello");
    let hello = hello.display();
    for script in [
        format!("mkdir first 2>/dev/null || exec {hello}"),
        format!("mkdir first 2>/dev/null && sleep 0.2 || exec {hello}"),
        format!("mkdir first 2>/dev/null || {{ sleep 0.2; exec {hello}; }}"),
    ] {
        let outcome = Job::new(4).args(&["sh", "-c", &script]).leaves("first").run();
        outcome.status(1).check(said(&outcome).len() == 1, "one line was expected");
        outcome.says("exited without shmem_init, which other PEs called");
    }
}

/// Processes that a program started do not outlive the job, not even in their own session.
#[test]
fn children_of_programs_end_with_the_job() {
    for how in ["child", "daemon"] {
        for only in ["-1", "1"] {
            run("raid5", &[how, "0", only]).status(0);
        }
    }
}

/// A shell may run between the program and oshrun: `oshrun sh -c './program'`.
#[test]
fn a_script_around_the_program_changes_nothing() {
    use super::support::jacobi::SMALL;
    let jacobi = program("jacobi");
    let script = format!("{} {}; exit $?", jacobi.display(), SMALL.join(" "));
    for words in ["--kill 1@3:copy --kill 2@5", "--nodes 4 --kill-node 1@3 --kill 3@4:before"] {
        let job = Job::line(words).mode("raid5").args(&["sh", "-c", &script]);
        job.run().right_sum(SMALL);
    }
    let script = format!("{} finalize 7; exit $?", program("exits").display());
    Job::new(2).args(&["sh", "-c", &script]).run().status(7);
}

/// After the program the script may run on; after a PE that died, it may not.
#[test]
fn a_script_continues_after_a_program_that_ended_well() {
    use super::support::jacobi::SMALL;
    let script = format!("{} finalize; sleep 2; echo the rest; exit 5", program("exits").display());
    let job = Job::new(4).mode("raid5").env("SHMEM_FT_NODE_TIMEOUT", "1");
    let outcome = job.args(&["sh", "-c", &script]).run();
    outcome.status(5);
    let rests = outcome.out.lines().filter(|line| *line == "the rest").count();
    outcome.check(rests == 4, "every script should finish");
    let script = format!("{} {} || sleep 1000", program("jacobi").display(), SMALL.join(" "));
    let job = Job::new(4).mode("raid5").env("SHMEM_FT_NODE_TIMEOUT", "1").kill(&["1@3", "2@6"]);
    job.args(&["sh", "-c", &script]).run().right_sum(SMALL);
}

/// In its own namespace a PE has a different process id than here, where that id belongs to another
/// process: when the PE must be killed, that process is left alone.
#[test]
fn in_a_container_pes_with_equal_process_ids_are_distinguished() {
    let unshare = ["--pid", "--fork", "--mount-proc"];
    let allowed = Command::new("unshare").args(unshare).arg("true").output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        return super::support::skip("pid-namespaces", "none can be made here");
    }
    use super::support::jacobi::TINY;
    let mut other = Command::new("sleep").arg("1000").spawn().expect("sleep runs");
    let inside = format!(
        "echo {} > /proc/sys/kernel/ns_last_pid; {} {} & echo PE is $!; wait $!",
        other.id() - 1,
        program("jacobi").display(),
        TINY.join(" ")
    );
    let job = Job::new(4).mode("raid5").kill(&["1@3"]).args(&["unshare"]).args(&unshare);
    let outcome = job.args(&["sh", "-c", &inside]).run();
    let runs = other.try_wait();
    let _ = other.kill();
    let _ = other.wait();
    let line = format!("PE is {}", other.id());
    let same = outcome.out.lines().filter(|found| *found == line).count();
    outcome.check(same == 5, "four PEs and a substitute with its process id were expected");
    outcome.right_sum(TINY).check(matches!(runs, Ok(None)), "it was killed");
}

/// `SHMEM_DEBUG`: every PE reports its configuration and progress.
#[test]
fn debugging_messages_are_there_when_asked_for() {
    let count = program("count");
    let quiet = Job::new(2).mode("raid5").program(&count, &[]).run();
    quiet.status(0).check(!quiet.err.contains("debug:"), "nobody asked");
    let job = Job::new(2).mode("raid5").env("SHMEM_DEBUG", "1").kill(&["1@2"]);
    let outcome = job.program(&count, &[]).run();
    outcome.status(0);
    for words in [
        "PE 0: debug: one of 2 PEs, incarnation 0",
        "PE 1: debug: one of 2 PEs, incarnation 1",
        "PE 1: debug: checkpoint 1 is agreed",
        "PE 0: debug: restart, lost: PE 1",
        "PE 0: debug: restarted from checkpoint ",
    ] {
        outcome.says(words);
    }
}
