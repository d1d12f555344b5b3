//! The parity groups that each checkpoint was encoded with, named by the view over whose places
//! they were chosen ([`crate::placement::moves`]); view 0 is the start of the job.
//!
//! Groups are chosen anew for a checkpoint after PEs have moved. Until all have agreed on it the
//! checkpoint before stands, with the groups that it has. So PEs that recover must know of the
//! checkpoint decided on, and of no other, by which groups to decode it: each brings what it knows
//! to the meeting that settles, a dead process what it sealed in the record of its slot.
//!
//! Invariants: what several PEs bring is added up in any order; a checkpoint that some PE of them
//! can decide on is never pushed out, as there are at most two.

use crate::mutant::{Mutant, breaks};
use crate::quantity::{CheckpointNumber, ViewNumber};

/// A checkpoint, and the view that names its groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grouped {
    /// The checkpoint.
    pub number: CheckpointNumber,
    /// The view.
    pub places: ViewNumber,
}

/// The two newest checkpoints that some PEs know of, each with its groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupedCheckpoints([Option<Grouped>; 2]);

impl GroupedCheckpoints {
    /// Adds what others know.
    pub fn add(&mut self, other: &GroupedCheckpoints) {
        other.0.iter().flatten().for_each(|one| self.insert(*one));
    }

    /// The view that names the groups of checkpoint `number`. None if nobody knew.
    pub fn places_of(&self, number: CheckpointNumber) -> Option<ViewNumber> {
        let known = || self.0.iter().flatten();
        match breaks(Mutant::NewestGroupsTaken) {
            false => known().find(|one| one.number == number).map(|one| one.places),
            true => known().map(|one| one.places).max(),
        }
    }

    /// As words.
    pub fn words(&self) -> [u64; 4] {
        let [one, other] = self.0;
        let words = |known: Option<Grouped>| {
            let places = known.map_or(0, |one| one.places.0);
            [CheckpointNumber::pack(known.map(|one| one.number)), places]
        };
        let ([number, places], [before, others]) = (words(one), words(other));
        [number, places, before, others]
    }

    /// The inverse.
    pub fn read([number, places, before, others]: [u64; 4]) -> GroupedCheckpoints {
        let one = |number, places| {
            let number = CheckpointNumber::unpack(number)?;
            Some(Grouped { number, places: ViewNumber(places) })
        };
        GroupedCheckpoints([one(number, places), one(before, others)])
    }

    /// An attempt that was given up may have left its groups behind: they are of an older view.
    fn insert(&mut self, one: Grouped) {
        let [newest, before] = &mut self.0;
        for known in [&mut *newest, &mut *before].into_iter().flatten() {
            if known.number == one.number {
                known.places = known.places.max(one.places);
                return;
            }
        }
        if newest.is_none_or(|known| known.number < one.number) {
            *before = newest.replace(one);
        } else if before.is_none_or(|known| known.number < one.number) {
            *before = Some(one);
        }
    }
}

impl FromIterator<Grouped> for GroupedCheckpoints {
    fn from_iter<I: IntoIterator<Item = Grouped>>(all: I) -> GroupedCheckpoints {
        let mut known = GroupedCheckpoints::default();
        all.into_iter().for_each(|one| known.insert(one));
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(known: &[(u64, u64)]) -> GroupedCheckpoints {
        let one =
            |&(number, places)| Grouped { number: CheckpointNumber(number), places: ViewNumber(places) };
        known.iter().map(one).collect()
    }

    #[test]
    fn each_checkpoint_has_its_own_groups() {
        let mut all = of(&[(7, 2)]); // it has not begun the next one
        all.add(&of(&[(8, 5), (7, 2)]));
        let places = |number| all.places_of(CheckpointNumber(number)).map(|view| view.0);
        assert_eq!([7, 8, 9].map(places), [Some(2), Some(5), None]);
    }

    /// In any order, with a PE that lags behind, one that has given an attempt up, and one that
    /// knows nothing.
    #[test]
    fn what_pes_know_is_added_up_in_any_order() {
        let all = [of(&[(7, 2), (6, 0)]), of(&[(8, 5), (7, 2)]), of(&[(8, 3), (7, 2)]), of(&[])];
        for first in 0..4 {
            for second in 0..4 {
                let mut there = all[first];
                there.add(&all[second]);
                let mut back = GroupedCheckpoints::read(all[second].words());
                back.add(&GroupedCheckpoints::read(all[first].words()));
                assert_eq!((there, there), (back, GroupedCheckpoints::read(there.words())));
                all.iter().for_each(|other| there.add(other));
                assert_eq!(there, of(&[(8, 5), (7, 2)]));
            }
        }
    }
}
