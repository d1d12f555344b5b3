//! Atomic updates of a word of 2, 4 or 8 bytes, as data.
//!
//! Left out: the atomic access to a segment, in the crate `raidshmem-segment`.

use serde::{Deserialize, Serialize};

/// The effect of an atomic update on a word; all but `Store` return the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Update {
    /// Leaves the word unchanged.
    Load,
    /// Stores the operand, and returns zero.
    Store,
    /// Stores the operand.
    Swap,
    /// Adds the operand, wrapping.
    Add,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Stores the operand if the word holds this value.
    CompareSwap(u64),
}

/// A word of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WordAt {
    /// Offset in the segment, a multiple of `bytes`.
    pub offset: usize,
    /// Length in bytes: 2, 4 or 8.
    pub bytes: usize,
}

/// A change of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Change {
    /// The kind of update.
    pub how: Update,
    /// The operand of the update.
    pub operand: u64,
}

impl Update {
    /// Returns the code of the update, less than 256, and the value that it compares with: for
    /// records and messages.
    pub fn code(self) -> (u64, u64) {
        match self {
            Update::Load => (0, 0),
            Update::Store => (1, 0),
            Update::Swap => (2, 0),
            Update::Add => (3, 0),
            Update::And => (4, 0),
            Update::Or => (5, 0),
            Update::Xor => (6, 0),
            Update::CompareSwap(expected) => (7, expected),
        }
    }

    /// Returns the update with this code; None if the code is unknown.
    pub fn of_code(code: u64, compares_with: u64) -> Option<Update> {
        let plain = [Update::Load, Update::Store, Update::Swap, Update::Add];
        let bits = [Update::And, Update::Or, Update::Xor, Update::CompareSwap(compares_with)];
        plain.into_iter().chain(bits).find(|how| how.code().0 == code)
    }
}

impl Change {
    /// Returns the new value of a word of this many bytes that held `old`.
    pub fn of(self, old: u64, bytes: usize) -> u64 {
        let all = u64::MAX >> (64 - 8 * bytes.clamp(1, 8));
        let operand = self.operand;
        let new = match self.how {
            Update::Load => old,
            Update::Store | Update::Swap => operand,
            Update::Add => old.wrapping_add(operand),
            Update::And => old & operand,
            Update::Or => old | operand,
            Update::Xor => old ^ operand,
            Update::CompareSwap(expected) if expected & all == old & all => operand,
            Update::CompareSwap(_) => old,
        };
        new & all
    }
}
