//! Parity groups of the checkpoints that this PE may have to decode, and of the next one.
//!
//! Left out: the rules, which are in [`raidshmem_core::store::grouped`].

#![forbid(unsafe_code)]

use std::sync::Arc;

use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::store::grouped::GroupedCheckpoints;
use raidshmem_core::store::protection::Protection;
use raidshmem_core::view::{State, View};
use raidshmem_fabric::Read;
use raidshmem_segment::header::{RegionRecord, StoreRecords};
use raidshmem_sys::lock;

use super::World;

/// The groups of PEs that protect each other.
#[derive(Clone, Copy)]
pub struct Grouping<'a> {
    pub(super) world: &'a World,
}

impl World {
    /// Returns the groups of PEs that protect each other.
    #[inline]
    pub fn grouping(&self) -> Grouping<'_> {
        Grouping { world: self }
    }
}

impl Grouping<'_> {
    /// Records the node of each PE in a view that this PE joins.
    pub(super) fn note_places(self, view: &View) {
        lock(&self.world.store.groups).note_places(view);
    }

    /// Chooses the groups for checkpoint `number`; `last` are those of the previous one. While
    /// ranges are read-only, groups change in recoveries only, where their parity is encoded again.
    pub(crate) fn choose_groups(
        self,
        last: &Arc<Protection>,
        number: CheckpointNumber,
    ) -> Arc<Protection> {
        let job = (&self.world.settings, &self.world.job.domains);
        let (at, may_change) =
            ((number, self.world.members.joined()), self.world.memory.readonly().is_empty());
        lock(&self.world.store.groups).choose(job, last, at, may_change)
    }

    /// Chooses new groups for checkpoint `agreed`, which all PEs have just resumed from and encode
    /// again. None if the groups stay as they are.
    pub(crate) fn heal_groups(
        self,
        last: &Arc<Protection>,
        agreed: CheckpointNumber,
    ) -> Option<Arc<Protection>> {
        let job = (&self.world.settings, &self.world.job.domains);
        let at = (agreed, self.world.members.joined());
        lock(&self.world.store.groups).heal(job, last, at)
    }

    /// Gives up encoding checkpoint `agreed` again in this view, because memory is short.
    pub(crate) fn stay(self, agreed: CheckpointNumber) {
        lock(&self.world.store.groups).stay(agreed, self.world.members.joined());
    }

    /// Keeps the last groups for the rest of this view, because memory for new ones is short.
    pub(crate) fn keep_groups(self, last: &Arc<Protection>, number: CheckpointNumber) {
        lock(&self.world.store.groups).keep(last, (number, self.world.members.joined()));
    }

    /// Returns this PE's contribution to the settling meeting: the groups that it knows.
    pub(crate) fn grouped(self) -> GroupedCheckpoints {
        let slots = &self.world.segments.own().header().slots;
        let sealed = slots.iter().filter_map(|record| record.grouped(self.world.job()));
        lock(&self.world.store.groups).bring(sealed)
    }

    /// Returns the groups of checkpoint `number`, which was decided on, from the knowledge of all
    /// PEs. Voids the records of this PE's parity for later checkpoints.
    pub(crate) fn groups_decided(
        self,
        all: &GroupedCheckpoints,
        number: CheckpointNumber,
    ) -> Arc<Protection> {
        for record in &self.world.segments.own().header().slots {
            if record.grouped(self.world.job()).is_some_and(|held| held.number > number) {
                record.void();
            }
        }
        let job = (&self.world.settings, &self.world.job.domains);
        lock(&self.world.store.groups).decide(job, all, number)
    }

    /// Returns the groups of checkpoint `number`, from the records in the memory of all PEs. This
    /// PE rolls back to it locally, so it stays the last one meanwhile.
    pub(crate) fn groups_recorded(self, number: CheckpointNumber) -> Arc<Protection> {
        let (world, job) = (self.world, self.world.job());
        let is_of =
            |record: &RegionRecord| record.grouped(job).is_some_and(|of| of.number == number);
        // PEs of other hosts are asked only if the own records were lost.
        let is_lost = !world.segments.own().header().slots.iter().any(is_of);
        let asked = Pe::all(world.n_pes()).filter(|&pe| is_lost || !world.segments.is_remote(pe));
        let records = asked.filter_map(|pe| self.records_of(pe)).flat_map(|records| records.slots);
        let records = records.filter_map(|record| record.grouped(job));
        let job = (&self.world.settings, &self.world.job.domains);
        lock(&self.world.store.groups).recorded(job, records, number)
    }

    /// Returns the records of the store of PE `pe`; None if it was lost with its node.
    pub(crate) fn records_of(self, pe: Pe) -> Option<StoreRecords> {
        let world = self.world;
        if pe == world.me() {
            return Some(world.segments.own().header().records());
        }
        if world.members.member(pe).state == State::NodeDead {
            return None;
        }
        if let Some(mapped) = world.segments.if_mapped(pe) {
            return Some(mapped.header().records());
        }
        let mut bytes = [0; StoreRecords::BYTES];
        let offset = world.segments.layout().store + StoreRecords::AT;
        world.transfers().pull(&mut [Read { pe, offset, into: &mut bytes }]);
        Some(StoreRecords::of(&bytes))
    }

    /// Reports the groups that protect checkpoint `number`, unless they are the initial ones.
    pub(crate) fn report_groups(self, number: CheckpointNumber) {
        let made = self.world.store.protection().filter(|_| self.world.is_reporter());
        let report = made.and_then(|made| made.report(number));
        report.into_iter().for_each(|report| self.world.members.report(report));
    }
}
