//! Damaged memory: bits flipped in the store of a running job from outside, as by a failing
//! machine, while all PEs wait between checkpoints 3 and 4; then a loss that needs it.
//!
//! The expected result is computed here from the location of the damage, by the stripe layout: the
//! right bytes, or the same error, word for word, on every PE.

use std::collections::BTreeMap;
use std::mem::size_of;

use raidshmem_core::layout::{STAMP, TILE};
use raidshmem_core::placement::Domains;
use raidshmem_core::plan::{self, StoreFinding};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::settings::Settings;
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::readonly::ReadOnly;
use raidshmem_segment::header::Header;
use rustix::process::Signal;

use super::support::image::{self, Image};
use super::support::random::Random;
use super::support::stall::{at_its_stop, let_end, let_on};
use super::support::{Job, Outcome, program};

const PES: usize = 4;
/// The checkpoint that is agreed while the job waits, and to which it rolls back.
const NUMBER: u64 = 3;

/// The location of a flipped bit in the memory of checkpoint 3.
#[derive(Clone, Copy, Debug)]
enum Spot {
    /// Byte of a tile of the snapshot; from [`TILE`] on, of its stamp.
    Snapshot(usize, usize),
    /// Byte of a tile of the parity, counted likewise.
    Parity(usize, usize),
}

/// The library's own rules, applied to the job.
struct Rules {
    protection: Protection,
    len: usize,
}

impl Rules {
    fn new(mode: &str, images: &[Image]) -> Rules {
        let pairs = [("SHMEM_FT_BACKUP_MODE", mode)];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = Settings::from_env(pairs.into_iter()).expect("a mode");
        let nodes: Vec<usize> = (0..PES).collect();
        let protection =
            Protection::new(&settings, &nodes, &Domains::default()).expect("four PEs suffice");
        let protection = protection.expect("a mode that protects");
        Rules { protection, len: images[0].snapshot_len() }
    }

    fn per_chunk(&self) -> usize {
        self.protection.shapes[0].chunk_len(self.len) / TILE
    }

    fn snapshot_tiles(&self) -> usize {
        self.len.div_ceil(TILE)
    }

    fn parity_tiles(&self, pe: usize) -> usize {
        let (shape, place) = self.protection.place(Pe::of(pe));
        shape.layout.parities_of(place).len() * self.per_chunk()
    }

    /// Returns the offset of a spot in the memory file.
    fn at(&self, image: &Image, spot: Spot) -> usize {
        let slot = image.layout.slots[self.protection.slot_of(CheckpointNumber(NUMBER))];
        match spot {
            Spot::Snapshot(tile, at) => image.place(image.layout.snapshots[0], tile, at),
            Spot::Parity(tile, at) => image.place(slot, tile, at),
        }
    }

    /// Returns the expected error for this damage and the loss of `lost` with their memory; `None`
    /// if it is tolerated.
    fn verdict(&self, damage: &[(usize, Spot)], lost: &[usize]) -> Option<String> {
        let shape = &self.protection.shapes[0];
        let mut findings = [StoreFinding::default(); PES];
        for &(pe, spot) in damage {
            match spot {
                Spot::Snapshot(tile, _) => findings[pe].snapshot |= 1 << (tile / self.per_chunk()),
                Spot::Parity(tile, _) => findings[pe].parity |= 1 << (tile / self.per_chunk()),
            }
        }
        for &pe in lost {
            findings[pe] = StoreFinding::lost(&shape.layout, self.protection.place(Pe::of(pe)).1);
            if self.is_rebuilt(pe, damage, findings) {
                findings[pe].snapshot = 0;
            }
        }
        self.check(&findings)
    }

    fn check(&self, findings: &[StoreFinding; PES]) -> Option<String> {
        let shape = &self.protection.shapes[0];
        let of_group: Vec<StoreFinding> =
            shape.members.iter().map(|&pe| findings[pe.at()]).collect();
        let checked = plan::check(0, &shape.layout, &shape.members, &of_group, true);
        checked.err().map(|error| error.to_string())
    }

    /// True if the lost PE's snapshot is rebuilt before damage is found: if nothing was checked,
    /// and no decoded tile depends on a damaged one.
    fn is_rebuilt(
        &self,
        pe: usize,
        damage: &[(usize, Spot)],
        mut found: [StoreFinding; PES],
    ) -> bool {
        let (shape, place) = self.protection.place(Pe::of(pe));
        (0..PES)
            .filter(|&other| other != pe)
            .for_each(|other| found[other] = StoreFinding::default());
        let of_group: Vec<StoreFinding> = shape.members.iter().map(|&pe| found[pe.at()]).collect();
        let damaged = |pe: usize, parity: bool, tile: usize| {
            damage.iter().any(|&(other, spot)| match spot {
                Spot::Snapshot(at, _) => (other, false, at) == (pe, parity, tile),
                Spot::Parity(at, _) => (other, true, at) == (pe, parity, tile),
            })
        };
        (0..self.snapshot_tiles()).all(|tile| {
            let (chunk, step) = (tile / self.per_chunk(), tile % self.per_chunk());
            let at = shape.layout.place_of(place, chunk);
            let stripe = &shape.layout.stripes()[at.stripe];
            let lost = plan::lost_shards(stripe, &of_group);
            let plan = shape.codes[at.stripe].plan(&lost, at.index).expect("it was checked");
            plan.sources().iter().all(|&shard| {
                let parity = shard.checked_sub(stripe.data.len());
                let (member, chunk) = match parity {
                    None => (stripe.data[shard].member, stripe.data[shard].chunk),
                    Some(row) => (stripe.parity[row].member, stripe.parity[row].slot),
                };
                let tile = chunk * self.per_chunk() + step;
                !damaged(shape.members[member].at(), parity.is_some(), tile)
            })
        })
    }
}

/// Runs a job with a loss in checkpoint 4, and applies `damage` before it.
fn run(mode: &str, words: &str, damage: impl FnOnce(&[Image])) -> Outcome {
    run_with(&[], mode, words, damage)
}

/// Like [`run`], for a program with arguments.
fn run_with(args: &[&str], mode: &str, words: &str, damage: impl FnOnce(&[Image])) -> Outcome {
    let job = Job::line(words).mode(mode).env("SHMEM_FT_SCRUB", "off");
    let job = job.args(&["--verbose", "--nodes", "4"]);
    let job = job.program(&program("pause"), args).until("ready");
    let images = image::all(job.launcher());
    assert_eq!(images.len(), PES, "the launcher holds the memory of every PE");
    damage(&images);
    // Opened by the waiting PE 0, which reads until this close.
    let_end(job)
}

#[track_caller]
fn goes_on(outcome: &Outcome) {
    outcome.all_print(PES, " is done").says("all PEs resume from checkpoint 3 ");
}

/// Checks that the job ended as the rules require.
#[track_caller]
fn ends(outcome: &Outcome, verdict: Option<&str>) {
    match verdict {
        None => goes_on(outcome),
        Some(words) => {
            let said = outcome.same_verdict();
            outcome.check(said == words, &format!("`{words}` was expected"));
        }
    }
}

/// Flips one bit at each of `spots`, loses PE 1, or its node, and checks the end of the job.
#[track_caller]
fn flip_and_lose(mode: &str, with_node: bool, spots: &[(usize, Spot)], random: &mut Random) {
    let words = if with_node { "--kill-node 1@4:before" } else { "--kill 1@4:before" };
    let mut verdict = None;
    let outcome = run(mode, words, |images| {
        let rules = Rules::new(mode, images);
        for &(pe, spot) in spots {
            images[pe].flip(rules.at(&images[pe], spot), random.below(8) as u32);
        }
        let lost: &[usize] = if with_node { &[1] } else { &[] };
        verdict = rules.verdict(spots, lost);
    });
    outcome.check(outcome.count("lost with PE 1") == usize::from(with_node), "the loss of PE 1");
    println!("{mode} {spots:?}: {verdict:?}");
    ends(&outcome, verdict.as_deref());
}

/// Every word of the header, of a survivor and of a PE whose memory is adopted or lost: one flipped
/// bit costs nothing, even if no parity is to spare.
#[test]
fn a_flipped_bit_in_any_word_of_a_header_is_harmless() {
    needs!(long);
    let mut random = Random::new(1);
    for word in 0..size_of::<Header>() / 8 {
        for (pe, words) in [(0, "--kill-node 1@4:before"), (1, "--kill 1@4:before")] {
            let bit = random.below(64);
            println!("word {word} of PE {pe}, bit {bit}");
            let outcome = run("raid5", words, |images| {
                images[pe].flip(images[pe].layout.store + word * 8 + bit / 8, bit as u32 % 8);
            });
            goes_on(&outcome);
        }
    }
}

/// All words of a survivor's header at once: then its whole store is distrusted.
#[test]
fn a_header_that_is_destroyed_is_a_lost_store() {
    for (mode, verdict) in
        [("rs", None), ("raid5", Some("unrecoverable: group 0 lost PEs 0,1, parity 1"))]
    {
        let outcome = run(mode, "--kill-node 1@4:before", |images| {
            let header = images[0].layout.store;
            images[0].write(header, &[0xff; size_of::<Header>()]);
        });
        ends(&outcome, verdict);
    }
}

#[test]
fn one_damaged_tile_or_stamp_of_each_kind_is_found_before_it_is_used() {
    needs!(long);
    let mut random = Random::new(2);
    for mode in ["double", "raid4", "raid5", "rs"] {
        for with_node in [false, true] {
            for (pe, at) in [(0, 17), (1, TILE - 1), (2, TILE), (3, TILE + STAMP - 1)] {
                let parity = mode != "raid4" || pe == PES - 1; // the PE that holds parity
                let spots: &[Spot] = match parity {
                    true => &[Spot::Snapshot(2, at), Spot::Parity(0, at)],
                    false => &[Spot::Snapshot(2, at)],
                };
                for &spot in spots.iter().filter(|_| mode != "raid4" || pe != PES - 1) {
                    flip_and_lose(mode, with_node, &[(pe, spot)], &mut random);
                }
            }
        }
    }
}

/// Without checksums such damage goes unnoticed: the program gets it back as data, as `oshrun`
/// warned at the start. Without damage all is well.
#[test]
fn without_checksums_damage_is_data() {
    for kill in ["--kill", "--kill-node"] {
        let words = format!("SHMEM_FT_CHECKSUM=0 {kill} 1@4:before");
        goes_on(run("raid5", &words, |_| ()).says("SHMEM_FT_CHECKSUM=0: damage to a "));
        let outcome = run("raid5", &words, |images| {
            let rules = Rules::new("raid5", images);
            images[2].flip(rules.at(&images[2], Spot::Snapshot(4, 20_000)), 3);
        });
        outcome.says("WRONG: PE ");
    }
}

/// Damage and losses are repaired together, up to the parity; the next tile is the error. Both
/// parities, a snapshot and a parity, two snapshots, one stripe and several.
#[test]
fn damage_counts_against_the_parity_like_a_loss() {
    let mut random = Random::new(3);
    use Spot::{Parity, Snapshot};
    for spots in [
        [(0, Snapshot(0, 0)), (2, Snapshot(0, 0))],
        [(0, Snapshot(0, 0)), (3, Snapshot(9, 9))],
        [(2, Parity(0, 0)), (3, Parity(0, 0))],
        [(0, Parity(1, 0)), (2, Snapshot(4, 0))],
        [(0, Parity(0, 0)), (0, Snapshot(0, 0))],
    ] {
        for mode in ["raid5", "rs"] {
            for with_node in [false, true] {
                flip_and_lose(mode, with_node, &spots, &mut random);
            }
        }
    }
}

/// Bits anywhere in the store in use, few and many, with and without the loss of memory.
#[test]
fn random_damage_is_repaired_or_named() {
    needs!(long);
    for seed in 0..40 {
        let mut random = Random::new(1000 + seed);
        let mode = ["raid5", "rs"][random.below(2)];
        let with_node = random.below(2) == 0;
        let words = if with_node { "--kill-node 1@4:before" } else { "--kill 1@4:before" };
        let mut verdict = None;
        let outcome = run(mode, words, |images| {
            let rules = Rules::new(mode, images);
            let spots: Vec<(usize, Spot)> = (0..1 + random.below(5))
                .map(|_| {
                    let (pe, at) = (random.below(PES), random.below(TILE + STAMP));
                    match random.below(3) {
                        0 => (pe, Spot::Parity(random.below(rules.parity_tiles(pe)), at)),
                        _ => (pe, Spot::Snapshot(random.below(rules.snapshot_tiles()), at)),
                    }
                })
                .collect();
            let mut flips = BTreeMap::new();
            for &(pe, spot) in &spots {
                flips.insert((pe, rules.at(&images[pe], spot)), random.below(8) as u32);
            }
            flips.iter().for_each(|(&(pe, at), &bit)| images[pe].flip(at, bit));
            verdict = rules.verdict(&spots, if with_node { &[1] } else { &[] });
            println!("seed {seed}: {mode} {words} {spots:?}: {verdict:?}");
        });
        ends(&outcome, verdict.as_deref());
    }
}

/// Parity of PE 0 is damaged. A process dies, which needs no rebuild, and then a node, in the
/// recovery from that loss and after it: the parity was recomputed in between.
#[test]
fn parity_that_no_rebuild_reads_is_recomputed_too() {
    let faults = "SHMEM_FT_INJECT=1@4:before,node:2@3:resume";
    let outcome = run("raid5", faults, |images| {
        let rules = Rules::new("raid5", images);
        images[0].flip(rules.at(&images[0], Spot::Parity(0, 17)), 5);
        assert!(rules.verdict(&[(0, Spot::Parity(0, 17))], &[2]).is_some());
    });
    goes_on(&outcome);
    outcome.check(outcome.count("lost with PE 2") == 1, "the loss of PE 2");
    outcome.says("rebuilt from PEs 0,1,3");
}

/// The slot of the previous checkpoint is not part of this one: damage in it does not matter.
#[test]
fn damage_in_the_free_slot_is_harmless() {
    let outcome = run("raid5", "--kill-node 1@4:before", |images| {
        for image in images {
            let free = image.layout.slots[0];
            let other = image.layout.slots[1];
            let slot = if NUMBER.is_multiple_of(2) { other } else { free };
            (0..STAMP + TILE).step_by(977).for_each(|at| image.flip(image.place(slot, 0, at), 3));
        }
    });
    goes_on(&outcome);
}

/// Whole tiles with their stamps, intact, but of another checkpoint, PE or job: they are rejected
/// like damaged ones.
#[test]
fn tiles_of_another_checkpoint_pe_or_job_are_refused() {
    let copy = |to: &Image, to_region: usize, from: &Image, from_region: usize| {
        for (offset, len) in [(0, 20 * TILE), (to.layout.region_len, 20 * STAMP)] {
            to.write(to_region + offset, &from.read(from_region + offset, len));
        }
    };
    for (what, mode) in
        [("checkpoint", "rs"), ("checkpoint", "raid5"), ("pe", "rs"), ("pe", "raid5")]
    {
        let mut verdict = None;
        let outcome = run(mode, "--kill-node 1@4:before", |images| {
            let rules = Rules::new(mode, images);
            let slot = rules.protection.slot_of(CheckpointNumber(NUMBER));
            let slots = images[0].layout.slots;
            let spots: Vec<(usize, Spot)> = match what {
                "checkpoint" => {
                    copy(&images[0], slots[slot], &images[0], slots[1 - slot]);
                    (0..rules.parity_tiles(0)).map(|tile| (0, Spot::Parity(tile, 0))).collect()
                }
                _ => {
                    let snapshot = images[0].layout.snapshots[0];
                    copy(&images[0], snapshot, &images[2], snapshot);
                    (0..rules.snapshot_tiles()).map(|tile| (0, Spot::Snapshot(tile, 0))).collect()
                }
            };
            verdict = rules.verdict(&spots, &[1]);
        });
        outcome.check((mode == "rs") == verdict.is_none(), "m = 2 bears it, m = 1 does not");
        ends(&outcome, verdict.as_deref());
    }
    another_job();
}

/// Copies the stores of one job into another, headers included.
fn another_job() {
    let other = Job::new(PES).mode("raid5").args(&["--nodes", "4"]);
    let other = other.program(&program("pause"), &[]).until("ready");
    let theirs = image::all(other.launcher());
    for (of, verdict) in [(vec![2], None), (vec![0, 2], Some(()))] {
        let outcome = run("rs", "--kill-node 1@4:before", |images| {
            for &pe in &of {
                let (ours, theirs) = (&images[pe], &theirs[pe]);
                let parts = [(ours.layout.store, 4096)].into_iter();
                let regions =
                    [ours.layout.snapshots[0], ours.layout.slots[0], ours.layout.slots[1]];
                let tiles =
                    regions.map(|at| [(at, 20 * TILE), (ours.layout.stamps(at), 20 * STAMP)]);
                parts.chain(tiles.into_iter().flatten()).for_each(|(at, len)| {
                    ours.write(at, &theirs.read(at, len));
                });
            }
        });
        let verdict = verdict.map(|()| "unrecoverable: group 0 lost PEs 0-2, parity 2");
        ends(&outcome, verdict);
    }
    let_end(other).status(0);
}

/// A bit of read-only memory, or of its parity, is flipped: a PE's own memory is checked when it
/// rolls back, and memory decoded from peers during decoding.
#[test]
fn read_only_memory_that_is_damaged_is_decoded_from_others() {
    let (alone, with_node) = ("--kill 1@4:before", "--kill-node 1@4:before");
    let (live, parity) = (false, true);
    for (words, pe, where_to, survives) in [
        (alone, 1, live, true),
        (alone, 2, live, true),
        (alone, 2, parity, true),
        (with_node, 2, live, false),
        (with_node, 1, live, true),
    ] {
        let outcome = run_with(&["readonly"], "raid5", words, |images| {
            let layout = &images[pe].layout;
            let heap = layout.heap..layout.heap + 9 * TILE;
            let range = ReadOnly::within(&heap).expect("whole tiles");
            let run = if where_to == parity {
                range.parity(layout, CheckpointNumber::START)
            } else {
                range.live(layout)
            };
            images[pe].flip(run.offset() + TILE + 77, 5);
        });
        match survives {
            true => goes_on(&outcome),
            false => _ = outcome.same_verdict(),
        }
    }
}

/// PE 1 is lost with its node. Its substitute stops in the middle of the rebuild, when all stores
/// have been checked; then everything that PE 0 holds is damaged. All PEs restart and detect it:
/// damage within the parity is repaired; more damage produces one agreed error on every PE at once.
#[test]
fn damage_between_check_and_use_is_found_by_all() {
    for mode in ["rs", "raid5"] {
        let job = Job::new(PES).mode(mode).env("SHMEM_FT_SCRUB", "off");
        let job = job.env("SHMEM_FT_INJECT", "node:1@4:before,stop:1@3:rebuild");
        let job = job.env("SHMEM_FT_NODE_TIMEOUT", "600").args(&["--verbose", "--nodes", "4"]);
        let mut job = job.program(&program("pause"), &[]).until("ready");
        let images = image::all(job.launcher());
        let rules = Rules::new(mode, &images);
        let tiles = (0..rules.snapshot_tiles()).map(|tile| (0, Spot::Snapshot(tile, 0)));
        let held = (0..rules.parity_tiles(0)).map(|tile| (0, Spot::Parity(tile, 0)));
        let spots: Vec<(usize, Spot)> = tiles.chain(held).collect();
        let_on(&job);
        at_its_stop(&mut job, || {
            spots.iter().for_each(|&(_, spot)| images[0].flip(rules.at(&images[0], spot), 3));
        });
        job.wait_for("a tile of PE 0 does not match its checksum: the recovery begins again");
        let verdict = rules.verdict(&spots, &[1]);
        assert_eq!(verdict.is_none(), mode == "rs");
        if verdict.is_none() {
            at_its_stop(&mut job, || ());
        }
        if verdict.is_some() {
            // Every PE reaches the error by itself: the launcher is stopped, so it interrupts no
            // PE.
            job.signal(Signal::STOP);
            job.wait_until("a PE waits for others", |all| {
                !all.iter().any(|process| process.name == "pause" && !process.is_zombie())
            });
            job.signal(Signal::CONT);
        }
        ends(&job.finish(), verdict.as_deref());
    }
}
