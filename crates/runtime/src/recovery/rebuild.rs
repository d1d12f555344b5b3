//! The rebuild: lost parts of the own snapshot, decoded from what survives.
//!
//! Each PE works on its own store and only reads its peers'.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use raidshmem_codec::code::DecodePlan;
use raidshmem_core::inject::Point;
use raidshmem_core::layout::TILE;
use raidshmem_core::message::ProgressReport;
use raidshmem_core::plan::{StoreFinding, bits, lost_shards};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::store::protection::{GroupLayout, Protection};
use raidshmem_core::view::View;
use raidshmem_sys::lock;
use raidshmem_sys::pool::WorkerPool;

use super::decode::{ShardTile, Shards};
use super::{Changed, unchanged};
use crate::checkpoint::pipeline;
use crate::checkpoint::tiles::{self, Scratch, StoreTile};
use crate::pgas::World;

/// Time between two progress messages of a PE, in milliseconds.
const PERIOD_MS: u64 = 250;

/// Reports that the memory of a dead process was adopted, or read from disk.
pub fn report_adopted(world: &World, number: CheckpointNumber, len: usize, begun: Instant) {
    let (pe, checkpoint, bytes, took) = (world.me(), number, len as u64, begun.elapsed());
    let from_disk = world.members.is_from_disk();
    world.members.report(ProgressReport::Adopted { pe, checkpoint, bytes, from_disk, took });
}

/// The result of a rebuild.
pub struct Rebuilt {
    bytes: usize,
    from: BTreeSet<Pe>,
}

impl Rebuilt {
    /// Reports the rebuild.
    pub fn report(
        self,
        world: &World,
        protection: &Protection,
        number: CheckpointNumber,
        begun: Instant,
    ) {
        if protection.mode.keeps_snapshot() || world.members.is_new() {
            world.members.report(ProgressReport::Rebuilt {
                pe: world.me(),
                checkpoint: number,
                bytes: self.bytes as u64,
                from: self.from.into_iter().collect(),
                took: begun.elapsed(),
            });
        }
    }
}

/// Decodes the missing parts of the own snapshot, whose record is void meanwhile: of checkpoint
/// `target`, `len` bytes long. In a mode without snapshots, returns the bytes.
pub fn rebuild(
    world: &World,
    protection: &Protection,
    (view, target, len): (&View, CheckpointNumber, usize),
    (findings, busy): (&[StoreFinding], usize),
) -> Result<(Rebuilt, Option<Vec<u8>>), Changed> {
    let (shape, place) = protection.place(world.me());
    let own = findings[place].snapshot & bits(shape.layout.chunks());
    let keeps = protection.mode.keeps_snapshot();
    let mut line = (!keeps).then(|| vec![0; tiles::tiles(len) * TILE]);
    let mut from = BTreeSet::new();
    let pool = pool(world, busy);
    let shards = Shards::of_checkpoint(world, protection, shape, (target, len));
    let wanted = || (0..shape.layout.chunks()).filter(|chunk| own >> chunk & 1 == 1);
    let all: usize = wanted().map(|chunk| chunk_tiles(shape, len, chunk).len()).sum();
    let progress = RebuildReporter::begin(world, all);
    let (pool, found) = (&pool, findings);
    let job = Decode { pool, view, shards, place, found, progress };
    wanted().for_each(|chunk| job.expect(chunk));
    let parts = line.as_deref_mut().map(|line| line.chunks_mut(TILE).map(Mutex::new).collect());
    let parts: Option<Vec<Mutex<&mut [u8]>>> = parts;
    let (mut before, mut passed) = (all / 2, false);
    for chunk in wanted() {
        let count = job.tiles(chunk).len();
        let cut = before.min(count);
        from.extend(job.chunk(chunk, 0..cut, parts.as_deref())?);
        before -= cut;
        if before == 0 && !std::mem::replace(&mut passed, true) {
            job.progress.report();
            world.members.point(Point::Rebuild, target);
        }
        from.extend(job.chunk(chunk, cut..count, parts.as_deref())?);
    }
    if !passed {
        world.members.point(Point::Rebuild, target);
    }
    job.progress.report();
    Ok((Rebuilt { bytes: all * TILE, from }, line))
}

/// Returns the threads for a rebuild by `busy` PEs: the other PEs sleep until it is over.
fn pool(world: &World, busy: usize) -> WorkerPool {
    match world.settings().threads {
        0 => world.store.pool.among(busy),
        _ => world.store.pool.among(usize::MAX),
    }
}

/// Returns the tiles of a chunk of a snapshot of `len` bytes, without those beyond its end.
pub(super) fn chunk_tiles(shape: &GroupLayout, len: usize, chunk: usize) -> Range<usize> {
    let (per_chunk, end) = (shape.chunk_len(len) / TILE, tiles::tiles(len));
    (chunk * per_chunk).min(end)..((chunk + 1) * per_chunk).min(end)
}

struct Decode<'a> {
    pool: &'a WorkerPool,
    view: &'a View,
    shards: Shards<'a>,
    place: usize,
    found: &'a [StoreFinding],
    progress: RebuildReporter<'a>,
}

/// Progress reports of a rebuild: at its beginning and end, in the middle, and periodically.
struct RebuildReporter<'a> {
    world: &'a World,
    all: usize,
    /// Number of decoded tiles.
    done: AtomicUsize,
    begun: Instant,
    /// The time of the next report, in milliseconds after `begun`.
    next: AtomicU64,
}

impl<'a> RebuildReporter<'a> {
    fn begin(world: &'a World, all: usize) -> RebuildReporter<'a> {
        let (done, next) = (AtomicUsize::new(0), AtomicU64::new(PERIOD_MS));
        let progress = RebuildReporter { world, all, done, begun: Instant::now(), next };
        progress.report();
        progress
    }

    /// Counts a decoded tile, and reports when it is time.
    fn add(&self) {
        self.done.fetch_add(1, Ordering::Relaxed); // for messages only, like `next`
        let now = self.begun.elapsed().as_millis() as u64;
        let next = self.next.load(Ordering::Relaxed);
        let later = now + PERIOD_MS;
        let turn = || {
            self.next.compare_exchange(next, later, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        if now >= next && turn() {
            self.report();
        }
    }

    fn report(&self) {
        let (bytes, of) = (self.done.load(Ordering::Relaxed) * TILE, self.all * TILE);
        if of > 0 {
            let (pe, bytes, of) = (self.world.me(), bytes as u64, of as u64);
            self.world.members.report_progress(ProgressReport::Rebuilding { pe, bytes, of });
        }
    }
}

impl Decode<'_> {
    fn tiles(&self, chunk: usize) -> Range<usize> {
        chunk_tiles(self.shards.shape, self.shards.len, chunk)
    }

    /// Returns the first tile of a chunk of the own snapshot, and the plan that decodes it.
    fn plan(&self, chunk: usize) -> (ShardTile, DecodePlan) {
        let first = self.shards.data(self.place, chunk * self.shards.per_chunk());
        let stripe = &self.shards.shape.layout.stripes()[first.stripe];
        let lost = lost_shards(stripe, self.found);
        (first, self.shards.plan(first, &lost).expect("checked by the plan"))
    }

    /// Announces the sources from which a chunk of the own snapshot will be decoded.
    fn expect(&self, chunk: usize) {
        let ((first, plan), steps) = (self.plan(chunk), self.tiles(chunk).len());
        for &shard in plan.sources() {
            let source = self.shards.stored(first.of(shard));
            tiles::expect_store(self.shards.world, source, steps);
        }
    }

    /// Decodes some steps of a chunk of the own snapshot into the store, or into the tiles of
    /// `line`, with all threads of this process. Returns the PEs that it was decoded from.
    fn chunk(
        &self,
        chunk: usize,
        steps: Range<usize>,
        line: Option<&[Mutex<&mut [u8]>]>,
    ) -> Result<Vec<Pe>, Changed> {
        let Shards { world, shape, .. } = self.shards;
        let (first, plan) = self.plan(chunk);
        let own = self.tiles(chunk).start;
        let remote = shape.members.iter().any(|&pe| world.segments.is_remote(pe));
        let sources = || vec![Scratch::empty(); plan.sources().len()];
        let fetch = |steps: &[usize], buffers: &mut [Vec<Scratch>]| {
            self.map((first, &plan), steps, line.is_none());
            self.pull((first, &plan), steps, buffers);
        };
        let work = |&step: &usize, buffers: &mut Vec<Scratch>| {
            let tile = ShardTile { step, ..first };
            let decoded = match line {
                Some(line) => {
                    self.shards.decode((tile, &plan), buffers, &mut lock(&line[own + step]))
                }
                None => self.shards.decode_into((tile, &plan), buffers),
            };
            decoded.map(|()| self.progress.add())
        };
        let steps: Vec<usize> = steps.collect();
        if let Err(shard) = pipeline::run(self.pool, &steps, sources, remote, fetch, work) {
            unchanged(&world.members, self.view)?;
            world.found_corrupt(self.view, self.shards.holder(first.of(shard)));
            return Err(Changed);
        }
        let holder = |&shard: &usize| self.shards.holder(first.of(shard));
        Ok(plan.sources().iter().map(holder).collect())
    }

    /// Pulls the next tiles of remote shards, as many steps as there is scratch for.
    fn pull(
        &self,
        (first, plan): (ShardTile, &DecodePlan),
        steps: &[usize],
        buffers: &mut [Vec<Scratch>],
    ) {
        let begins = plan.sources().iter().map(|&shard| self.shards.stored(first.of(shard)));
        let begins: Vec<StoreTile> = begins.collect();
        let mut wanted = Vec::new();
        for (&step, buffers) in steps.iter().zip(buffers) {
            wanted.extend(begins.iter().map(|first| first.after(step)).zip(buffers));
        }
        tiles::pull_store(self.shards.world, wanted.into_iter());
    }

    /// Maps the pages of source tiles, and of the decoded ones if they are `kept`: a few at a time,
    /// behind the thread that touches fresh pages.
    fn map(&self, (first, plan): (ShardTile, &DecodePlan), steps: &[usize], kept: bool) {
        let (Some(begin), Some(last)) = (steps.first(), steps.last()) else { return };
        let (steps, segments) = (*begin..last + 1, self.shards.world.segments);
        let own = kept.then_some(first.shard);
        for shard in plan.sources().iter().copied().chain(own) {
            let tile = self.shards.stored(first.of(shard)).after(steps.start);
            tiles::map_store(segments, tile, steps.len());
        }
    }
}
