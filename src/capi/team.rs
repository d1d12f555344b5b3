//! Teams: handles, queries, splits.
//!
//! A team is an arithmetic progression of PEs, and so is every split of it. A handle is the number
//! of a slot, counted from one; slot 0 is the world and slot 1 the PEs that share memory with this
//! one: all, or those of the node in this view. The PEs of a split agree on a slot that is free
//! with all of them, and disjoint teams may have the same one.
//!
//! Invariants: a slot with size 0 is free; all members of a team have it in the same slot; a PE is
//! a member of every team in its slots.
//!
//! What a death and a restart do to teams follows from where they are kept: the slots are
//! registered with the checkpoint, the words that the members meet over are the library's, and zero
//! at every checkpoint and after every restart.

use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

use super::constants::TEAM_NUM_CONTEXTS;
use super::context;
use super::group::{Gate, Group, MASK_AT, index_in};
use super::guard::misuse;
use super::memory_ops::{In, Out, SymIn};
use super::setup::pointer_on;
use crate::faults::{self, Name};
use crate::pgas;
use crate::segment::layout::WORK_TEAMS;

/// A team handle as C holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Team(pub usize);

/// `shmem_team_config_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct TeamConfig {
    num_contexts: c_int,
}

impl Team {
    /// `SHMEM_TEAM_INVALID`.
    pub const INVALID: Team = Team(0);
    /// `SHMEM_TEAM_WORLD`.
    pub const WORLD: Team = Team(1);
    /// `SHMEM_TEAM_SHARED`.
    pub const SHARED: Team = Team(2);
}

/// One bit each in a word.
const SLOTS: usize = WORK_TEAMS;
const _: () = assert!(SLOTS == u64::BITS as usize);
/// World and shared: never given out.
const RESERVED: u64 = 0b11;
/// What the calls return that tell of a failure.
const FAILED: c_int = -1;

/// A team, while its size is not zero. Relaxed throughout: a team is handed on by the program.
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

/// The PEs of a team.
type Members = (isize, isize, usize);

/// Makes the slots part of every checkpoint of this PE.
pub fn register() {
    let slots = (&raw const TEAMS).cast_mut().cast::<u8>();
    // SAFETY: a static of atomics, which are written through shared references: it is there and
    // writable until the process ends, and any bytes of a checkpoint of it are values of it.
    let refused = unsafe { faults::protect(Name::Library("teams"), slots, size_of_val(&TEAMS)) };
    debug_assert_eq!(refused, 0);
}

/// The PEs of a team; `None` for a handle that is none.
pub fn members(team: Team) -> Option<Members> {
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

/// The group of a team; a handle that is none is a misuse.
pub fn group(call: &'static str, team: Team) -> Group {
    let Some(members) = members(team) else {
        misuse(call, "the team is SHMEM_TEAM_INVALID or was destroyed");
    };
    Group::of_team(call, members, team.0 - 1)
}

/// What a split asks for, in PEs of the parent.
#[derive(Clone, Copy)]
pub struct Part {
    /// The first PE.
    pub start: isize,
    /// From one PE to the next.
    pub stride: isize,
    /// How many.
    pub size: usize,
    /// Contexts that the program says it will use.
    pub num_contexts: usize,
}

impl Part {
    /// The part in PEs of the world; `None` when it is not inside the parent.
    fn within(self, (start, stride, size): Members) -> Option<Members> {
        let reach = self.stride.checked_mul(self.size.checked_sub(1)?.cast_signed())?;
        let last = self.start.checked_add(reach)?;
        let inside = |index: isize| usize::try_from(index).is_ok_and(|index| index < size);
        let sound = inside(self.start) && inside(last) && (self.stride != 0 || self.size == 1);
        sound.then_some((start + self.start * stride, self.stride * stride, self.size))
    }
}

/// Why a team was not split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsplit {
    /// The parent is none, or a part is empty or not inside it.
    Outside,
    /// Some PE is in as many teams as there can be.
    Full,
    /// A PE was lost.
    Fault,
}

/// Makes one new team for each part this PE is a member of, in slots that are free with all;
/// `INVALID` for a part that it is not in. They meet at `gate`.
///
/// All PEs of the parent call with parts that may differ in which PEs they name, not in number.
pub fn split<const N: usize>(
    call: &'static str,
    (parent, gate): (Team, Gate),
    parts: [Part; N],
) -> Result<[Team; N], Unsplit> {
    let parent_members = members(parent).ok_or(Unsplit::Outside)?;
    let within = |part: &Part| part.within(parent_members);
    let all: Option<Vec<_>> = parts.iter().map(within).collect();
    let all = all.ok_or(Unsplit::Outside)?;
    let is_free = |slot: &usize| TEAMS[*slot].size.load(Ordering::Relaxed) == 0;
    let mine = (0..SLOTS).filter(is_free).fold(0u64, |mask, slot| mask | 1 << slot) & !RESERVED;
    let masks = group(call, parent).through(gate).tell(MASK_AT, mine);
    let masks = masks.map_err(|_| Unsplit::Fault)?;
    let mut free = masks.into_iter().fold(u64::MAX, |all, mask| all & mask);
    if (free.count_ones() as usize) < N {
        return Err(Unsplit::Full);
    }
    let mut teams = [Team::INVALID; N];
    for ((part, new), (start, stride, size)) in parts.iter().zip(&mut teams).zip(all) {
        let slot = free.trailing_zeros() as usize;
        free &= free - 1;
        if index_in(start, stride, size, pgas::world().me()).is_some() {
            let room = &TEAMS[slot];
            room.start.store(start, Ordering::Relaxed);
            room.stride.store(stride, Ordering::Relaxed);
            room.size.store(size, Ordering::Relaxed);
            room.num_contexts.store(part.num_contexts, Ordering::Relaxed);
            context::prepare(pgas::world(), part.num_contexts);
            Group::of_team(call, (start, stride, size), slot).begin_turns();
            *new = Team(slot + 1);
        }
    }
    Ok(teams)
}

/// `split` for C: what was made, or nothing.
fn split_for<const N: usize>(
    call: &'static str,
    parent: Team,
    parts: [(Part, Out<Team>); N],
) -> c_int {
    let made = split(call, (parent, Gate::Collective), parts.map(|(part, _)| part));
    let teams = made.unwrap_or([Team::INVALID; N]);
    parts.iter().zip(teams).for_each(|((_, new), team)| new.write(team));
    if made.is_ok() { 0 } else { FAILED }
}

/// What a config says of contexts; `name` is that of its mask.
fn contexts_of(call: &'static str, name: &str, config: In<TeamConfig>, mask: c_long) -> usize {
    if mask & !TEAM_NUM_CONTEXTS != 0 {
        misuse(call, format_args!("{name} {mask:#x}: allowed is SHMEM_TEAM_NUM_CONTEXTS"));
    }
    if mask == 0 {
        return 0;
    }
    if config.addr() == 0 {
        misuse(call, format_args!("the config is NULL, and {name} {mask:#x}"));
    }
    let asked = config.read_at(0).num_contexts;
    match usize::try_from(asked) {
        Ok(contexts) => contexts,
        Err(_) => misuse(call, format_args!("num_contexts {asked}: allowed are 0 and more")),
    }
}

/// The parts of a parent laid out in rows of `xrange`: the row of this PE, and its column.
pub fn row_and_column(index: usize, size: usize, xrange: usize) -> [(isize, isize, usize); 2] {
    let (x, y) = (index % xrange, index / xrange);
    let row = (y * xrange, 1, xrange.min(size - y * xrange));
    let column = (x, xrange, (size - x).div_ceil(xrange));
    [row, column].map(|(start, stride, size)| (start as isize, stride as isize, size))
}

/// The PE of the world that a team's PE is.
pub fn to_world(team: Team, pe: c_int) -> Option<usize> {
    let (start, stride, size) = members(team)?;
    let index = usize::try_from(pe).ok().filter(|index| *index < size)?;
    usize::try_from(start + stride * index.cast_signed()).ok()
}

pub fn index_of(team: Team, pe: usize) -> c_int {
    let found = members(team).and_then(|(start, stride, size)| index_in(start, stride, size, pe));
    found.map_or(-1, |index| index as c_int)
}

/// Contexts that the program said it will use with a team.
pub fn contexts(team: Team) -> usize {
    TEAMS[team.0 - 1].num_contexts.load(Ordering::Relaxed)
}

/// Frees the slot of a team that came from a split. Harmless for the members that still have it
/// only if none of them uses it any more.
pub fn destroy(call: &'static str, team: Team) {
    if team == Team::INVALID {
        return;
    }
    if team == Team::WORLD || team == Team::SHARED || members(team).is_none() {
        misuse(call, "allowed are teams from a split, once");
    }
    context::take_all_of(call, pgas::world(), team);
    TEAMS[team.0 - 1].size.store(0, Ordering::Relaxed);
}

family! { TEAM: "Teams";
    ONE "shmem_team_my_pe" "" (team: Team) -> c_int {
        index_of(team, pgas::world().me())
    }
    ONE "shmem_team_n_pes" "" (team: Team) -> c_int {
        members(team).map_or(-1, |(_, _, size)| size as c_int)
    }
    ONE "shmem_team_get_config" ""
    (team: Team, config_mask: c_long, config: Out<TeamConfig>) -> c_int {
        if config_mask & !TEAM_NUM_CONTEXTS != 0 {
            let allowed = "allowed is SHMEM_TEAM_NUM_CONTEXTS";
            misuse(NAME, format_args!("config_mask {config_mask:#x}: {allowed}"));
        }
        if members(team).is_none() {
            return FAILED;
        }
        if config_mask != 0 {
            config.write(TeamConfig { num_contexts: contexts(team) as c_int });
        }
        0
    }
    ONE "shmem_team_translate_pe" ""
    (src_team: Team, src_pe: c_int, dest_team: Team) -> c_int {
        to_world(src_team, src_pe).map_or(-1, |pe| index_of(dest_team, pe))
    }
    ONE "shmem_team_split_strided" ""
    (parent_team: Team, start: c_int, stride: c_int, size: c_int, config: In<TeamConfig>,
     config_mask: c_long, new_team: Out<Team>) -> c_int {
        let part = Part {
            start: start as isize,
            stride: stride as isize,
            size: usize::try_from(size).unwrap_or(0),
            num_contexts: contexts_of(NAME, "config_mask", config, config_mask),
        };
        split_for(NAME, parent_team, [(part, new_team)])
    }
    ONE "shmem_team_split_2d" ""
    (parent_team: Team, xrange: c_int, xaxis_config: In<TeamConfig>, xaxis_mask: c_long,
     xaxis_team: Out<Team>, yaxis_config: In<TeamConfig>, yaxis_mask: c_long,
     yaxis_team: Out<Team>) -> c_int {
        let contexts = [
            contexts_of(NAME, "xaxis_mask", xaxis_config, xaxis_mask),
            contexts_of(NAME, "yaxis_mask", yaxis_config, yaxis_mask),
        ];
        let index = usize::try_from(index_of(parent_team, pgas::world().me()));
        let xrange = usize::try_from(xrange).ok().filter(|xrange| *xrange > 0);
        let (Ok(index), Some(xrange), Some((_, _, size))) = (index, xrange, members(parent_team))
        else {
            xaxis_team.write(Team::INVALID);
            yaxis_team.write(Team::INVALID);
            return FAILED;
        };
        let [x, y] = row_and_column(index, size, xrange.min(size));
        let part = |(start, stride, size), num_contexts| Part { start, stride, size, num_contexts };
        let parts = [(part(x, contexts[0]), xaxis_team), (part(y, contexts[1]), yaxis_team)];
        split_for(NAME, parent_team, parts)
    }
    ONE "shmem_team_destroy" "" (team: Team) {
        destroy(NAME, team)
    }
    ONE "shmem_team_ptr" "" (team: Team, dest: SymIn<c_void>, pe: c_int) -> *mut u8 {
        match to_world(team, pe) {
            Some(pe) => pointer_on(NAME, dest, pe as c_int),
            None => std::ptr::null_mut(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_cover_each_pe_once() {
        for size in 1..20 {
            for xrange in 1..=size {
                for index in 0..size {
                    for (start, stride, count) in row_and_column(index, size, xrange) {
                        assert!(index_in(start, stride, count, index).is_some());
                        let part = Part { start, stride, size: count, num_contexts: 0 };
                        assert_eq!(part.within((0, 1, size)), Some((start, stride, count)));
                    }
                }
            }
        }
    }

    #[test]
    fn a_part_outside_its_parent_is_refused() {
        let part = |start, stride, size| Part { start, stride, size, num_contexts: 0 };
        assert_eq!(part(1, 2, 3).within((4, 3, 6)), Some((7, 6, 3)));
        assert_eq!(part(5, -1, 6).within((0, 1, 6)), Some((5, -1, 6)));
        for bad in [part(0, 1, 0), part(0, 0, 2), part(0, 1, 7), part(6, 1, 1), part(-1, 1, 2)] {
            assert_eq!(bad.within((0, 1, 6)), None);
        }
    }
}
