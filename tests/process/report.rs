//! Records of a job for its readers: events, the report with its page, and metrics.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use raidshmem_core::message::ProgressReport;
use raidshmem_core::quantity::{CheckpointNumber, Pe};

use raidshmem_report::event::{Event, What};
use raidshmem_report::record::Record;
use rustix::process::Signal;

use super::support::jacobi::{self, TINY};
use super::support::stall::let_end;
use super::support::{Job, LIMIT, Outcome, program};

/// Returns a folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report").join(name);
    let _ = std::fs::remove_dir_all(&folder); // it may not exist
    std::fs::create_dir_all(&folder).expect("a folder below the target folder");
    folder
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn oshreport(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oshreport"));
    command.args(words).env_remove("LD_LIBRARY_PATH").output().expect("oshreport runs")
}

/// Runs a job of four PEs on four nodes that loses a process and then a node.
fn two_losses(options: &[&str]) -> Outcome {
    let job = Job::new(4).mode("raid5").args(&["--nodes", "4"]).args(options);
    let outcome = jacobi::job(job.kill(&["1@2"]).kill_node(&["2@4"]), TINY).run();
    outcome.status(0);
    outcome
}

/// Returns the index of the first event of that kind.
#[track_caller]
fn find(events: &[Event], what: &str, is: impl Fn(&What) -> bool) -> usize {
    let found = events.iter().position(|event| is(&event.what));
    found.unwrap_or_else(|| panic!("{what} was expected in {events:#?}"))
}

/// Opening a FIFO for writing waits for its reader: a line informs the user.
#[test]
fn a_fifo_without_a_reader_is_awaited_with_a_line() {
    let folder = folder("fifo");
    for option in ["--events", "--report"] {
        let fifo = folder.join(option);
        let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs");
        assert!(made.success());
        let job = Job::new(2).args(&["--verbose", option, fifo.to_str().expect("a plain name")]);
        let mut run = job.program(&program("hello"), &[]).start();
        let line = format!("{option} {}: a FIFO without a reader", fifo.display());
        run.wait_for(&line);
        let text = text(&fifo);
        run.finish().status(0).check(text.starts_with('{'), "the report should be readable there");
        // A reader that is already there causes no line.
        let path = fifo.clone();
        let reader = std::thread::spawn(move || std::fs::read_to_string(path));
        let job = Job::new(2).args(&[option, fifo.to_str().expect("a plain name")]);
        job.program(&program("hello"), &[]).run().status(0);
        let text = reader.join().expect("it reads").expect("a text");
        assert!(text.starts_with('{'), "{text}");
    }
}

/// Returns the number of the checkpoint that an event reports.
fn checkpoint(what: &What) -> Option<CheckpointNumber> {
    let What::Report(ProgressReport::Checkpoint { number, .. }) = what else { return None };
    Some(*number)
}

/// Each loss comes before its recovery. A PE is killed when it reports a checkpoint, whose event
/// follows the reports of all PEs: before the recovery, in which all take part.
#[test]
fn events_are_reported_in_order() {
    let outcome = two_losses(&["-q", "--events", "-"]);
    let lines = outcome.out.lines().filter(|line| line.starts_with('{'));
    let events: Vec<Event> = lines.map(|line| serde_json::from_str(line).expect(line)).collect();
    let checkpoint = |of| move |what: &What| self::checkpoint(what) == Some(CheckpointNumber(of));
    let at = |what: &str, is: &dyn Fn(&What) -> bool| find(&events, what, is);
    let order = [
        at("the beginning", &|what| matches!(what, What::Began { job } if job.mode == "raid5")),
        at("the start", &|what| *what == What::Started),
        at("the loss of PE 1", &|what| {
            matches!(what, What::Lost { pes, node: None, cause, drained: false }
                if pes == &[Pe(1)] && cause == "was killed by SIGKILL")
        }),
        at("its substitute", &|what| {
            *what == What::Replaced { pe: Pe(1), node: 1, incarnation: 1 }
        }),
        at("a restart", &|what| {
            matches!(what, What::Report(ProgressReport::Resumed { checkpoint, .. })
                if checkpoint.0 == 2)
        }),
        at(
            "the loss of node 2",
            &|what| matches!(what, What::Lost { pes, node: Some(2), .. } if pes == &[Pe(2)]),
        ),
        at("a rebuild", &|what| {
            let survivors = [0, 1, 3].map(Pe);
            matches!(what, What::Report(ProgressReport::Rebuilt { pe: Pe(2), from, .. })
                if from == &survivors)
        }),
        at("checkpoint 7", &checkpoint(7)),
        at("the end", &|what| *what == What::Ended { status: 0, words: None }),
    ];
    assert!(order.is_sorted(), "{order:?} in {events:#?}");
    let [_, _, _, _, restart, _, rebuild, _, end] = order;
    for (number, recovery) in [(2, restart), (3, rebuild), (4, rebuild)] {
        assert!(at("a checkpoint", &checkpoint(number)) < recovery, "{number} in {events:#?}");
    }
    assert_eq!(end + 1, events.len(), "the end is the last");
    let adopted = |what: &What| {
        matches!(what, What::Report(ProgressReport::Adopted { pe: Pe(1), checkpoint, .. })
            if checkpoint.0 == 2)
    };
    find(&events, "how PE 1 came back", adopted);
    assert_eq!(events.iter().filter_map(|event| self::checkpoint(&event.what)).count(), 9);
    assert!(events.is_sorted_by_key(|event| event.time), "{events:#?}");
    let said = |what: &What| matches!(what, What::Said { line } if line.starts_with("node 2 was"));
    find(&events, "lines that -q does not print", said);
}

#[test]
fn the_report_has_losses_and_recoveries_and_becomes_a_page() {
    let folder = folder("whole");
    let report = folder.join("run.json");
    let (name, page) = (report.display().to_string(), folder.join("run.html"));
    two_losses(&["--report", &name]);
    let record = Record::read(&text(&report)).expect("a report");
    let totals = &record.totals;
    assert_eq!((totals.processes, totals.nodes, totals.checkpoints), (1, 1, 9));
    let spans = record.checkpoints.iter();
    assert_eq!(spans.map(|span| span.count).sum::<u64>(), 9);
    assert_eq!((record.end.status, record.job.groups.len()), (0, 1));
    assert!(!totals.recovery.is_zero() && totals.recovery < record.end.ran, "{totals:?}");
    let made = oshreport(&[&name]);
    assert_eq!(String::from_utf8_lossy(&made.stdout), format!("{}\n", page.display()));
    let html = text(&page);
    for words in [
        "Ended well; lost 1 PE and 1 node, and all came back.",
        "PE 1 was killed by SIGKILL.",
        "The substitute of PE 1 adopted the memory that the dead process had left",
        "node 2 was lost with PE 2.",
        "PE 2 was rebuilt from PEs 0,1,3",
        "All PEs resumed from checkpoint 4 after ",
        "SHMEM_FT_BACKUP_MODE",
    ] {
        assert!(html.contains(words), "`{words}` was expected in\n{html}");
    }
    let piped = oshreport(&[&name, "-o", "-"]);
    assert_eq!(String::from_utf8_lossy(&piped.stdout), html);
    // As a shell does for `oshreport run.json > run.html`.
    let mut command = Command::new(env!("CARGO_BIN_EXE_oshreport"));
    command.arg(&name).stdout(std::fs::File::create(&page).expect("it was just made"));
    assert!(command.status().expect("oshreport runs").success());
    assert_eq!(text(&page), html, "its name is not printed into it");
}

/// Also when the job is ended from outside, or cannot continue.
#[test]
fn a_job_that_ends_badly_has_a_report() {
    let folder = folder("bad");
    let name = folder.join("run.json").display().to_string();
    let end = || Record::read(&text(Path::new(&name))).expect("a report").end;
    let job = Job::new(2).args(&["--report", &name]).program(&program("pause"), &[]).leaves("go");
    let run = job.until("ready");
    run.signal(Signal::TERM);
    run.finish().status(143);
    let stopped = Some("stopped by SIGTERM; every PE is killed".to_owned());
    assert_eq!((end().status, end().words), (143, stopped));
    let job = Job::new(4).mode("raid5").args(&["--nodes", "4", "--report", &name]);
    jacobi::job(job.kill_node(&["1@2", "2@2"]), TINY).run().status(3);
    let words = "unrecoverable: group 0 lost PEs 1,2, parity 1";
    assert_eq!((end().status, end().words.as_deref()), (3, Some(words)));
    let page = oshreport(&[&name, "-o", "-"]);
    let page = String::from_utf8_lossy(&page.stdout);
    assert!(page.contains("Ended with status 3; lost ") && page.contains(words), "{page}");
}

fn get(mut stream: impl Read + Write, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

/// Scraping works while other clients hold connections and send nothing.
#[test]
fn metrics_can_be_scraped_while_the_job_runs() {
    let job = Job::new(4).mode("raid5").args(&["--nodes", "2", "--metrics", "0"]).kill(&["1@2"]);
    let mut run = job.program(&program("pause"), &[]).leaves("go").start();
    let line = run.wait_for("metrics are at http://");
    let (_, at) = line.split_once("http://").expect("it was waited for");
    let address = at.strip_suffix("/metrics").expect("a path").to_owned();
    let connect = || TcpStream::connect(&address).expect("it listens");
    let _silent: Vec<TcpStream> = (0..4).map(|_| connect()).collect();
    run.wait_for("ready");
    let end = Instant::now() + LIMIT;
    let answer = loop {
        let answer = get(connect(), "/metrics");
        if answer.contains("\nraidshmem_checkpoint_number 3\n") {
            break answer;
        }
        assert!(Instant::now() < end, "checkpoint 3 was expected in\n{answer}");
    };
    for words in [
        "HTTP/1.1 200 OK\r\n",
        "\nraidshmem_losses_total{kind=\"process\"} 1\n",
        "\nraidshmem_losses_total{kind=\"node\"} 0\n",
        "\nraidshmem_pes{state=\"running\"} 4\n",
        "\nraidshmem_recovery_seconds_count 1\n",
        ",mode=\"raid5\",",
        "\n# EOF\n",
    ] {
        assert!(answer.contains(words), "`{words}` was expected in\n{answer}");
    }
    assert!(get(connect(), "/").starts_with("HTTP/1.1 404 "));
    let_end(run).status(0);
}

/// The socket replaces a stale one left by a killed job, and is removed with the job.
#[test]
fn metrics_at_a_socket_leave_no_name() {
    let path = folder("socket").join("metrics");
    drop(UnixListener::bind(&path).expect("a name that is left"));
    let name = path.display().to_string();
    let job = Job::new(1).args(&["--metrics", &name]).program(&program("pause"), &[]).leaves("go");
    let run = job.until("ready");
    let answer = get(UnixStream::connect(&path).expect("it listens"), "/metrics");
    assert!(answer.contains("\nraidshmem_nodes 1\n"), "{answer}");
    let second = Job::of(&["-n1", "--metrics", &name, "true"]).run();
    second.status(2).says("oshrun: --metrics ").says(": Address already in use (os error 98)");
    let_end(run).status(0);
    assert!(!path.exists(), "its name is left");
}

#[test]
fn unwritable_files_are_refused_before_anything_starts() {
    let refused = |words: &[&str], line: &str| {
        Job::of(&["-n1"])
            .args(words)
            .args(&["sh", "-c", "echo started"])
            .run()
            .status(2)
            .says(line);
    };
    let expected = "expected a file that can be made, or be written to";
    refused(
        &["--report", "/no/run.json"],
        &format!(
            "oshrun: --report /no/run.json: No such file or \
        directory (os error 2): {expected}"
        ),
    );
    refused(
        &["--events", "/"],
        "oshrun: --events /: Is a directory (os error 21): expected a file",
    );
    let line = "oshrun: --metrics a\\nb: expected PORT, ADDRESS:PORT, or a path with a / in it";
    refused(&["--metrics", "a\nb"], line);
    refused(&["--metrics", "99999"], "oshrun: --metrics 99999: expected PORT, ");
}

#[test]
fn an_invalid_report_is_refused_in_one_line() {
    let folder = folder("refused");
    let refused = |content: Option<&str>, line: &str| {
        let path = folder.join("run.json");
        match content {
            Some(content) => std::fs::write(&path, content).expect("a file"),
            None => drop(std::fs::remove_file(&path)), // it may not exist
        }
        let name = path.display().to_string();
        let output = oshreport(&[&name]);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{err}");
        assert!(err.starts_with(&format!("oshreport: {name}: {line}")), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(!path.with_extension("html").exists(), "nothing is written");
    };
    refused(None, "No such file or directory");
    refused(Some(""), "empty; ");
    refused(Some("\u{0}ELF"), "not JSON: ");
    refused(Some("{}"), "not a report: ");
    refused(Some("{\"raidshmem_report\":7}"), "a report of version 7; expected version 1");
    refused(Some("{\"raidshmem_report\":1}"), "a report of version 1 that is damaged: missing ");
    for (path, why) in [
        ("/dev/zero", "longer than 256 MiB: expected a report"),
        ("/", "Is a directory (os error 21)"),
    ] {
        let output = oshreport(&[path]);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert_eq!(err, format!("oshreport: {path}: {why}\n"));
    }
    let bare = oshreport(&[]);
    let err = String::from_utf8_lossy(&bare.stderr).into_owned();
    assert_eq!((bare.status.code(), err.lines().count()), (Some(2), 1), "{err}");
    assert!(err.starts_with("oshreport: <REPORT> is missing; "), "{err}");
}
