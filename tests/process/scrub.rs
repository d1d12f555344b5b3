//! The scrub: damage in an idle job is reported and repaired before it matters.
//!
//! The job waits between checkpoints 3 and 4 (see `pause.c`) while bits are flipped in the store of
//! its PEs. The test waits until `oshrun` reports the repair, compares the bytes, and then kills a
//! PE whose rebuild needs them: without the repair the job could not continue.

use std::mem::offset_of;

use raidshmem_core::layout::{STAMP, TILE};
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::readonly::ReadOnly;
use raidshmem_segment::header::Header;

use super::support::image::{self, Image};
use super::support::jacobi::{self, SMALL};
use super::support::stall::let_end;
use super::support::{Job, Outcome, Running, program};

const PES: usize = 4;

fn start(mode: &str, words: &str) -> Running {
    start_with(mode, words, "auto", &[])
}

fn start_with(mode: &str, words: &str, delta: &str, program_words: &[&str]) -> Running {
    let job = Job::line(words).mode(mode).env("SHMEM_FT_SCRUB", "64M").args(&["--nodes", "4"]);
    job.env("SHMEM_FT_DELTA", delta).program(&program("pause"), program_words).until("ready")
}

fn go(job: Running) -> Outcome {
    let outcome = let_end(job);
    outcome.all_print(PES, " is done");
    outcome
}

/// Returns the offset of a byte of the agreed snapshot, and of its parity.
fn snapshot(image: &Image, at: usize) -> usize {
    image.place(image.layout.snapshots[0], 5, at)
}

fn snapshot_of(image: &Image, tile: usize) -> usize {
    image.place(image.layout.snapshots[0], tile, 77)
}

fn parity(image: &Image, at: usize) -> usize {
    image.place(image.layout.slots[1], 1, at) // checkpoint 3 is in slot 1
}

fn record(image: &Image, word: usize) -> usize {
    image.layout.store + offset_of!(Header, snapshots) + word * 8
}

#[test]
fn damage_is_repaired_before_the_loss_that_needs_it() {
    type Spot = (&'static str, fn(&Image) -> usize);
    let spots: [Spot; 6] = [
        ("snapshot", |image| snapshot(image, 1234)),
        ("snapshot", |image| snapshot(image, TILE + STAMP - 1)),
        ("parity", |image| parity(image, 0)),
        ("parity", |image| parity(image, TILE)),
        ("header", |image| record(image, 0)),
        ("header", |image| record(image, 4)),
    ];
    for mode in ["raid5", "rs"] {
        for (pe, (part, spot)) in spots.into_iter().enumerate().map(|(i, s)| ([0, 2, 3][i % 3], s))
        {
            let mut job = start(mode, "--verbose --kill-node 1@4:before");
            let images = image::all(job.launcher());
            let at = spot(&images[pe]);
            let before = images[pe].read(at, 1);
            images[pe].flip(at, 3);
            let line = job.wait_for(&format!("PE {pe}: damage in its {part} of checkpoint 3"));
            assert!(line.contains(", repaired"), "{line}");
            assert_eq!(images[pe].read(at, 1), before, "{mode}, {part} of PE {pe}: {line}");
            let outcome = go(job);
            outcome.check(outcome.count("damage in") == 1, "one line about it");
            outcome.says(&format!("PE {pe}: ")).says(" scrubbed, 1 damaged, 1 repaired");
            outcome.says("all PEs resume from checkpoint 3 ");
        }
    }
}

/// Read-only memory, and its parity.
#[test]
fn read_only_memory_is_scrubbed_and_repaired() {
    let words = "--kill-node 1@5:before";
    let mut job = start_with("raid5", words, "auto", &["readonly"]);
    let images = image::all(job.launcher());
    for (pe, of_parity) in [(2, false), (3, true)] {
        let layout = &images[pe].layout;
        let range = ReadOnly::within(&(layout.heap..layout.heap + 9 * TILE)).expect("tiles");
        let run = if of_parity {
            range.parity(layout, CheckpointNumber::START)
        } else {
            range.live(layout)
        };
        let at = run.offset() + TILE + 77;
        let before = images[pe].read(at, 1);
        images[pe].flip(at, 3);
        job.wait_for(&format!("PE {pe}: damage in its read-only memory of checkpoint 3, repaired"));
        assert_eq!(images[pe].read(at, 1), before, "PE {pe} has its byte back");
    }
    go(job).says("all PEs resume from checkpoint 4 ");
}

/// Two damaged tiles of a stripe and one parity: neither can be repaired. The next checkpoint
/// rewrites both, and a loss after it is survived.
#[test]
fn irreparable_damage_is_reported_and_healed_by_the_next_checkpoint() {
    let mut job = start("raid5", "--kill-node 1@5:before");
    let images = image::all(job.launcher());
    for pe in [0, 2] {
        let at = images[pe].place(images[pe].layout.snapshots[0], 0, 99);
        images[pe].flip(at, 1);
        let other = images[pe].place(images[pe].layout.slots[1], 0, 99);
        images[pe].flip(other, 1);
    }
    let words = "of checkpoint 3, not repaired: it counts as lost until checkpoint 4";
    job.wait_for(words);
    go(job).says("node 1 was lost with PE 1");
}

/// Damage where nothing changes, and checkpoints write only changes: damaged tiles are rewritten
/// anyway, and so is their parity. On both PEs every tile is damaged except the first few, which
/// hold the manifest and the data that changes.
#[test]
fn damaged_unchanged_tiles_are_rewritten() {
    let mut job = start_with("raid5", "--kill-node 1@5:before", "on", &["still"]);
    let images = image::all(job.launcher());
    for pe in [0, 2] {
        let tiles = images[pe].snapshot_len().div_ceil(TILE);
        (4..tiles).for_each(|tile| images[pe].flip(snapshot_of(&images[pe], tile), 1));
    }
    for pe in [0, 2] {
        job.wait_for(&format!("PE {pe}: damage in its snapshot of checkpoint 3, not repaired"));
    }
    go(job).says("node 1 was lost with PE 1");
}

/// A tile and its stamp are both damaged: nothing proves the decoded tile, so it is not used.
#[test]
fn nothing_is_put_back_that_no_old_checksum_proves() {
    let mut job = start("rs", "");
    let images = image::all(job.launcher());
    let (tile, stamp) = (snapshot(&images[2], 7), snapshot(&images[2], TILE + 2));
    images[2].write(tile, &[!images[2].read(tile, 1)[0]]);
    images[2].write(stamp, &[!images[2].read(stamp, 1)[0]]);
    let line = job.wait_for("PE 2: damage in its snapshot of checkpoint 3");
    assert!(line.contains("not repaired"), "{line}");
    go(job);
}

/// As fast as it can, among checkpoints, deaths and recoveries: it reports no false damage, and
/// disturbs no PE.
#[test]
fn an_undamaged_store_is_never_called_damaged() {
    for mode in ["single", "double", "raid4", "raid5", "rs"] {
        for words in ["", "--kill 1@3:copy --kill 2@6", "--kill 0@4:quiesce --kill 0@7"] {
            let job = Job::line(words).mode(mode).env("SHMEM_FT_SCRUB", "1T");
            let outcome = jacobi::job(job.args(&["--verbose"]), SMALL).run();
            outcome.right_sum(SMALL);
            outcome.check(outcome.count("damage in") == 0, "nothing is damaged");
            let looked = outcome.count(" scrubbed, 0 damaged, 0 repaired");
            outcome.check(looked == PES, "every PE should have looked");
        }
    }
}

#[test]
fn switched_off_it_does_not_look() {
    let job = Job::new(PES).mode("raid5").env("SHMEM_FT_SCRUB", "off").args(&["--verbose"]);
    let outcome = jacobi::job(job, SMALL).run();
    outcome.right_sum(SMALL).check(outcome.count("scrubbed, ") == 0, "nobody should look");
}
