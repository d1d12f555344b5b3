//! Prefaulting of memory before a recovery needs it, and of mappings before a loop over them.
//!
//! Threads of a substitute touch its fresh memory as soon as it begins, alongside the program and
//! on idle processors: the kernel takes longer to supply fresh pages than the rebuild to fill them.
//! The pages of the rebuild come first; the rest is touched at the lowest priority.
//!
//! Nothing is prefaulted in a program that has lost no PE: the first checkpoint that covers a block
//! pays for it, and a program that takes no checkpoint never does.
//!
//! Invariant: nothing here decides if a checkpoint is possible, and a failure is not an error: the
//! kernel supplies the pages later. Nothing is touched beyond the limit of checkpoints
//! (`SHMEM_FT_MEMORY_LIMIT`), or on a machine that is short of memory.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use raidshmem_core::layout::TILE;
use raidshmem_core::page::HUGE;
use raidshmem_core::quantity::{Pe, TileIndex};
use raidshmem_core::store::coverage::{Coverage, Piece};
use raidshmem_core::store::protection::Protection;
use raidshmem_sys::process;

use super::tiles::{self, LiveTile};
use super::{copy, footprint, reserve};
use crate::pgas::World;

/// Bytes that a thread touches at a time; other users of the address space wait that long.
const PIECE: usize = HUGE;
/// The most threads that touch pages.
const MOST: usize = 4;

/// Returns true if every PE of this machine may have a store for `len` bytes, and the stores
/// together with as much heap take at most half of the free memory of the machine.
fn affordable(world: &World, protection: &Protection, len: usize) -> bool {
    let hold = footprint(world.segments, protection, len).all() as u64 + world.log_most();
    let pes = world.pes_of_machine() as u64;
    let available = raidshmem_sys::memory::available().unwrap_or(0);
    let limit = world.settings().memory_limit.unwrap_or(u64::MAX);
    let all = (hold + len as u64).saturating_mul(pes);
    hold.saturating_mul(pes) <= limit && all <= available / 2
}

/// Starts prefaulting in a new process, if it is a substitute that adopts nothing: its store will
/// be as large as the peers' snapshots, and as much of the heap is assumed to be in use.
pub fn begin(world: &'static World) {
    let Some(protection) = world.store.protection().filter(|_| world.members.is_new()) else {
        return;
    };
    if world.segments.own().header().snapshot_hint().1 != 0 {
        return; // the pages exist: mapping them on use is faster than competing for it
    }
    let hint =
        |pe: Pe| world.segments.if_mapped(pe).map(|segment| segment.header().snapshot_hint());
    let (number, len) = Pe::all(world.n_pes()).filter_map(hint).max().unwrap_or_default();
    let layout = world.segments.layout();
    if len == 0 || len > layout.region_len || !affordable(world, &protection, len) {
        return;
    }
    let mut parts = reserve(world.segments, &protection, len);
    parts.swap(0, protection.snapshot_of(number)); // the rebuild starts with that one
    let first = parts[0].len.div_ceil(PIECE);
    parts.insert(1, Piece { at: layout.heap, len: len.min(layout.heap_len) });
    let cut = |Piece { at, len }| {
        (0..len).step_by(PIECE).map(move |from| Piece { at: at + from, len: PIECE.min(len - from) })
    };
    let pieces: Arc<[Piece]> = parts.into_iter().flat_map(cut).collect();
    let next = Arc::new(AtomicUsize::new(0));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..(processors - 1).min(MOST) {
        let (pieces, next) = (Arc::clone(&pieces), Arc::clone(&next));
        // Without a thread the pages come on first use. Relaxed: the counter only deals out
        // numbers.
        let _ = process::helper("shmem-prefault", 64 * 1024, move || {
            let mut modest = false;
            loop {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                let Some(&Piece { at, len }) = pieces.get(nth) else { break };
                if nth >= first && !std::mem::replace(&mut modest, true) {
                    process::least_priority();
                }
                world.segments.own().populate(at, len);
            }
        });
    }
}

/// Maps the peers' pages that this PE protects, and those to which it copies them.
pub fn look(world: &World, protection: &Protection, coverage: &Coverage) {
    let (shape, place) = protection.place(world.me());
    let chunk = shape.chunk_len(coverage.len());
    for parity in shape.layout.parities_of(place) {
        for data in &shape.layout.stripes()[parity.stripe].data {
            let (pe, from) = (shape.members[data.member], data.chunk * chunk / TILE);
            let (to, end) = (from + chunk / TILE, tiles::tiles(coverage.len()));
            tiles::map(world.segments, pe, coverage, from..to);
            let first = LiveTile { pe, tile: TileIndex::of(from) };
            if copy::is_mine(world.segments, protection, first, coverage.len()) {
                for region in world.segments.layout().snapshots {
                    world.segments.ask_huge_here(pe, region, end * TILE);
                    let count = to.min(end).saturating_sub(from);
                    tiles::map_store(world.segments, first.in_store(region), count);
                }
            }
        }
    }
}
