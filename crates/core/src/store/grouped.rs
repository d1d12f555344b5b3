//! The parity groups that each checkpoint was encoded with, named by the view over whose places
//! they were chosen ([`crate::placement::moves`]); view 0 is the start of the job. The groups of a
//! set on disk that the job began from have a name of their own ([`ViewNumber::OF_SET`]).
//!
//! After PEs have moved, the next checkpoint may get new groups. Until all PEs have agreed on it,
//! the previous checkpoint stands, with its own groups. A recovery must therefore know which groups
//! to decode its checkpoint with. Each PE brings its knowledge to the settling meeting; that of a
//! dead process is sealed in the record of its slot.
//!
//! Invariants: the order in which the PEs' knowledge is combined does not matter; a checkpoint that
//! can be decided on is never dropped, because there are at most two.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::protection::{Protection, ProtectionError};
use crate::message::{Job, ProgressReport};
use crate::mutant::{Mutant, breaks};
use crate::placement::Domains;
use crate::placement::moves::{Move, PlaceHistory};
use crate::quantity::{CheckpointNumber, ViewNumber};
use crate::settings::Settings;
use crate::view::View;

/// A checkpoint and the view that names its groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grouped {
    /// The number of the checkpoint.
    pub number: CheckpointNumber,
    /// The view over whose places its groups were chosen.
    pub places: ViewNumber,
}

/// The two newest checkpoints that a set of PEs knows, with their groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupedCheckpoints([Option<Grouped>; 2]);

impl GroupedCheckpoints {
    /// Adds the knowledge of other PEs.
    pub fn add(&mut self, other: &GroupedCheckpoints) {
        other.0.iter().flatten().for_each(|one| self.insert(*one));
    }

    /// Returns the view that names the groups of checkpoint `number`; None if no PE knew.
    pub fn places_of(&self, number: CheckpointNumber) -> Option<ViewNumber> {
        let known = || self.0.iter().flatten();
        match breaks(Mutant::NewestGroupsTaken) {
            false => known().find(|one| one.number == number).map(|one| one.places),
            true => known().map(|one| one.places).max(),
        }
    }

    /// Packs the checkpoints into words.
    pub fn words(&self) -> [u64; 4] {
        let [one, other] = self.0;
        let words = |known: Option<Grouped>| {
            let places = known.map_or(0, |one| one.places.0);
            [CheckpointNumber::pack(known.map(|one| one.number)), places]
        };
        let ([number, places], [before, others]) = (words(one), words(other));
        [number, places, before, others]
    }

    /// Unpacks [`GroupedCheckpoints::words`].
    pub fn read([number, places, before, others]: [u64; 4]) -> GroupedCheckpoints {
        let one = |number, places| {
            let number = CheckpointNumber::unpack(number)?;
            Some(Grouped { number, places: ViewNumber(places) })
        };
        GroupedCheckpoints([one(number, places), one(before, others)])
    }

    /// Inserts a checkpoint. Of two views for one number the newer wins: the older one is from an
    /// abandoned attempt. An encoding again that was abandoned takes no place.
    fn insert(&mut self, one: Grouped) {
        let known = || self.0.iter().flatten();
        if known().any(|known| one.number.is_abandoned_by(known.number)) {
            return;
        }
        let stands = |known: &Grouped| !known.number.is_abandoned_by(one.number);
        let mut left = self.0.into_iter().flatten().filter(stands);
        self.0 = [left.next(), left.next()];
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

/// The parity groups that a process knows: those of the last checkpoint, and of each checkpoint
/// that may be decided on.
///
/// Invariants: the groups of a checkpoint do not change once it has begun; the groups of the next
/// one depend only on the view joined and on the last groups, so all PEs choose alike.
#[derive(Debug)]
pub struct KnownGroups {
    places: PlaceHistory,
    /// Groups of the last checkpoint that was agreed or decided on; before it, the initial groups.
    last: Option<Arc<Protection>>,
    /// Groups of the set that the job began from, unless they are the initial ones.
    of_set: Option<Arc<Protection>>,
    /// Groups by checkpoint; empty in a substitute that has not recovered yet.
    of: BTreeMap<CheckpointNumber, Arc<Protection>>,
    /// The view in which a change of groups was refused.
    refused: Option<ViewNumber>,
}

impl KnownGroups {
    /// Creates the state of a starting process; `start` is None in mode `none`, and `of_set` unless
    /// the job began from a set with other groups.
    pub fn new(
        places: PlaceHistory,
        start: Option<Protection>,
        of_set: Option<Protection>,
    ) -> KnownGroups {
        let (last, of_set) = (start.map(Arc::new), of_set.map(Arc::new));
        KnownGroups { places, last, of_set, of: BTreeMap::new(), refused: None }
    }

    /// Records the node of each PE in a view that this PE joins.
    pub fn note_places(&mut self, view: &View) {
        self.places.note(view.number, view.nodes());
    }

    /// Returns the groups of the last checkpoint.
    pub fn last(&self) -> Option<Arc<Protection>> {
        self.last.clone()
    }

    /// Records the groups of the checkpoint just agreed.
    pub fn agree(&mut self, groups: Arc<Protection>) {
        self.last = Some(groups);
    }

    /// Chooses the groups for checkpoint `number`, which begins in the view `joined`. New groups
    /// replace `last` if they may change and fewer single losses would then end the job.
    pub fn choose(
        &mut self,
        (settings, domains): (&Settings, &Domains),
        last: &Arc<Protection>,
        (number, joined): (CheckpointNumber, ViewNumber),
        may_change: bool,
    ) -> Arc<Protection> {
        let chosen = match may_change {
            true => self.others((settings, domains), last, joined),
            false => None,
        };
        let chosen = chosen.unwrap_or_else(|| Arc::clone(last));
        let next = (number, Arc::clone(&chosen));
        self.of = BTreeMap::from([(number.previous(), Arc::clone(last)), next]);
        chosen
    }

    /// Returns groups that fewer single losses break than the `last` ones, over the places of the
    /// view `joined`; None if there are none.
    fn others(
        &self,
        (settings, domains): (&Settings, &Domains),
        last: &Protection,
        joined: ViewNumber,
    ) -> Option<Arc<Protection>> {
        let node_of = self.places.at(joined);
        let is_foreign = last.places == ViewNumber::OF_SET;
        let may = is_foreign || self.places.at(last.places) != node_of;
        let others = || last.healed(settings, &node_of, domains, joined);
        (may && self.refused != Some(joined)).then(others).flatten().map(Arc::new)
    }

    /// Chooses the groups that checkpoint `agreed`, just restored in the view `joined`, is encoded
    /// with again in the recovery itself. None if the groups stay as they are.
    pub fn heal(
        &mut self,
        job: (&Settings, &Domains),
        last: &Arc<Protection>,
        (agreed, joined): (CheckpointNumber, ViewNumber),
    ) -> Option<Arc<Protection>> {
        if agreed == CheckpointNumber::START || breaks(Mutant::HealedLater) {
            return None;
        }
        let chosen = self.others(job, last, joined)?;
        let healed = (agreed.healed(), Arc::clone(&chosen));
        self.of = BTreeMap::from([(agreed, Arc::clone(last)), healed]);
        Some(chosen)
    }

    /// Gives up encoding checkpoint `agreed` again, since new groups were refused in `joined`.
    pub fn stay(&mut self, agreed: CheckpointNumber, joined: ViewNumber) {
        self.refused = Some(joined);
        self.of.remove(&agreed.healed());
    }

    /// Keeps the `last` groups for checkpoint `number`, since new ones were refused in `joined`.
    pub fn keep(
        &mut self,
        last: &Arc<Protection>,
        (number, joined): (CheckpointNumber, ViewNumber),
    ) {
        self.refused = Some(joined);
        self.of.insert(number, Arc::clone(last));
    }

    /// Returns this PE's contribution to the settling meeting. It includes the records `sealed` in
    /// its memory, which a dead process may have written.
    pub fn bring(&self, sealed: impl Iterator<Item = Grouped>) -> GroupedCheckpoints {
        let of = self.of.iter();
        let known = of.map(|(&number, made)| Grouped { number, places: made.places });
        sealed.chain(known).collect()
    }

    /// Returns the groups of checkpoint `number`, which was decided on, from the knowledge of `all`
    /// PEs; the initial groups if no PE knows any. Drops every later checkpoint.
    ///
    /// # Panics
    /// In mode `none`, which has no checkpoints.
    pub fn decide(
        &mut self,
        (settings, domains): (&Settings, &Domains),
        all: &GroupedCheckpoints,
        number: CheckpointNumber,
    ) -> Arc<Protection> {
        let named = all.places_of(number).unwrap_or_default();
        let known = self.last.iter().chain(&self.of_set).chain(self.of.values());
        let known = known.into_iter().find(|made| made.places == named);
        let chosen = known.cloned().unwrap_or_else(|| {
            let node_of = self.places.at(named);
            let made = Protection::named(settings, &node_of, domains, named).ok().flatten();
            Arc::new(made.expect("they were made before"))
        });
        self.of = BTreeMap::from([(number, Arc::clone(&chosen))]);
        self.last = Some(Arc::clone(&chosen));
        chosen
    }
}

/// The groups that a job begins with.
#[derive(Debug)]
pub struct FirstGroups {
    /// Those of its settings; None in mode `none`.
    own: Option<Protection>,
    /// Those of the set that it begins from, unless they are its own.
    of_set: Option<Protection>,
}

impl FirstGroups {
    /// Computes them for a job; a single process has none.
    ///
    /// # Errors
    /// Those of [`Protection::new`] and [`Protection::of_set`].
    pub fn new(settings: &Settings, job: &Job, is_single: bool) -> Result<Self, ProtectionError> {
        let node_of: Vec<usize> = job.node_of.iter().map(|&node| node as usize).collect();
        let own = match is_single {
            true => None,
            false => Protection::new(settings, &node_of, &job.domains)?,
        };
        let set = job.resume.as_ref().and_then(|resume| resume.folders.groups());
        let of_set = match (&own, set) {
            (Some(own), Some(set)) if !own.shapes.iter().map(|it| &it.members).eq(set) => {
                Protection::of_set(settings, set.to_vec(), &node_of, &job.domains)?
            }
            _ => None,
        };
        Ok(FirstGroups { own, of_set })
    }

    /// Returns the groups of the job's settings.
    pub fn own(&self) -> Option<&Protection> {
        self.own.as_ref()
    }

    /// Returns the groups that decode the set.
    pub fn of_set(&self) -> Option<&Protection> {
        self.of_set.as_ref().or(self.own())
    }

    /// Returns what a starting process knows, after these moves.
    pub fn known(self, job: &Job, moves: Vec<Move>) -> KnownGroups {
        let places = PlaceHistory::new(job.node_of.clone(), moves);
        KnownGroups::new(places, self.own, self.of_set)
    }
}

impl Protection {
    /// Returns the report that these groups protect checkpoint `number`; None for those of the
    /// start, of which every process knows.
    pub fn report(&self, number: CheckpointNumber) -> Option<ProgressReport> {
        let group_of = self.plan.of.iter().map(|of| of.group as u32).collect();
        let (checkpoint, survives) = (number, self.to_string());
        let report = ProgressReport::Regrouped { checkpoint, group_of, survives };
        (self.places != ViewNumber(0)).then_some(report)
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
    use crate::quantity::Pe;
    use crate::settings::BackupMode;
    use crate::view::Member;

    fn of(known: &[(u64, u64)]) -> GroupedCheckpoints {
        let one = |&(number, places)| Grouped {
            number: CheckpointNumber(number),
            places: ViewNumber(places),
        };
        known.iter().map(one).collect()
    }

    #[test]
    fn each_checkpoint_has_its_own_groups() {
        let mut all = of(&[(7, 2)]); // a PE that has not begun the next one
        all.add(&of(&[(8, 5), (7, 2)]));
        let places = |number| all.places_of(CheckpointNumber(number)).map(|view| view.0);
        assert_eq!([7, 8, 9].map(places), [Some(2), Some(5), None]);
    }

    /// A PE that joined every view and a substitute that only got the moves find equal groups,
    /// whether the checkpoint decided on is before or after the change.
    #[test]
    fn a_pe_that_missed_a_change_finds_both_groupings() {
        let settings = Settings { backup_mode: BackupMode::Raid5, ..Settings::default() };
        let job = (&settings, &Domains::default());
        let member = |&node: &u32| Member::first(node);
        let view = |number, nodes: [u32; 4]| {
            let pes = nodes.iter().map(member).collect();
            View { number: ViewNumber(number), pes, local: false }
        };
        let start = vec![0, 1, 2, 3];
        let node_of = [0, 1, 2, 3];
        let known = |moves: &[Move]| {
            let first = Protection::new(&settings, &node_of, job.1).unwrap();
            KnownGroups::new(PlaceHistory::new(start.clone(), moves.to_vec()), first, None)
        };
        let mut saw = known(&[]);
        saw.note_places(&view(1, [0, 1, 2, 3]));
        saw.note_places(&view(4, [0, 1, 1, 3]));
        let (first, at) = (saw.last().unwrap(), (CheckpointNumber(7), ViewNumber(4)));
        assert_eq!(
            saw.choose(job, &first, at, false).places,
            ViewNumber(0),
            "they must not change"
        );
        let chosen = saw.choose(job, &first, at, true);
        assert_eq!((chosen.places, chosen.shapes.len()), (ViewNumber(4), 2));
        let brought = saw.bring([].into_iter());
        assert_eq!(brought, of(&[(6, 0), (7, 4)]));
        for (number, groups) in [(6, &first), (7, &chosen)] {
            let moves = [Move { view: ViewNumber(3), pe: Pe(2), node: 1 }];
            let decided = known(&moves).decide(job, &brought, CheckpointNumber(number));
            assert_eq!((&decided.plan, decided.places), (&groups.plan, groups.places));
        }
        assert_eq!(saw.decide(job, &brought, CheckpointNumber(6)).places, ViewNumber(0));
        assert_eq!(saw.bring([].into_iter()), of(&[(6, 0)]), "what was begun is given up");
        saw.choose(job, &first, at, true);
        saw.keep(&first, at);
        assert_eq!(saw.bring([].into_iter()), of(&[(6, 0), (7, 0)]));
        assert_eq!(saw.choose(job, &first, at, true).places, ViewNumber(0), "refused in this view");
    }

    /// A job that began from a set decodes it with the set's groups, and gets its own at once,
    /// although no PE has moved.
    #[test]
    fn a_set_is_decoded_with_its_own_groups() {
        let settings = Settings { backup_mode: BackupMode::Raid5, ..Settings::default() };
        let (domains, node_of) = (Domains::default(), [0, 1, 2, 3]);
        let job = (&settings, &domains);
        let pairs = [[0, 1], [2, 3]].map(|pair| pair.map(Pe).to_vec()).to_vec();
        let known = || {
            let start = Protection::new(&settings, &node_of, &domains).unwrap();
            let of_set = Protection::of_set(&settings, pairs.clone(), &node_of, &domains).unwrap();
            KnownGroups::new(PlaceHistory::new(vec![0, 1, 2, 3], Vec::new()), start, of_set)
        };
        let (number, mut resumed) = (CheckpointNumber(40), known());
        let loaded = Grouped { number, places: ViewNumber::OF_SET };
        let all = resumed.bring([loaded].into_iter());
        let decided = resumed.decide(job, &all, number);
        assert_eq!((decided.places, decided.shapes.len()), (ViewNumber::OF_SET, 2));
        let healed = resumed.heal(job, &decided, (number, ViewNumber(1))).expect("one group");
        assert_eq!((healed.places, healed.shapes.len()), (ViewNumber(1), 1));
        // Until all have agreed on them, a substitute may have to decode with those of the set.
        let brought = resumed.bring(std::iter::empty());
        assert_eq!(known().decide(job, &brought, number).plan, decided.plan);
        assert_eq!(known().decide(job, &brought, number.healed()).plan, healed.plan);
        let whole = resumed.bring([Grouped { number, places: ViewNumber(0) }].into_iter());
        assert_eq!(known().decide(job, &whole, number.next()).places, ViewNumber(0));
    }

    /// A move that puts two of a group on one node is healed once; a harmless one is not.
    #[test]
    fn a_recovery_heals_only_where_fewer_losses_end_the_job() {
        let settings = Settings { backup_mode: BackupMode::Raid5, ..Settings::default() };
        let job = (&settings, &Domains::default());
        let first = Protection::new(&settings, &[0, 1, 2, 3], job.1).unwrap();
        let places = PlaceHistory::new(vec![0, 1, 2, 3], Vec::new());
        let mut known = KnownGroups::new(places, first, None);
        let view = |number, nodes: [u32; 4]| {
            let pes = nodes.iter().map(|&node| Member::first(node)).collect();
            View { number: ViewNumber(number), pes, local: false }
        };
        let last = known.last().unwrap();
        let at = |view| (CheckpointNumber(3), ViewNumber(view));
        known.note_places(&view(2, [0, 1, 4, 3]));
        assert!(known.heal(job, &last, at(2)).is_none(), "a spare took the PE");
        known.note_places(&view(4, [0, 1, 1, 3]));
        let healed = known.heal(job, &last, at(4)).expect("two of a group share a node");
        assert_eq!(healed.places, ViewNumber(4));
        known.agree(Arc::clone(&healed));
        assert!(known.heal(job, &healed, at(4)).is_none(), "they are healed");
        let brought = known.bring(std::iter::empty());
        let places = |number: CheckpointNumber| brought.places_of(number);
        assert_eq!(places(at(4).0), Some(ViewNumber(0)), "the old groups may be decided on");
        assert_eq!(places(at(4).0.healed()), Some(ViewNumber(4)));
    }

    /// A PE whose encoding in new groups was refused may be a step behind one that has begun the
    /// next checkpoint: the one that stands is not dropped for it.
    #[test]
    fn an_abandoned_encoding_takes_no_place() {
        let places = ViewNumber(0);
        let of = |number| Grouped { number, places };
        let (four, five) = (CheckpointNumber(4), CheckpointNumber(5));
        let all = [of(four), of(four.healed()), of(five)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let known: GroupedCheckpoints = order.map(|at| all[at]).into_iter().collect();
            assert_eq!(known, [of(four), of(five)].into_iter().collect(), "{order:?}");
        }
    }

    /// One PE lags behind, one has abandoned an attempt, and one knows no checkpoint.
    #[test]
    fn knowledge_of_pes_is_combined_in_any_order() {
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
