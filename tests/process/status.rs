//! The status of a running job, queried from outside.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use rustix::process::Signal;

use super::support::jacobi::{self, SMALL};
use super::support::schema::conforms;
use super::support::stall::let_end;
use super::support::{Job, LIMIT, MARKER, Running, processes, program};

fn status(words: &[&str]) -> Output {
    let status = Command::new(env!("CARGO_BIN_EXE_oshrun")).arg("--status").args(words).output();
    status.expect("oshrun runs")
}

fn status_of(run: &Running) -> String {
    let status = status(&[&run.launcher().to_string()]);
    assert!(status.status.success(), "{status:?}");
    String::from_utf8(status.stdout).expect("text")
}

/// Returns the status as JSON, which conforms to its schema.
fn json_of(run: &Running) -> serde_json::Value {
    conforms("status", &status(&[&run.launcher().to_string(), "--json"]).stdout)
}

/// Queries until the answer contains every one of `words`.
#[track_caller]
fn wait_for(run: &Running, words: &[&str]) -> String {
    let end = Instant::now() + LIMIT;
    loop {
        let text = status_of(run);
        let missing = words.iter().find(|words| !text.contains(**words));
        let Some(missing) = missing else { return text };
        assert!(Instant::now() < end, "`{missing}` was expected in\n{text}");
    }
}

/// The status shows nodes, PEs with their processes, spares, groups, checkpoints, losses.
#[test]
fn a_job_that_lost_a_pe_is_shown() {
    let job = Job::new(4).mode("raid5").args(&["--nodes", "2", "--spares", "1"]).kill(&["1@2"]);
    let run = job.program(&program("pause"), &[]).leaves("go").until("ready");
    let text = wait_for(&run, &["PE 3: process ", " waits in shmem_barrier_all"]);
    let agent = run.agents()[0].pid;
    let pause = program("pause").display().to_string();
    for words in [
        &format!("job {}: {pause}\nsince 20", run.launcher()),
        ", mode raid5\n4 PEs on 3 nodes: 4 alive; 1 spare\n",
        " checkpoints, the last (3) ",
        "\nso far: lost 1 PE\n",
        "\ngroup 0: PEs 0,2, whole\ngroup 1: PEs 1,3, whole\n",
        &format!("\nnode 0: agent is process {agent}\n  PE 0: process "),
        " alive, incarnation 0",
        ", alive, incarnation 1",
        "\nnode 2: agent is process ",
        "\n  spare: process ",
    ] {
        assert!(text.contains(words), "`{words}` was expected in\n{text}");
    }
    assert!(!text.contains("recovery"), "{text}");
    let json = json_of(&run);
    assert_eq!((&json["job"], &json["spares"]), (&run.launcher().into(), &1.into()));
    assert_eq!(
        (&json["lost"]["processes"], &json["pes"][1]["incarnation"]),
        (&1.into(), &1.into())
    );
    let_end(run).status(0);
}

/// The substitute of a PE lost with its node is stopped when four of nine tiles are rebuilt.
#[test]
fn a_recovery_shows_its_step_and_how_far_it_is() {
    let job = Job::new(4).mode("raid5").args(&["--nodes", "4"]);
    let job = job.env("SHMEM_FT_INJECT", "node:1@4:before,stop:1@3:rebuild");
    let run = jacobi::job(job, SMALL).until("node 1 was lost with PE 1");
    let words = ["recovery, for ", "rebuilding lost data: 44 %, ", " left\n"];
    let text =
        wait_for(&run, &[&words[..], &["PE 1: process ", ", stopped, incarnation 1"]].concat());
    for words in ["3 alive, 1 stopped\n", "so far: lost 1 node\n", ", without PE 1\n"] {
        assert!(text.contains(words), "`{words}` was expected in\n{text}");
    }
    let json = json_of(&run);
    assert_eq!(json["recovery"]["step"], "rebuilding lost data", "{json:#}");
    assert_eq!(json["groups"][0]["lost"], serde_json::json!([1]), "{json:#}");
    let (_, pid) = text.split_once("PE 1: process ").expect("it was waited for");
    let pid = pid.split(',').next().and_then(|pid| pid.parse().ok()).expect("a process id");
    processes::signal(pid, Signal::CONT);
    let outcome = run.finish();
    outcome.right_sum(SMALL).check(outcome.count(" never triggered") == 0, "both rules triggered");
}

/// Clients that connect and send nothing, or nonsense, delay neither the job nor other clients.
#[test]
fn a_silent_connection_delays_no_process() {
    let run = Job::new(2).program(&program("pause"), &[]).leaves("go").until("ready");
    let name = format!("raidshmem-job-{}", run.launcher());
    let address = SocketAddr::from_abstract_name(name).expect("an address");
    let silent = || UnixStream::connect_addr(&address).expect("the job listens");
    let mut silent: Vec<UnixStream> = (0..40).map(|_| silent()).collect();
    assert!(status_of(&run).contains("\n2 PEs on 1 node: 2 alive\n"));
    for stream in &mut silent {
        stream.set_read_timeout(Some(LIMIT)).expect("a time");
        assert_eq!(stream.read(&mut [0]).expect("it is closed"), 0, "nothing is said to them");
    }
    let_end(run).status(0);
}

/// With several jobs the user must name one; they are listed.
#[test]
fn several_jobs_are_listed() {
    let start = || Job::new(1).program(&program("pause"), &[]).leaves("go").until("ready");
    let runs = [start(), start()];
    let which = status(&[]);
    let err = String::from_utf8_lossy(&which.stderr).into_owned();
    assert_eq!(which.status.code(), Some(2), "{err}");
    assert!(err.starts_with("oshrun: --status: which job? expected the process id of "), "{err}");
    for run in runs {
        assert!(err.contains(&format!(" {} (", run.launcher())), "{err}");
        let_end(run).status(0);
    }
    let both = status(&["--dump"]);
    let err = String::from_utf8_lossy(&both.stderr).into_owned();
    assert_eq!(err, "oshrun: --status and --dump: expected one of the two\n");
}

/// A job on a terminal of 80 columns, and the contents of its screen. PE 1 is lost with its node,
/// and its substitute stops in the middle of the rebuild.
struct Terminal {
    child: Child,
    marker: String,
    keys: ChildStdin,
    output: ChildStdout,
    screen: vt100::Parser,
}

impl Terminal {
    fn start() -> Terminal {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed); // it only has to differ
        let marker = format!("terminal-{}-{number}", std::process::id());
        let oshrun = env!("CARGO_BIN_EXE_oshrun");
        let (program, rules) = (program("jacobi"), "node:1@4:before,stop:1@3:rebuild");
        let (program, words) = (program.display(), SMALL.join(" "));
        let job = format!("{oshrun} -n4 --live --nodes 4 --mode raid5 {program} {words}");
        let mut command = Command::new("script"); // it makes the terminal
        command.args(["-qec", &format!("stty rows 24 cols 80; {job}"), "/dev/null"]);
        command.env(MARKER, &marker).env("TERM", "xterm").env_remove("LD_LIBRARY_PATH");
        command.env("SHMEM_FT_INJECT", rules);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a terminal");
        let keys = child.stdin.take().expect("it is piped");
        let output = child.stdout.take().expect("it is piped");
        Terminal { child, marker, keys, output, screen: vt100::Parser::new(24, 80, 0) }
    }

    fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Follows the output until all of `words` are on the screen together.
    #[track_caller]
    fn wait_for(&mut self, words: &[&str]) {
        let end = Instant::now() + LIMIT;
        while !words.iter().all(|words| self.text().contains(words)) {
            let goes_on = Instant::now() < end && self.follow();
            assert!(goes_on, "{words:?} were expected on\n{}", self.text());
        }
    }

    /// Draws the next output; returns false at the end.
    fn follow(&mut self) -> bool {
        let mut bytes = [0; 64];
        let got = self.output.read(&mut bytes).expect("a pipe is read");
        self.screen.process(&bytes[..got]);
        got > 0
    }

    /// Returns the screen at the end of the job.
    fn finish(mut self) -> String {
        while self.follow() {}
        let status = self.child.wait().expect("its own child can be waited for");
        assert!(status.success(), "{status}: {}", self.text());
        self.text()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let left = processes::of_job(self.child.id(), &self.marker);
        left.iter().for_each(|found| processes::signal(found.pid, Signal::KILL));
    }
}

/// The view shows PEs by their nodes, checkpoints, and a bar for the rebuild; nothing of it is left
/// at the end.
#[test]
fn a_view_on_a_terminal_stays_below_the_lines_and_goes() {
    let mut terminal = Terminal::start();
    let bar = ["[=====", ">  ", "] 44 %, "];
    let lines = ["oshrun: node 1 was lost with PE 1", "jacobi: a substitute takes over PE 1"];
    let view = [
        "1 being replaced",
        "group 0: PEs 0-3, without PE 1",
        "so far: lost 1 node\n",
        "\nnode 0: PE 0",
    ];
    terminal.wait_for(&[&bar[..], &lines, &view].concat());
    let shown = terminal.text();
    let at = |words: &str| shown.find(words).unwrap_or_else(|| panic!("{words}: {shown}"));
    assert!(lines.iter().all(|line| at(line) < at("4 PEs on 3 nodes: ")), "{shown}");
    let all = processes::of_job(terminal.child.id(), &terminal.marker);
    let stopped = all.iter().filter(|found| found.state == 'T');
    stopped.for_each(|found| processes::signal(found.pid, Signal::CONT));
    let last = terminal.finish();
    for words in ["jacobi checksum=", "oshrun: all PEs resume from checkpoint 3 (PE 1 rebuilt"] {
        assert!(last.contains(words), "`{words}` was expected on\n{last}");
    }
    let lines = last.lines().filter(|line| !line.is_empty());
    let whole = |line: &str| {
        ["oshrun: ", "jacobi: ", "jacobi checksum="].iter().any(|begin| line.starts_with(begin))
    };
    lines.for_each(|line| {
        assert!(whole(line) || line.len() < 80 && line.ends_with("MiB)"), "{line}")
    });
}

/// A job stopped by a key leaves its last lines, and nothing of the view.
#[test]
fn a_view_goes_when_a_key_stops_the_job() {
    let mut terminal = Terminal::start();
    terminal.wait_for(&["] 44 %, "]);
    terminal.keys.write_all(b"\x03").expect("it is read");
    while terminal.follow() {}
    let last = terminal.text();
    assert!(last.contains("oshrun: stopped by SIGINT; every PE is killed"), "{last}");
    assert!(!last.contains("4 PEs on") && !last.contains("44 %"), "{last}");
}

/// Without a terminal a line reports it, and nothing else changes.
#[test]
fn a_view_needs_a_terminal_and_the_option() {
    let outcome = Job::new(2).args(&["--live", "sh", "-c", "echo line"]).run();
    outcome.status(0).says("oshrun: --live: standard error is not a terminal; ");
    outcome.check(outcome.out == "line\nline\n", "two lines were expected");
    let outcome = Job::of(&["-n1", "--live", "-q", "true"]).run();
    outcome.status(2).says("oshrun: --live and --quiet: expected one of the two");
}
