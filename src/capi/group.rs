//! PEs that act together: the one shape under teams and active sets, and how they meet.
//!
//! A group is `start, start + stride, ..` (`size` PEs) and an array of symmetric words (a team's
//! own, or the `pSync` of the caller). They meet by dissemination (`pgas::schedule`), each round on
//! a word of its own:
//!
//! ```text
//! words  | round 0 | round 1 | ... | round 31 | ... | MASK | COUNT |
//! ```
//!
//! A team has words for more *gates* behind these, with as many rounds as its job needs. PEs that
//! come to different gates wait for each other for ever instead of taking one meeting for another:
//! the safe API rests on it (`shmem/mod.rs`).
//!
//! A signal adds one and its receiver takes one away, so a PE that is already in the next meeting
//! does no harm. Invariant: a word of a PE is zero again when the call returns there, except for a
//! signal of the next meeting; so a `pSync` is left as it was found, and the next call may use it.
//!
//! A death ends every wait; the words go back to the checkpoint with the rest of the memory.

use std::ffi::{c_int, c_long};

use super::constants::SYNC_SIZE;
use super::guard::misuse;
use super::memory_ops::{Sym, Update, Word};
use super::order;
use crate::pgas::{self, Fault, schedule};

/// Words of a group's array.
pub const WORDS: usize = SYNC_SIZE;
/// The word for free team slots.
pub const MASK_AT: usize = WORDS - 2;
/// The word for a PE's number of elements.
pub const COUNT_AT: usize = WORDS - 1;
/// Rounds of a meeting: PE numbers are C ints.
const ROUNDS: usize = 32;

const _: () = assert!(ROUNDS <= MASK_AT);

/// What PEs of a team come together for. The C API has one meeting for everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// A collective: between the words of all.
    Collective = 0,
    /// The safe API, all outside of exchanges: a barrier.
    Barrier,
    /// An exchange begins.
    Open,
    /// An exchange ends.
    Close,
    /// A team is split.
    Split,
    /// A team ends.
    Destroy,
}

/// Gates that lie behind the first words.
const MORE_GATES: usize = Gate::Destroy as usize;

/// Rounds of a meeting of all PEs.
fn rounds_of_all() -> usize {
    schedule::rounds(0, pgas::world().n_pes()).count()
}

/// Words of a team.
pub fn team_words() -> usize {
    WORDS + MORE_GATES * rounds_of_all()
}

/// PEs that act together, seen from one of them.
#[derive(Clone, Copy)]
pub struct Group {
    /// The call, for messages.
    pub call: &'static str,
    /// The PE with index 0.
    pub start: isize,
    /// From one PE to the next.
    pub stride: isize,
    /// How many.
    pub size: usize,
    /// Which of them this PE is.
    pub index: usize,
    words: Sym<c_long>,
    /// The first word of the gate that it meets at.
    first: usize,
}

/// An active set as C says it.
#[derive(Clone, Copy)]
pub struct ActiveSet {
    /// The first PE.
    pub start: c_int,
    /// The binary logarithm of the stride.
    pub log_stride: c_int,
    /// How many PEs.
    pub size: c_int,
}

/// Which of the PEs `start, start + stride, ..` a PE is.
pub fn index_in(start: isize, stride: isize, size: usize, pe: usize) -> Option<usize> {
    let from_start = pe.cast_signed() - start;
    let index = match stride {
        0 => (from_start == 0).then_some(0),
        _ => (from_start % stride == 0).then_some(from_start / stride),
    }?;
    usize::try_from(index).ok().filter(|index| *index < size)
}

impl Group {
    /// The group of a team, over words that `words` tells.
    pub fn of_team(
        call: &'static str,
        (start, stride, size): (isize, isize, usize),
        words: Sym<c_long>,
    ) -> Group {
        match index_in(start, stride, size, pgas::world().me()) {
            Some(index) => Group { call, start, stride, size, index, words, first: 0 },
            None => misuse(call, "this PE is not in the team"),
        }
    }

    /// The group of an active set; `pSync` is symmetric and long enough.
    pub fn of_set(call: &'static str, set: ActiveSet, p_sync: Sym<c_long>) -> Group {
        let n_pes = pgas::world().n_pes();
        let range = u32::try_from(set.log_stride).ok().filter(|log| *log < 31).and_then(|log| {
            let (start, size) = (usize::try_from(set.start).ok()?, usize::try_from(set.size).ok()?);
            let last = size.checked_sub(1)?.checked_mul(1 << log)?.checked_add(start)?;
            (last < n_pes).then_some((start as isize, 1isize << log, size))
        });
        let Some((start, stride, size)) = range else {
            let ActiveSet { start, log_stride, size } = set;
            misuse(
                call,
                format_args!(
                    "PE_start {start}, logPE_stride {log_stride}, PE_size {size}: allowed are sets \
                     of PEs 0..{}",
                    n_pes - 1
                ),
            )
        };
        Word::own(call, "pSync", p_sync.element(WORDS - 1));
        match index_in(start, stride, size, pgas::world().me()) {
            Some(index) => Group { call, start, stride, size, index, words: p_sync, first: 0 },
            None => misuse(call, "this PE is not in the active set"),
        }
    }

    /// The PE with an index.
    pub fn pe(&self, index: usize) -> c_int {
        (self.start + self.stride * index.cast_signed()) as c_int
    }

    /// The same PEs, meeting at another gate. For teams only.
    pub fn through(self, gate: Gate) -> Group {
        let first = match gate as usize {
            0 => 0,
            more => WORDS + (more - 1) * rounds_of_all(),
        };
        Group { first, ..self }
    }

    /// Indices of all PEs in the order in which this one deals with them.
    pub fn partners(&self) -> impl Iterator<Item = usize> {
        schedule::partners(self.index, self.size)
    }

    /// A word of the group on one of its PEs.
    pub fn word(&self, at: usize, index: usize) -> Word {
        Word::new(self.call, "pSync", self.words.element(at), self.pe(index))
    }

    /// Completes what this PE did and waits for the others to come here.
    pub fn meet(&self) -> Result<(), Fault> {
        order::complete();
        for (round, peers) in schedule::rounds(self.index, self.size).enumerate() {
            self.word(self.first + round, peers.to).update(Update::Add, 1);
            let own = self.word(self.first + round, self.index);
            own.world().wait_until(|| own.load().cast_signed() > 0)?;
            own.update(Update::Add, u64::MAX);
        }
        order::complete();
        Ok(())
    }

    /// Tells the others a number of this PE in the word `at` and hands back theirs, by index.
    pub fn tell(&self, at: usize, number: u64) -> Result<Vec<u64>, Fault> {
        let own = self.word(at, self.index);
        own.store(number);
        self.meet()?;
        let numbers = (0..self.size).map(|index| self.word(at, index).load()).collect();
        self.meet()?;
        own.store(0);
        Ok(numbers)
    }
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
