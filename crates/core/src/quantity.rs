//! Types for numbers that must not be confused: of a PE, a tile, a checkpoint, a view and an
//! incarnation.
//!
//! Invariant: all but PEs and tiles only grow in a job. Each has the width that it has in memory
//! and in messages, and is serialized as the bare number.

use std::fmt::{Debug, Display, Formatter, Result};

use serde::{Deserialize, Serialize};

/// Defines a type for one kind of number, of width `$width`.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident: $width:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $width);

        impl Display for $name {
            fn fmt(&self, f: &mut Formatter<'_>) -> Result {
                Display::fmt(&self.0, f)
            }
        }

        /// Formats the bare number: the name of the field already identifies it.
        impl Debug for $name {
            fn fmt(&self, f: &mut Formatter<'_>) -> Result {
                Debug::fmt(&self.0, f)
            }
        }
    };
}

/// Like `number`, but for numbers that are counted up one by one.
macro_rules! counted {
    ($(#[$doc:meta])* $name:ident: $width:ty) => {
        number! { $(#[$doc])* $name: $width }

        impl $name {
            /// Returns the number after this one.
            pub fn next(self) -> $name {
                $name(self.0 + 1)
            }
        }
    };
}

number! {
    /// The number of a PE in its job (OpenSHMEM 1.6, section 3), from 0. Its memory, its processes
    /// and its node have numbers of their own.
    Pe: u32
}

impl Pe {
    /// Returns all PEs of a job of `count` PEs.
    pub fn all(count: usize) -> impl DoubleEndedIterator<Item = Pe> {
        (0..count).map(Pe::of)
    }

    /// Returns the PE at index `at` of an array with one entry per PE.
    pub const fn of(at: usize) -> Pe {
        Pe(at as u32)
    }

    /// Returns its index in such an array.
    pub const fn at(self) -> usize {
        self.0 as usize
    }

    /// Formats ascending PEs for messages: `no PE`, `PE 3`, `PEs 0,1,4-9`; shortens long lists.
    pub fn names(pes: &[Pe]) -> String {
        const MOST: usize = 16;
        let rows: Vec<String> = pes
            .chunk_by(|a, b| a.0 + 1 == b.0)
            .flat_map(|row| match row {
                [first, _, .., last] if row.len() > 2 => vec![format!("{first}-{last}")],
                few => few.iter().map(Pe::to_string).collect(),
            })
            .collect();
        let (shown, left) = rows.split_at(rows.len().min(MOST));
        let more =
            if left.is_empty() { String::new() } else { format!(" and {} more", left.len()) };
        match pes {
            [] => "no PE".to_owned(),
            [pe] => format!("PE {pe}"),
            _ => format!("PEs {}{more}", shown.join(",")),
        }
    }
}

number! {
    /// A tile index in live memory, in a snapshot or in the parity of a slot, from 0.
    TileIndex: usize
}

impl TileIndex {
    /// Returns the first `count` tiles.
    pub fn all(count: usize) -> impl DoubleEndedIterator<Item = TileIndex> {
        (0..count).map(TileIndex)
    }

    /// Returns the tile at index `at` of an array with one entry per tile.
    pub const fn of(at: usize) -> TileIndex {
        TileIndex(at)
    }

    /// Returns its index in such an array.
    pub const fn at(self) -> usize {
        self.0
    }

    /// Returns the tile `steps` after this one.
    pub const fn after(self, steps: usize) -> TileIndex {
        TileIndex(self.0 + steps)
    }
}

counted! {
    /// A checkpoint number, counted from 1; 0 is the start of the program.
    CheckpointNumber: u64
}

impl CheckpointNumber {
    /// The state before the first checkpoint.
    pub const START: CheckpointNumber = CheckpointNumber(0);

    /// Returns the previous number; must not be called on [`CheckpointNumber::START`].
    pub fn previous(self) -> CheckpointNumber {
        CheckpointNumber(self.0 - 1)
    }

    /// Returns the number `back` before this one, but at least the start.
    pub fn before(self, back: u64) -> CheckpointNumber {
        CheckpointNumber(self.0.saturating_sub(back))
    }

    /// Encodes an optional number as a word; None as 0.
    pub fn pack(number: Option<CheckpointNumber>) -> u64 {
        number.map_or(0, |number| number.0 + 1)
    }

    /// Decodes a word: the inverse of `pack`.
    pub fn unpack(word: u64) -> Option<CheckpointNumber> {
        word.checked_sub(1).map(CheckpointNumber)
    }

    /// Returns its index among `count` places used in turn.
    pub fn turn(self, count: usize) -> usize {
        (self.0 % count as u64) as usize
    }
}

counted! {
    /// A view number; the launcher counts views from 1.
    ViewNumber: u64
}

counted! {
    /// The number of earlier processes that carried a PE's number; at most 2^23 - 1.
    Incarnation: u32
}

impl Incarnation {
    /// The incarnation of a process that the launcher started with the job.
    pub const FIRST: Incarnation = Incarnation(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_pes_are_named_by_the_first_and_the_last() {
        for (pes, name) in [
            (vec![], "no PE"),
            (vec![3], "PE 3"),
            (vec![0, 1], "PEs 0,1"),
            (vec![0, 1, 2, 5], "PEs 0-2,5"),
            (vec![1, 3, 4, 5, 6, 7, 9], "PEs 1,3-7,9"),
            ((0..16384).collect(), "PEs 0-16383"),
            (
                (0..40).step_by(2).collect(),
                "PEs 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30 and 4 more",
            ),
        ] {
            let pes: Vec<Pe> = pes.into_iter().map(Pe).collect();
            assert_eq!(Pe::names(&pes), name);
        }
    }
}
