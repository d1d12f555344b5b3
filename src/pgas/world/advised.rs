//! What a plan leaves out of checkpoints (`store::advice`), and what this PE keeps for it.
//!
//! The plan knows places in the program. Which blocks of the heap are which of its objects, and
//! from which place the last checkpoint was called, every checkpoint has to hold, since a
//! substitute cannot know it. So it is a table of this library in private memory that is registered
//! as a program's would be:
//!
//! ```text
//! | place + 1 | ranges that the program itself excluded | blocks | (offset + 1, object) ... |
//! ```
//!
//! Invariants: the table changes only under the lock of the heap. A block that finds no room in it
//! is in every checkpoint; which blocks these are follows from the calls that allocate, so it is
//! the same on every PE.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_core::heap::Heap;
use raidshmem_core::store::advice::{Advice, Block, whole_pages};

/// Blocks that the table has room for.
const BLOCKS: usize = 1024;
const PLACE: usize = 0;
const EXCLUDED: usize = 1;
const FIRST: usize = 2;

/// A plan in force.
#[derive(Debug)]
pub struct Advised {
    plan: Advice,
    /// What is left out is overwritten after a restart, to the byte.
    audit: bool,
    table: Box<[AtomicU64]>,
    /// The place of the checkpoint to come, plus 1; 0 is none that the plan knows.
    wanted: AtomicU64,
}

impl Advised {
    /// Nothing was allocated yet.
    pub fn new(plan: Advice, audit: bool) -> Advised {
        let table = (0..FIRST + 2 * BLOCKS).map(|_| AtomicU64::new(0)).collect();
        Advised { plan, audit, table, wanted: AtomicU64::new(0) }
    }

    /// The table, for the list of private memory.
    pub(in crate::pgas) fn table(&self) -> &[AtomicU64] {
        &self.table
    }

    fn word(&self, at: usize) -> u64 {
        self.table[at].load(Ordering::Relaxed)
    }

    fn set(&self, at: usize, word: u64) {
        self.table[at].store(word, Ordering::Relaxed);
    }

    fn entry(&self, offset: u64) -> Option<usize> {
        (FIRST..self.table.len()).step_by(2).find(|&at| self.word(at) == offset)
    }

    /// A block is allocated by a call that returns to `address`.
    pub(in crate::pgas) fn allocated(&self, offset: usize, address: u64) {
        self.forget(offset);
        if let (Some(object), Some(at)) = (self.plan.allocated(address), self.entry(0)) {
            self.set(at + 1, object as u64);
            self.set(at, offset as u64 + 1);
        }
    }

    /// A block is freed or resized.
    pub(in crate::pgas) fn forget(&self, offset: usize) {
        if let Some(at) = self.entry(offset as u64 + 1) {
            self.set(at, 0);
            self.set(at + 1, 0);
        }
    }

    /// The next checkpoint is called by code that it returns to at `address`; None leaves nothing
    /// out.
    pub(crate) fn call(&self, address: Option<u64>) {
        let place = address.and_then(|address| self.plan.place(address));
        self.wanted.store(place.map_or(0, |place| place as u64 + 1), Ordering::Relaxed);
    }

    /// A checkpoint begins: what it leaves out is that of its place.
    pub(in crate::pgas) fn begin(&self) {
        self.set(PLACE, self.wanted.load(Ordering::Relaxed));
    }

    /// What the checkpoint leaves out beside `excluded`, by the place that the table names; `heap`
    /// begins at offset `from`. It notes how many ranges are the program's own.
    pub(in crate::pgas) fn left_out(
        &self,
        (heap, from): (&Heap, usize),
        excluded: usize,
        find: impl Fn(&Range<u64>) -> Option<Range<usize>>,
    ) -> Vec<Range<usize>> {
        self.set(EXCLUDED, excluded as u64);
        let Some(place) = self.word(PLACE).checked_sub(1) else { return Vec::new() };
        let block = |at: usize| -> Option<Block> {
            let offset = self.word(at).checked_sub(1)? as usize;
            let range = offset..offset + heap.size_of(offset)?;
            Some((from + range.start..from + range.end, self.word(at + 1) as usize))
        };
        let blocks: Vec<Block> = (FIRST..self.table.len()).step_by(2).filter_map(block).collect();
        let out = self.plan.left_out(place as usize, &blocks, find);
        if self.audit { out } else { whole_pages(out) }
    }

    /// Of the ranges that a manifest excludes: those that the program did. The rest comes back.
    pub(in crate::pgas) fn split(&self, all: &mut Vec<Range<usize>>) -> Vec<Range<usize>> {
        all.split_off(all.len().min(self.word(EXCLUDED) as usize))
    }

    /// True if what was left out is to be overwritten.
    pub(in crate::pgas) fn audits(&self) -> bool {
        self.audit
    }
}

#[cfg(test)]
mod tests {
    use raidshmem_core::store::advice::{Advised as Place, Lies, Subject};

    use super::*;

    fn plan() -> Advice {
        let (name, at) = (String::from("b"), String::from("b.c:1"));
        Advice {
            build: String::new(),
            objects: vec![Subject {
                name,
                at: at.clone(),
                lies: Lies::Blocks(vec![10..15, 15..20]),
            }],
            places: vec![Place { at, code: vec![30..35, 35..40], dead: vec![0] }],
        }
    }

    #[test]
    fn blocks_of_a_line_are_left_out_at_the_place_until_they_are_freed() {
        let (advised, mut heap) = (Advised::new(plan(), true), Heap::new(1 << 20));
        let (own, other) = (heap.alloc(100, 64).unwrap(), heap.alloc(100, 64).unwrap());
        advised.allocated(own, 15);
        advised.allocated(other, 25);
        let out = |heap: &Heap| advised.left_out((heap, 1000), 2, |_| None);
        assert_eq!(out(&heap), []);
        advised.call(Some(45));
        advised.begin();
        assert_eq!(out(&heap), [], "another place");
        advised.call(Some(35));
        assert_eq!(out(&heap), [], "it has not begun");
        advised.begin();
        assert_eq!(out(&heap).first(), Some(&(1000 + own..1000 + own + 100)));
        assert_eq!(out(&heap).len(), 1, "and no other");
        let mut all = vec![1..2, 3..4, 5..6, 7..8];
        assert_eq!(advised.split(&mut all), [5..6, 7..8]);
        assert_eq!(all, [1..2, 3..4]);
        advised.forget(own);
        assert_eq!(out(&heap), []);
        advised.call(None);
        advised.begin();
        advised.allocated(own, 15);
        assert_eq!(out(&heap), []);
    }

    #[test]
    fn more_blocks_than_there_is_room_for_are_saved() {
        let advised = Advised::new(plan(), false);
        let mut heap = Heap::new(BLOCKS << 15);
        for _ in 0..BLOCKS + 3 {
            advised.allocated(heap.alloc(8192, 4096).unwrap(), 15);
        }
        advised.call(Some(35));
        advised.begin();
        let out = advised.left_out((&heap, 0), 0, |_| None);
        assert_eq!(out.iter().map(Range::len).sum::<usize>(), BLOCKS * 8192);
    }
}
