//! Parity groups of the checkpoints that this PE may have to decode, and of the next one.
//!
//! Left out: the rules, which are in [`raidshmem_core::store::grouped`].

#![forbid(unsafe_code)]

use std::sync::Arc;

use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::grouped::GroupedCheckpoints;
use raidshmem_core::store::protection::Protection;
use raidshmem_core::view::View;
use raidshmem_sys::lock;

use super::World;

impl World {
    /// Records the node of each PE in a view that this PE joins.
    pub(super) fn note_places(&self, view: &View) {
        lock(&self.store.groups).note_places(view);
    }

    /// Chooses the groups for checkpoint `number`; `last` are those of the previous one. Groups do
    /// not change while ranges are read-only: their only parity was encoded with the last groups.
    pub(crate) fn choose_groups(
        &self,
        last: &Arc<Protection>,
        number: CheckpointNumber,
    ) -> Arc<Protection> {
        let job = (&self.settings, &self.job.domains);
        let (at, may_change) = ((number, self.members.joined()), self.memory.readonly().is_empty());
        lock(&self.store.groups).choose(job, last, at, may_change)
    }

    /// Keeps the last groups for the rest of this view, because memory for new ones is short.
    pub(crate) fn keep_groups(&self, last: &Arc<Protection>, number: CheckpointNumber) {
        lock(&self.store.groups).keep(last, (number, self.members.joined()));
    }

    /// Returns this PE's contribution to the settling meeting: the groups that it knows.
    pub(crate) fn grouped(&self) -> GroupedCheckpoints {
        let slots = &self.segments.own().header().slots;
        let sealed = slots.iter().filter_map(|record| record.grouped(self.job()));
        lock(&self.store.groups).bring(sealed)
    }

    /// Returns the groups of checkpoint `number`, which was decided on, from the knowledge of all
    /// PEs. Voids the records of this PE's parity for later checkpoints.
    pub(crate) fn groups_decided(
        &self,
        all: &GroupedCheckpoints,
        number: CheckpointNumber,
    ) -> Arc<Protection> {
        for record in &self.segments.own().header().slots {
            if record.grouped(self.job()).is_some_and(|held| held.number > number) {
                record.void();
            }
        }
        let job = (&self.settings, &self.job.domains);
        lock(&self.store.groups).decide(job, all, number)
    }

    /// Reports the groups that protect checkpoint `number`, unless they are the initial ones.
    pub(crate) fn report_groups(&self, number: CheckpointNumber) {
        let made = self.store.protection().filter(|_| self.is_reporter());
        let report = made.and_then(|made| made.report(number));
        report.into_iter().for_each(|report| self.members.report(report));
    }
}
