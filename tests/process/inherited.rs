//! Unusual environments of a job: signals ignored or blocked, an umask, limits, closed descriptors,
//! a locale. The job runs as usual, and its program inherits what the user had.

use std::path::Path;
use std::process::Command;

use super::support::{Job, program};

/// Shell commands, and a prefix that starts the next program.
const STARTS: &[(&str, &str)] = &[
    (":", "env --ignore-signal=CHLD"),
    (":", "env --ignore-signal=PIPE"),
    (":", "env --ignore-signal=HUP,INT,QUIT,TERM,USR1,USR2,ALRM,XFSZ"),
    (":", "env --ignore-signal"),
    (":", "env --block-signal=CHLD,USR1,TERM,PIPE,INT"),
    (":", "env --block-signal --ignore-signal=CHLD"),
    (":", "env LC_ALL=tr_TR.UTF-8 LANGUAGE=de"),
    ("umask 0777", ""),
    ("umask 0270", ""),
    ("umask 0", ""),
    ("ulimit -S -n 20", ""),
    ("ulimit -S -t 1000", ""),
    ("ulimit -S -v 209715200", ""),
    ("ulimit -S -d 4000000", ""),
];

/// PEs of a job.
const PES: usize = 3;

/// Runs a program in the job's starting environment and then the job, and compares its line with
/// that of each PE, and of a substitute if one is killed.
#[track_caller]
fn handed_down(words: &[&str], commands: &str, starter: &str) {
    let program = program("inherited");
    let bare = format!("{starter} {} bare", program.display());
    let job = Job::new(PES).mode("raid5").env("SHMEM_SYMMETRIC_SIZE", "1M").args(words);
    let job = job.after(&format!("{commands}; {bare}; set -- {starter} \"$@\""));
    let outcome = job.program(&program, &[]).run();
    outcome.status(0).says("was killed by SIGKILL");
    let lines: Vec<&str> = outcome.out.lines().collect();
    let alike = lines.iter().all(|line| line.starts_with("ignored") && *line == lines[0]);
    outcome.check(lines.len() == PES + 2 && alike, "a line of each process, all alike");
}

#[test]
fn a_program_has_what_the_user_had() {
    for (commands, starter) in STARTS {
        handed_down(&["--nodes", "3", "--kill", "1@2"], commands, starter);
    }
}

/// An agent of another host inherits from the command that started it there.
#[test]
fn a_program_on_another_host_has_what_its_agent_was_started_with() {
    for (commands, starter) in STARTS {
        let env = if starter.is_empty() { "env" } else { starter };
        let agent = format!("{env} HOST={{host}} {{agent}}"); // a shell may change SIGCHLD
        let agent = ["--listen", "127.0.0.1", "--launch-agent", &agent];
        let words = ["-Hlocalhost:3", "--kill", "1@2"];
        handed_down(&[&words[..], &agent].concat(), commands, starter);
    }
}

#[test]
fn closed_descriptors_are_not_reused_by_the_library() {
    for closed in ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"] {
        let job = || Job::new(PES).mode("raid5").args(&["--nodes", "3", "--kill", "1@2"]);
        let quiet = job().after(&format!("exec {closed}"));
        quiet.program(&program("inherited"), &["loud"]).run().status(0);
        let script = format!("exec {} loud {closed}", program("inherited").display());
        job().args(&["sh", "-c", &script]).run().status(0);
    }
}

/// When a program is started directly, only the library can handle it.
#[test]
fn a_program_without_oshrun_may_be_started_so_too() {
    let program = program("inherited");
    let shell = |script: &str| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).env("SHMEM_SYMMETRIC_SIZE", "1M");
        command.output().expect("a shell")
    };
    for (commands, starter) in STARTS {
        let output = shell(&format!("{commands}; exec {starter} {}", program.display()));
        assert!(output.status.success(), "{commands}; {starter}: {output:?}");
    }
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let output = shell(&format!("exec {} loud {closed}", program.display()));
        assert!(output.status.success(), "{closed}: {output:?}");
    }
}

/// Our own tools that start processes wait for their end.
#[test]
fn tools_run_where_children_are_not_collected() {
    let run = |words: &[&str]| {
        let start = |ignored: &[&str]| {
            let mut command = Command::new("env");
            command.args(ignored).args(words);
            command.output().expect("it starts")
        };
        let (plain, ignoring) = (start(&[]), start(&["--ignore-signal=CHLD"]));
        assert!(plain.status.success(), "{words:?}: {plain:?}");
        assert_eq!(plain, ignoring, "{words:?}");
    };
    run(&[env!("CARGO_BIN_EXE_oshinfo"), "engines"]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/inherited.c");
    let object = std::env::temp_dir().join(format!("inherited-{}.o", std::process::id()));
    let [source, object] = [source, object].map(|path| path.display().to_string());
    run(&[env!("CARGO_BIN_EXE_oshcc"), "-c", &source, "-o", &object]);
    std::fs::remove_file(object).expect("it was compiled");
}
