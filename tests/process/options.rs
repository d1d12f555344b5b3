//! Options as users of other launchers expect them: numbers of PEs and hosts, variables, folders,
//! standard input and output, time, signals.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::support::jacobi::{self, TINY};
use super::support::{Job, Outcome, Running, program};

/// Returns a job with these options that runs a shell script.
fn sh(options: &[&str], script: &str) -> Job {
    Job::of(options).env("SHMEM_SYMMETRIC_SIZE", "1M").args(&["sh", "-c", script])
}

/// Returns the lines of standard output in alphabetical order.
fn lines(outcome: &Outcome) -> Vec<&str> {
    let mut lines: Vec<&str> = outcome.out.lines().collect();
    lines.sort_unstable();
    lines
}

/// Options for a host that is this machine, with an agent started as on a remote one, without
/// variables.
const ELSEWHERE: [&str; 4] =
    ["--listen", "127.0.0.1", "--launch-agent", "env -i PATH=/bin:/usr/bin HOST={host} {agent}"];

#[test]
fn numbers_and_hosts_may_be_glued_to_their_letters() {
    for words in [&["-n3"][..], &["-n", "3"], &["--np=3"], &["-vn3"], &["-n3", "-v", "-v"]] {
        let outcome = sh(words, "echo x").run();
        outcome.status(0).check(lines(&outcome) == ["x"; 3], "three lines were expected");
    }
    for words in [&["-Hlocalhost:2"][..], &["-Hlocalhost", "-N2"], &["-Hlocalhost", "-n2"]] {
        let outcome = sh(&[words, &ELSEWHERE].concat(), "echo x").run();
        outcome.status(0).check(lines(&outcome) == ["x"; 2], "two lines were expected");
    }
}

#[test]
fn a_file_names_the_hosts() {
    let folder = std::env::temp_dir().join(format!("raidshmem-hosts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("hosts");
    for (text, pes) in [("# mine\nlocalhost slots=3\n", 3), ("localhost\nlocalhost\n", 2)] {
        std::fs::write(&file, text).unwrap();
        let words = ["--hostfile", file.to_str().unwrap()];
        let outcome = sh(&[&words[..], &ELSEWHERE].concat(), "echo x").run();
        outcome.status(0).check(lines(&outcome) == vec!["x"; pes], "a line of each PE");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Options without a meaning here are ignored, with a notice that contains their value.
#[test]
fn options_of_other_launchers_that_change_nothing_are_ignored() {
    let words = ["--oversubscribe", "--allow-run-as-root", "--mpi=pmix", "-n2"];
    let outcome = sh(&words, "echo x").run();
    outcome.status(0).check(lines(&outcome) == ["x"; 2], "two lines were expected");
    for word in ["--oversubscribe", "--allow-run-as-root", "--mpi"] {
        outcome.says(&format!("oshrun: {word}: not needed here, and left out: "));
    }
}

#[test]
fn variables_reach_programs_here_and_on_other_hosts() {
    let words = ["-x", "A=1=2", "-xB", "-x", "HOSTNAME=mine", "-x", "NONE"];
    for more in [&["-n1"][..], &[&["-n1", "-Hlocalhost"], &ELSEWHERE[..]].concat()] {
        let job = sh(&[&words[..], more].concat(), "echo $A,$B,$HOSTNAME,$NONE");
        let outcome = job.env("B", "b c").run();
        outcome.status(0).check(outcome.out == "1=2,b c,mine,\n", "three variables");
        outcome.says("oshrun: -x NONE: not set here, so PEs do not get it");
    }
    // A setting given with -x takes effect, and an option overrides it.
    let mode = |words: &[&str]| sh(&[&["-n2"], words].concat(), "echo $SHMEM_FT_BACKUP_MODE").run();
    assert_eq!(lines(&mode(&["-xSHMEM_FT_BACKUP_MODE=raid5"])), ["raid5"; 2]);
    assert_eq!(lines(&mode(&["-xSHMEM_FT_BACKUP_MODE=raid5", "--mode", "double"])), ["double"; 2]);
}

#[test]
fn programs_run_in_the_folder_that_is_named() {
    for more in [&["-n1"][..], &[&["-n1", "-Hlocalhost"], &ELSEWHERE[..]].concat()] {
        let outcome = sh(&[&["--wdir", "/usr"], more].concat(), "pwd").run();
        outcome.status(0).check(outcome.out == "/usr\n", "that folder was expected");
        let words = [&["--wdir", "/usr/bin"], more, &["./env", "pwd"]].concat();
        let outcome = Job::of(&words).env("SHMEM_SYMMETRIC_SIZE", "1M").run();
        outcome.status(0).check(outcome.out == "/usr/bin\n", "a program that is there");
    }
}

#[test]
fn a_job_whose_time_limit_expires_is_ended() {
    let outcome = sh(&["-n2", "--timeout", "0.3"], "echo begun; exec sleep 1000").run();
    outcome.status(124).says("oshrun: --timeout 0.3: time limit reached; every PE is killed");
    sh(&["-n2", "--timeout", "1000"], "true").run().status(0);
}

#[test]
fn lines_say_whose_they_are_and_when_they_came() {
    let script = "echo one; echo two >&2; printf three";
    let outcome = sh(&["-n2", "--tag-output"], script).run();
    let wanted = ["PE 0: one", "PE 0: three", "PE 1: one", "PE 1: three"];
    outcome.status(0).check(lines(&outcome) == wanted, "numbers were expected");
    outcome.says("PE 0: two").says("PE 1: two");
    let outcome = sh(&["-n1", "--timestamp-output", "--tag-output"], "echo one").run();
    let stamped = |line: &str| line.starts_with("20") && line.ends_with("Z PE 0: one");
    outcome.check(outcome.out.lines().all(stamped), "a time was expected");
    // A spare that takes a PE's number has it from then on.
    let job = Job::new(2).mode("raid5").args(&["--spares", "1", "--tag-output", "--kill", "1@3"]);
    let outcome = job.program(&program("count"), &[]).run();
    outcome
        .status(0)
        .check(lines(&outcome) == ["PE 0: sum 380", "PE 1: a substitute takes over PE 1"], "");
}

#[test]
fn each_pe_has_a_file_over_its_incarnations() {
    let script = format!("echo begun; exec {}", program("count").display());
    let job = Job::new(2).mode("raid5").args(&["--output", "deep/er", "--kill", "1@3"]);
    let mut run = job.leaves("deep").args(&["sh", "-c", &script]).start();
    let folder = run.folder().join("deep/er");
    run.wait_for("oshrun: lost 1 PE");
    let read = |name| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    assert_eq!(read("pe-0.log"), "begun\nsum 380\n");
    assert_eq!(read("pe-1.log"), "begun\nbegun\na substitute takes over PE 1\n");
    let outcome = run.finish();
    outcome.status(0).check(outcome.out.is_empty(), "nothing else was expected");
}

#[test]
fn only_pe_0_reads_the_standard_input() {
    let text = "one\ntwo\n";
    let outcome = sh(&["-n3", "--nodes", "3"], "cat").input(text).run();
    outcome.status(0).check(outcome.out == text, "the input once was expected");
    let outcome = sh(&["-n3", "--stdin", "none"], "cat").input(text).run();
    outcome.status(0).check(outcome.out.is_empty(), "no input was expected");
}

/// Unread input is left for the next process.
#[test]
fn a_substitute_of_pe_0_continues_reading() {
    let script = format!("read line; echo got $line; exec {}", program("count").display());
    for rule in [["--kill", "0@3"], ["--kill-node", "0@3"]] {
        let job = Job::new(3).mode("raid5").args(&["--nodes", "3"]).args(&rule);
        let outcome = job.input("one\ntwo\nthree\n").args(&["sh", "-c", &script]).run();
        let got: Vec<&str> = outcome.out.lines().filter(|line| line.len() > 4).collect();
        outcome.status(0).check(got.contains(&"got one") && got.contains(&"got two"), "two lines");
        outcome.check(!got.contains(&"got three"), "the third is for nobody");
    }
}

/// Returns a job of two shells that print a line on a signal, and then end.
fn listening(options: &[&str]) -> Running {
    let script = "trap 'echo heard; exit 0' USR1 USR2 QUIT; echo ready; \
                  while :; do sleep 0.01; done";
    let mut run = sh(&[&["-n2", "--tag-output"], options].concat(), script).until("PE 0: ready");
    run.wait_for("PE 1: ready");
    run
}

#[test]
fn signals_for_the_program_are_passed_on_to_every_pe() {
    for (signal, name) in
        [(Signal::USR1, "SIGUSR1"), (Signal::USR2, "SIGUSR2"), (Signal::QUIT, "SIGQUIT")]
    {
        let run = listening(&["--nodes", "2"]);
        run.signal(signal);
        let outcome = run.finish();
        outcome.status(0).says(&format!("oshrun: {name} is passed on to every PE"));
        for pe in 0..2 {
            let line = format!("PE {pe}: heard");
            outcome.check(outcome.out.lines().any(|said| said == line), &line);
        }
    }
    let run = listening(&["--stop-signal", "usr1"]);
    run.signal(Signal::USR1);
    run.finish().status(138).says("oshrun: stopped by SIGUSR1; every PE is killed");
}

/// A PE without a handler dies from it, as it would alone; a spare does not get it.
#[test]
fn a_signal_that_kills_is_survived_like_any_death() {
    let mut run = Job::new(2)
        .mode("raid5")
        .args(&["--nodes", "2", "--spares", "1"])
        .leaves("stop")
        .program(&program("steps"), &[])
        .until("ready");
    run.signal(Signal::USR1);
    run.wait_for("all PEs resume from checkpoint");
    run.end().status(0).says("oshrun: PE 1 was killed by SIGUSR1");
}

#[test]
fn no_signal_ends_a_job_without_a_line() {
    let signals = [Signal::ALARM, Signal::VTALARM, Signal::PROF, Signal::IO, Signal::POWER];
    for signal in signals.into_iter().chain([Signal::XCPU, Signal::XFSZ, Signal::STKFLT]) {
        let run = listening(&[]);
        run.signal(signal);
        let number = signal.as_raw();
        let name = raidshmem_core::signals::name(number);
        let outcome = run.finish();
        outcome.status(128 + number).says(&format!("stopped by {name}; every PE is killed"));
    }
    let run = listening(&[]);
    let launcher = run.launcher().to_string();
    // The shell's own: a small machine has no program of that name.
    let sent = Command::new("sh").args(["-c", &format!("kill -40 {launcher}")]).status();
    assert!(sent.unwrap().success());
    run.finish().status(168).says("oshrun: stopped by signal 40; every PE is killed");
}

#[test]
fn settings_may_be_options() {
    let job = Job::new(4).mode("none").args(&["--mode", "rs", "--parity", "1", "--group=4", "-v"]);
    let outcome = jacobi::job(job.kill(&["1@3"]), TINY).run();
    outcome.right_sum(TINY).says("oshrun: rs: 1 group of 4, parity 1: ");
}

#[test]
fn a_misspelled_setting_is_reported() {
    let job = sh(&["-n1"], "true").env("SHMEM_SYMETRIC_SIZE", "1M").env("SMA_DEBGU", "1");
    let outcome = job.env("SHMEM_HOME", "/x").run();
    outcome.status(0);
    outcome
        .says("oshrun: SHMEM_SYMETRIC_SIZE is not a setting: did you mean SHMEM_SYMMETRIC_SIZE?");
    outcome.says("oshrun: SMA_DEBGU is not read: the setting is called SHMEM_DEBUG");
    outcome.check(outcome.count("SHMEM_HOME") == 0, "other tools have variables too");
}

/// The specification's old names take effect if the new ones are not set, in PEs too.
#[test]
fn old_names_of_settings_count_where_new_ones_are_not_set() {
    let script = "echo $SHMEM_SYMMETRIC_SIZE $SHMEM_VERSION$SHMEM_INFO$SHMEM_DEBUG";
    let job = || Job::of(&["-n1"]).args(&["sh", "-c", script]).env("SMA_SYMMETRIC_SIZE", "2M");
    let prints = |job: Job, line: &str| {
        let outcome = job.run();
        outcome.status(0).check(outcome.out == line, &format!("{line} was expected"));
    };
    prints(job(), "2M\n");
    prints(job().env("SHMEM_SYMMETRIC_SIZE", "1"), "64K\n");
    prints(job().env("SMA_VERSION", "").env("SMA_INFO", "0").env("SMA_DEBUG", "1"), "2M 111\n");
    for (name, value) in [("SMA_SYMMETRIC_SIZE", "8MB"), ("SHMEM_SYMMETRIC_SIZE", "20kk")] {
        let outcome = job().env(name, value).run();
        outcome.status(2).says(&format!("oshrun: {name}={value}: expected 0 to 64T bytes, as a"));
    }
}

#[test]
fn help_has_modes_examples_and_where_to_read_on() {
    let outcome = Job::of(&["--help"]).env("COLUMNS", "80").run();
    outcome.status(0).check(outcome.err.is_empty(), "all of it on standard output");
    for part in ["raid5   2 + 2/(g-1)", "oshrun -n 4 --mode raid5", "docs/running.md", "-x <VAR"] {
        outcome.prints(part);
    }
    outcome.check(outcome.out.lines().all(|line| line.len() <= 80), "eighty columns");
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/running.md").exists());
}

/// Only the foreground of a terminal may read it, which the launcher is, but PEs are not.
#[test]
fn pe_0_reads_a_terminal_through_the_launcher() {
    let script = format!("{} -n2 sh -c 'read line; echo got $line.'", env!("CARGO_BIN_EXE_oshrun"));
    let mut command = Command::new("script"); // it makes the terminal
    command.args(["-qec", &script, "/dev/null"]).env("SHMEM_SYMMETRIC_SIZE", "1M");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("a terminal");
    let mut keys = child.stdin.take().expect("it is piped");
    keys.write_all(b"hello\n").expect("it is read");
    let output = child.wait_with_output().expect("it ends");
    drop(keys);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("got hello.") && text.contains("got ."), "{text}");
}
