//! Two snapshots in turns (`SHMEM_FT_SNAPSHOTS=2`): a loss at every step of a checkpoint and of the
//! recovery from one, damage, remote PEs, several threads, huge pages, and memory use.
//!
//! The program compares all of its memory after each restart. A second loss some checkpoints later
//! makes the rebuild use snapshots that were kept and carried over.

use std::mem::{offset_of, size_of};

use raidshmem_core::layout::TILE;
use raidshmem_segment::header::{Header, RegionRecord};

use super::sparse;
use super::support::image::{self, Image};
use super::support::stall::let_end;
use super::support::{Job, Outcome, STEPS, program};

/// Rolls back to the last checkpoint, or forward to the one being made if every survivor has its
/// parity: then the dead PE may not have written its part of the others' snapshots.
fn a_loss_at_every_step_and_one_later(mode: &str) {
    sparse(
        &format!("--mode {mode} SHMEM_FT_SNAPSHOTS=2 SHMEM_FT_DELTA={{off,auto}}"),
        &[
            "SHMEM_FT_ADOPT=1 --kill {0,1,2,3}@9:{checkpoint} --kill {1,2,3,0}@13",
            "SHMEM_FT_ADOPT=0 --kill {0,1,2,3}@8:{checkpoint} --kill {1,2,3,0}@12:copy",
            "SHMEM_FT_ADOPT=0 --nodes 4 --kill-node {0,1,2,3}@9:{checkpoint} --kill {1,2,3,0}@13",
        ],
    );
}

of_each_mode!(a_loss_at_every_step_and_one_later: raid4 raid5 rs);

fn what_did_not_change_is_kept_carried_and_updated(of: &str) {
    let jobs = [(4, "raid5"), (6, "raid4"), (6, "raid5"), (7, "rs")].into_iter().enumerate();
    for (nth, (pes, mode)) in jobs.filter(|(_, (_, mode))| *mode == of) {
        for (index, step) in STEPS.into_iter().enumerate() {
            let (pe, later) = (index % pes, (index + 1) % pes);
            let row = match (nth + index) % 2 {
                0 => format!("SHMEM_FT_ADOPT=0 --kill {pe}@9:{step} --kill {later}@13"),
                _ => format!("SHMEM_FT_ADOPT=1 --nodes {pes} --kill-node {pe}@8:{step}"),
            };
            let track = if index % 2 == 0 { "pages" } else { "digests" };
            let begin = format!("-n {pes} --mode {mode} SHMEM_FT_TRACK={track}");
            sparse(&begin, &[&format!("SHMEM_FT_SNAPSHOTS=2 SHMEM_FT_DELTA=on {row}")]);
        }
    }
}

of_each_mode!(what_did_not_change_is_kept_carried_and_updated: raid4 raid5 rs);

#[test]
fn a_second_loss_at_every_step_of_a_recovery() {
    needs!(long);
    sparse(
        "SHMEM_FT_SNAPSHOTS=2",
        &[
            "--mode rs SHMEM_FT_DELTA=on SHMEM_FT_THREADS={1,2,3} --nodes 4 \
             --kill-node 1@5:encode --kill-node {0,1,2,3}@4:{recovery}",
            "--mode raid5 SHMEM_FT_DELTA=auto --kill 1@5 --kill {0,1,2,3}@4:{recovery}",
        ],
    );
}

/// A PE reachable only over a network copies for itself; of two PEs on a node one may copy for the
/// other.
#[test]
fn remote_pes() {
    needs!(has_ucx, long);
    let four = "--mode raid5 --nodes 4 SHMEM_FT_DELTA=auto SHMEM_FT_THREADS={1,2}";
    let six = "-n 6 --mode rs --nodes 3 SHMEM_FT_DELTA=on";
    let row =
        |of: &str| format!("SHMEM_FT_SNAPSHOTS=2 --fabric ucx --kill-node {of}:{{checkpoint}}");
    sparse(four, &[&row("{0,1,2,3}@9")]);
    sparse(six, &[&row("{0,1,2}@8")]);
}

#[test]
fn several_threads() {
    let settings = "SHMEM_FT_SNAPSHOTS=2 SHMEM_FT_DELTA=off SHMEM_FT_THREADS=3";
    sparse(settings, &["--mode {raid4,raid5,rs} --nodes 4 --kill-node {0,1,2,3}@9:{checkpoint}"]);
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
    needs!(long, huge_pages_are_free);
    const LIVE: u64 = 24 << 10;
    for words in ["", "--kill 1@2", "--nodes 4 --kill 2@2 --kill-node 0@3:copy"] {
        let job = Job::line(words).mode("raid5").env("SHMEM_FT_SNAPSHOTS", "2");
        let job = job.env("SHMEM_SYMMETRIC_SIZE", "64M");
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
    let line = "SHMEM_FT_SNAPSHOTS=2 SHMEM_FT_SCRUB=off --verbose --nodes 4 --kill-node 1@4:before";
    let job = Job::line(line).mode(mode).program(&program("pause"), &[]).until("ready");
    damage(&image::all(job.launcher()));
    let_end(job)
}

#[track_caller]
fn goes_on(outcome: &Outcome) {
    outcome.all_print(4, " is done").says("all PEs resume from checkpoint 3 ");
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
