//! Writes since the last checkpoint, as the kernel noted them page by page.
//!
//! [`raidshmem_core::store::track`] defines the order of steps and the validity of their results.
//! This module carries them out: it watches pages, queries them, publishes in the own store what it
//! wrote to mapped PEs, and merges what all of them wrote to the own memory.
//!
//! Watched huge pages are split. Live memory is then read through other mappings, which keep their
//! huge pages and are read-only ([`raidshmem_segment::Segment::live`]). Before barrier C each PE
//! publishes to mapped PEs its costs of finding changes.
//!
//! Invariant: an error of the kernel does not fail the checkpoint. It ends the watch for good, on
//! this PE and on all PEs mapped here, and digests find the changes again.
//!
//! Left out: writes of devices to pages that they hold (`SHMEM_FT_TRACK=digests` is for these), and
//! mappings that the program makes itself.

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

/// The most mapped PEs with which tracking is on by default. Each PE keeps 8 bytes of page table
/// for each page of all of them: a sixteenth of the watched memory at this number.
const MOST_NEAR: usize = 32;
/// The largest gap between two covered ranges that is watched with them, in bytes.
const GAP: usize = 1 << 20;

/// Publishes, before barrier Q of checkpoint `number`, what this process wrote to mapped PEs since
/// the last one, or that this is unknown.
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
            world.comm.sees_writes() && mapped_peers(world.segments).all(seen)
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

/// Returns, after barrier Q, the own tiles that any PE wrote to since checkpoint `number - 1`; None
/// if they are unknown.
pub fn written(world: &World, coverage: &Coverage, number: CheckpointNumber) -> Option<TileSet> {
    let count = tiles::tiles(coverage.len());
    let mut tracking = lock(&world.store.tracking);
    let Tracking { tracked, watched, .. } = &mut *tracking;
    let said: Vec<WriteReport> =
        mapped_peers(world.segments).map(|pe| tiles::posted_written(world.segments, pe)).collect();
    let mut set = None;
    if tracked.gather(number, &said) {
        set = watched
            .as_ref()
            .and_then(|watched| look(watched, world.me(), &coverage.places(), count));
        match &mut set {
            Some(set) => mapped_peers(world.segments)
                .for_each(|pe| set.add(&tiles::written_by(world.segments, pe, count))),
            None => tracked.never(),
        }
    }
    if set.is_none() {
        *watched = None;
    }
    set
}

/// Publishes to mapped PEs, before barrier C, the costs of finding changes; `looked` is the time of
/// this checkpoint's digests, if it took any.
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

/// Starts write tracking, if it pays off given the changes in checkpoint `number`.
/// Called before barrier B, while live memory does not change.
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
        // If live memory is read through another mapping, splitting this one does no harm.
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

/// Returns true if a watch should begin or continue.
fn wanted(
    world: &World,
    protection: &Protection,
    coverage: &Coverage,
    number: CheckpointNumber,
    (tracked, costs): (&Tracked, &mut Costs),
) -> bool {
    let (settings, count) = (world.settings(), tiles::tiles(coverage.len()));
    let here = || mapped_peers(world.segments).chain([world.me()]);
    let few = few(count, here().map(|pe| tiles::changes(world, pe, count)));
    if !few {
        costs.spent = 0;
    }
    protection.mode.keeps_snapshot()
        && (settings.track != Track::Auto || mapped_peers(world.segments).count() < MOST_NEAR)
        && settings.delta != Delta::Off
        && tracked.pays(
            settings.track,
            number,
            few,
            here().map(|pe| tiles::costs_of(world.segments, pe)),
        )
        && world.comm.sees_writes()
}

/// Discards the changes since the last checkpoint, which the next one cannot use: the watch ends,
/// and all changes are unknown.
pub fn forget(store: &Store) {
    *lock(&store.history) = None;
    let mut tracking = lock(&store.tracking);
    tracking.tracked.end();
    (tracking.watched, tracking.since) = (None, None);
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the ranges to watch, as offsets in the segment.
fn spans(coverage: &Coverage) -> Vec<Range<usize>> {
    coverage.places().spans(PAGE, GAP)
}

/// Returns the PEs whose memory is mapped here, except this one.
fn mapped_peers(segments: &Segments) -> impl Iterator<Item = Pe> + '_ {
    Pe::all(segments.n_pes()).filter(|&pe| pe != segments.me() && !segments.is_remote(pe))
}

/// Returns the tiles of PE `pe`, of `count`, that this process wrote to; None if the kernel fails.
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
