//! Two snapshots in turns (`SHMEM_FT_SNAPSHOTS=2`): a loss at every step of a checkpoint and of the
//! recovery from one, damage, remote PEs, several threads, huge pages, and memory use.
//!
//! The program compares all of its memory after each restart. A second loss some checkpoints later
//! makes the rebuild use snapshots that were kept and carried over.

use std::fs::OpenOptions;
use std::mem::{offset_of, size_of};

use raidshmem_core::layout::TILE;
use raidshmem_segment::header::{Header, RegionRecord};

use super::support::image::{self, Image};
use super::support::{Job, Outcome, has_ucx, program};
use super::{RECOVERY, STEPS, right};

const MODES: [&str; 3] = ["raid4", "raid5", "rs"];

fn job(pes: usize, mode: &str, words: &str) -> Job {
    let words: Vec<&str> = words.split_whitespace().collect();
    Job::new(pes).mode(mode).env("SHMEM_FT_SNAPSHOTS", "2").args(&words)
}

fn sparse(job: Job, delta: &str) -> Outcome {
    let job = job.env("SHMEM_SYMMETRIC_SIZE", "16M").env("SHMEM_FT_DELTA", delta);
    job.program(&program("sparse"), &[]).run()
}

/// Rolls back to the last checkpoint, or forward to the one being made if every survivor has its
/// parity: then the dead PE may not have written its part of the others' snapshots.
fn a_loss_at_every_step_and_one_later(mode: &str) {
    for (index, step) in STEPS.into_iter().enumerate() {
        let [pe, later] = [0, 1].map(|more| (index + more) % 4);
        for (words, adopt) in [
            (format!("--kill {pe}@9:{step} --kill {later}@13"), "1"),
            (format!("--kill {pe}@8:{step} --kill {later}@12:copy"), "0"),
            (format!("--nodes 4 --kill-node {pe}@9:{step} --kill {later}@13"), "0"),
        ] {
            let job = job(4, mode, &words).env("SHMEM_FT_ADOPT", adopt);
            right(4, &sparse(job, if index % 2 == 0 { "off" } else { "auto" }));
        }
    }
}

of_each_mode!(a_loss_at_every_step_and_one_later: raid4 raid5 rs);

fn what_did_not_change_is_kept_carried_and_updated(of: &str) {
    let jobs = [(4, "raid5"), (6, "raid4"), (6, "raid5"), (7, "rs")].into_iter().enumerate();
    for (nth, (pes, mode)) in jobs.filter(|(_, (_, mode))| *mode == of) {
        for (index, step) in STEPS.into_iter().enumerate() {
            let (pe, later) = (index % pes, (index + 1) % pes);
            let (words, adopt) = match (nth + index) % 2 {
                0 => (format!("--kill {pe}@9:{step} --kill {later}@13"), "0"),
                _ => (format!("--nodes {pes} --kill-node {pe}@8:{step}"), "1"),
            };
            let track = if index % 2 == 0 { "pages" } else { "digests" };
            let job = job(pes, mode, &words).env("SHMEM_FT_ADOPT", adopt);
            right(pes, &sparse(job.env("SHMEM_FT_TRACK", track), "on"));
        }
    }
}

of_each_mode!(what_did_not_change_is_kept_carried_and_updated: raid4 raid5 rs);

#[test]
fn a_second_loss_at_every_step_of_a_recovery() {
    if !super::support::long() {
        return;
    }
    for (index, step) in RECOVERY.into_iter().enumerate() {
        let (pe, threads) = (index % 4, 1 + index % 3);
        let words = format!("--nodes 4 --kill-node 1@5:encode --kill-node {pe}@4:{step}");
        let rs = job(4, "rs", &words).env("SHMEM_FT_THREADS", &threads.to_string());
        right(4, &sparse(rs, "on"));
        let words = format!("--kill 1@5 --kill {pe}@4:{step}");
        right(4, &sparse(job(4, "raid5", &words), "auto"));
    }
}

/// A PE reachable only over a network copies for itself; of two PEs on a node one may copy for the
/// other.
#[test]
fn remote_pes() {
    if !has_ucx() {
        return;
    }
    if !super::support::long() {
        return;
    }
    for (index, step) in STEPS.into_iter().enumerate() {
        let threads = (1 + index % 2).to_string();
        let words = format!("--nodes 4 --fabric ucx --kill-node {}@9:{step}", index % 4);
        right(4, &sparse(job(4, "raid5", &words).env("SHMEM_FT_THREADS", &threads), "auto"));
        let words = format!("--nodes 3 --fabric ucx --kill-node {}@8:{step}", index % 3);
        right(6, &sparse(job(6, "rs", &words), "on"));
    }
}

#[test]
fn several_threads() {
    for (index, step) in STEPS.into_iter().enumerate() {
        let words = format!("--nodes 4 --kill-node {}@9:{step}", index % 4);
        let job = job(4, MODES[index % 3], &words).env("SHMEM_FT_THREADS", "3");
        right(4, &sparse(job, "off"));
    }
}

/// Four PEs with slightly more than 1 MiB: by the count of `starve.rs`, 7 MiB with one snapshot, 11
/// with two.
#[test]
fn the_second_one_counts() {
    let with = |snapshots: &str| {
        let job = Job::new(4).mode("raid5").env("SHMEM_SYMMETRIC_SIZE", "32M");
        let job = job.env("SHMEM_FT_SNAPSHOTS", snapshots).env("SHMEM_FT_MEMORY_LIMIT", "75M");
        let outcome = job.program(&program("large"), &["ask", "8"]).run();
        outcome.status(0);
        let refused = outcome.out.lines().filter(|line| line.contains("refused: ")).count();
        (refused, outcome.count("SHMEM_FT_MEMORY_LIMIT allows 75.0 MiB"))
    };
    assert_eq!(with("1").0, 0, "9 MiB of 4 PEs and 2/3 of that are 60 MiB");
    assert_eq!(with("2"), (4, 1), "and with 9 MiB more of each 96");
}

/// They are in huge pages like the rest, and no more of them than are kept.
#[test]
fn huge_pages() {
    if !super::support::long() {
        return;
    }
    if !super::support::huge_pages_are_free() {
        return;
    }
    const LIVE: u64 = 24 << 10;
    for words in ["", "--kill 1@2", "--nodes 4 --kill 2@2 --kill-node 0@3:copy"] {
        let job = job(4, "raid5", words).env("SHMEM_SYMMETRIC_SIZE", "64M");
        let outcome = job.program(&program("pages"), &[]).run();
        let lines = outcome.status(0).out.lines().filter(|line| line.starts_with("pages "));
        let kib = |line: &str| line.split_whitespace().nth(5).and_then(|kib| kib.parse().ok());
        let stores: Vec<u64> = lines.filter_map(kib).collect();
        outcome.check(stores.len() == 4, "a line of each PE");
        if raidshmem_sys::huge::HugeFiles::new().is_err() {
            super::support::partly("mounts", "no huge pages by a mount: only bytes are compared");
            continue;
        }
        // Two snapshots and two slots of a third, apart from the ends of the parts.
        let enough = |&kib: &u64| kib >= LIVE * 8 / 3 - 8192;
        outcome.check(stores.iter().all(enough), "huge pages everywhere");
    }
}

/// Runs a job with the loss of a node in checkpoint 4, and applies `damage` before it.
fn damaged(mode: &str, damage: impl FnOnce(&[Image])) -> Outcome {
    let job = job(4, mode, "--verbose --nodes 4 --kill-node 1@4:before");
    let mut job = job.env("SHMEM_FT_SCRUB", "off").program(&program("pause"), &[]).start();
    job.wait_for("ready");
    damage(&image::all(job.launcher()));
    drop(OpenOptions::new().write(true).open(job.folder().join("go")).expect("its fifo"));
    job.finish()
}

#[track_caller]
fn goes_on(outcome: &Outcome) {
    outcome.status(0).says("all PEs resume from checkpoint 3 ");
    let done = outcome.out.lines().filter(|line| line.ends_with(" is done")).count();
    outcome.check(done == 4, "every PE should finish");
}

/// Checkpoint 3 is in snapshot 1: the contents of the other do not matter, damage in this one is
/// found, and so is the other in its place, with its stamps and its record.
#[test]
fn only_the_agreed_one_is_believed() {
    let flip = |image: &Image, snapshot: usize| {
        let region = image.layout.snapshots[snapshot];
        (0..image.snapshot_len().div_ceil(TILE))
            .for_each(|tile| image.flip(image.place(region, tile, 99), 3));
    };
    let unrecoverable = "unrecoverable: group 0 lost PE 1, parity 1; not usable on PE 0";
    for mode in ["raid5", "rs"] {
        goes_on(&damaged(mode, |images| images.iter().for_each(|image| flip(image, 0))));
        let bad = damaged(mode, |images| flip(&images[0], 1));
        let swapped = damaged(mode, |images| {
            let (image, len) = (&images[0], images[0].layout.region_len / 64);
            let [old, new] = image.layout.snapshots;
            image.write(new, &image.read(old, len));
            image.write(image.layout.stamps(new), &image.read(image.layout.stamps(old), 4096));
        });
        let at = |nth: usize| offset_of!(Header, snapshots) + nth * size_of::<RegionRecord>();
        let claimed = damaged(mode, |images| {
            let image = &images[0];
            let record = image.read(image.layout.store + at(0), size_of::<RegionRecord>());
            image.write(image.layout.store + at(1), &record);
        });
        if mode == "raid5" {
            // The error names the problem: a damaged tile, or a record of another checkpoint.
            let (tile, part) = ("a tile of PE 0 does not match", "PE 0 has only a part of the ");
            bad.says(tile).check(bad.count(part) == 0, part);
            claimed.says(part).check(claimed.count(tile) == 0, tile);
        }
        for outcome in [bad, swapped, claimed] {
            match mode {
                "rs" => goes_on(&outcome),
                _ => outcome.check(outcome.same_verdict() == unrecoverable, unrecoverable),
            }
        }
    }
}
