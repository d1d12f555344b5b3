//! The parity groups that each checkpoint was encoded with, named by the view over whose places
//! they were chosen ([`crate::placement::moves`]); view 0 is the start of the job. The groups of a
//! set on disk that the job began from have a name of their own ([`ViewNumber::OF_SET`]).
//!
//! After PEs have moved, the next checkpoint may get new groups. Until all PEs have agreed on it,
//! the previous checkpoint stands, with its own groups. A recovery must therefore know which groups
//! to decode its checkpoint with. Each PE brings its knowledge to the settling meeting; that of a
//! dead process is sealed in the record of its slot. A PE that rolls back locally meets no other:
//! it finds the groups of its checkpoint in the records of all.
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
use crate::settings::{Rollback, Settings};
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
        let is_abandoned = |number: CheckpointNumber, later| {
            number.is_abandoned_by(later) && !breaks(Mutant::AbandonedKept)
        };
        if known().any(|known| is_abandoned(one.number, known.number)) {
            return;
        }
        let stands = |known: &Grouped| !is_abandoned(known.number, one.number);
        let mut left = self.0.into_iter().flatten().filter(stands);
        self.0 = [left.next(), left.next()];
        let [newest, before] = &mut self.0;
        for known in [&mut *newest, &mut *before].into_iter().flatten() {
            if known.number == one.number {
                known.places = match breaks(Mutant::OlderAttemptTaken) {
                    false => known.places.max(one.places),
                    true => known.places.min(one.places),
                };
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
    /// with again in the recovery itself. None if the groups stay as they are. With local rollback
    /// they change at the next checkpoint of the program: there the logs begin.
    pub fn heal(
        &mut self,
        job: (&Settings, &Domains),
        last: &Arc<Protection>,
        (agreed, joined): (CheckpointNumber, ViewNumber),
    ) -> Option<Arc<Protection>> {
        let waits = job.0.rollback == Rollback::Local || breaks(Mutant::HealedLater);
        if agreed == CheckpointNumber::START || waits {
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

    /// Returns the groups of checkpoint `number`, to which this PE rolls back locally, from the
    /// `records` in the memory of all PEs. Meanwhile no PE can make another checkpoint.
    pub fn recorded(
        &mut self,
        job: (&Settings, &Domains),
        records: impl Iterator<Item = Grouped>,
        number: CheckpointNumber,
    ) -> Arc<Protection> {
        let all: GroupedCheckpoints = match breaks(Mutant::RecordsIgnored) {
            false => records.collect(),
            true => GroupedCheckpoints::default(),
        };
        self.decide(job, &all, number)
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

#[cfg(test)]
impl KnownGroups {
    /// Restores the knowledge of a PE of a model.
    pub fn restored(
        places: PlaceHistory,
        last: Arc<Protection>,
        of: BTreeMap<CheckpointNumber, Arc<Protection>>,
    ) -> KnownGroups {
        KnownGroups { places, last: Some(last), of_set: None, of, refused: None }
    }

    /// Returns the groups by checkpoint.
    pub fn of(&self) -> &BTreeMap<CheckpointNumber, Arc<Protection>> {
        &self.of
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
mod tests;
