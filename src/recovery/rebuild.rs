//! Computing the lost again from what survives.
//!
//! Each PE works on its own store and only reads its peers'.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use raidshmem_codec::code::Plan;
use raidshmem_codec::crc::XorChecksum;
use raidshmem_codec::stripe::Place;
use raidshmem_core::inject::Point;
use raidshmem_core::layout::{STAMP, TILE};
use raidshmem_core::message::ProgressReport;
use raidshmem_core::plan::{StoreFinding, bits, lost_shards};
use raidshmem_core::quantity::{CheckpointNumber, Pe, TileIndex};
use raidshmem_core::store::protection::{GroupLayout, Protection};
use raidshmem_core::view::View;
use raidshmem_sys::lock;
use raidshmem_sys::pool::WorkerPool;

use super::{Changed, unchanged};
use crate::checkpoint::pipeline;
use crate::checkpoint::tiles::{self, Reading, Room, StoreTile};
use crate::pgas::{Segments, World};

/// Between two messages of a PE on how far it is, in milliseconds.
const PERIOD_MS: u64 = 250;

/// Tells people that the memory of a dead process was taken over.
pub fn report_adopted(world: &World, number: CheckpointNumber, len: usize, begun: Instant) {
    let (pe, micros) = (world.me(), begun.elapsed().as_micros() as u64);
    world.members.report(ProgressReport::Adopted { pe, number, bytes: len as u64, micros });
}

/// What was rebuilt.
pub struct Rebuilt {
    bytes: usize,
    from: BTreeSet<Pe>,
}

impl Rebuilt {
    /// Tells people.
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
                number,
                bytes: self.bytes as u64,
                from: self.from.into_iter().collect(),
                micros: begun.elapsed().as_micros() as u64,
            });
        }
    }
}

/// Decodes what the own snapshot misses, whose record is void meanwhile: of checkpoint `target`,
/// `len` bytes long. In a mode without snapshots the bytes are returned.
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
    let (found, sum) = (findings, XorChecksum::new(TILE));
    let wanted = || (0..shape.layout.chunks()).filter(|chunk| own >> chunk & 1 == 1);
    let all: usize = wanted().map(|chunk| chunk_tiles(shape, len, chunk).len()).sum();
    let progress = RebuildReporter::begin(world, all);
    let pool = &pool;
    let job =
        Decode { world, pool, protection, view, shape, place, found, target, len, sum, progress };
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

/// The threads for a rebuild by so many PEs: those that need none sleep until it is over.
fn pool(world: &World, busy: usize) -> WorkerPool {
    match world.settings().threads {
        0 => world.store.pool.among(busy),
        _ => world.store.pool.among(usize::MAX),
    }
}

/// The tiles of a chunk of a snapshot of `len` bytes; those beyond its end are no tiles.
pub(super) fn chunk_tiles(shape: &GroupLayout, len: usize, chunk: usize) -> Range<usize> {
    let (per_chunk, end) = (shape.chunk_len(len) / TILE, tiles::tiles(len));
    (chunk * per_chunk).min(end)..((chunk + 1) * per_chunk).min(end)
}

struct Decode<'a> {
    world: &'a World,
    pool: &'a WorkerPool,
    protection: &'a Protection,
    view: &'a View,
    shape: &'a GroupLayout,
    place: usize,
    found: &'a [StoreFinding],
    target: CheckpointNumber,
    len: usize,
    sum: XorChecksum,
    progress: RebuildReporter<'a>,
}

/// Reports how far a rebuild is: at its begin and end, in the middle, and now and then.
struct RebuildReporter<'a> {
    world: &'a World,
    all: usize,
    /// Tiles that are decoded.
    done: AtomicUsize,
    begun: Instant,
    /// When the next report is due, in milliseconds after that.
    next: AtomicU64,
}

impl<'a> RebuildReporter<'a> {
    fn begin(world: &'a World, all: usize) -> RebuildReporter<'a> {
        let (done, next) = (AtomicUsize::new(0), AtomicU64::new(PERIOD_MS));
        let progress = RebuildReporter { world, all, done, begun: Instant::now(), next };
        progress.report();
        progress
    }

    /// A tile is decoded.
    fn add(&self) {
        self.done.fetch_add(1, Ordering::Relaxed); // it is for people only, as is `next`
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
    /// Where the snapshots to be made whole lie.
    fn snapshot(&self) -> usize {
        self.protection.snapshot_at(self.world.segments.layout(), self.target)
    }

    fn tiles(&self, chunk: usize) -> Range<usize> {
        chunk_tiles(self.shape, self.len, chunk)
    }

    /// Where a chunk of the own snapshot is in its stripe, and how it is decoded.
    fn plan(&self, chunk: usize) -> (Place, Plan) {
        let at = self.shape.layout.place_of(self.place, chunk);
        let lost = lost_shards(&self.shape.layout.stripes()[at.stripe], self.found);
        let plan = self.shape.codes[at.stripe].plan(&lost, at.index).expect("checked by the plan");
        (at, plan)
    }

    /// Announces what a chunk of the own snapshot will be decoded from.
    fn expect(&self, chunk: usize) {
        let ((at, plan), steps) = (self.plan(chunk), self.tiles(chunk).len());
        for &shard in plan.sources() {
            tiles::expect_store(self.world, self.source(at.stripe, shard), steps);
        }
    }

    /// Decodes some steps of a chunk of the own snapshot into the store, or into the tiles of
    /// `line`, with all threads of this process. The PEs that it was decoded from.
    fn chunk(
        &self,
        chunk: usize,
        steps: Range<usize>,
        line: Option<&[Mutex<&mut [u8]>]>,
    ) -> Result<Vec<Pe>, Changed> {
        let (at, plan) = self.plan(chunk);
        let stripe = &self.shape.layout.stripes()[at.stripe];
        let own = self.tiles(chunk).start;
        let far = self.shape.members.iter().any(|&pe| self.world.segments.is_far(pe));
        let room = || vec![Room::empty(); plan.sources().len()];
        let fetch = |steps: &[usize], rooms: &mut [Vec<Room>]| {
            self.map(plan.sources(), at.stripe, steps, own);
            self.pull(plan.sources(), at.stripe, steps, rooms);
        };
        let work = |&step: &usize, room: &mut Vec<Room>| {
            let shards = plan.sources().iter().zip(room);
            let read = |(&shard, room)| {
                let tile = ShardTile { stripe: at.stripe, shard, step };
                let target = (self.target, self.len);
                reading(self.world, self.protection, self.shape, tile, target, room)
            };
            self.decode(TileIndex::of(own + step), line, &plan, shards.map(read).unzip())
        };
        let steps: Vec<usize> = steps.collect();
        if let Err(pe) = pipeline::run(self.pool, &steps, room, far, fetch, work) {
            unchanged(&self.world.members, self.view)?;
            self.world.found_corrupt(self.view, Pe::of(pe));
            return Err(Changed);
        }
        let holders: Vec<usize> = stripe.holders().collect();
        let pe = |&shard: &usize| self.shape.members[holders[shard]];
        Ok(plan.sources().iter().map(pe).collect())
    }

    /// Decodes an own tile of the snapshot, or of `line`, from tiles of `pes`, which are checked on
    /// the way. The error is the PE of a tile that does not hold: then the tile has no stamp. The
    /// stamp of a mere sum follows from what was seen of the sources, and so finds errors of
    /// adding, too.
    fn decode(
        &self,
        tile: TileIndex,
        line: Option<&[Mutex<&mut [u8]>]>,
        plan: &Plan,
        (pes, mut read): (Vec<usize>, Vec<Reading>),
    ) -> Result<(), usize> {
        let sources: Vec<&[u8]> = read.iter().map(|tile| tile.bytes).collect();
        let apply = |read: &mut [Reading], out: &mut [u8], show: &mut dyn FnMut(&[u8])| {
            let see = |nth: usize, piece: &[u8]| read[nth].see(piece);
            plan.apply_shown(&sources, out, see, show).expect("tiles are of one length");
        };
        let (world, region) = (self.world, self.snapshot());
        let to = StoreTile { pe: world.me(), region, tile };
        let is_sum = plan.coefficients().iter().all(|&factor| factor == 1);
        match line {
            Some(line) => apply(&mut read, &mut lock(&line[tile.at()]), &mut |_| ()),
            None => tiles::write(world, to, self.target, |out, seal| {
                if is_sum {
                    apply(&mut read, out, &mut |_| ());
                    seal.update_sum(&self.sum, read.iter().filter_map(Reading::seen));
                } else {
                    apply(&mut read, out, &mut |piece| seal.update(piece));
                }
            }),
        }
        match pes.into_iter().zip(read).find_map(|(pe, tile)| (!tile.holds()).then_some(pe)) {
            None => {
                self.progress.add();
                Ok(())
            }
            Some(pe) => {
                if line.is_none() {
                    tiles::set_stamp(world.segments, region, tile, &[0; STAMP]);
                }
                Err(pe)
            }
        }
    }

    /// Pulls the next tiles of shards that far PEs hold, as many steps as there are rooms for.
    fn pull(&self, sources: &[usize], stripe: usize, steps: &[usize], rooms: &mut [Vec<Room>]) {
        let begins = sources.iter().map(|&shard| self.source(stripe, shard));
        let begins: Vec<StoreTile> = begins.collect();
        let mut wanted = Vec::new();
        for (&step, rooms) in steps.iter().zip(rooms) {
            wanted.extend(begins.iter().map(|first| first.after(step)).zip(rooms));
        }
        tiles::pull_store(self.world, wanted.into_iter());
    }

    /// The first tile of a shard of a stripe.
    fn source(&self, stripe: usize, shard: usize) -> StoreTile {
        let (shape, of) = (self.shape, ShardTile { stripe, shard, step: 0 });
        stored(self.world.segments, self.protection, shape, of, (self.target, self.len))
    }

    /// Maps the pages of tiles to be decoded, the own counted from `own`, and of what they are
    /// decoded from. A few at a time, behind the thread that touches fresh pages.
    fn map(&self, sources: &[usize], stripe: usize, steps: &[usize], own: usize) {
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return };
        let steps = *first..last + 1;
        for &shard in sources {
            let first = self.source(stripe, shard).after(steps.start);
            tiles::map_store(self.world.segments, first, steps.len());
        }
        if self.protection.mode.keeps_snapshot() {
            let (pe, region) = (self.world.me(), self.snapshot());
            let first = StoreTile { pe, region, tile: TileIndex::of(own + steps.start) };
            tiles::map_store(self.world.segments, first, steps.len());
        }
    }
}

/// Which tile of a shard of a stripe.
#[derive(Debug, Clone, Copy)]
pub struct ShardTile {
    /// The stripe.
    pub stripe: usize,
    /// The shard of it: data first, then parity.
    pub shard: usize,
    /// The tile of that.
    pub step: usize,
}

/// A tile of a shard as of checkpoint `number`, whose snapshots have `len` bytes, to be checked
/// while it is used, and the PE that holds it; in `room` if that PE is far.
pub fn reading<'a>(
    world: &'a World,
    protection: &Protection,
    shape: &GroupLayout,
    tile: ShardTile,
    (number, len): (CheckpointNumber, usize),
    room: &'a mut Room,
) -> (usize, Reading<'a>) {
    let at = stored(world.segments, protection, shape, tile, (number, len));
    let is_data = at.region == protection.snapshot_at(world.segments.layout(), number);
    match is_data && at.tile.at() >= tiles::tiles(len) {
        true => (at.pe.at(), Reading::zeroes()),
        false => (at.pe.at(), tiles::read(world, at, number, room)),
    }
}

/// Where a tile of a shard is stored as of checkpoint `number`, whose snapshots have `len` bytes.
fn stored(
    segments: &Segments,
    protection: &Protection,
    shape: &GroupLayout,
    ShardTile { stripe, shard, step }: ShardTile,
    (number, len): (CheckpointNumber, usize),
) -> StoreTile {
    let (stripe, layout) = (&shape.layout.stripes()[stripe], segments.layout());
    let (member, region, chunk) = match stripe.data.get(shard) {
        Some(data) => (data.member, protection.snapshot_at(layout, number), data.chunk),
        None => {
            let parity = stripe.parity[shard - stripe.data.len()];
            (parity.member, layout.slots[protection.slot_of(number)], parity.slot)
        }
    };
    let tile = chunk * (shape.chunk_len(len) / TILE) + step;
    StoreTile { pe: shape.members[member], region, tile: TileIndex::of(tile) }
}
