//! Teams: handles, and the table of their PEs.
//!
//! A team is an arithmetic progression of PEs, and so is every split of it (`split.rs`). A handle
//! is the number of a slot, counted from one; slot 0 is the world and slot 1 the PEs that share
//! memory with this one: all, or those of the node in this view.
//!
//! A shrunk team is a progression in a list of PEs, its survivors.
//!
//! Invariants: a slot with size 0 is free; all members of a team have it in an equal slot; a PE is
//! a member of every team in its slots.
//!
//! Checkpoints cover the slots, which are registered. The words that the members meet over belong
//! to the library and are zero at every checkpoint and after every restart.

use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

use raidshmem_core::layout::WORK_TEAMS;
use raidshmem_core::placement::shadow::shadow as shadow_of;
use raidshmem_core::quantity::Pe;
use raidshmem_sys::lock;

use raidshmem_runtime::fault_tolerance::{self as ft, Name};
use raidshmem_runtime::pgas;

/// A team handle, passed through the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Team(pub usize);

impl Team {
    /// `SHMEM_TEAM_INVALID`.
    pub const INVALID: Team = Team(0);
    /// `SHMEM_TEAM_WORLD`.
    pub const WORLD: Team = Team(1);
    /// `SHMEM_TEAM_SHARED`.
    pub const SHARED: Team = Team(2);
}

/// Slots per PE, one bit each in a word.
pub const SLOTS: usize = WORK_TEAMS;
const _: () = assert!(SLOTS == u64::BITS as usize);
/// The slots of world and shared, which are never allocated.
const RESERVED: u64 = 0b11;
/// A team, while its size is not zero. Relaxed throughout: the program hands teams between threads.
struct Slot {
    start: AtomicIsize,
    stride: AtomicIsize,
    size: AtomicUsize,
    num_contexts: AtomicUsize,
}

/// All teams of this PE.
static TEAMS: [Slot; SLOTS] = [const {
    Slot {
        start: AtomicIsize::new(0),
        stride: AtomicIsize::new(0),
        size: AtomicUsize::new(0),
        num_contexts: AtomicUsize::new(0),
    }
}; SLOTS];

/// PEs of a team that is not an arithmetic progression of all PEs, in any order.
pub type List = Option<&'static [Pe]>;

/// The list in which a team's PEs are a progression, and its number in agreements; both in shrink
/// mode only.
static OF_LISTS: [Mutex<(List, u64)>; SLOTS] = [const { Mutex::new((None, 0)) }; SLOTS];

/// The PEs of a team: `start, start + stride, ..`, and their number; indices of a list, if it has
/// one.
pub type StridedPes = (isize, isize, usize);

/// Returns the list of a team, and its number in agreements.
pub fn list_of(team: Team) -> (List, u64) {
    match team {
        Team::WORLD => (None, pgas::WORLD),
        Team::SHARED => (None, pgas::WORLD + 1),
        Team(number) => OF_LISTS.get(number - 1).map_or((None, 0), |of| *lock(of)),
    }
}

/// Sets the list of a team and its number in agreements.
pub fn set_list(team: Team, list: List, number: u64) {
    *lock(&OF_LISTS[team.0 - 1]) = (list, number);
}

/// Returns the PE with an index in `start, start + stride, ..` of a list.
pub fn pe_of(list: List, (start, stride): (isize, isize), index: usize) -> isize {
    let at = start + stride * index.cast_signed();
    match (list, usize::try_from(at)) {
        (Some(list), Ok(place)) => list[place].at().cast_signed(),
        _ => at,
    }
}

/// Returns the index of a PE, the inverse of [`pe_of`].
pub fn index_of_pe(list: List, (start, stride, size): StridedPes, pe: Pe) -> Option<usize> {
    let place = match list {
        Some(list) => list.iter().position(|&other| other == pe)?,
        None => pe.at(),
    };
    index_in(start, stride, size, place)
}

/// Makes the slots part of every checkpoint of this PE.
pub fn register() {
    let slots = (&raw const TEAMS).cast_mut().cast::<u8>();
    // SAFETY: a static of atomics, which are written through shared references: it exists and is
    // writable until the process ends, and any bytes restored from a checkpoint are valid values.
    let refused = unsafe { ft::protect(Name::Library("teams"), slots, size_of_val(&TEAMS)) };
    debug_assert_eq!(refused, 0);
}

/// Returns the PEs of a team; `None` for an invalid handle.
pub fn members(team: Team) -> Option<StridedPes> {
    let slot = team.0.checked_sub(1)?;
    match slot {
        0 => return Some((0, 1, pgas::world().n_pes())),
        1 => return Some(pgas::world().sharing()),
        _ => {}
    }
    let slot = TEAMS.get(slot)?;
    let size = slot.size.load(Ordering::Relaxed);
    let (start, stride) = (slot.start.load(Ordering::Relaxed), slot.stride.load(Ordering::Relaxed));
    (size > 0).then_some((start, stride, size))
}

/// Returns the slots that are free on this PE, as a bit mask.
pub fn free() -> u64 {
    let is_free = |slot: &usize| TEAMS[*slot].size.load(Ordering::Relaxed) == 0;
    (0..SLOTS).filter(is_free).fold(0u64, |mask, slot| mask | 1 << slot) & !RESERVED
}

/// Puts a team into a free slot.
pub fn fill(slot: usize, (start, stride, size): StridedPes, num_contexts: usize) -> Team {
    let entry = &TEAMS[slot];
    entry.start.store(start, Ordering::Relaxed);
    entry.stride.store(stride, Ordering::Relaxed);
    entry.size.store(size, Ordering::Relaxed);
    entry.num_contexts.store(num_contexts, Ordering::Relaxed);
    Team(slot + 1)
}

/// Frees the slot of a team.
pub fn empty(team: Team) {
    TEAMS[team.0 - 1].size.store(0, Ordering::Relaxed);
    set_list(team, None, 0);
}

/// Returns the index of `place` in `start, start + stride, ..`, if it is there.
pub fn index_in(start: isize, stride: isize, size: usize, place: usize) -> Option<usize> {
    let from_start = place.cast_signed() - start;
    let index = match stride {
        0 => (from_start == 0).then_some(0),
        _ => (from_start % stride == 0).then_some(from_start / stride),
    }?;
    usize::try_from(index).ok().filter(|index| *index < size)
}

/// Translates a team's PE to a PE of the world.
pub fn to_world(team: Team, pe: i32) -> Option<Pe> {
    let (start, stride, size) = members(team)?;
    let index = usize::try_from(pe).ok().filter(|index| *index < size)?;
    u32::try_from(pe_of(list_of(team).0, (start, stride), index)).ok().map(Pe)
}

/// Returns the member of a team that keeps the second copy of a member's data, if one can.
pub fn shadow(team: Team, member: usize) -> Option<usize> {
    let (_, _, size) = members(team)?;
    let segments = pgas::world().segments;
    let nodes = (0..size as i32).filter_map(|pe| to_world(team, pe));
    let nodes: Vec<u32> = nodes.map(|pe| segments.node_of(pe)).collect();
    shadow_of(&nodes, member)
}

/// Translates a PE of the world to a PE of a team; -1 if it is not a member.
pub fn index_of(team: Team, pe: Pe) -> i32 {
    let found = members(team).and_then(|members| index_of_pe(list_of(team).0, members, pe));
    found.map_or(-1, |index| index as i32)
}

/// Returns the number of contexts that the program expects to use with a team.
pub fn contexts(team: Team) -> usize {
    TEAMS[team.0 - 1].num_contexts.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_in_is_the_inverse_of_the_progression() {
        for (start, stride, size) in [(0, 1, 5), (3, 2, 4), (9, -3, 4), (7, 0, 1)] {
            let pes: Vec<isize> = (0..size).map(|i| start + stride * i as isize).collect();
            for pe in 0..20 {
                let expected = pes.iter().position(|member| *member == pe);
                assert_eq!(index_in(start, stride, size, pe as usize), expected);
            }
        }
    }
}
