//! Teams: PEs that exchange and act together without the others.
//!
//! A [`Team`] is plain data, as a handle of memory is: kept in the state of the program it means
//! the same after a restart, because the table of teams and the words that members meet over are
//! part of every checkpoint. It owns nothing; [`Shmem::destroy`](super::Shmem::destroy) gives its
//! place free, and what is left of it then names no team, or another one: harmless, as only members
//! ever enter an exchange.
//!
//! Why that holds: members agree on everything about their team. They make it together from equal
//! arguments (compared) and end it together (they meet), each at a gate of its own kind, so that no
//! PE believes in a team of which another member knows nothing.

use std::fmt;

use bytemuck::{Pod, Zeroable};

use crate::openshmem::group::Group;
use crate::openshmem::team;

/// Some PEs of the job, `start, start + stride, ..`, counted from 0 in this order.
///
/// `Copy`, and [`Symmetric`](super::Symmetric): it may be kept in the state of the program.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Team {
    /// As in C; zero is no team.
    number: u64,
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Team({})", self.number)
    }
}

/// What a team is made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TeamConfig {
    /// Contexts that may exist at a time: a hint, for which room is made ahead.
    pub contexts: usize,
}

impl Team {
    pub(super) fn of(team: team::Team) -> Option<Team> {
        (team != team::Team::INVALID).then_some(Team { number: team.0 as u64 })
    }

    pub(super) fn number(self) -> team::Team {
        team::Team(self.number as usize)
    }

    /// All PEs.
    pub(super) const WORLD: Team = Team { number: team::Team::WORLD.0 as u64 };

    /// The PEs that map each other's memory.
    pub(super) const SHARED: Team = Team { number: team::Team::SHARED.0 as u64 };

    /// First PE, stride and size.
    ///
    /// # Panics
    /// If there is no such team any more, or never was.
    #[inline]
    pub(super) fn members(self) -> (isize, isize, usize) {
        match team::members(self.number()) {
            Some(members) => members,
            None => panic!("{self:?} is no team; was it destroyed, or never set?"),
        }
    }

    /// The team as collectives take it.
    ///
    /// # Panics
    /// As [`Team::members`], and if this PE is not a member.
    pub(super) fn group(self, call: &'static str) -> Group {
        self.members();
        let index = team::index_of(self.number(), crate::pgas::world().me());
        assert!(index >= 0, "this PE is not a member of {self:?}");
        Group::of_team(call, self.number())
    }
}
