//! Dumps of a job that hangs, stalls or loses a PE.

use std::process::{Command, Output};

use raidshmem_core::protocol;
use rustix::process::Signal;

use super::support::stall::let_end;
use super::support::{Job, Running, processes, program};

fn dump(job: &str) -> Output {
    let dump = Command::new(env!("CARGO_BIN_EXE_oshrun")).args(["--dump", job]).output();
    dump.expect("oshrun runs")
}

fn dump_of(run: &Running) -> String {
    let dump = dump(&run.launcher().to_string());
    assert!(dump.status.success(), "{dump:?}");
    String::from_utf8(dump.stdout).expect("text")
}

#[track_caller]
fn holds(text: &str, words: &[&str]) {
    for words in words {
        assert!(text.contains(words), "`{words}` was expected in\n{text}");
    }
}

/// PE 3 is stopped, and the others wait for it: both states can be read.
#[test]
fn a_stopped_pe_and_those_that_wait_for_it_are_read() {
    let job = Job::new(4).mode("raid5").env("SHMEM_FT_TRACE", "debug").args(&["--nodes", "2"]);
    let job = job.program(&program("stall"), &["barrier"]).after("mkfifo go").leaves("go");
    let mut run = job.until("ready");
    let stopped = run.pid_of(3);
    processes::signal(stopped, Signal::STOP);
    let waits = |text: &str| {
        (0..3).all(|pe| text.contains(&format!("PE {pe}: waits in shmem_barrier_all")))
    };
    let end = std::time::Instant::now() + super::support::LIMIT;
    let mut text = dump_of(&run);
    while !waits(&text) && std::time::Instant::now() < end {
        text = dump_of(&run);
    }
    holds(
        &text,
        &[
            &format!("launcher: process {}\n", run.launcher()),
            &format!("PE 3: process {stopped} of node 1, stopped\n"),
            "of node 0, waits in shmem_barrier_all\n",
            " PE 0: waits in shmem_barrier_all for ",
            " PE 3: one of 4 PEs, incarnation 0, ",
            " node 1: shows view 1\n",
            " launcher: node 0 shows view 1\n",
        ],
    );
    let times: Vec<&str> = text.lines().filter_map(|line| line.get(..15)).collect();
    let times: Vec<&&str> = times.iter().filter(|time| time.as_bytes()[2] == b':').collect();
    assert!(times.len() > 12 && times.is_sorted(), "{text}");
    processes::signal(stopped, Signal::CONT);
    let_end(run).status(0);
}

/// The events of a dead process are listed with those of its substitute.
#[test]
fn the_last_events_of_a_lost_pe_outlive_it() {
    let job = Job::new(4).mode("raid5").kill(&["1@2:encode"]).args(&["-v"]);
    let run = job.program(&program("pause"), &[]).leaves("go").until("ready");
    let text = dump_of(&run);
    holds(
        &text,
        &[
            " PE 1: checkpoint 2 begins\n",
            " PE 1: reports: reached injected fault 0\n",
            " PE 1 (incarnation 1): restarted from checkpoint ",
            " launcher: lost: PE 1 (was killed by SIGKILL)\n",
        ],
    );
    let outcome = let_end(run);
    outcome.status(0).says("PE 1: reports: reached injected fault 0");
}

/// Lines for people are English: no names of Rust types or variants, and no structures.
#[test]
fn events_are_described_in_plain_english() {
    let job = Job::new(4).mode("raid5").args(&["--verbose", "--nodes", "4"]);
    let job = job.env("SHMEM_DEBUG", "1").env("SHMEM_FT_TRACE", "debug");
    let job = job.kill(&["1@2:encode"]).kill_node(&["2@4"]);
    let run = job.program(&program("pause"), &[]).leaves("go").until("ready");
    let text = dump_of(&run);
    let outcome = let_end(run);
    outcome.status(0).says(": rebuilding (done), now meeting after the rebuild");
    let ours = |line: &&str| line.starts_with("oshrun: ") || line.starts_with("raidshmem: ");
    let states = protocol::ALL.map(|at| format!("{at:?}"));
    for line in outcome.err.lines().filter(ours).chain(text.lines()) {
        let words: Vec<&str> = line.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        let bad = |word: &&&str| is_camel_case(word) || states.iter().any(|state| state == *word);
        let bad = words.iter().find(bad);
        assert!(bad.is_none(), "{bad:?} in `{line}`");
        let parts = ["{", "}", "Some(", "None", "Ok(", "Err(", "[", "\""];
        let part = parts.iter().find(|part| line.contains(**part));
        assert!(part.is_none(), "{part:?} in `{line}`");
    }
    assert!(is_camel_case("BarrierA") && is_camel_case("MeetRebuilt"));
    assert!(!["PEs", "KiB", "SIGKILL", "OpenSHMEM", "Another"].into_iter().any(is_camel_case));
}

/// True for two words in one, each capitalised, as in `MeetRebuilt`.
fn is_camel_case(word: &str) -> bool {
    let letters: Vec<char> = word.chars().collect();
    let humps = letters.windows(2).filter(|pair| pair[0].is_lowercase() && pair[1].is_uppercase());
    let short = ["PEs", "KiB", "MiB", "GiB"].contains(&word);
    humps.count() > 0 && !short && letters[0].is_uppercase() && word != "OpenSHMEM"
}

#[test]
fn a_pe_keeps_nothing_if_it_is_not_to() {
    let job = Job::new(2).mode("raid5").env("SHMEM_FT_TRACE", "off");
    let run = job.program(&program("pause"), &[]).leaves("go").until("ready");
    let text = dump_of(&run);
    holds(&text, &["\nPE 0: process ", "\nPE 1: process ", " launcher: "]);
    assert!(!text.contains(" PE "), "{text}");
    let_end(run).status(0);
}

/// A PE that waits for something that never happens is reported, with its last events.
#[test]
fn a_stall_is_reported_with_the_last_events() {
    let job = Job::new(4).mode("raid5").env("SHMEM_FT_STALL", "1");
    let job = job.program(&program("stall"), &["barrier"]).after("mkfifo go").leaves("go");
    let mut run = job.until("PEs 0-2 wait in shmem_barrier_all for ");
    run.wait_for("last events (oshrun --dump");
    run.wait_for(" PE 0: view 1 joined");
    let_end(run).status(0);
}

#[test]
fn an_unknown_job_is_named() {
    for asked in ["1", "0", "-3", "x", "99999999999"] {
        let dump = dump(asked);
        let err = String::from_utf8_lossy(&dump.stderr).into_owned();
        assert_eq!(dump.status.code(), Some(2), "{err}");
        assert!(err.starts_with(&format!("oshrun: --dump {asked}: no such job; ")), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}
