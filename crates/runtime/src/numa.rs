//! The NUMA nodes of this PE's pages, sent to the launcher as a checkpoint begins.
//!
//! A PE whose processors are on several NUMA nodes has pages on each, by first touch. If its memory
//! is made again (after a loss in which it is not adopted, on another node, or from disk), its
//! agent makes the new pages come from the nodes of the old ones
//! ([`raidshmem_core::placement::pages`]). `SHMEM_FT_AFFINITY=0` disables this, too. Source:
//! Saini, affinity-aware restart.
//!
//! Invariants: a PE whose processors are on one NUMA node looks at no page and sends nothing; a
//! look allocates no memory; looks take at most a hundredth of a PE's time.
//!
//! Left out: the store, which threads of the library touch in any order, before a loss and after.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use raidshmem_core::page::PAGE;
use raidshmem_core::placement::pages::PageRuns;
use raidshmem_sys::numa::{nodes_of, nodes_of_pages};
use raidshmem_sys::{lock, process};

use crate::pgas::{self, World};

/// The time between two looks, in times that the last one took.
const REST: u32 = 100;

/// The knowledge that the launcher has of this PE.
#[derive(Default)]
struct Known {
    pages: PageRuns,
    /// The time of the last look, and how long it took.
    looked: Option<(Instant, Duration)>,
}

static KNOWN: OnceLock<Mutex<Known>> = OnceLock::new();

/// Makes every checkpoint of this PE find its pages, if they may lie on several NUMA nodes.
pub fn register() {
    let world = pgas::world();
    let is_kept = world.settings().affinity && world.store.protection().is_some();
    if is_kept && nodes_of(&process::usable()).len() > 1 {
        KNOWN.get_or_init(Mutex::default);
    }
}

/// Finds the pages of this PE, and tells the launcher if they lie otherwise than before.
pub fn note(world: &World) {
    let Some(known) = KNOWN.get() else { return };
    if world.members.faulted() {
        return; // a restart comes, and a substitute has nothing of the checkpoint yet
    }
    let mut known = lock(known);
    if known.looked.is_some_and(|(at, took)| at.elapsed() < took * REST) {
        return;
    }
    let begun = Instant::now();
    let pages = PageRuns::find(&in_use(world), |pages| look(world, pages));
    known.looked = Some((Instant::now(), begun.elapsed()));
    if pages != known.pages {
        known.pages = pages.clone();
        world.members.report_pages(pages);
    }
}

/// Returns the pages that the program uses, itself or by calls of the library.
fn in_use(world: &World) -> Vec<Range<usize>> {
    let words = std::iter::once(0..world.segments.layout().statics);
    let all = words.chain(world.memory.in_use());
    all.map(|range| range.start / PAGE..range.end.div_ceil(PAGE)).collect()
}

/// Returns the NUMA node of each of some pages of the own segment.
fn look(world: &World, pages: &[usize]) -> Vec<Option<u32>> {
    let segments = world.segments;
    let address = |page: usize| segments.at(page * PAGE).addr();
    let addresses: Vec<usize> = pages.iter().map(|&page| address(page)).collect();
    let mut nodes = nodes_of_pages(&addresses);
    // A page that others have touched, or that is mapped in another place, is not mapped here yet.
    let is_hidden = |&at: &usize| {
        nodes[at].is_none() && segments.part().absent(pages[at] * PAGE, PAGE) < PAGE as u64
    };
    let hidden: Vec<usize> = (0..pages.len()).filter(is_hidden).collect();
    hidden.iter().for_each(|&at| segments.own().populate(pages[at] * PAGE, PAGE));
    let shown: Vec<usize> = hidden.iter().map(|&at| addresses[at]).collect();
    for (at, node) in hidden.into_iter().zip(nodes_of_pages(&shown)) {
        nodes[at] = node;
    }
    nodes
}
