//! Finds what was written since the last checkpoint, as the kernel noted it page by page.
//!
//! [`raidshmem_core::store::track`] says in which order, and what a look is good for. This module
//! does it: it watches pages, looks at them, shows in the own store what it wrote to PEs near this
//! one, and puts together what all of them wrote to the own memory.
//!
//! Huge pages are cut where they are watched. Live memory is read through other mappings then,
//! which are not, and through which nothing can be written ([`raidshmem_segment::Segment::live`]).
//! Before barrier C each PE shows those near it what it costs to find changes.
//!
//! Invariant: an error of the kernel is no error of the checkpoint. It ends the watch for good, on
//! this PE and on all near it, and what changed is found by digests again.
//!
//! Left out: what devices write to pages that they hold (`SHMEM_FT_TRACK=digests` is for that), and
//! mappings that the program makes of its own.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::time::{Duration, Instant};

use raidshmem_core::layout::TILE;
use raidshmem_core::page::PAGE;
use raidshmem_core::quantity::{CheckpointNumber, Pe, TileIndex};
use raidshmem_core::settings::{Delta, Track};
use raidshmem_core::store::coverage::{Coverage, LinePlaces};
use raidshmem_core::store::delta::TileSet;
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::track::{Costs, Tracked, WriteReport, few};
use raidshmem_sys::lock;

use super::tiles;
use crate::pgas::watch::{Tracking, Watched};
use crate::pgas::{Segments, Store, World};

/// Most PEs near each other that do so unasked. Each keeps 8 bytes of page table for each page of
/// all of them: with so many a sixteenth of what is watched.
const MOST_NEAR: usize = 32;
/// Bytes between two covered ranges that are watched with them.
const GAP: usize = 1 << 20;

/// Before barrier Q of checkpoint `number`: shows what this process wrote to the PEs near it since
/// the last one, or that it does not know.
pub fn show(world: &World, coverage: &Coverage, number: CheckpointNumber) {
    let mut tracking = lock(&world.store.tracking);
    let Tracking { tracked, watched, costs, since } = &mut *tracking;
    costs.ran = since.map_or(u64::MAX, |since| nanos(since.elapsed()));
    if tracked.show(number, coverage) {
        let all = watched.as_ref().is_some_and(|watched| {
            let places = coverage.places();
            let count = tiles::tiles(coverage.len());
            let seen = |pe: Pe| {
                let set = match world.reached.take(pe) {
                    true => look(watched, pe, &places, count),
                    false => Some(TileSet::none(count)),
                };
                set.inspect(|set| tiles::show_written(world.segments, pe, set)).is_some()
            };
            world.comm.sees_writes() && near(world.segments).all(seen)
        });
        if !all {
            tracked.never();
        }
    }
    if tracked.said() == WriteReport::Nothing || tracked.said() == WriteReport::Never {
        *watched = None;
    }
    tiles::post_written(world.segments, tracked.said());
}

/// After barrier Q: the own tiles that anybody wrote to since checkpoint `number - 1`; None if that
/// is not known.
pub fn written(world: &World, coverage: &Coverage, number: CheckpointNumber) -> Option<TileSet> {
    let count = tiles::tiles(coverage.len());
    let mut tracking = lock(&world.store.tracking);
    let Tracking { tracked, watched, .. } = &mut *tracking;
    let said: Vec<WriteReport> =
        near(world.segments).map(|pe| tiles::posted_written(world.segments, pe)).collect();
    let mut set = None;
    if tracked.gather(number, &said) {
        set = watched
            .as_ref()
            .and_then(|watched| look(watched, world.me(), &coverage.places(), count));
        match &mut set {
            Some(set) => near(world.segments)
                .for_each(|pe| set.add(&tiles::written_by(world.segments, pe, count))),
            None => tracked.never(),
        }
    }
    if set.is_none() {
        *watched = None;
    }
    set
}

/// Before barrier C: shows the PEs near it what it costs to find changes, `looked` if digests found
/// them now.
pub fn post_costs(world: &World, coverage: &Coverage, looked: Option<Duration>) {
    let mut tracking = lock(&world.store.tracking);
    let costs = &mut tracking.costs;
    if let Some(looked) = looked {
        costs.looked = nanos(looked);
        costs.spent = costs.spent.saturating_add(costs.looked);
        costs.huge = world.segments.huge_bytes(&spans(coverage)) as u64;
    }
    tiles::post_costs(world.segments, costs);
}

/// Before barrier B, while live memory stands still: watches what is written from here on, if that
/// pays after the changes that checkpoint `number` brought.
pub fn watch(
    world: &World,
    protection: &Protection,
    coverage: &Coverage,
    number: CheckpointNumber,
) {
    let mut tracking = lock(&world.store.tracking);
    let Tracking { tracked, watched, costs, since } = &mut *tracking;
    let wanted = wanted(world, protection, coverage, number, (tracked, costs));
    *since = Some(Instant::now());
    if wanted && tracked.goes_on(number) {
        return tracked.begin(number, coverage.clone());
    }
    *watched = None; // before another one: a page has one watch at a time
    tracked.end();
    if wanted {
        costs.spent = 0;
        // A PE that reads live memory through another mapping does not mind that this one is cut.
        let cuts = world.settings().track == Track::Pages || world.segments.own().is_twice();
        match Watched::new(world.segments, &spans(coverage), cuts) {
            Ok(new) => {
                *watched = Some(new);
                tracked.begin(number, coverage.clone());
            }
            Err(error) => {
                tracing::info!("pages are not watched: {error}");
                tracked.never();
            }
        }
    }
}

/// True if a watch is to begin or to go on.
fn wanted(
    world: &World,
    protection: &Protection,
    coverage: &Coverage,
    number: CheckpointNumber,
    (tracked, costs): (&Tracked, &mut Costs),
) -> bool {
    let (settings, count) = (world.settings(), tiles::tiles(coverage.len()));
    let here = || near(world.segments).chain([world.me()]);
    let few = few(count, here().map(|pe| tiles::changes(world, pe, count)));
    if !few {
        costs.spent = 0;
    }
    protection.mode.keeps_snapshot()
        && (settings.track != Track::Auto || near(world.segments).count() < MOST_NEAR)
        && settings.delta != Delta::Off
        && tracked.pays(
            settings.track,
            number,
            few,
            here().map(|pe| tiles::costs_of(world.segments, pe)),
        )
        && world.comm.sees_writes()
}

/// A recovery: nothing is known any more.
pub fn forget(store: &Store) {
    let mut tracking = lock(&store.tracking);
    tracking.tracked.end();
    (tracking.watched, tracking.since) = (None, None);
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What is watched, as offsets in the segment.
fn spans(coverage: &Coverage) -> Vec<Range<usize>> {
    coverage.places().spans(PAGE, GAP)
}

/// The PEs whose memory is mapped here, but for this one.
fn near(segments: &Segments) -> impl Iterator<Item = Pe> + '_ {
    Pe::all(segments.n_pes()).filter(|&pe| pe != segments.me() && !segments.is_far(pe))
}

/// Tiles of PE `pe`, of `count`, that this process wrote to; None if the kernel does not say.
fn look(watched: &Watched, pe: Pe, places: &LinePlaces, count: usize) -> Option<TileSet> {
    let mut set = TileSet::none(count);
    let each = |bytes: Range<usize>| {
        for part in places.of(bytes) {
            (part.start / TILE..part.end.div_ceil(TILE))
                .for_each(|tile| set.insert(TileIndex::of(tile)));
        }
    };
    watched.take(pe, each).ok().map(|()| set)
}
