//! Numbers that must not be taken for each other: of a PE, of a tile, of a checkpoint, of a view,
//! of an incarnation.
//!
//! Invariant: all but those of a PE and of a tile only grow in a job. Each has the width that it
//! has in memory and in messages, and is serialized as the bare number.

use std::fmt::{Debug, Display, Formatter, Result};

use serde::{Deserialize, Serialize};

/// A kind of number, of that width.
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

        /// As the bare number: the names beside it say what it is.
        impl Debug for $name {
            fn fmt(&self, f: &mut Formatter<'_>) -> Result {
                Debug::fmt(&self.0, f)
            }
        }
    };
}

/// The same of numbers that are counted up one by one.
macro_rules! counted {
    ($(#[$doc:meta])* $name:ident: $width:ty) => {
        number! { $(#[$doc])* $name: $width }

        impl $name {
            /// The one after this one.
            pub fn next(self) -> $name {
                $name(self.0 + 1)
            }
        }
    };
}

number! {
    /// Which PE of the job (OpenSHMEM 1.6, section 3): from 0 on. Its memory, its processes and its
    /// node have numbers of their own.
    Pe: u32
}

impl Pe {
    /// All PEs of a job of `count`.
    pub fn all(count: usize) -> impl DoubleEndedIterator<Item = Pe> {
        (0..count).map(Pe::of)
    }

    /// The one at place `at` of what holds one entry for each.
    pub const fn of(at: usize) -> Pe {
        Pe(at as u32)
    }

    /// Its place there.
    pub const fn at(self) -> usize {
        self.0 as usize
    }

    /// Names ascending PEs for people: `no PE`, `PE 3`, `PEs 0,1,4-9`; of many that are not
    /// consecutive only the first.
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
    /// Which tile of live memory, of a snapshot or of the parity in a slot: from 0 on.
    TileIndex: usize
}

impl TileIndex {
    /// The first `count` tiles.
    pub fn all(count: usize) -> impl DoubleEndedIterator<Item = TileIndex> {
        (0..count).map(TileIndex)
    }

    /// The one at place `at` of what holds one entry for each.
    pub const fn of(at: usize) -> TileIndex {
        TileIndex(at)
    }

    /// Its place there.
    pub const fn at(self) -> usize {
        self.0
    }

    /// The one `steps` after it.
    pub const fn after(self, steps: usize) -> TileIndex {
        TileIndex(self.0 + steps)
    }
}

counted! {
    /// Which checkpoint: they are counted from 1, and 0 is the start of the program.
    CheckpointNumber: u64
}

impl CheckpointNumber {
    /// Before the first checkpoint.
    pub const START: CheckpointNumber = CheckpointNumber(0);

    /// The checkpoint before this one, which is not [`CheckpointNumber::START`].
    pub fn previous(self) -> CheckpointNumber {
        CheckpointNumber(self.0 - 1)
    }

    /// The number `back` before this one, or the start if there are not so many.
    pub fn before(self, back: u64) -> CheckpointNumber {
        CheckpointNumber(self.0.saturating_sub(back))
    }

    /// A word for a number that may be missing: 0 if it is.
    pub fn pack(number: Option<CheckpointNumber>) -> u64 {
        number.map_or(0, |number| number.0 + 1)
    }

    /// The inverse.
    pub fn unpack(word: u64) -> Option<CheckpointNumber> {
        word.checked_sub(1).map(CheckpointNumber)
    }

    /// Which of `count` places used in turn is its.
    pub fn turn(self, count: usize) -> usize {
        (self.0 % count as u64) as usize
    }
}

counted! {
    /// Which view of the job; the launcher counts them from 1.
    ViewNumber: u64
}

counted! {
    /// How many processes carried the number of a PE before this one; at most 2^23 - 1.
    Incarnation: u32
}

impl Incarnation {
    /// The process that the launcher started with the job.
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
