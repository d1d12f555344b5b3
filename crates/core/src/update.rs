//! Atomic updates of a word of 2, 4 or 8 bytes, as data: what becomes of a word.
//!
//! Left out: changing the word of a segment in one step, which is the crate `raidshmem-segment`.

use serde::{Deserialize, Serialize};

/// What an atomic update does with a word; all but `Store` give what was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Update {
    /// Leaves it.
    Load,
    /// Stores the operand, and gives zero.
    Store,
    /// Stores the operand.
    Swap,
    /// Adds it, wrapping.
    Add,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Stores the operand if the word holds this.
    CompareSwap(u64),
}

/// A word of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WordAt {
    /// Where, a multiple of its bytes.
    pub offset: usize,
    /// Its bytes: 2, 4 or 8.
    pub bytes: usize,
}

/// What is done with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Change {
    /// What.
    pub how: Update,
    /// With what.
    pub operand: u64,
}

impl Update {
    /// A number for it, less than 256, and what it compares with: for records and messages.
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

    /// What has this number; None: nothing.
    pub fn of_code(code: u64, compares_with: u64) -> Option<Update> {
        let plain = [Update::Load, Update::Store, Update::Swap, Update::Add];
        let bits = [Update::And, Update::Or, Update::Xor, Update::CompareSwap(compares_with)];
        plain.into_iter().chain(bits).find(|how| how.code().0 == code)
    }
}

impl Change {
    /// What a word of so many bytes holds after it, if it held `old`.
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
