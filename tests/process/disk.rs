//! Checkpoints on disk: a job that was killed completely restarts from them, a set that does not
//! fit is refused with one line, and a failing disk only produces a warning.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::support::jacobi::{self, SMALL, sum};
use super::support::processes::signal;
use super::support::schema::conforms;
use super::support::{Job, Outcome, mounts, program, sample, skip};

/// Some 510 checkpoints of half a MiB per PE: several sets are written, even on a busy machine.
pub(super) const LONG: &[&str] = &["--bytes", "2M", "--sweeps", "8192", "--halo", "16"];

/// Makes no checkpoint, since PE 0 is stopped before the first.
const STANDS: &str = "stop:0@1:before";

/// A folder for sets, removed when dropped.
pub(super) struct Store(pub(super) PathBuf);

impl Store {
    pub(super) fn new() -> Store {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("store-{}-{number}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).expect("a folder for sets");
        Store(folder)
    }

    pub(super) fn text(&self) -> &str {
        self.0.to_str().expect("a plain name")
    }

    pub(super) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder is there").flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().into_string().expect("a plain name")).collect();
        names.sort();
        names
    }

    /// Returns the newest set.
    pub(super) fn newest(&self) -> (u64, PathBuf) {
        let number = |name: &String| name.strip_prefix("set-")?.parse::<u64>().ok();
        let newest = self.names().iter().filter_map(number).max().expect("a set");
        (newest, self.0.join(format!("set-{newest}")))
    }

    /// Returns a job that writes every checkpoint here.
    pub(super) fn job(&self, mode: &str, words: &[&str]) -> Job {
        let job = Job::new(4).mode(mode).args(&["--verbose"]).args(words);
        job.env("SHMEM_FT_STORE", self.text()).env("SHMEM_FT_STORE_EVERY", "1")
    }

    /// Returns a job that restarts from here, and writes nothing.
    pub(super) fn resume(&self, words: &[&str]) -> Job {
        Job::new(4).mode("raid5").args(&["--resume", self.text()]).args(words)
    }

    /// Runs a job that restarts from that set, in any case.
    fn resume_set(&self, number: u64) -> Outcome {
        let exact = format!("{}@{number}", self.text());
        jacobi::job(Job::new(4).mode("raid5").args(&["--resume", &exact]), LONG).run()
    }

    /// Runs a job that writes sets here, each of which can be damaged or deleted by itself, and
    /// kills all of it.
    fn fill(&self, words: &[&str]) {
        let job = self.job("raid5", words).env("SHMEM_FT_STORE_INCREMENTAL", "0");
        let run = jacobi::job(job, LONG).with_orphans().until("set-2,");
        run.kill();
    }

    /// Returns the folder that acts as the disk of a node.
    pub(super) fn node(&self, node: usize) -> PathBuf {
        self.0.join(format!("node-{node}"))
    }

    /// Returns the sets on the disk of a node.
    pub(super) fn sets_of(&self, node: usize) -> BTreeSet<u64> {
        let entries = fs::read_dir(self.node(node)).expect("a disk").flatten();
        let number = |name: String| name.strip_prefix("set-")?.parse().ok();
        let names = entries.map(|entry| entry.file_name().into_string().expect("a plain name"));
        names.filter_map(number).collect()
    }

    /// Runs `oshinfo store` on a set, or on all, in this folder; returns its status, and what it
    /// writes to standard output and error.
    pub(super) fn oshinfo_of(&self, given: &str, words: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oshinfo"));
        command.args(["store", given]).args(words).current_dir(&self.0);
        let output = command.output().expect("oshinfo runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    pub(super) fn oshinfo(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oshinfo"));
        command.arg("store").args(words).arg(&self.0).output().expect("oshinfo runs")
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Flips a bit in the last tile of a file; a second call restores it.
pub(super) fn flip_last(file: &Path) {
    let mut bytes = fs::read(file).expect("a file");
    *bytes.last_mut().expect("bytes") ^= 1;
    fs::write(file, bytes).expect("written");
}

#[test]
fn a_job_that_was_killed_whole_begins_again_with_the_right_sum() {
    let cases = vec![("", "--nodes 2"), ("--nodes 2", ""), ("--nodes 4", "--mode rs")];
    for (words, again) in sample(cases, 1) {
        let split = |words: &'static str| words.split_whitespace().collect::<Vec<&str>>();
        let store = Store::new();
        store.fill(&split(words));
        let outcome = jacobi::job(store.resume(&split(again)), LONG).run();
        outcome.right_sum(LONG).says("oshrun: begins from set ").says("all PEs resume from");
    }
}

/// One job to a user, in two parts: the PEs' output in the first is kept.
#[test]
fn files_of_output_continue_where_a_job_resumes() {
    let store = Store::new();
    store.fill(&[]);
    let logs = store.0.with_extension("logs");
    fs::create_dir_all(&logs).expect("a folder");
    let log = |pe: usize| logs.join(format!("pe-{pe}.log"));
    (0..4).for_each(|pe| fs::write(log(pe), "of the first part\n").expect("a file"));
    let words = ["--output", logs.to_str().expect("a plain name")];
    jacobi::job(store.resume(&words), LONG).run().status(0);
    let text = |pe| fs::read_to_string(log(pe)).expect("its file");
    assert!((0..4).all(|pe| text(pe).starts_with("of the first part\n")));
    assert!(text(0).lines().count() > 1, "{}", text(0));
    let job = Job::new(4).mode("raid5").args(&words);
    jacobi::job(job, LONG).run().status(0);
    assert!((0..4).all(|pe| !text(pe).contains("of the first part")), "another job begins them");
    fs::remove_dir_all(logs).expect("it was made");
}

/// A job restarted from disk tolerates losses like any other, even before all PEs have restarted,
/// and before its first checkpoint is made.
#[test]
fn a_resumed_job_survives_losses() {
    needs!(long);
    let store = Store::new();
    store.fill(&[]);
    let (number, _) = store.newest();
    let at = |point: &str| format!("2@{number}:{point}");
    for rule in [at("verify"), at("restore"), at("reencode"), format!("1@{}:encode", number + 1)] {
        let job = store.resume(&["--kill", &rule]);
        jacobi::job(job, LONG).run().right_sum(LONG).says("PE ");
    }
}

#[test]
fn killed_and_resumed_until_it_is_through() {
    let store = Store::new();
    store.fill(&[]);
    for more in 1..5 {
        // The folder for the next set is left at a different step of its creation each time.
        let (number, _) = store.newest();
        let job = store.job("raid5", &["--resume", store.text()]);
        let job = job.env("SHMEM_FT_STORE_INCREMENTAL", "0");
        let mut run = jacobi::job(job, LONG).with_orphans().start();
        if run.line_or_end(&format!("set-{},", number + more)).is_none() {
            run.finish().right_sum(LONG); // it had already ended
            break;
        }
        run.kill();
        let names = store.names();
        let parts = names.iter().filter(|name| name.ends_with(".part")).count();
        assert!(parts <= 1 && names.len() <= 4, "{names:?}");
    }
    jacobi::job(store.resume(&[]), LONG).run().right_sum(LONG);
    assert!(store.oshinfo(&["--prune", "1"]).status.success());
    let names = store.names();
    assert!(names.len() == 1 && names[0].starts_with("set-"), "{names:?}");
}

/// Fails unless the job was refused with status 2 and one line that contains `text`.
#[track_caller]
pub(super) fn refused(outcome: &Outcome, text: &str) {
    outcome.status(2).says(text);
    outcome.check(outcome.count(text) == 1 && sum(&outcome.out).is_none(), "one line was expected");
}

/// Only the newest set that is intact to its last byte is used; a set given by name is used as
/// such.
#[test]
fn a_damaged_byte_in_the_newest_set_takes_the_previous_one() {
    let store = Store::new();
    store.fill(&[]);
    let (number, set) = store.newest();
    flip_last(&set.join("pe-2"));
    let outcome = jacobi::job(store.resume(&[]), LONG).run();
    outcome.right_sum(LONG).says(&format!("set {number} is skipped: "));
    outcome.says("pe-2: damaged: the checksum of tile").says("oshrun: begins from set ");
    refused(&store.resume_set(number), "pe-2: damaged: the checksum of tile");
}

#[test]
fn mismatches_are_refused_with_one_line() {
    needs!(long);
    let store = Store::new();
    refused(&jacobi::job(store.resume(&[]), LONG).run(), "there is no complete checkpoint");
    store.fill(&[]);
    let (number, set) = store.newest();
    let resume = |pes: usize, given: &str, mode: &str| {
        let job = Job::new(pes).mode(mode).args(&["--resume", given]);
        jacobi::job(job, LONG).run()
    };
    let text = store.text();
    refused(&resume(3, text, "raid5"), &format!("set {number} is of 4 PEs; expected -n 4"));
    refused(&resume(4, &format!("{text}@999"), "raid5"), "@999: expected @");
    refused(&resume(4, &format!("{text}x"), "raid5"), "No such file");
    refused(&resume(4, text, "none"), "expected --mode double, raid4, raid5 or rs, not none");
    refused(&resume(4, text, "single"), "raid5 or rs, not single");
    let other = store.resume(&[]).program(&program("steps"), &[]).run();
    refused(&other, "was written by another build of the program");
    // A tile with a changed byte, a truncated file, a link, the file of another PE.
    let (file, bytes) = (set.join("pe-2"), fs::read(set.join("pe-2")).expect("a file"));
    let last = bytes.len() - 1;
    flip_last(&file);
    refused(&store.resume_set(number), "pe-2: damaged: the checksum of tile");
    fs::write(&file, &bytes[..last]).expect("written");
    refused(&store.resume_set(number), "pe-2: cut short");
    let older = resume(4, text, "raid5");
    older.right_sum(LONG).says(&format!("set {number} is skipped: "));
    fs::copy(set.join("pe-1"), &file).expect("copied");
    refused(&store.resume_set(number), "pe-2: it belongs to another set");
    fs::remove_file(&file).expect("removed");
    std::os::unix::fs::symlink(set.join("pe-1"), &file).expect("a link");
    refused(&store.resume_set(number), "pe-2: ");
    fs::remove_file(&file).expect("removed");
    fs::write(&file, &bytes).expect("written");
    store.resume_set(number).right_sum(LONG);
    fs::write(set.join("manifest"), "RAIDSETM").expect("written");
    refused(&store.resume_set(number), "manifest: cut short");
}

#[test]
fn a_folder_that_cannot_be_had_and_a_mode_without_copies_are_refused() {
    let job = |store: &str, mode: &str| {
        let job = Job::new(2).mode(mode).env("SHMEM_FT_STORE", store);
        jacobi::job(job, SMALL).run()
    };
    refused(&job("/proc/nothing/here", "raid5"), "SHMEM_FT_STORE=/proc/nothing/here: ");
    for mode in ["none", "single"] {
        refused(&job("x", mode), "expected the mode double, raid4, raid5 or rs, since");
    }
}

/// Disks that fail: the job continues, with one warning.
#[test]
fn a_disk_that_is_full_or_cannot_be_written_to_is_a_warning() {
    needs!(long);
    if !rustix::process::getuid().is_root() {
        return skip("root", "not root");
    }
    for (options, cause) in [("size=300k", "No space left"), ("ro", "Read-only file system")] {
        let store = Store::new();
        let place = store.0.canonicalize().expect("it is there");
        let mount = mounts::mount(&format!("-t tmpfs -o {options} none"), &place);
        let mount = mounts::privately(&format!("{mount} || exit {}", mounts::NOT_ALONE));
        // Time to read a checkpoint before the next: otherwise it may be abandoned unwritten.
        let job = store.job("raid5", &["--nodes", "2"]).env("SHMEM_FT_INTERVAL", "0.5");
        let outcome = jacobi::job(job, LONG).after(&mount).run();
        if outcome.status == mounts::NOT_ALONE {
            return skip("mounts", "no file system of its own can be mounted");
        }
        outcome.right_sum(LONG).says("is not on disk: node ").says(cause);
        outcome.check(outcome.count("is not on disk: ") == 1, "one line was expected");
        // The first checkpoint, of an empty heap, may fit.
        outcome.check(outcome.count(" is on disk: ") <= 1, "no set of data was expected");
    }
}

#[test]
fn a_disk_that_vanishes_is_a_warning() {
    for layout in ["shared", "local"] {
        let store = Store::new();
        let gone = store.0.with_extension("gone");
        let job = store.job("raid5", &["--nodes", "2"]).env("SHMEM_FT_STORE_LAYOUT", layout);
        let run = jacobi::job(job.env("SHMEM_FT_INTERVAL", "0.5"), LONG).until("set-1,");
        fs::rename(&store.0, &gone).expect("it goes");
        fs::write(&store.0, "").expect("something else stands there");
        let outcome = run.finish();
        outcome.right_sum(LONG).says("is not on disk: node ");
        outcome.check(outcome.count("is not on disk: ") == 1, "one line was expected");
        fs::remove_file(&store.0).expect("removed");
        fs::remove_dir_all(&gone).expect("removed");
    }
}

/// Some 32 KiB at 64 KiB/s: a busy machine can only take longer.
#[test]
fn a_node_writes_no_faster_than_its_rate() {
    let store = Store::new();
    let job = store.job("raid5", &[]).env("SHMEM_FT_INTERVAL", "0.05");
    let job = job.env("SHMEM_FT_STORE_RATE", "64K").program(&program("steps"), &[]);
    let mut run = job.until("set-2,");
    let begun = Instant::now();
    run.wait_for("set-3,");
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(300), "{took:?}");
    run.end().status(0);
    // At this rate a set takes at least 16 seconds: the job ends before that, and removes it.
    let store = Store::new();
    let job = store.job("raid5", &[]).env("SHMEM_FT_STORE_RATE", "64K");
    jacobi::job(job, SMALL).run().right_sum(SMALL);
    assert!(!store.names().iter().any(|name| name.ends_with(".part")), "{:?}", store.names());
}

#[test]
fn sets_are_kept_listed_checked_and_deleted() {
    let store = Store::new();
    let job = store.job("rs", &[]).env("SHMEM_FT_STORE_KEEP", "3");
    let job = job.env("SHMEM_FT_STORE_INCREMENTAL", "0");
    let outcome = jacobi::job(job, LONG).run();
    outcome.right_sum(LONG);
    let sets = outcome.count(" is on disk: ").min(3);
    outcome.check(sets > 1, "several sets were expected");
    let names = store.names();
    assert!(names.len() == sets && names.iter().all(|it| it.starts_with("set-")), "{names:?}");
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let listed = store.oshinfo(&["--verify"]);
    assert!(listed.status.success(), "{listed:?}");
    assert_eq!(text(&listed).matches("4 PEs").count(), sets);
    assert_eq!(text(&listed).matches("  whole  ").count(), sets);
    let (number, set) = store.newest();
    let json = conforms("store", &store.oshinfo(&["--json"]).stdout);
    assert_eq!((&json["sets"][0]["set"], &json["sets"][0]["pes"]), (&number.into(), &4.into()));
    let file = set.join("pe-0");
    flip_last(&file);
    let damaged = store.oshinfo(&["--verify"]);
    assert_eq!(damaged.status.code(), Some(1));
    assert!(text(&damaged).contains("not whole: ") && text(&damaged).contains("pe-0: damaged"));
    assert!(store.oshinfo(&[]).status.success(), "its manifest holds");
    let pruned = store.oshinfo(&["--prune", "1"]);
    assert_eq!((pruned.status.code(), store.names()), (Some(0), vec![format!("set-{number}")]));
    assert_eq!(text(&pruned).matches(" deleted").count(), sets - 1);
    for words in [&["--prune", "x"][..], &["--no"]] {
        let output = store.oshinfo(words);
        let lines = String::from_utf8_lossy(&output.stderr).lines().count();
        assert_eq!((output.status.code(), lines), (Some(2), 1), "{output:?}");
    }
}

/// The store is smaller, and a job restarts from it. The next one may write uncompressed.
#[test]
fn compressed_sets_are_smaller_and_hold() {
    needs!(long);
    let store = Store::new();
    let job = store.job("raid5", &["--nodes", "2"]).env("SHMEM_FT_STORE_COMPRESS", "3");
    let job = job.env("SHMEM_FT_STORE_INCREMENTAL", "0");
    let mut run = jacobi::job(job, LONG).with_orphans().start();
    let line = run.wait_for("set-2,");
    assert!(line.contains(" compressed from "), "{line}");
    run.kill();
    let listed = store.oshinfo(&["--verify"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.status.success() && text.contains(" compressed from "), "{text}");
    let json = conforms("store", &store.oshinfo(&["--json"]).stdout);
    let number = |name: &str| json["sets"][0][name].as_u64().expect("a number");
    let (set, folder) = store.newest();
    let files = (0..4).map(|pe| folder.join(format!("pe-{pe}")));
    let files: u64 = files.map(|file| fs::metadata(file).expect("a file").len()).sum();
    assert_eq!((number("set"), number("bytes")), (set, files));
    // The saving depends on the arrays' progress: doubles that differ hardly shrink.
    assert!(files < number("raw"), "{files} of {}", number("raw"));
    // A tile with a flipped bit is refused; if a file is truncated, the previous set is used.
    let file = folder.join("pe-3");
    let mut bytes = fs::read(&file).expect("a file");
    let middle = bytes.len() - bytes.len() / 4;
    bytes[middle] ^= 4;
    fs::write(&file, &bytes).expect("written");
    refused(&store.resume_set(set), "pe-3: damaged: the checksum of tile");
    fs::write(&file, &bytes[..middle]).expect("written");
    let words = ["--resume", store.text()];
    let outcome = jacobi::job(store.job("raid5", &words), LONG).run();
    outcome.right_sum(LONG).says(&format!("set {set} is skipped: "));
    outcome.check(!outcome.err.contains(" compressed from "), "it was not asked to");
    assert!(store.oshinfo(&["--verify", "--prune", "1"]).status.success());
}

pub(super) fn ask_to_stop(job: u32) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oshrun"));
    command.args(["--stop", &job.to_string()]).output().expect("oshrun runs")
}

#[test]
fn a_job_that_is_asked_to_stop_can_continue() {
    for ask in sample(vec!["TERM", "USR1", "--stop"], 1) {
        let store = Store::new();
        let words: &[&str] = if ask == "USR1" { &["--stop-signal", "USR1"] } else { &[] };
        let job = store.job("raid5", words).env("SHMEM_FT_STORE_EVERY", "1000000");
        let run = jacobi::job(job, LONG).until("checkpoint 3: ");
        match ask {
            "TERM" => run.signal(Signal::TERM),
            "USR1" => run.signal(Signal::USR1),
            _ => assert!(ask_to_stop(run.launcher()).status.success()),
        }
        let outcome = run.finish();
        outcome.status(75).says("stopped on request, with checkpoint ");
        let (number, _) = store.newest();
        assert_eq!((number, store.names().len()), (1, 1), "one set, and nothing else");
        jacobi::job(store.resume(&[]), LONG).run().right_sum(LONG);
    }
}

/// A batch system sends its signal to the processes of every node. The program asks in each step
/// whether it should stop, or calls a checkpoint that is not due.
#[test]
fn agents_pass_on_the_signal_that_asks_for_a_stop() {
    needs!(long);
    for (kind, words) in [("stops", ["--stop-signal", "USR1"]), ("long", ["--nodes", "2"])] {
        let store = Store::new();
        let with = |words: &[&str]| Job::new(2).mode("raid5").args(words);
        let program = |job: Job| {
            let job = job.env("SHMEM_FT_INTERVAL", "1000").env("SHMEM_FT_STORE", store.text());
            job.program(&program("interval"), &[kind, "2000"])
        };
        let job = program(with(&words)).env("SHMEM_FT_STORE_EVERY", "1000000");
        let run = job.until("goes on");
        let asks = if kind == "stops" { Signal::USR1 } else { Signal::TERM };
        run.agents().iter().for_each(|agent| signal(agent.pid, asks));
        let outcome = run.finish();
        outcome.status(75).says("the job stops after its next checkpoint");
        outcome.says("stopped on request, with checkpoint ");
        let again = program(with(&["--resume", store.text()])).run();
        again.status(0).check(again.out.contains("right: "), "a right sum was expected");
    }
}

#[test]
fn a_second_signal_to_an_agent_ends_it_at_once() {
    let store = Store::new();
    let job = store.job("raid5", &["--nodes", "2"]).env("SHMEM_FT_INJECT", STANDS);
    let mut run = job.program(&program("steps"), &[]).until("PE 0 is process ");
    let agent = run.agents()[1].pid;
    signal(agent, Signal::TERM);
    run.wait_for("stops after its next checkpoint");
    while run.is_alive() {
        signal(agent, Signal::TERM); // for a second it has the same effect
        std::thread::yield_now();
    }
    run.finish().status(143).says("stopped by SIGTERM");
}

#[test]
fn a_second_signal_ends_it_at_once_and_without_a_store_there_is_no_stop() {
    let store = Store::new();
    let job = store.job("raid5", &[]).env("SHMEM_FT_INJECT", STANDS);
    let mut run = job.program(&program("steps"), &[]).until("PE 0 is process ");
    run.signal(Signal::TERM);
    run.wait_for("stops after its next checkpoint");
    run.signal(Signal::TERM);
    run.finish().status(143).says("stopped by SIGTERM");
    let job = Job::new(2).mode("raid5").program(&program("steps"), &[]);
    let run = job.until("ready");
    let output = ask_to_stop(run.launcher());
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && line.contains("this job has no SHMEM_FT_STORE"));
    run.end().status(0);
}
