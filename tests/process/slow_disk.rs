//! Disks that are slower than checkpoints, and a disk that hangs: sets are complete anyway, or a
//! line gives the reason why a set is missing, and no PE waits.

use std::path::PathBuf;
use std::process::Command;

use raidshmem_core::layout::TILE;
use raidshmem_report::event::{Event, What};
use raidshmem_report::words::bytes;

use super::disk::{LONG, Store, ask_to_stop};
use super::support::jacobi;
use super::support::{Job, Running, mounts, program, sample, sample_long, skip};

/// A run of seconds, on any machine.
const LONGER: &[&str] = &["--bytes", "2M", "--sweeps", "32768", "--halo", "16"];

/// Returns a job with a checkpoint every few milliseconds, which takes many times as long to write.
fn slow(store: &Store, words: &[&str]) -> Job {
    let job = store.job("raid5", words).env("SHMEM_FT_INTERVAL", "0.02");
    job.env("SHMEM_FT_STORE_RATE", "3M")
}

#[test]
fn sets_are_complete_though_checkpoints_outpace_the_disk() {
    // Writing a set takes several checkpoint intervals.
    let cases = vec![
        ("", "shared", "1", "8M"),
        ("--nodes 2", "local", "1", "4M"),
        ("--nodes 2", "shared", "2", "4M"),
    ];
    for (words, layout, snapshots, rate) in sample_long(cases, 1, 2) {
        let store = Store::new();
        let local = |job: Job| job.env("SHMEM_FT_STORE_LAYOUT", layout);
        // On a busy machine an agent may be a moment late, twice in a row.
        let job = local(slow(&store, &[]).words(words)).env("SHMEM_FT_INTERVAL", "0.1");
        let job = job.env("SHMEM_FT_SNAPSHOTS", snapshots).env("SHMEM_FT_STORE_RATE", rate);
        let run = jacobi::job(job, LONGER).with_orphans().until("spilled to memory");
        let outcome = run.kill();
        outcome.check(!outcome.err.contains("is not on disk"), "no set was to be given up");
        assert!(store.oshinfo(&["--verify"]).status.success(), "{words}");
        let job = store.resume(&[]).words(words);
        jacobi::job(local(job), LONGER).run().right_sum(LONGER);
    }
}

/// Checkpoints in a tight loop, each overwritten before the launcher could order it.
#[test]
fn a_job_that_only_makes_checkpoints_writes_sets() {
    let store = Store::new();
    let words = ["--bytes", "64K", "--sweeps", "100000000", "--halo", "1"];
    let mut run = jacobi::job(store.job("raid5", &["--nodes", "2"]), &words).with_orphans().start();
    for _ in 0..5 {
        run.wait_for("spilled to memory");
    }
    let outcome = run.kill();
    outcome.check(!outcome.err.contains("is not on disk"), "no set was to be given up");
    assert!(store.oshinfo(&["--verify"]).status.success());
}

/// If a PE is lost during a write, that set is dropped, and the next checkpoint is written instead.
#[test]
fn losses_while_tiles_are_aside_leave_only_whole_sets() {
    for rule in sample(vec!["1@40:encode", "2@41:copy", "3@42:quiesce"], 1) {
        let store = Store::new();
        let job = slow(&store, &["--nodes", "2", "--kill", rule]);
        let mut run = jacobi::job(job, LONG).with_orphans().until("all PEs resume from");
        for _ in 0..2 {
            run.wait_for("spilled to memory");
        }
        run.kill();
        assert!(store.oshinfo(&["--verify"]).status.success(), "{rule}");
        jacobi::job(store.resume(&[]), LONG).run().right_sum(LONG);
    }
}

#[test]
fn a_set_too_large_for_memory_is_one_line_that_names_the_setting() {
    needs!(long);
    let store = Store::new();
    let job = slow(&store, &[]).env("SHMEM_FT_STORE_MEMORY", "64K");
    let outcome = jacobi::job(job.env("SHMEM_FT_STORE_RATE", "1M"), LONG).run();
    outcome.right_sum(LONG).says("twice in a row; a larger SHMEM_FT_STORE_MEMORY, ");
    outcome.check(outcome.count("is not on disk: ") == 1, "one line was expected");
}

/// The line of a set, its event and the job's last lines report the same tiles. Each node, with one
/// PE, spills no more than its limit: half of its memory is for reading ahead.
#[test]
fn spilled_bytes_are_reported_everywhere_and_bounded() {
    let store = Store::new();
    let job = slow(&store, &["--nodes", "4", "--events", "-"]);
    let run =
        jacobi::job(job.env("SHMEM_FT_STORE_MEMORY", "1M"), LONGER).until("spilled to memory");
    assert!(ask_to_stop(run.launcher()).status.success());
    let outcome = run.finish();
    outcome.status(75);
    let lines = outcome.out.lines().filter(|line| line.starts_with('{'));
    let events = lines.map(|line| serde_json::from_str::<Event>(line).expect(line));
    let of_set = |event: Event| match event.what {
        What::Stored { place, spill, .. } => Some((place, spill)),
        _ => None,
    };
    let sets: Vec<(String, u64)> = events.filter_map(of_set).collect();
    for (place, spill) in &sets {
        let said = outcome.err.lines().find(|line| line.contains(&format!(": {place}, ")));
        let told = format!(", {} spilled to memory", bytes(*spill));
        let is_told = said.is_some_and(|line| line.ends_with(&told));
        outcome.check(is_told == (*spill > 0), &format!("{place} has {spill} bytes"));
        let limit = 4 * (1 << 20) / 2;
        outcome.check(spill % TILE as u64 == 0 && *spill <= limit, "whole tiles, within bounds");
    }
    let most = sets.iter().map(|&(_, spill)| spill).max().unwrap_or_default();
    outcome.check(most > 0, "a set with spilled tiles was expected");
    outcome.says(&format!("; up to {} more in total for checkpoints on disk", bytes(most)));
}

/// A file system whose writes do not return while it is frozen: not even a kill ends a waiting
/// process. It is mounted only for this thread and its children.
struct Hanging {
    store: Store,
    image: PathBuf,
    /// The number of its mount.
    mount: Option<u64>,
}

impl Hanging {
    /// Returns `None` if it cannot be mounted.
    fn new() -> Option<Hanging> {
        mounts::leave_the_machine().ok()?;
        let store = Store::new();
        let image = store.0.with_extension("image");
        let mut hanging = Hanging { store, image, mount: None };
        let (file, folder) = (hanging.image.display(), hanging.place());
        let mount = mounts::mount(&format!("-o loop {file}"), &folder);
        let folder = folder.display();
        let made = hanging.sh(&format!(
            "truncate -s 64M {file} && mkfs.ext4 -q -F {file} && {mount} && \
             fsfreeze -f {folder} && fsfreeze -u {folder}"
        ));
        hanging.mount = mounts::id(&hanging.place()).filter(|_| made);
        hanging.mount.is_some().then_some(hanging)
    }

    fn place(&self) -> PathBuf {
        self.store.0.canonicalize().expect("it is there")
    }

    fn sh(&self, commands: &str) -> bool {
        let output = Command::new("/bin/sh").args(["-c", commands]).output();
        output.is_ok_and(|output| output.status.success())
    }

    /// Runs `command` on it, if it is mounted: otherwise the machine's file system would be frozen.
    fn with(&self, command: &str) -> bool {
        let is_there = self.mount.is_some() && mounts::id(&self.place()) == self.mount;
        is_there && self.sh(&format!("{command} {}", self.store.text()))
    }

    fn freeze(&self) {
        assert!(self.with("fsfreeze -f"), "it freezes");
    }

    fn thaw(&self) {
        self.with("fsfreeze -u");
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.thaw();
        if !self.with("umount") {
            self.with("umount -l");
        }
        let _ = std::fs::remove_file(&self.image);
    }
}

/// Waits for the end of a job whose disk hangs: its output is closed, although an agent still
/// exists.
fn ends(mut run: Running, disk: &Hanging) -> super::support::Outcome {
    assert!(run.line_or_end("no line has these words").is_none());
    while run.is_alive() {
        std::thread::yield_now();
    }
    assert!(!run.processes().is_empty(), "an agent waits for the disk");
    disk.thaw();
    run.finish()
}

#[test]
fn a_hanging_disk_is_a_warning_and_delays_no_process() {
    needs!(long);
    let Some(disk) = Hanging::new() else {
        return skip("loop-devices", "no file system can be made to be frozen");
    };
    let job = disk.store.job("raid5", &["--nodes", "2"]).env("SHMEM_FT_INTERVAL", "0.05");
    let mut run = job.program(&program("steps"), &[]).with_orphans().until("set-1,");
    disk.freeze();
    run.wait_for("its disk has not answered for 20 s");
    run.stop();
    let outcome = ends(run, &disk);
    outcome.status(0).check(outcome.count("is not on disk: ") == 1, "one line was expected");
}

/// The job is over before the hang is noticed.
#[test]
fn a_job_whose_disk_hangs_ends_as_it_would() {
    needs!(long);
    let Some(disk) = Hanging::new() else {
        return skip("loop-devices", "no file system can be made to be frozen");
    };
    let job = disk.store.job("raid5", &["--nodes", "2"]);
    let run = jacobi::job(job, LONG).with_orphans().until("set-1,");
    disk.freeze();
    ends(run, &disk).right_sum(LONG);
    // The next set removes the unfinished one.
    jacobi::job(disk.store.job("raid5", &[]), LONG).run().right_sum(LONG);
    let names = disk.store.names();
    assert!(!names.iter().any(|name| name.ends_with(".part")), "{names:?}");
}
