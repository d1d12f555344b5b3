//! The view: the process that carries each PE number, in the order set by the launcher.
//!
//! Invariants: the number of a view only grows; an incarnation of a PE only grows; a PE that is
//! `Dead` in a view never acts in it.

use serde::{Deserialize, Serialize};

use crate::quantity::{Incarnation, ViewNumber};

/// Maximum number of PEs in a job.
pub const PES_MAX: usize = 1 << 14;

/// State of a PE in a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// A process carries this number.
    Alive,
    /// Its process died; the memory that it left may still exist.
    ProcessDead,
    /// Its node is lost, together with its memory.
    NodeDead,
}

/// The state of a PE for people: where it is in the job, and what it does there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeState {
    /// It waits in a call for other PEs.
    Waiting,
    /// It runs the program.
    Running,
    /// Its process is stopped.
    Stopped,
    /// It has not called `shmem_init`.
    Starting,
    /// It is in `shmem_init`.
    Joining,
    /// It was lost, and its substitute is starting.
    Lost,
    /// It was lost, and a substitute carries its number; not all PEs have resumed since.
    Recovering,
    /// It was lost for good: it has no substitute, and no PE waits for it.
    Hole,
    /// It is in `shmem_finalize`, but not known to wait there: it may take part in a recovery.
    Finalizing,
    /// It waits in `shmem_finalize`.
    AtEnd,
    /// It has left `shmem_finalize`.
    Ended,
}

impl PeState {
    /// Returns true if its checkpoint data is lost, or not restored yet.
    pub fn is_lost(self) -> bool {
        matches!(self, PeState::Lost | PeState::Recovering | PeState::Hole)
    }
}

/// One PE in a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Alive, or the kind of loss.
    pub state: State,
    /// Number of processes that carried this PE number before; at most 2^23 - 1.
    pub incarnation: Incarnation,
    /// Number of its memory; grows with each new memory.
    pub memory: u32,
    /// The node it is on.
    pub node: u32,
    /// True if its last loss was that of its node; stays set after a substitute takes over.
    pub with_node: bool,
}

/// A request that PEs move after the next checkpoint: those of a node that is drained, or some to a
/// node that has joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MoveRequest {
    /// The number of the request in its job, from 1.
    pub serial: u32,
    /// The node.
    pub node: u32,
    /// True if the node has joined, false if it is drained.
    pub joins: bool,
}

impl MoveRequest {
    /// Encodes an optional request in one word, None as 0; a later request gives a higher word.
    pub fn pack(request: Option<MoveRequest>) -> u64 {
        request.map_or(0, |MoveRequest { serial, node, joins }| {
            u64::from(serial) << 33 | u64::from(joins) << 32 | u64::from(node)
        })
    }

    /// Decodes a word: the inverse of `pack`.
    pub fn unpack(word: u64) -> Option<MoveRequest> {
        let (serial, node, joins) = ((word >> 33) as u32, word as u32, word >> 32 & 1 == 1);
        (serial > 0).then_some(MoveRequest { serial, node, joins })
    }
}

/// The agreed list of PEs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// View number; grows by one with every change.
    pub number: ViewNumber,
    /// The PEs, indexed by number.
    pub pes: Vec<Member>,
    /// True if only lost PEs roll back; the other PEs see no fault.
    pub local: bool,
}

impl View {
    /// Returns the node of each PE.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = u32> {
        self.pes.iter().map(|pe| pe.node)
    }

    /// Returns true if a living process carries every PE number.
    pub fn whole(&self) -> bool {
        self.pes.iter().all(|pe| pe.state == State::Alive)
    }
}

impl Member {
    /// Creates the entry of a PE at the start of a job.
    pub fn first(node: u32) -> Member {
        Member {
            state: State::Alive,
            incarnation: Incarnation::FIRST,
            memory: 0,
            node,
            with_node: false,
        }
    }

    /// Encodes it in one word: state 2 bits, lost with its node 1, incarnation 23, memory 24, node
    /// 14.
    pub fn pack(self) -> u64 {
        let state = match self.state {
            State::Alive => 0u64,
            State::ProcessDead => 1,
            State::NodeDead => 2,
        };
        let clip = |value: u32, bits: u32| u64::from(value) & ((1 << bits) - 1);
        state << 62
            | u64::from(self.with_node) << 61
            | clip(self.incarnation.0, 23) << 38
            | clip(self.memory, 24) << 14
            | clip(self.node, 14)
    }

    /// Decodes a word: the inverse of `pack`.
    pub fn unpack(word: u64) -> Member {
        let state = match word >> 62 {
            0 => State::Alive,
            1 => State::ProcessDead,
            _ => State::NodeDead,
        };
        Member {
            state,
            incarnation: Incarnation((word >> 38 & 0x7f_ffff) as u32),
            memory: (word >> 14 & 0xff_ffff) as u32,
            node: (word & 0x3fff) as u32,
            with_node: word >> 61 & 1 == 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_request_has_a_higher_word() {
        let of = |serial, node, joins| Some(MoveRequest { serial, node, joins });
        let last = (u32::MAX >> 1, u32::MAX);
        let all =
            [None, of(1, 0, false), of(1, 7, true), of(2, 0, false), of(last.0, last.1, true)];
        assert_eq!(all.map(MoveRequest::pack).map(MoveRequest::unpack), all);
        assert!(all.map(MoveRequest::pack).is_sorted());
    }

    #[test]
    fn a_member_survives_packing() {
        for state in [State::Alive, State::ProcessDead, State::NodeDead] {
            for (nth, memory, node) in [(0, 0, 0), (1, 2, 3), (0x7f_ffff, 0xff_ffff, 0x3fff)] {
                for with_node in [false, true] {
                    let incarnation = Incarnation(nth);
                    let member = Member { state, incarnation, memory, node, with_node };
                    assert_eq!(Member::unpack(member.pack()), member);
                }
            }
        }
    }
}
