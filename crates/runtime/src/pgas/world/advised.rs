//! A plan in force: ranges it leaves out of checkpoints (`store::advice`), and their table.
//!
//! The plan knows places in the program. A substitute cannot know which blocks of the heap belong
//! to which of the plan's objects, nor from which place the last checkpoint was called, so every
//! checkpoint has to hold both. They are kept in a table in private memory that is registered as a
//! program's would be:
//!
//! ```text
//! | place + 1 | ranges excluded by the program itself | blocks | (offset + 1, object) ... |
//! ```
//!
//! Invariants: the table changes only under the lock of the heap. A block that does not fit into it
//! is in every checkpoint; the order of allocations determines these blocks, so they are the same
//! on every PE.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_core::heap::Heap;
use raidshmem_core::store::advice::{Advice, Block, whole_pages};

/// The number of blocks that fit into the table.
const BLOCKS: usize = 1024;
const PLACE: usize = 0;
const EXCLUDED: usize = 1;
const FIRST: usize = 2;

/// A plan in force.
#[derive(Debug)]
pub struct Advised {
    plan: Advice,
    /// True if a restart overwrites exactly the bytes that were left out.
    audit: bool,
    table: Box<[AtomicU64]>,
    /// The place of the next checkpoint, plus 1; 0 if the plan does not know the place.
    wanted: AtomicU64,
}

impl Advised {
    /// Returns a plan in force, with no block allocated.
    pub fn new(plan: Advice, audit: bool) -> Advised {
        let table = (0..FIRST + 2 * BLOCKS).map(|_| AtomicU64::new(0)).collect();
        Advised { plan, audit, table, wanted: AtomicU64::new(0) }
    }

    /// Returns the table, for the list of private memory.
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

    /// Records a block that was allocated by a call that returns to `address`.
    pub(in crate::pgas) fn allocated(&self, offset: usize, address: u64) {
        self.forget(offset);
        if let (Some(object), Some(at)) = (self.plan.allocated(address), self.entry(0)) {
            self.set(at + 1, object as u64);
            self.set(at, offset as u64 + 1);
        }
    }

    /// Removes a block that is freed or resized.
    pub(in crate::pgas) fn forget(&self, offset: usize) {
        if let Some(at) = self.entry(offset as u64 + 1) {
            self.set(at, 0);
            self.set(at + 1, 0);
        }
    }

    /// Notes the return address of the next checkpoint call; None leaves nothing out.
    pub(crate) fn call(&self, address: Option<u64>) {
        let place = address.and_then(|address| self.plan.place(address));
        self.wanted.store(place.map_or(0, |place| place as u64 + 1), Ordering::Relaxed);
    }

    /// Begins a checkpoint, which leaves out the ranges that the plan lists for its call site.
    pub(in crate::pgas) fn begin(&self) {
        self.set(PLACE, self.wanted.load(Ordering::Relaxed));
    }

    /// Returns the ranges that the plan leaves out of the checkpoint at the place in the table, and
    /// notes the number of ranges that the program itself `excluded`. `heap` begins at offset
    /// `from`.
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

    /// Splits the ranges that a manifest excludes: keeps the program's own in `all`, and returns
    /// those of the plan.
    pub(in crate::pgas) fn split(&self, all: &mut Vec<Range<usize>>) -> Vec<Range<usize>> {
        all.split_off(all.len().min(self.word(EXCLUDED) as usize))
    }

    /// Returns true if a restart must overwrite the ranges that were left out.
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
    fn blocks_beyond_the_capacity_are_saved() {
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
