//! The NUMA nodes of a PE's pages, preserved when its memory is lost.
//!
//! ```text
//! pages of the segment   40 41 42 43 44 45 46 .. 90 91
//! their NUMA nodes        0  0  0  1  1  1  -  ..  1  1
//! runs                   40..43 on 0, 43..46 on 1, 90..92 on 1
//! ```
//!
//! A PE whose threads run on several NUMA nodes has pages on each, by first touch. It finds them
//! by samples, a bounded number whatever its size, and by bisection between two that differ. A
//! table of more than [`RUNS`] runs is made coarser: pages are taken together in units, and the
//! node with the most pages of a unit gets all of it. Source: Saini, affinity-aware restart.
//!
//! Invariants: the runs of a table ascend, are disjoint and not empty, and number at most [`RUNS`];
//! two nodes that meet at one boundary are separated at exactly that page.
//!
//! Left out: querying and setting the nodes of pages in the kernel. A page that differs from its
//! surroundings and lies between two samples is not seen.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::mutant::{Mutant, breaks};
use crate::page::PAGE;

/// Maximum number of runs in a table.
pub const RUNS: usize = 256;
/// Number of samples from which a table is found, not counting ends of ranges and bisection.
const SAMPLES: usize = 4096;
/// Bisection ends if samples differ at more places: the table would be made coarser anyway.
const BOUNDARIES: usize = 4 * RUNS;

/// Neighbouring pages on one NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRun {
    /// The first page of the segment, in units of [`PAGE`].
    pub first: u64,
    /// Number of pages.
    pub pages: u64,
    /// The node, numbered by the kernel.
    pub node: u32,
}

impl PageRun {
    fn end(&self) -> u64 {
        self.first.saturating_add(self.pages)
    }
}

/// The NUMA nodes of the pages of a PE. The default knows none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRuns(Vec<PageRun>);

/// A page that was looked at.
#[derive(Debug, Clone, Copy)]
struct Sample {
    page: usize,
    node: Option<u32>,
    /// True if the next page belongs to no range that was asked for.
    is_last: bool,
}

impl PageRuns {
    /// Finds the nodes of the pages in `ranges`, which ascend and are disjoint. `look` returns the
    /// node of each of some ascending pages; None for a page that does not exist.
    pub fn find(
        ranges: &[Range<usize>],
        mut look: impl FnMut(&[usize]) -> Vec<Option<u32>>,
    ) -> PageRuns {
        let all: usize = ranges.iter().map(Range::len).sum();
        let step = all.div_ceil(SAMPLES).max(1);
        let ranges = joined(ranges, step);
        let mut wanted: Vec<(usize, bool)> = Vec::new();
        for range in &ranges {
            let inner = range.clone().step_by(step).filter(|page| page + 1 < range.end);
            wanted.extend(inner.map(|page| (page, false)));
            wanted.push((range.end - 1, true));
        }
        let mut samples = sampled(&wanted, &mut look);
        loop {
            let middles: Vec<(usize, bool)> = boundaries(&samples).collect();
            if middles.is_empty() || middles.len() > BOUNDARIES {
                break;
            }
            samples.extend(sampled(&middles, &mut look));
            samples.sort_unstable_by_key(|sample| sample.page);
        }
        PageRuns(coarsened(runs(&samples)))
    }

    /// Returns the table of these runs; None if they do not ascend, are empty, or are too many.
    pub fn of(runs: Vec<PageRun>) -> Option<PageRuns> {
        let ends: Option<Vec<u64>> =
            runs.iter().map(|run| run.first.checked_add(run.pages)).collect();
        let ascends = ends?.iter().zip(runs.iter().skip(1)).all(|(end, next)| *end <= next.first);
        let is_sound = ascends && runs.len() <= RUNS && runs.iter().all(|run| run.pages > 0);
        is_sound.then_some(PageRuns(runs))
    }

    /// Returns the runs.
    pub fn runs(&self) -> &[PageRun] {
        &self.0
    }

    /// Returns true if no page is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the offsets of the pages in a segment of `len` bytes, with their nodes.
    pub fn places(&self, len: usize) -> impl Iterator<Item = (Range<usize>, usize)> + '_ {
        let first = self.0.first().map_or(0, |run| run.node);
        self.0.iter().filter_map(move |run| {
            let node = if breaks(Mutant::PagesTogether) { first } else { run.node };
            let offset =
                |page: u64| usize::try_from(page).map_or(len, |it| it.saturating_mul(PAGE));
            let range = offset(run.first).min(len)..offset(run.end()).min(len);
            (!range.is_empty()).then_some((range, node as usize))
        })
    }
}

/// Joins ranges that are less than `gap` apart, and drops empty ones.
fn joined(ranges: &[Range<usize>], gap: usize) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        match all.last_mut() {
            Some(last) if range.start < last.end + gap => last.end = last.end.max(range.end),
            _ => all.push(range.clone()),
        }
    }
    all
}

/// Looks at pages, each with the word whether it ends a range.
fn sampled(
    wanted: &[(usize, bool)],
    look: &mut impl FnMut(&[usize]) -> Vec<Option<u32>>,
) -> Vec<Sample> {
    let pages: Vec<usize> = wanted.iter().map(|&(page, _)| page).collect();
    let seen = look(&pages).into_iter().chain(std::iter::repeat(None));
    wanted.iter().zip(seen).map(|(&(page, is_last), node)| Sample { page, node, is_last }).collect()
}

/// Returns the pages in the middle of two samples that differ.
fn boundaries(samples: &[Sample]) -> impl Iterator<Item = (usize, bool)> + '_ {
    samples.windows(2).filter_map(|two| {
        let [from, to] = [two[0], two[1]];
        let differ = !from.is_last && from.node != to.node && to.page - from.page > 1;
        differ.then_some((usize::midpoint(from.page, to.page), false))
    })
}

/// Returns the runs that samples show: a page between two is like the one before it.
fn runs(samples: &[Sample]) -> Vec<PageRun> {
    let next = samples.iter().skip(1).map(|sample| sample.page).chain([0]);
    let mut runs = Vec::new();
    for (sample, next) in samples.iter().zip(next) {
        let pages = if sample.is_last { 1 } else { next - sample.page };
        if let Some(node) = sample.node {
            push(&mut runs, PageRun { first: sample.page as u64, pages: pages as u64, node });
        }
    }
    runs
}

/// Appends a run, to the last one if it continues that.
fn push(runs: &mut Vec<PageRun>, run: PageRun) {
    match runs.last_mut() {
        Some(last) if last.end() == run.first && last.node == run.node => last.pages += run.pages,
        _ => runs.push(run),
    }
}

/// Makes a table coarser until it has at most [`RUNS`] runs.
fn coarsened(fine: Vec<PageRun>) -> Vec<PageRun> {
    let units = (1..u64::BITS - 1).map(|bits| 1u64 << bits);
    let mut coarser = units.map(|unit| by_majority(&fine, unit));
    match fine.len() <= RUNS {
        true => fine,
        false => coarser.find(|runs| runs.len() <= RUNS).unwrap_or_default(),
    }
}

/// Gives all of each unit of `unit` pages to the node with most of its pages.
fn by_majority(fine: &[PageRun], unit: u64) -> Vec<PageRun> {
    let (mut runs, mut votes) = (Vec::new(), BTreeMap::<u32, u64>::new());
    let mut open = None;
    for run in fine {
        let mut at = run.first;
        while at < run.end() {
            let of = at / unit;
            if open != Some(of) {
                close(&mut runs, open.take(), unit, &mut votes);
            }
            if at.is_multiple_of(unit) && run.end() - at >= unit {
                let pages = (run.end() - at) / unit * unit;
                push(&mut runs, PageRun { first: at, pages, node: run.node });
                at += pages;
            } else {
                let end = run.end().min((of + 1) * unit);
                *votes.entry(run.node).or_default() += end - at;
                (open, at) = (Some(of), end);
            }
        }
    }
    close(&mut runs, open, unit, &mut votes);
    runs
}

/// Decides about a unit in which several runs lie.
fn close(runs: &mut Vec<PageRun>, of: Option<u64>, unit: u64, votes: &mut BTreeMap<u32, u64>) {
    let most = votes.iter().max_by_key(|&(node, pages)| (*pages, Reverse(*node)));
    let most = most.map(|(&node, _)| node);
    if let (Some(of), Some(node)) = (of, most) {
        push(runs, PageRun { first: of * unit, pages: unit, node });
    }
    votes.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(first: u64, pages: u64, node: u32) -> PageRun {
        PageRun { first, pages, node }
    }

    /// Finds the runs of pages whose nodes a function tells, and the number of looks.
    fn found(
        ranges: &[Range<usize>],
        node: impl Fn(usize) -> Option<u32>,
    ) -> (Vec<PageRun>, usize) {
        let mut looks = 0;
        let runs = PageRuns::find(ranges, |pages| {
            assert!(pages.is_sorted());
            looks += pages.len();
            pages.iter().map(|&page| node(page)).collect()
        });
        assert_eq!(PageRuns::of(runs.runs().to_vec()).as_ref(), Some(&runs), "a sound table");
        (runs.runs().to_vec(), looks)
    }

    fn in_one(range: Range<usize>, node: impl Fn(usize) -> Option<u32>) -> (Vec<PageRun>, usize) {
        found(std::slice::from_ref(&range), node)
    }

    #[test]
    fn the_picture_above() {
        let node = |page: usize| (!(46..=89).contains(&page)).then_some(u32::from(page > 42));
        let (runs, _) = in_one(40..92, node);
        assert_eq!(runs, [run(40, 3, 0), run(43, 3, 1), run(90, 2, 1)]);
        let places: Vec<_> = PageRuns(runs).places(91 * PAGE).collect();
        let at = |from: usize, to: usize| from * PAGE..to * PAGE;
        assert_eq!(places, [(at(40, 43), 0), (at(43, 46), 1), (at(90, 91), 1)], "clipped");
    }

    #[test]
    fn a_large_heap_takes_few_looks_and_its_boundary_is_exact() {
        const GIB: usize = (1 << 30) / 4096;
        for boundary in [1, GIB / 3, 64 * GIB / 2 + 1, 64 * GIB - 1] {
            let (runs, looks) =
                found(&[7..7, 10..10 + 64 * GIB], |page| Some(u32::from(page >= 10 + boundary)));
            let (first, rest) = (boundary as u64, (64 * GIB - boundary) as u64);
            assert_eq!(runs, [run(10, first, 0), run(10 + first, rest, 1)]);
            assert!(looks < SAMPLES + 20, "{looks}");
        }
    }

    #[test]
    fn ranges_are_not_joined_by_what_lies_between() {
        let (runs, looks) = found(&[0..4, 6..8, 8..10], |page| Some((page / 8) as u32));
        assert_eq!((runs, looks), (vec![run(0, 4, 0), run(6, 2, 0), run(8, 2, 1)], 8));
        assert_eq!(found(&[], |_| None), (Vec::new(), 0));
        assert_eq!(in_one(3..4, |_| None), (Vec::new(), 1));
        let all = PageRuns::find(std::slice::from_ref(&(3..9)), |_| Vec::new());
        assert!(all.is_empty(), "a kernel that does not answer");
    }

    #[test]
    fn many_runs_are_coarsened_by_majority() {
        // Of 8 pages one is on node 1, and two are on node 2: a unit of 8 is of node 0.
        let node = |page: usize| Some([0, 0, 0, 1, 0, 0, 2, 2][page % 8]);
        let pages = 2000;
        let (runs, _) = in_one(0..pages, node);
        assert!(!runs.is_empty() && runs.len() <= RUNS, "{}", runs.len());
        let (few, _) = in_one(0..8 * 50, node);
        assert_eq!(few.len(), 50 * 4);
        let halves = |page: usize| Some((page / 2 % 2 + page / 1000 * 2) as u32);
        let (runs, _) = in_one(0..pages, halves);
        assert_eq!(runs, [run(0, 1000, 0), run(1000, 1000, 2)], "ties go to the lower node");
    }

    #[test]
    fn only_a_table_is_taken_for_one() {
        let over = (0..=RUNS as u64).map(|at| run(2 * at, 1, 0)).collect();
        for bad in [
            vec![run(3, 0, 0)],
            vec![run(3, 2, 0), run(4, 1, 1)],
            vec![run(u64::MAX, 1, 0)],
            vec![run(9, 1, 0), run(3, 1, 0)],
            over,
        ] {
            assert_eq!(PageRuns::of(bad), None);
        }
        let far = PageRuns::of(vec![run(1, 2, 0), run(u64::MAX - 9, 9, 1)]);
        let far = far.expect("it ascends");
        assert_eq!(far.places(PAGE * 2).collect::<Vec<_>>(), [(PAGE..2 * PAGE, 0)]);
    }

    proptest! {
        /// Every page of a heap that is small enough is found on its node.
        #[test]
        fn nothing_is_lost_where_all_pages_are_looked_at(
            cuts in proptest::collection::vec((1usize..40, proptest::option::of(0u32..4)), 1..100),
            from in 0usize..100,
        ) {
            let nodes: Vec<Option<u32>> =
                cuts.iter().flat_map(|&(len, node)| std::iter::repeat_n(node, len)).collect();
            let (runs, _) = in_one(from..from + nodes.len(), |page| nodes[page - from]);
            let mut again = vec![None; nodes.len()];
            for run in runs {
                let at = run.first as usize - from;
                again[at..at + run.pages as usize].fill(Some(run.node));
            }
            prop_assert_eq!(again, nodes);
        }

        /// Whatever the nodes are, the table is sound, and a node that has no page is not in it.
        #[test]
        fn any_placement_gives_a_sound_table(
            nodes in proptest::collection::vec(proptest::option::of(0u32..3), 1..6000),
            from in 0usize..100,
        ) {
            let (runs, _) = in_one(from..from + nodes.len(), |page| nodes[page - from]);
            prop_assert!(runs.iter().all(|run| nodes.contains(&Some(run.node))));
        }
    }
}
