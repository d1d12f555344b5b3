//! The step that makes parity: of the peers' live memory, a tile at a time, into the free slot.
//!
//! What did not change is not computed, and where little did a tile is brought up to date from what
//! it was ([`Next`]). Snapshots are those of the last checkpoint until all have encoded, so what a
//! changed source was can be read there; it is believed only if its checksum holds, like the old
//! tile of parity. If either does not, the tile is computed from all sources.
//!
//! Invariant: a tile has the stamp of the checkpoint only if it is the parity of live memory as it
//! is now, or if a peer was lost meanwhile, and then nobody believes it.

#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::sync::Mutex;

use raidshmem_codec::code::Code;
use raidshmem_codec::stripe::Data;

use super::{pipeline, tiles};
use crate::inject::Point;
use crate::pgas::World;
use crate::pgas::world::lock;
use crate::segment::layout::TILE;
use crate::store::coverage::Coverage;
use crate::store::delta::{Changes, Next, TileSet};
use crate::store::protection::{Protection, Shape};
use crate::store::stamp::Renewal;

/// Pulls the chunks this PE protects from its peers' live memory into the slot of `number`, whose
/// record is void meanwhile; of the parity chunks it holds only those that `wanted` names. `half`
/// is passed when half of what has to be computed is done. After a death the slot holds anything:
/// the caller looks at the view before it believes it.
pub fn encode(
    world: &World,
    protection: &Protection,
    coverage: &Coverage,
    number: u64,
    wanted: &dyn Fn(usize) -> bool,
    changes: Option<&mut Changes>,
    half: Point,
) {
    let (shape, place) = protection.place(world.me());
    let per_chunk = shape.chunk_len(coverage.len()) / TILE;
    let job = Encode { world, protection, coverage, shape, place, per_chunk, number };
    let tasks = job.wanted(wanted, changes);
    let (first, second) = tasks.split_at(tasks.len() / 2);
    job.run(first);
    world.point(half, number);
    job.run(second);
}

/// A tile of the own parity: which of the parity chunks, and how far into it, in tiles.
type Tile = (usize, usize);

/// A tile to be computed.
struct Task {
    tile: Tile,
    /// The sources that changed, by their positions, if it is enough to know what they were and
    /// are.
    update: Option<Vec<usize>>,
}

/// Room for a tile of each source as it is, and as it was.
struct Scratch {
    live: Vec<Vec<u8>>,
    old: Vec<tiles::Room>,
}

struct Encode<'a> {
    world: &'a World,
    protection: &'a Protection,
    coverage: &'a Coverage,
    shape: &'a Shape,
    place: usize,
    per_chunk: usize,
    number: u64,
}

impl Encode<'_> {
    /// The tiles to be computed, after those that can be had without are made right. All rows of
    /// a step before the next step: another PE, at about the same step, has just read the same
    /// bytes for its row of the same stripe, so that they are in the cache the PEs share.
    fn wanted(&self, wanted: &dyn Fn(usize) -> bool, changes: Option<&mut Changes>) -> Vec<Task> {
        let Encode { world, shape, .. } = *self;
        let indices = 0..shape.layout.parities_of(self.place).len();
        let named: Vec<usize> = indices.clone().filter(|&index| wanted(index)).collect();
        let steps = 0..self.per_chunk;
        let all = steps.flat_map(|step| named.iter().map(move |&index| (index, step)));
        let whole = |tile| Task { tile, update: None };
        let Some(changes) = changes else { return all.map(whole).collect() };
        let shown = |&pe: &usize| tiles::changes(world, pe, tiles::tiles(self.coverage.len()));
        let shown: Vec<TileSet> = shape.members.iter().map(shown).collect();
        let (all, known) = (all.collect::<Vec<Tile>>(), &*changes);
        let tasks = Mutex::new(Vec::new());
        let slots = self.protection.mode.slots() as u64;
        let renewal =
            |back: u64| tiles::renewal(world, self.number.saturating_sub(back), self.number);
        let renewals = (&renewal(slots), &renewal(1));
        let look = |nth: usize, (): &mut ()| {
            let (tile, at) = (all[nth], self.at(all[nth]));
            let sources: Vec<(&Data, usize)> = self.sources(tile).collect();
            let is_changed = |&position: &usize| {
                let (data, tile) = sources[position];
                shown[data.member].contains(tile)
            };
            let changed: Vec<usize> = (0..sources.len()).filter(is_changed).collect();
            let next = known.next(at, (changed.len(), sources.len()));
            if !self.spared(next, at, renewals) {
                let update = (next == Next::Update).then_some(changed);
                lock(&tasks).push((nth, Task { tile, update }));
            }
        };
        world.crew.numbers(0..all.len(), || (), look);
        let mut tasks = tasks.into_inner().expect("no thread panicked");
        tasks.sort_unstable_by_key(|&(nth, _)| nth);
        let tasks: Vec<Task> = tasks.into_iter().map(|(_, task)| task).collect();
        changes.made = TileSet::none(indices.end * self.per_chunk);
        tasks.iter().for_each(|task| changes.made.insert(self.at(task.tile)));
        tasks
    }

    /// Makes tile `at` of the own parity that of this checkpoint without its sources, if it can be
    /// had so: with the stamp that it has there, or that in the other slot, renewed.
    fn spared(&self, next: Next, at: usize, (here, other): (&Renewal, &Renewal)) -> bool {
        let Encode { world, number, .. } = *self;
        match next {
            Next::Keep => tiles::renew(world, self.slot(number), at, here),
            Next::Carry => {
                let slots = (self.slot(number - 1), self.slot(number));
                tiles::carry(world, slots, at, number, other)
            }
            Next::Update | Next::Make => false,
        }
    }

    /// Where the own parity of a checkpoint is.
    fn slot(&self, number: u64) -> usize {
        self.world.layout().slots[self.protection.slot_of(number)]
    }

    /// Which tile of the own parity that is.
    fn at(&self, (index, step): Tile) -> usize {
        index * self.per_chunk + step
    }

    fn stripe(&self, (index, _): Tile) -> usize {
        self.shape.layout.parities_of(self.place)[index].stripe
    }

    /// What a tile is computed from, and which tile of its member that is.
    fn sources(&self, tile: Tile) -> impl Iterator<Item = (&Data, usize)> {
        let data = &self.shape.layout.stripes()[self.stripe(tile)].data;
        data.iter().map(move |data| (data, data.chunk * self.per_chunk + tile.1))
    }

    /// The same by PE.
    fn places(&self, tile: Tile) -> impl Iterator<Item = (usize, usize)> {
        self.sources(tile).map(|(data, at)| (self.shape.members[data.member], at))
    }

    /// Computes tiles, with all threads of this process.
    fn run(&self, tasks: &[Task]) {
        let members = self.shape.members.len();
        let far = self.shape.members.iter().any(|&pe| self.world.is_far(pe));
        let scratch = || Scratch {
            live: vec![vec![0; TILE]; members],
            old: vec![tiles::Room::empty(); members],
        };
        let pull = |batch: &[Task], scratches: &mut [Scratch]| self.pull(batch, scratches);
        let work = |task: &Task, scratch: &mut Scratch| {
            let updated = task.update.as_ref().is_some_and(|u| self.update(task.tile, u, scratch));
            if !updated {
                self.compute(task, scratch);
            }
            Ok::<(), Infallible>(())
        };
        let Ok(()) = pipeline::run(&self.world.crew, tasks, scratch, far, pull, work);
    }

    /// Pulls what is far of the sources of a batch, all on its way at a time.
    fn pull(&self, batch: &[Task], scratches: &mut [Scratch]) {
        let (mut live, mut old) = (Vec::new(), Vec::new());
        for (task, scratch) in batch.iter().zip(scratches) {
            let places: Vec<(usize, usize)> = self.places(task.tile).collect();
            match &task.update {
                None => live.extend(places.into_iter().zip(&mut scratch.live)),
                Some(changed) => {
                    let places = changed.iter().map(|&position| places[position]);
                    live.extend(places.clone().zip(&mut scratch.live));
                    let was = |(pe, tile)| (pe, self.world.layout().snapshot, tile);
                    old.extend(places.map(was).zip(&mut scratch.old));
                }
            }
        }
        tiles::pull(self.world, self.coverage, live.into_iter());
        tiles::pull_store(self.world, old.into_iter());
    }

    /// Computes a tile from what it was and the sources that changed, of which what is far was
    /// pulled. False, with nothing done, if something that it takes does not hold.
    fn update(&self, tile: Tile, changed: &[usize], scratch: &mut Scratch) -> bool {
        let Encode { world, coverage, number, .. } = *self;
        let (last, snapshot) = (number - 1, world.layout().snapshot);
        let parity = tiles::own(world, self.slot(last), self.at(tile), last);
        let Some(parity) = parity else { return false };
        let places: Vec<(usize, usize)> = self.places(tile).collect();
        let rooms = scratch.live.iter_mut().zip(&mut scratch.old);
        let mut changes = Vec::with_capacity(changed.len());
        for (&position, (live, old)) in changed.iter().zip(rooms) {
            let (pe, at) = places[position];
            let was = tiles::fetch(world, pe, snapshot, at, last, old);
            let Some(was) = was else { return false };
            changes.push((position, was, tiles::live(world, pe, coverage, at, live)));
        }
        let (code, row) = self.code(tile);
        tiles::write(world, self.slot(number), self.at(tile), number, |out, seal| {
            code.update_row_shown(row, parity, &changes, out, |piece| seal.update(piece))
                .expect("tiles are of one length");
        });
        true
    }

    /// Computes a tile from all of its sources, of which what is far was pulled, unless it was to
    /// be updated.
    fn compute(&self, task: &Task, scratch: &mut Scratch) {
        let Encode { world, coverage, number, .. } = *self;
        let places = self.places(task.tile);
        if task.update.is_some() {
            tiles::pull(world, coverage, self.places(task.tile).zip(&mut scratch.live));
        }
        let live = |((pe, at), scratch)| tiles::live(world, pe, coverage, at, scratch);
        let scratches = scratch.live.iter_mut().map(Vec::as_mut_slice);
        let sources: Vec<&[u8]> = places.zip(scratches).map(live).collect();
        let (code, row) = self.code(task.tile);
        tiles::write(world, self.slot(number), self.at(task.tile), number, |out, seal| {
            code.encode_row_shown(row, &sources, out, |piece| seal.update(piece))
                .expect("tiles are of one length");
        });
    }

    /// The code of a tile's stripe, and which row of it the tile is.
    fn code(&self, tile: Tile) -> (&Code, usize) {
        let row = self.shape.layout.parities_of(self.place)[tile.0].row;
        (&self.shape.codes[self.stripe(tile)], row)
    }
}
