//! Teams: PEs that exchange and act together, independently of the other PEs.
//!
//! A [`Team`] is plain data, like a memory handle: kept in the program's state it has the same
//! meaning after a restart, because the table of teams and the words that members meet over are
//! part of every checkpoint. It owns nothing; [`Shmem::destroy`](super::Shmem::destroy) frees its
//! slot, and a stale handle then names no team, or another one. That is harmless, as only members
//! ever enter an exchange.
//!
//! This holds because members agree on everything about their team. They make it together from
//! equal arguments (compared) and destroy it together (they meet), each at a gate of its own kind,
//! so no PE holds a team that another member does not know.

use std::fmt;

use bytemuck::{Pod, Zeroable};

use crate::openshmem::group::Group;
use crate::openshmem::team;

/// A subset of the job's PEs, `start, start + stride, ..`, counted from 0 in this order.
///
/// `Copy`, and [`Symmetric`](super::Symmetric): it may be kept in the state of the program.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Team {
    /// The number of the C API; zero means no team.
    number: u64,
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Team({})", self.number)
    }
}

/// The configuration of a team.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TeamConfig {
    /// Contexts that may exist at a time: a hint, for which space is reserved in advance.
    pub contexts: usize,
}

impl Team {
    pub(super) fn of(team: team::Team) -> Option<Team> {
        (team != team::Team::INVALID).then_some(Team { number: team.0 as u64 })
    }

    pub(super) fn number(self) -> team::Team {
        team::Team(self.number as usize)
    }

    /// The team of all PEs.
    pub(super) const WORLD: Team = Team { number: team::Team::WORLD.0 as u64 };

    /// The team of the PEs that map each other's memory.
    pub(super) const SHARED: Team = Team { number: team::Team::SHARED.0 as u64 };

    /// Returns the first PE, the stride and the size.
    ///
    /// # Panics
    /// If the team was destroyed or never existed.
    #[inline]
    pub(super) fn members(self) -> (isize, isize, usize) {
        match team::members(self.number()) {
            Some(members) => members,
            None => panic!("{self:?} is no team; was it destroyed, or never set?"),
        }
    }

    /// Returns the team as collectives take it.
    ///
    /// # Panics
    /// Like [`Team::members`], and if this PE is not a member.
    pub(super) fn group(self, call: &'static str) -> Group {
        self.members();
        let index = team::index_of(self.number(), raidshmem_runtime::pgas::world().me());
        assert!(index >= 0, "this PE is not a member of {self:?}");
        Group::of_team(call, self.number())
    }
}
