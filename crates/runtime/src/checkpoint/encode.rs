//! The parity step: computes parity of the peers' live memory, a tile at a time, in the free slot.
//!
//! Unchanged parity is not computed, and a tile with few changes is updated from its old value
//! ([`TileStep`]). Snapshots are those of the last checkpoint until all PEs have encoded, so the
//! old value of a changed source can be read there; it is used only if its checksum is right, like
//! the old tile of parity. If either checksum is wrong, the tile is computed from all sources.
//!
//! In the background, sources are the snapshots of the new checkpoint, which are complete: live
//! memory changes meanwhile. Then the calling thread computes alone, and nothing is copied.
//!
//! With a second snapshot, tiles that are read for the first parity over them are also written into
//! it (see [`super::copy`]).
//!
//! Invariant: a tile has the stamp of the checkpoint only if it is the parity of its sources as
//! they are now, or if a peer was lost meanwhile, and then no PE uses it.

#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Mutex;

use raidshmem_codec::code::Code;
use raidshmem_codec::stripe::Data;
use raidshmem_core::inject::Point;
use raidshmem_core::layout::TILE;
use raidshmem_core::quantity::{CheckpointNumber, Pe, TileIndex};
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::store::delta::{Changes, SourceCount, TileSet, TileStep};
use raidshmem_core::store::protection::{GroupLayout, Protection};
use raidshmem_core::store::readonly::{ReadOnly, TileRun};
use raidshmem_core::store::stamp::Renewal;
use raidshmem_sys::lock;
use raidshmem_sys::pool::WorkerPool;

use super::copy::{self, Own};
use super::pipeline;
use super::sources::{self, Sources};
use super::tiles::{self, LiveTile, StoreTile};
use crate::pgas::World;

/// Pulls the chunks that this PE protects from its peers' live memory into the slot of `number`,
/// whose record is void meanwhile; of its parity chunks it computes only those that `wanted`
/// selects. Passes `half` when half of the work is done, and with `changes`, in a checkpoint, also
/// writes its part of second snapshots. After a death these and the slot hold arbitrary data: the
/// caller checks the view before it uses them.
pub fn encode(
    world: &World,
    protection: &Protection,
    coverage: &Coverage,
    number: CheckpointNumber,
    wanted: &dyn Fn(usize) -> bool,
    (mut changes, half): (Option<&mut Changes>, Point),
) {
    let job = &Encode::new(world, protection, coverage, (number, Sources::Live));
    let mut tasks = job.wanted(wanted, changes.as_deref_mut());
    let own = Own::new(world, protection, coverage, number);
    let changes = changes.as_deref();
    let left = changes.map_or(Vec::new(), |changes| own.left(changes));
    let bring = |nth: usize, scratch: &mut [u8]| own.bring(left[nth], changes, scratch);
    if tasks.is_empty() {
        job.pool.numbers(0..left.len(), || vec![0; TILE], |nth, tile| bring(nth, tile));
    }
    let count = tasks.len();
    for (nth, task) in tasks.iter_mut().enumerate() {
        task.own = nth * left.len() / count..(nth + 1) * left.len() / count;
    }
    job.run_by_halves(&tasks, (half, number), &bring);
}

/// Like [`encode`] of all that changed, over the snapshots of checkpoint `number`, while the
/// program runs. Stops early if a PE is lost.
pub fn encode_behind(
    world: &World,
    protection: &Protection,
    coverage: &Coverage,
    number: CheckpointNumber,
    (changes, from): (&mut Changes, Sources),
) {
    let alone = WorkerPool::new(1, Vec::new());
    let job = Encode::new(world, protection, coverage, (number, from));
    let job = Encode { pool: &alone, behind: true, ..job };
    let tasks = job.wanted(&|_| true, Some(changes));
    job.run_by_halves(&tasks, (Point::Encode, number), &|_, _| ());
}

/// Computes the own parity over a range of the live memory of each PE of the group, for the groups
/// of checkpoint `target`, sealed as of checkpoint `number`; passes `half` when half of it is done.
pub fn encode_range(
    world: &World,
    protection: &Protection,
    range: ReadOnly,
    (number, target): (CheckpointNumber, CheckpointNumber),
    half: Point,
) {
    let coverage = &Coverage::of_range(range.range());
    let parity = range.parity(world.segments.layout(), target);
    let job = Encode::new(world, protection, coverage, (number, Sources::Live));
    let job = Encode { parity, ..job };
    let named: Vec<usize> = (0..job.shape.layout.parities_of(job.place).len()).collect();
    let tasks: Vec<Task> = job.tiles(&named).map(Task::whole).collect();
    world.segments.own().populate(parity.offset(), tasks.len() * TILE);
    job.run_by_halves(&tasks, (half, target), &|_, _| ());
}

/// A tile of the own parity.
#[derive(Debug, Clone, Copy)]
struct ParityTile {
    /// Index of the own parity chunk.
    chunk: usize,
    /// Offset in the chunk, in tiles.
    step: usize,
}

/// A tile to compute.
struct Task {
    tile: ParityTile,
    /// Positions of the sources that changed, if their old and new values suffice.
    update: Option<Vec<usize>>,
    /// The sources to write into their owners' second snapshots.
    copies: Vec<usize>,
    /// The range, among the own tiles that no other PE writes, to write along with it.
    own: Range<usize>,
}

impl Task {
    /// Returns the task to compute a tile from all sources.
    fn whole(tile: ParityTile) -> Task {
        Task { tile, update: None, copies: Vec::new(), own: 0..0 }
    }
}

/// Scratch for the new and the old tile of each source.
struct Scratch {
    live: Vec<Vec<u8>>,
    old: Vec<tiles::Scratch>,
}

struct Encode<'a> {
    world: &'a World,
    protection: &'a Protection,
    coverage: &'a Coverage,
    shape: &'a GroupLayout,
    place: usize,
    per_chunk: usize,
    number: CheckpointNumber,
    /// The destination.
    parity: TileRun,
    from: Sources,
    pool: &'a WorkerPool,
    /// True while the program runs: it stops once a PE is lost, and copies nothing.
    behind: bool,
}

impl<'a> Encode<'a> {
    /// Returns the computation of the own parity of checkpoint `number`.
    fn new(
        world: &'a World,
        protection: &'a Protection,
        coverage: &'a Coverage,
        (number, from): (CheckpointNumber, Sources),
    ) -> Encode<'a> {
        let (shape, place) = protection.place(world.me());
        let per_chunk = shape.chunk_len(coverage.len()) / TILE;
        let slot = world.segments.layout().slots[protection.slot_of(number)];
        let parity = TileRun { region: slot, first: TileIndex(0) };
        let pool = &world.store.pool;
        Encode {
            world,
            protection,
            coverage,
            shape,
            place,
            per_chunk,
            number,
            parity,
            from,
            pool,
            behind: false,
        }
    }

    /// Computes tiles, and passes `half` when half of the work is done.
    fn run_by_halves(
        &self,
        tasks: &[Task],
        (half, number): (Point, CheckpointNumber),
        bring: &(dyn Fn(usize, &mut [u8]) + Sync),
    ) {
        let (first, second) = tasks.split_at(tasks.len() / 2);
        self.run(first, bring);
        self.world.members.point(half, number);
        self.run(second, bring);
    }

    /// Returns the bytes of a source; those of a remote one were pulled into `scratch`.
    fn source<'b>(&'b self, source: LiveTile, scratch: &'b mut [u8]) -> &'b [u8] {
        let segments = self.world.segments;
        match self.from {
            Sources::Live => tiles::live(segments, source, self.coverage, scratch),
            Sources::Snapshots => {
                let at = source.in_store(self.snapshot(self.number));
                sources::saved(segments, at, self.coverage.len(), scratch)
            }
        }
    }

    /// Pulls remote sources, all in flight at a time.
    fn pull_sources<'b>(&self, wanted: impl Iterator<Item = (LiveTile, &'b mut Vec<u8>)>) {
        match self.from {
            Sources::Live => tiles::pull(self.world, self.coverage, wanted),
            Sources::Snapshots => {
                let region = self.snapshot(self.number);
                let wanted = wanted.map(|(at, scratch)| (at.in_store(region), scratch));
                sources::pull_saved(self.world, self.coverage.len(), wanted);
            }
        }
    }

    /// Returns the tiles of some chunks of the own parity: all rows of a step before the next step.
    /// Another PE, at about the same step, has just read the same bytes for its row of the same
    /// stripe, so they are in the cache that the PEs share.
    fn tiles<'b>(&self, chunks: &'b [usize]) -> impl Iterator<Item = ParityTile> + use<'a, 'b> {
        let steps = 0..self.per_chunk;
        steps.flat_map(move |step| chunks.iter().map(move |&chunk| ParityTile { chunk, step }))
    }

    /// Returns the tiles to compute, after renewing those that need no computation.
    fn wanted(&self, wanted: &dyn Fn(usize) -> bool, changes: Option<&mut Changes>) -> Vec<Task> {
        let Encode { world, shape, .. } = *self;
        let indices = 0..shape.layout.parities_of(self.place).len();
        let named: Vec<usize> = indices.clone().filter(|&index| wanted(index)).collect();
        let all = self.tiles(&named);
        let Some(changes) = changes else { return all.map(Task::whole).collect() };
        let shown = |&pe: &Pe| tiles::changes(world, pe, tiles::tiles(self.coverage.len()));
        let shown: Vec<TileSet> = shape.members.iter().map(shown).collect();
        let (all, known) = (all.collect::<Vec<ParityTile>>(), &*changes);
        let tasks = Mutex::new(Vec::new());
        let slots = self.protection.mode.slots() as u64;
        let renewal = |back: u64| tiles::renewal(world, self.number, back);
        let renewals = (&renewal(slots), &renewal(1));
        let look = |nth: usize, (): &mut ()| {
            let (tile, at) = (all[nth], self.at(all[nth]));
            let sources: Vec<(&Data, TileIndex)> = self.sources(tile).collect();
            let is_changed = |&position: &usize| {
                let (data, tile) = sources[position];
                shown[data.member].contains(tile)
            };
            let changed: Vec<usize> = (0..sources.len()).filter(is_changed).collect();
            let count = SourceCount { changed: changed.len(), all: sources.len() };
            let next = known.next(at, count);
            if !self.spared(next, at, renewals) {
                let copies = self.copies(tile, &changed);
                let update = (next == TileStep::Update).then_some(changed);
                lock(&tasks).push((nth, Task { update, copies, ..Task::whole(tile) }));
            }
        };
        self.pool.numbers(0..all.len(), || (), look);
        let mut tasks = tasks.into_inner().expect("no thread panicked");
        tasks.sort_unstable_by_key(|&(nth, _)| nth);
        let tasks: Vec<Task> = tasks.into_iter().map(|(_, task)| task).collect();
        changes.made = TileSet::none(indices.end * self.per_chunk);
        tasks.iter().for_each(|task| changes.made.insert(self.at(task.tile)));
        tasks
    }

    /// Makes tile `at` of the own parity that of this checkpoint without its sources, if possible:
    /// by renewing its present stamp, or that in the other slot.
    fn spared(&self, next: TileStep, at: TileIndex, (here, other): (&Renewal, &Renewal)) -> bool {
        let Encode { world, number, .. } = *self;
        match next {
            TileStep::Keep => tiles::renew(world, self.slot(number), at, here),
            TileStep::Carry => {
                tiles::carry(world, self.slot(number.previous()), self.own(at), number, other)
            }
            TileStep::Update | TileStep::Make => false,
        }
    }

    /// Returns the sources at `changed` that this PE writes into their owners' second snapshots.
    fn copies(&self, tile: ParityTile, changed: &[usize]) -> Vec<usize> {
        let (places, len): (Vec<_>, _) = (self.places(tile).collect(), self.coverage.len());
        let is_mine =
            |&at: &usize| copy::is_mine(self.world.segments, self.protection, places[at], len);
        changed.iter().copied().filter(|at| !self.behind && is_mine(at)).collect()
    }

    /// Writes a source, of contents `bytes`, into its owner's second snapshot.
    fn copy(&self, source: LiveTile, bytes: &[u8]) {
        let to = source.in_store(self.snapshot(self.number));
        tiles::put(self.world, to, self.number, bytes);
    }

    /// Returns the offset of the snapshots of a checkpoint.
    fn snapshot(&self, number: CheckpointNumber) -> usize {
        self.protection.snapshot_at(self.world.segments.layout(), number)
    }

    /// Returns the offset of the own parity of a checkpoint.
    fn slot(&self, number: CheckpointNumber) -> usize {
        self.world.segments.layout().slots[self.protection.slot_of(number)]
    }

    /// Returns the index of a tile in the own parity.
    fn at(&self, tile: ParityTile) -> TileIndex {
        TileIndex(tile.chunk * self.per_chunk + tile.step)
    }

    /// Returns the destination of tile `at` of the own parity.
    fn own(&self, at: TileIndex) -> StoreTile {
        StoreTile::own(self.world, self.parity, at.at())
    }

    fn stripe(&self, tile: ParityTile) -> usize {
        self.shape.layout.parities_of(self.place)[tile.chunk].stripe
    }

    /// Returns the sources of a tile, each with its index among the tiles of its member.
    fn sources(&self, tile: ParityTile) -> impl Iterator<Item = (&Data, TileIndex)> {
        let data = &self.shape.layout.stripes()[self.stripe(tile)].data;
        data.iter().map(move |data| (data, TileIndex(data.chunk * self.per_chunk + tile.step)))
    }

    /// Returns the sources of a tile, by PE.
    fn places(&self, tile: ParityTile) -> impl Iterator<Item = LiveTile> {
        let of = |(data, tile): (&Data, TileIndex)| LiveTile {
            pe: self.shape.members[data.member],
            tile,
        };
        self.sources(tile).map(of)
    }

    /// Computes tiles with all threads of this process, and calls `bring` for the own tiles that go
    /// along with them.
    fn run(&self, tasks: &[Task], bring: &(dyn Fn(usize, &mut [u8]) + Sync)) {
        let members = self.shape.members.len();
        let remote = self.shape.members.iter().any(|&pe| self.world.segments.is_remote(pe));
        let scratch = || Scratch {
            live: vec![vec![0; TILE]; members],
            old: vec![tiles::Scratch::empty(); members],
        };
        let is_over = || self.behind && self.world.members.faulted();
        let pull = |batch: &[Task], scratches: &mut [Scratch]| {
            if !is_over() {
                self.pull(batch, scratches);
            }
        };
        let work = |task: &Task, scratch: &mut Scratch| {
            if is_over() {
                return Ok::<(), Infallible>(());
            }
            let updated = task.update.as_ref().is_some_and(|u| self.update(task, u, scratch));
            if !updated {
                self.compute(task, scratch);
            }
            task.own.clone().for_each(|nth| bring(nth, &mut scratch.live[0]));
            Ok(())
        };
        let Ok(()) = pipeline::run(self.pool, tasks, scratch, remote, pull, work);
    }

    /// Pulls the remote sources of a batch, all in flight at a time.
    fn pull(&self, batch: &[Task], scratches: &mut [Scratch]) {
        let (mut live, mut old) = (Vec::new(), Vec::new());
        for (task, scratch) in batch.iter().zip(scratches) {
            let places: Vec<LiveTile> = self.places(task.tile).collect();
            match &task.update {
                None => live.extend(places.into_iter().zip(&mut scratch.live)),
                Some(changed) => {
                    let places = changed.iter().map(|&position| places[position]);
                    live.extend(places.clone().zip(&mut scratch.live));
                    let last = self.snapshot(self.number.previous());
                    let was = places.map(|place| place.in_store(last));
                    old.extend(was.zip(&mut scratch.old));
                }
            }
        }
        self.pull_sources(live.into_iter());
        tiles::pull_store(self.world, old.into_iter());
    }

    /// Computes a tile from its old value and the sources that changed; remote ones were pulled.
    /// Returns false, with nothing done, if an input is invalid.
    fn update(&self, task: &Task, changed: &[usize], scratch: &mut Scratch) -> bool {
        let Encode { world, number, .. } = *self;
        let tile = task.tile;
        let (last, snapshot) = (number.previous(), self.snapshot(number.previous()));
        let parity = tiles::own(world, self.slot(last), self.at(tile), last);
        let Some(parity) = parity else { return false };
        let places: Vec<LiveTile> = self.places(tile).collect();
        let inputs = scratch.live.iter_mut().zip(&mut scratch.old);
        let mut changes = Vec::with_capacity(changed.len());
        for (&position, (live, old)) in changed.iter().zip(inputs) {
            let source = places[position];
            let was = tiles::fetch(world, source.in_store(snapshot), last, old);
            let Some(was) = was else { return false };
            changes.push((position, was, self.source(source, live)));
        }
        let (code, row) = self.code(tile);
        tiles::write(world, self.own(self.at(tile)), number, |out, seal| {
            code.update_row_by_pieces(row, parity, &changes, out, |made| seal.put(made))
                .expect("tiles are of one length");
        });
        let copied = changes.iter().filter(|change| task.copies.contains(&change.0));
        copied.for_each(|&(position, _, is)| self.copy(places[position], is));
        true
    }

    /// Computes a tile from all of its sources; remote ones were pulled, unless it was to be
    /// updated. Sources that must be copied are copied first, which brings them into the cache.
    fn compute(&self, task: &Task, scratch: &mut Scratch) {
        let Encode { world, number, .. } = *self;
        let places: Vec<LiveTile> = self.places(task.tile).collect();
        if task.update.is_some() {
            self.pull_sources(self.places(task.tile).zip(&mut scratch.live));
        }
        let live = |(&source, scratch)| self.source(source, scratch);
        let scratches = scratch.live.iter_mut().map(Vec::as_mut_slice);
        let sources: Vec<&[u8]> = places.iter().zip(scratches).map(live).collect();
        let (code, row) = self.code(task.tile);
        task.copies.iter().for_each(|&position| self.copy(places[position], sources[position]));
        tiles::write(world, self.own(self.at(task.tile)), number, |out, seal| {
            code.encode_row_by_pieces(row, &sources, out, |made| seal.put(made))
                .expect("tiles are of one length");
        });
    }

    /// Returns the code of a tile's stripe, and the tile's row in it.
    fn code(&self, tile: ParityTile) -> (&Code, usize) {
        let row = self.shape.layout.parities_of(self.place)[tile.chunk].row;
        (&self.shape.codes[self.stripe(tile)], row)
    }
}
