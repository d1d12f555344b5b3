//! Small broadcasts of PEs that map each other: a parent writes data into slots of its children.
//!
//! ```text
//! own words   TURN   broadcasts so far           ROOT   the last root
//!             GIVEN  data given, by set          TAKEN  data that children took, by set
//!             FULL   the turn of the last data in the slots
//! ```
//!
//! There is no meeting: a root returns once its children's slots are written. There are two sets of
//! [`DEPTH`] slots, used in turn, and a parent begins a set only when the children have taken all
//! that it gave them there before. So a root is at most twice as many calls ahead of a child, and
//! PEs that share a processor need not switch in every call. All that is known only while parents
//! stay parents, so all PEs meet when the root changes. The words of a PE are changed by itself,
//! except `FULL`, by its parent, and `TAKEN`, by its children. So they can be zeroed for another
//! team once the children of the last broadcasts have taken their data.
//!
//! Small reductions need no such words: `exchange.rs`.

use raidshmem_core::layout::WORK_SLOT;
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::schedule::kary;
use raidshmem_runtime::pgas::{self, Fault};

use super::merge::with_scratch;
use super::movement::Movement;
use crate::openshmem::group::{Group, PUSH_WORDS};
use crate::openshmem::memory::rma;
use crate::openshmem::memory::slots;
use crate::openshmem::team::Team;

/// Bytes of the largest collective that passes through slots between PEs that map each other:
/// beyond it, two PEs with a processor each take less time to meet twice than to copy twice.
const SMALL: usize = 256;

/// Slots of a set.
const DEPTH: u64 = 16;

const TURN: usize = 0;
const ROOT: usize = 1;
const FULL: usize = 2;
const TAKEN: usize = 3;
const GIVEN: usize = 5;
const _: () = assert!(GIVEN + 2 <= PUSH_WORDS && DEPTH as usize * SMALL <= WORK_SLOT);

/// Returns the team whose slots a collective of `bytes` bytes uses, if it is small and there is
/// one; the PEs of the group map each other.
pub fn slots_of(group: &Group, bytes: usize) -> Option<Group> {
    let world = pgas::world();
    if bytes > SMALL || !world.loss_response().keeps_counts() {
        return None;
    }
    let all = || group.list.is_none() && group.stride == 1 && group.size == world.n_pes();
    match group.has_slots() {
        true => Some(*group),
        // Threads may be in collectives of different active sets.
        false if all() && !world.topology().is_threaded() => {
            Some(Group::of_team(group.call, Team::WORLD))
        }
        false => None,
    }
}

/// Broadcasts the data of the root; `group` has slots.
pub fn broadcast(
    group: &Group,
    of: &Movement,
    (root, to_itself): (usize, bool),
) -> Result<(), Fault> {
    let (call, me, bytes) = (group.call, group.pe(group.index), of.block.bytes());
    follow(group, root)?;
    let own = |at| group.push_word(at, group.index);
    let turn = own(TURN).load() + 1;
    own(TURN).put_own(turn);
    let (set, nth) = ((turn / DEPTH % 2) as usize, turn % DEPTH);
    let slot = group.push_slot(set, nth as usize * SMALL);
    let parent = kary::parent(group.index, group.size, root);
    with_scratch(bytes, |data: &mut [u8]| {
        match parent {
            None => rma::fetch(call, data, of.source, me),
            Some(_) => {
                let full = own(FULL);
                full.world().wait_until(|| group.waiting(), || full.load() >= turn)?;
                slots::pick(call, slot, data);
            }
        }
        let children = kary::children(group.index, group.size, root);
        if children.len() > 0 {
            if nth == 0 {
                await_taken(group, set)?;
            }
            let given = own(GIVEN + set);
            given.put_own(given.load() + children.len() as u64);
        }
        for child in children {
            slots::leave(call, slot, data, group.pe(child));
            group.push_word(FULL, child).after_puts().store(turn);
        }
        if let Some(parent) = parent {
            group.push_word(TAKEN + set, parent).signal();
        }
        if parent.is_some() || to_itself {
            rma::send(call, of.dest, data, me);
        }
        Ok(())
    })
}

/// Waits until the children have taken what this PE gave them in a set.
fn await_taken(group: &Group, set: usize) -> Result<(), Fault> {
    let own = |at| group.push_word(at + set, group.index);
    let (given, taken) = (own(GIVEN).load(), own(TAKEN));
    let all_took = || breaks(Mutant::PushedOver) || taken.load() == given;
    taken.world().wait_until(|| group.waiting(), all_took)
}

/// Leaves the words of a team as the next one expects them; no other PE changes them any more.
pub fn end(group: &Group) {
    if (0..2).all(|set| await_taken(group, set).is_ok()) {
        (0..PUSH_WORDS).for_each(|at| group.push_word(at, group.index).put_own(0));
    }
}

/// Meets the group if the last broadcast had another root.
fn follow(group: &Group, root: usize) -> Result<(), Fault> {
    let last = group.push_word(ROOT, group.index);
    let (before, now) = (last.load(), root as u64 + 1);
    if before != now {
        last.put_own(now);
        if before != 0 && !breaks(Mutant::RootFollowed) {
            return group.meet();
        }
    }
    Ok(())
}
