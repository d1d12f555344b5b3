//! Types for numbers that must not be confused: of a PE, a tile, a checkpoint, a view and an
//! incarnation.
//!
//! Invariant: all but PEs and tiles only grow in a job. Each has the width that it has in memory
//! and in messages, and is serialized as the bare number.

use std::cmp::Ordering;
use std::fmt::{Debug, Display, Formatter, Result};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::mutant::{Mutant, breaks};

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

/// The number of a checkpoint, counted from 1; 0 is the start of the program.
///
/// A recovery may encode the checkpoint that it restored again, in new parity groups. Programs,
/// people, sets and rules see one checkpoint with one number ([`CheckpointNumber::program`]). The
/// store has two, with stamps, slots and decisions of their own, so its word holds the number of
/// such encodings since the start of the job as well. Every PE that knows the word knows both.
///
/// ```text
/// word       encoded again: 24 bits | checkpoint of the program: 40 bits
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CheckpointNumber(pub u64);

impl CheckpointNumber {
    /// The state before the first checkpoint.
    pub const START: CheckpointNumber = CheckpointNumber(0);
    /// Bits of the number that programs see.
    const BITS: u32 = 40;

    /// Returns the number that programs and people see: encoding a checkpoint again keeps it.
    pub fn program(self) -> u64 {
        let counted = if breaks(Mutant::HealCounted) { self.healed_times() } else { 0 };
        (self.0 & ((1 << Self::BITS) - 1)) + counted
    }

    /// Returns how often recoveries have encoded a checkpoint again, up to this one.
    pub fn healed_times(self) -> u64 {
        self.0 >> Self::BITS
    }

    /// Returns the number of the checkpoint after this one.
    pub fn next(self) -> CheckpointNumber {
        CheckpointNumber(self.0 + 1)
    }

    /// Returns the number of this checkpoint, encoded again in new groups.
    pub fn healed(self) -> CheckpointNumber {
        CheckpointNumber(self.0 + (1 << Self::BITS))
    }

    /// Returns the number of which this one is the [`CheckpointNumber::healed`] one.
    pub fn unhealed(self) -> CheckpointNumber {
        CheckpointNumber(self.0 - (1 << Self::BITS))
    }

    /// Returns the previous number; must not be called on [`CheckpointNumber::START`], nor while a
    /// checkpoint is being encoded again.
    pub fn previous(self) -> CheckpointNumber {
        CheckpointNumber(self.0 - 1)
    }

    /// Returns the number `back` before this one, but at least the start.
    pub fn before(self, back: u64) -> CheckpointNumber {
        CheckpointNumber(self.0.saturating_sub(back))
    }

    /// Returns true if this number was given up once `later` was: its encoding was refused or
    /// interrupted, since the count of a later checkpoint does not include it.
    pub fn is_abandoned_by(self, later: CheckpointNumber) -> bool {
        self < later && self.healed_times() > later.healed_times()
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
        let again = if breaks(Mutant::HealedInPlace) { 0 } else { self.healed_times() };
        let encodings = (self.0 & ((1 << Self::BITS) - 1)) + again;
        (encodings % count as u64) as usize
    }
}

/// Later checkpoints of the program are greater, and of one checkpoint later encodings.
impl Ord for CheckpointNumber {
    fn cmp(&self, other: &CheckpointNumber) -> Ordering {
        let order = |number: &CheckpointNumber| number.0.rotate_left(u64::BITS - Self::BITS);
        order(self).cmp(&order(other))
    }
}

impl PartialOrd for CheckpointNumber {
    fn partial_cmp(&self, other: &CheckpointNumber) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Formats the number that programs see.
impl Display for CheckpointNumber {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Display::fmt(&self.program(), f)
    }
}

/// Formats the number that programs see, and the count of encodings again, if there is one.
impl Debug for CheckpointNumber {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Display::fmt(&self.program(), f)?;
        match self.healed_times() {
            0 => Ok(()),
            times => write!(f, "+{times}"),
        }
    }
}

/// Messages carry the word, and text for people and programs the number that they see.
impl Serialize for CheckpointNumber {
    fn serialize<S: Serializer>(&self, to: S) -> core::result::Result<S::Ok, S::Error> {
        let shown = if to.is_human_readable() { self.program() } else { self.0 };
        to.serialize_u64(shown)
    }
}

impl<'de> Deserialize<'de> for CheckpointNumber {
    fn deserialize<D: Deserializer<'de>>(from: D) -> core::result::Result<Self, D::Error> {
        u64::deserialize(from).map(CheckpointNumber)
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

impl ViewNumber {
    /// In the place of a view, the name of the groups of the set on disk that a job began from:
    /// another job, or other places, may have chosen them. Readers of JSON take it exactly.
    pub const OF_SET: ViewNumber = ViewNumber((1 << 53) - 1);
}

impl Incarnation {
    /// The incarnation of a process that the launcher started with the job.
    pub const FIRST: Incarnation = Incarnation(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recovery's encoding of a checkpoint is another one for the store, and the same one for
    /// programs.
    #[test]
    fn a_checkpoint_encoded_again_keeps_the_number() {
        let four = CheckpointNumber(4);
        let (healed, twice) = (four.healed(), four.healed().healed());
        assert_eq!([healed, twice, healed.next()].map(CheckpointNumber::program), [4, 4, 5]);
        assert_eq!((format!("{twice}"), format!("{twice:?}")), ("4".into(), "4+2".into()));
        let chain = [four, healed, twice, twice.next(), twice.next().healed()];
        assert!(chain.is_sorted() && chain.windows(2).all(|two| two[0] < two[1]));
        for two in chain.windows(2) {
            assert_ne!(two[0].turn(2), two[1].turn(2), "{two:?} are in slots of their own");
        }
        assert_eq!((healed.unhealed(), healed.next().previous()), (four, healed));
        assert!(healed.is_abandoned_by(four.next()) && !healed.is_abandoned_by(healed.next()));
        assert!(!four.is_abandoned_by(healed) && !four.next().is_abandoned_by(healed));
        assert_eq!(CheckpointNumber::unpack(CheckpointNumber::pack(Some(twice))), Some(twice));
    }

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
