//! The parity groups of the checkpoints that this PE may have to decode, and of the next one.
//!
//! Left out: the rules, which are those of [`raidshmem_core::store::grouped`].

#![forbid(unsafe_code)]

use std::sync::Arc;

use raidshmem_core::message::ProgressReport;
use raidshmem_core::quantity::{CheckpointNumber, ViewNumber};
use raidshmem_core::store::grouped::GroupedCheckpoints;
use raidshmem_core::store::protection::Protection;
use raidshmem_core::view::View;
use raidshmem_sys::lock;

use super::World;

impl World {
    /// Notes where PEs are in a view that this PE joins.
    pub(super) fn note_places(&self, view: &View) {
        lock(&self.store.groups).note_places(view);
    }

    /// The groups for the next checkpoint, `number`, where `last` are those of the last one. They
    /// stay while ranges are read-only: the one slot of parity over these is by the last ones.
    pub(crate) fn choose_groups(
        &self,
        last: &Arc<Protection>,
        number: CheckpointNumber,
    ) -> Arc<Protection> {
        let job = (&self.settings, &self.job.domains);
        let (at, may_change) = ((number, self.members.joined()), self.memory.readonly().is_empty());
        lock(&self.store.groups).choose(job, last, at, may_change)
    }

    /// There is no memory for other groups: those of the last checkpoint stay, in this view.
    pub(crate) fn keep_groups(&self, last: &Arc<Protection>, number: CheckpointNumber) {
        lock(&self.store.groups).keep(last, (number, self.members.joined()));
    }

    /// What this PE brings to the meeting that settles.
    pub(crate) fn grouped(&self) -> GroupedCheckpoints {
        let slots = &self.segments.own().header().slots;
        let sealed = slots.iter().filter_map(|record| record.grouped(self.job()));
        lock(&self.store.groups).bring(sealed)
    }

    /// The groups of checkpoint `number`, which was decided on, as all PEs know them together.
    /// Parity of what was begun after it says nothing any more.
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

    /// Tells people of other groups than those of the start, by which checkpoint `number` is
    /// protected.
    pub(crate) fn report_groups(&self, number: CheckpointNumber) {
        let Some(made) = self.store.protection().filter(|_| self.is_reporter()) else { return };
        if made.places != ViewNumber(0) {
            let group_of = made.plan.of.iter().map(|of| of.group as u32).collect();
            let words = made.to_string();
            self.members.report(ProgressReport::Regrouped { number, group_of, words });
        }
    }
}
