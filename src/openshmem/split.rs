//! Creation of teams from a team's PEs, and their destruction.
//!
//! The PEs of a split agree on a slot that is free on all of them; disjoint teams may use equal
//! slots.

use raidshmem_runtime::pgas;

use super::check::misuse;
use super::collective::{self, push};
use super::context;
use super::group::{Group, MASK_AT, SyncPoint};
use super::memory::prelude;
use super::order;
use super::team::{self, StridedPes, Team, index_of_pe};

/// The mark of an agreed mask of a split, in the bit of the world's slot, which is never free.
const IS_MADE: u64 = 1;

/// A new team as a subset of its parent's PEs.
#[derive(Clone, Copy)]
pub struct TeamPart {
    /// The first PE.
    pub start: isize,
    /// The distance between consecutive PEs.
    pub stride: isize,
    /// The number of PEs.
    pub size: usize,
    /// Contexts that the program expects to use.
    pub num_contexts: usize,
}

impl TeamPart {
    /// Translates the part to PEs of the world; returns `None` if it is not inside the parent.
    fn within(self, (start, stride, size): StridedPes) -> Option<StridedPes> {
        let reach = self.stride.checked_mul(self.size.checked_sub(1)?.cast_signed())?;
        let last = self.start.checked_add(reach)?;
        let inside = |index: isize| usize::try_from(index).is_ok_and(|index| index < size);
        let sound = inside(self.start) && inside(last) && (self.stride != 0 || self.size == 1);
        sound.then_some((start + self.start * stride, self.stride * stride, self.size))
    }
}

/// The reasons why a team was not split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsplit {
    /// The parent is invalid, or a part is empty or not inside it.
    Outside,
    /// A PE is in the maximum number of teams.
    Full,
    /// A PE was lost.
    Fault,
}

/// Makes one team for each part that contains this PE, in slots that are free on all; `INVALID` for
/// the other parts. The PEs meet at `gate`.
///
/// All PEs of the parent pass equally many parts, which may name different PEs.
pub fn split<const N: usize>(
    call: &'static str,
    (parent, gate): (Team, SyncPoint),
    parts: [TeamPart; N],
) -> Result<[Team; N], Unsplit> {
    let parent_members = team::members(parent).ok_or(Unsplit::Outside)?;
    let within = |part: &TeamPart| part.within(parent_members);
    let all: Option<Vec<_>> = parts.iter().map(within).collect();
    let all = all.ok_or(Unsplit::Outside)?;
    let group = Group::of_team(call, parent).through(gate);
    let (mut free, number) = free_slots(&group)?;
    if (free.count_ones() as usize) < N {
        return Err(Unsplit::Full);
    }
    let mut teams = [Team::INVALID; N];
    for ((part, new), (start, stride, size)) in parts.iter().zip(&mut teams).zip(all) {
        let slot = free.trailing_zeros() as usize;
        free &= free - 1;
        if index_of_pe(group.list, (start, stride, size), pgas::world().me()).is_some() {
            *new = team::fill(slot, (start, stride, size), part.num_contexts);
            team::set_list(*new, group.list, number ^ slot as u64);
            context::prepare(pgas::world(), part.num_contexts);
            Group::of_team(call, *new).begin_turns();
        }
    }
    Ok(teams)
}

/// Returns the slots that are free on all PEs of a group, and a unique number for the split.
fn free_slots(group: &Group) -> Result<(u64, u64), Unsplit> {
    if let Some(decision) = group.agreed((team::free(), 0)) {
        group.whole(&decision).map_err(|_| Unsplit::Fault)?;
        return Ok((decision.value, group.next_number()));
    }
    let masks = || collective::all_gather(group, MASK_AT, team::free()).unwrap_or_default();
    let with = prelude::with([group.start as u64, group.stride as u64, group.size as u64]);
    let all = || masks().into_iter().reduce(|all, mask| all & mask).map_or(0, |all| all | IS_MADE);
    match prelude::value(group.call, with, all) {
        0 => Err(Unsplit::Fault),
        all => Ok((all & !IS_MADE, 0)),
    }
}

/// Makes a team of the survivors of a team, in the order of their numbers. Returns `None` if a PE
/// is in the maximum number of teams.
///
/// All agree on the view that defines the survivors: a PE lost in a later view is a lost member.
/// The PEs meet at `gate`.
pub fn shrink(call: &'static str, (parent, gate): (Team, SyncPoint)) -> Option<Team> {
    let group = Group::of_team(call, parent).through(gate);
    let (world, members) = (pgas::world(), group.members());
    order::complete();
    loop {
        let began = group.agree((u64::MAX, 0));
        let view = world.survivors().adopt();
        let mut living = members.pes.clone();
        living.retain(|&pe| !world.fewer.was_lost(pe, view));
        living.sort_unstable();
        let basis = if view.0 == began.view { view.0 } else { 0 };
        let decision = group.agree((team::free(), basis));
        if !decision.even {
            continue; // some PEs have seen another loss
        }
        let slot = (decision.value != 0).then(|| decision.value.trailing_zeros() as usize)?;
        let new = team::fill(slot, (0, 1, living.len()), team::contexts(parent));
        team::set_list(new, Some(living.leak()), group.next_number());
        return Some(new);
    }
}

/// Splits a parent into rows of `xrange` PEs; returns the row and the column of this PE.
pub fn row_and_column(index: usize, size: usize, xrange: usize) -> [(isize, isize, usize); 2] {
    let (x, y) = (index % xrange, index / xrange);
    let row = (y * xrange, 1, xrange.min(size - y * xrange));
    let column = (x, xrange, (size - x).div_ceil(xrange));
    [row, column].map(|(start, stride, size)| (start as isize, stride as isize, size))
}

/// Frees the slot of a team made by a split. Harmless for members that still have the team only if
/// none of them uses it again. In shrink mode it waits for members that are still in a call of the
/// team that this PE has left.
pub fn destroy(call: &'static str, team: Team) {
    if team == Team::INVALID {
        return;
    }
    if team == Team::WORLD || team == Team::SHARED || team::members(team).is_none() {
        misuse(call, "expected a team from a split, once");
    }
    context::take_all_of(call, pgas::world(), team);
    let group = Group::of_team(call, team);
    push::end(&group);
    group.leave();
    team::empty(team);
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::openshmem::team::index_in;

    #[test]
    fn rows_and_columns_cover_each_pe_once() {
        for size in 1..20 {
            for xrange in 1..=size {
                for index in 0..size {
                    for (start, stride, count) in row_and_column(index, size, xrange) {
                        assert!(index_in(start, stride, count, index).is_some());
                        let part = TeamPart { start, stride, size: count, num_contexts: 0 };
                        assert_eq!(part.within((0, 1, size)), Some((start, stride, count)));
                    }
                }
            }
        }
    }

    #[test]
    fn a_part_outside_its_parent_is_refused() {
        let part = |start, stride, size| TeamPart { start, stride, size, num_contexts: 0 };
        assert_eq!(part(1, 2, 3).within((4, 3, 6)), Some((7, 6, 3)));
        assert_eq!(part(5, -1, 6).within((0, 1, 6)), Some((5, -1, 6)));
        for bad in [part(0, 1, 0), part(0, 0, 2), part(0, 1, 7), part(6, 1, 1), part(-1, 1, 2)] {
            assert_eq!(bad.within((0, 1, 6)), None);
        }
    }
}
