//! Write tracking: the process that wrote each tile of each memory, and the use of that knowledge.
//! The library decides when it is valid ([`Tracked`]); modelled here are the actions of
//! `checkpoint/pages.rs`.
//!
//! Another PE writes half of the changing tiles: a local PE with its own process, a remote one
//! through the owner's process, where they arrive as soon as the writer has left the last
//! checkpoint.

use std::collections::BTreeMap;
use std::iter;

use raidshmem_core::heap::Heap;
use raidshmem_core::layout::Layout;
use raidshmem_core::mutant::Mutant;
use raidshmem_core::quantity::TileIndex;
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::store::delta::TileSet;
use raidshmem_core::store::track::{Tracked, WriteReport, few};

use super::job::Job;
use super::memory::{TILE, tiles};
use super::pe::Proc;
use super::plan::{Broken, Plan};

/// The writes of a process since its tracking began.
#[derive(Default)]
pub struct Watch {
    pub tracked: Tracked,
    /// Tiles by PE.
    wrote: BTreeMap<usize, TileSet>,
}

/// The part of them that it publishes in its memory.
#[derive(Debug, Clone, Default)]
pub struct Written {
    said: u64,
    to: BTreeMap<usize, TileSet>,
}

fn covering(len: usize) -> Coverage {
    let layout = Layout::new(1 << 16, 1);
    let bytes = layout.statics..layout.statics + len;
    Coverage::build(&layout, &[bytes], &Heap::new(layout.heap_len), [&[], &[]], &[])
        .expect("free memory")
        .0
}

impl Plan {
    /// Returns the PE that writes tile `tile` of PE `pe` before checkpoint `number`.
    fn writer(&self, pe: usize, tile: usize, number: u64) -> usize {
        let chance = (pe as u64) << 33 ^ (tile as u64) << 7 ^ number;
        let other = (chance ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1;
        if other { (pe + 1) % self.node_of.len() } else { pe }
    }
}

impl Job {
    fn near(&self, p: &Proc) -> Vec<usize> {
        (0..self.pes()).filter(|&pe| pe != p.me() && !self.is_remote(p, pe)).collect()
    }

    /// Records the program's writes for checkpoint `p.number`.
    pub fn wrote(&mut self, p: &mut Proc) {
        if self.plan.still.is_none() {
            return; // too much changes for tracking
        }
        let (me, pes) = (p.me(), self.pes());
        for pe in [me, (me + pes - 1) % pes] {
            let contents =
                [p.number.previous(), p.number].map(|number| self.plan.content(pe, number.0));
            let of = |content: &[u8], tile: usize| -> Vec<u8> {
                content.iter().skip(tile * TILE).take(TILE).copied().collect()
            };
            let count = tiles(contents[1].len());
            let mut set = TileSet::none(count);
            for tile in 0..count {
                let changed = of(&contents[0], tile) != of(&contents[1], tile);
                if changed && self.plan.writer(pe, tile, p.number.0) == me {
                    set.insert(TileIndex::of(tile));
                }
            }
            let watch = match self.carrier[pe].filter(|&proc| pe != me && proc != p.id) {
                Some(proc) if self.is_remote(p, pe) => &mut self.procs[proc as usize].watch,
                _ => &mut p.watch,
            };
            watch.wrote.entry(pe).or_insert_with(|| TileSet::none(count)).add(&set);
        }
    }

    /// Publishes this process' writes to others, before barrier Q.
    pub fn show_written(&mut self, p: &mut Proc) {
        let mut to = BTreeMap::new();
        if p.watch.tracked.show(p.number, &covering(p.len)) {
            let own = p.watch.wrote.remove(&p.me());
            to = std::mem::take(&mut p.watch.wrote);
            p.watch.wrote.extend(own.map(|own| (p.me(), own)));
        }
        self.own(p).written = Written { said: p.watch.tracked.said().pack(), to };
    }

    /// Returns all writes to this PE, if they are known, after barrier Q.
    pub fn gather_written(&mut self, p: &mut Proc, count: usize) -> Option<TileSet> {
        let near = self.near(p);
        let said = |&pe: &usize| WriteReport::unpack(self.memory(p, pe).written.said);
        let mut said: Vec<WriteReport> = near.iter().map(said).collect();
        if self.plan.broken == Broken::Rule(Mutant::DoubtsIgnored) {
            said.fill(WriteReport::All(p.number));
        }
        if !p.watch.tracked.gather(p.number, &said) {
            return None;
        }
        let mut set = p.watch.wrote.remove(&p.me()).unwrap_or_default();
        let mut all = TileSet::none(count);
        all.add(&set);
        for pe in near.into_iter().filter(|_| self.plan.broken != Broken::PeersForgotten) {
            set = self.memory(p, pe).written.to.get(&p.me()).cloned().unwrap_or_default();
            all.add(&set);
        }
        self.ending.by_pages += 1;
        Some(all)
    }

    /// Starts tracking writes before barrier B, if that pays.
    pub fn watch(&mut self, p: &mut Proc) {
        if self.plan.broken != Broken::WatchedTooLate {
            self.begin_watch(p);
        }
    }

    pub fn begin_watch(&mut self, p: &mut Proc) {
        let near = self.near(p).into_iter().chain([p.me()]);
        let shown = near.map(|pe| self.memory(p, pe).changes.clone());
        let (track, few) = (self.plan.settings.track, few(tiles(p.len), shown));
        let wanted = p.watch.tracked.pays(track, p.number, few, iter::empty()); // pages are small
        if !p.watch.tracked.goes_on(p.number) {
            p.watch.tracked.end();
            p.watch.wrote.clear();
        }
        if wanted && self.plan.denied == Some(p.me()) {
            p.watch.tracked.never();
        } else if wanted {
            p.watch.tracked.begin(p.number, covering(p.len));
        } else {
            p.watch.tracked.end();
        }
    }
}
