//! Parity groups for three or more crossing kinds of failure domain, improved by local search.
//!
//! Dealing is optimal for nested domains, and [`super::coloring`] for two kinds that cross. With
//! more kinds, two PEs of different groups swap places as long as that reduces, first, the number
//! of members beyond the parity, summed over all domains and groups, and then the unevenness.
//!
//! Invariants: sizes of groups do not change; the sum never grows; the work is bounded.

use crate::quantity::Pe;

/// Maximum number of swaps evaluated.
const LOOKS_MAX: usize = 2_000_000;

/// Member counts of each group in each domain.
struct Tally<'a> {
    /// For each kind the domain of each PE, numbered from 0 without gaps.
    of_kind: &'a [Vec<usize>],
    parity: usize,
    groups: usize,
    group_of: Vec<usize>,
    /// For each kind, members by domain and group.
    members: Vec<Vec<usize>>,
}

/// Returns the number of members beyond `parity`, summed over kinds, domains and groups.
pub(super) fn excess(of_kind: &[Vec<usize>], group_of: &[usize], parity: usize) -> usize {
    Tally::new(of_kind, group_of.to_vec(), parity).excess()
}

/// Returns a lower bound of [`excess`] over all possible groups, taking each kind separately.
pub(super) fn bound(of_kind: &[Vec<usize>], groups: usize, parity: usize) -> usize {
    let over = |kind: &Vec<usize>| -> usize {
        let mut pes = vec![0; kind.iter().max().map_or(0, |most| most + 1)];
        kind.iter().for_each(|&domain| pes[domain] += 1);
        pes.into_iter().map(|pes: usize| pes.saturating_sub(groups * parity)).sum()
    };
    of_kind.iter().map(over).sum()
}

/// Improves the groups by swaps, keeping their sizes.
pub(super) fn improve(
    of_kind: &[Vec<usize>],
    group_of: Vec<usize>,
    parity: usize,
    bound: usize,
) -> Vec<usize> {
    let mut tally = Tally::new(of_kind, group_of, parity);
    let mut looks = 0;
    let mut left = tally.excess();
    let mut gained = true;
    while gained && left > bound && looks < LOOKS_MAX {
        gained = false;
        for pe in Pe::all(tally.group_of.len()) {
            if !tally.oversubscribed(pe) {
                continue;
            }
            let better = |&other: &Pe| tally.gain(pe, other) < (0, 0);
            looks += tally.group_of.len();
            if let Some(other) = Pe::all(tally.group_of.len()).find(better) {
                tally.exchange(pe, other);
                gained = true;
            }
        }
        left = tally.excess();
    }
    tally.group_of
}

impl<'a> Tally<'a> {
    fn new(of_kind: &'a [Vec<usize>], group_of: Vec<usize>, parity: usize) -> Tally<'a> {
        let groups = group_of.iter().max().map_or(0, |last| last + 1);
        let count = |kind: &Vec<usize>| {
            let mut members = vec![0; kind.iter().max().map_or(0, |most| most + 1) * groups];
            let cells = kind.iter().zip(&group_of).map(|(domain, group)| domain * groups + group);
            cells.for_each(|cell| members[cell] += 1);
            members
        };
        let members = of_kind.iter().map(count).collect();
        Tally { of_kind, parity, groups, group_of, members }
    }

    fn excess(&self) -> usize {
        let over = |&members: &usize| members.saturating_sub(self.parity);
        self.members.iter().flatten().map(over).sum()
    }

    fn cell(&self, kind: usize, pe: Pe, group: usize) -> usize {
        self.of_kind[kind][pe.at()] * self.groups + group
    }

    /// Returns true if some domain of this PE has too many members of its group.
    fn oversubscribed(&self, pe: Pe) -> bool {
        let members = |kind: usize| self.members[kind][self.cell(kind, pe, self.group_of[pe.at()])];
        (0..self.of_kind.len()).any(|kind| members(kind) > self.parity)
    }

    /// Returns the change if two PEs swap places: of the excess, and of the sum of the squares of
    /// all counts.
    fn gain(&self, a: Pe, b: Pe) -> (isize, isize) {
        let (from, to) = (self.group_of[a.at()], self.group_of[b.at()]);
        let mut sums = (0, 0);
        if from == to {
            return sums;
        }
        for kind in 0..self.of_kind.len() {
            if self.of_kind[kind][a.at()] == self.of_kind[kind][b.at()] {
                continue;
            }
            let less = [self.cell(kind, a, from), self.cell(kind, b, to)];
            let more = [self.cell(kind, a, to), self.cell(kind, b, from)];
            for members in less.map(|cell| self.members[kind][cell]) {
                sums.0 -= isize::from(members > self.parity);
                sums.1 += 1 - 2 * members as isize;
            }
            for members in more.map(|cell| self.members[kind][cell]) {
                sums.0 += isize::from(members >= self.parity);
                sums.1 += 1 + 2 * members as isize;
            }
        }
        sums
    }

    fn exchange(&mut self, a: Pe, b: Pe) {
        let (from, to) = (self.group_of[a.at()], self.group_of[b.at()]);
        for kind in 0..self.of_kind.len() {
            for (pe, old, new) in [(a, from, to), (b, to, from)] {
                let (old, new) = (self.cell(kind, pe, old), self.cell(kind, pe, new));
                self.members[kind][old] -= 1;
                self.members[kind][new] += 1;
            }
        }
        (self.group_of[a.at()], self.group_of[b.at()]) = (to, from);
    }
}
