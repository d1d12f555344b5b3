//! The execution of [`raidshmem_archive::schedule`]'s decisions on checkpoints on disk.

#![forbid(unsafe_code)]

use std::time::Duration;

use raidshmem_archive::schedule::{Order, Schedule, Sizes};
use raidshmem_core::disk::DiskOutcome;
use raidshmem_core::ended::REQUEUE;
use raidshmem_core::message::{Down, ProgressReport};
use raidshmem_core::placement::moves::PlaceHistory;
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::view::View;
use raidshmem_report::event::What;

use super::disk::SetWriter;
use super::event_bus::EventBus;
use super::nodes::Nodes;
use super::page_nodes::PageNodes;

/// The time within which signals from one agent count as one: a batch system may signal both the
/// supervisor and the agent, and the supervisor passes its signal on.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

fn stopped(number: CheckpointNumber, folder: &str, set: u64) -> String {
    format!(
        "stopped on request, with checkpoint {number} on disk: \
         oshrun --resume {folder}@{set} continues from there"
    )
}

/// A change that the schedule of sets decides about.
pub(super) enum DiskEvent<'a> {
    /// A PE made a report.
    Report(&'a ProgressReport),
    /// A PE was lost.
    Lost,
    /// A task of an agent is over.
    Outcome { node: u32, outcome: DiskOutcome },
}

impl SetWriter {
    /// Makes the job stop once its next checkpoint is on disk, as requested by the agent `who`, or
    /// on this machine if None; `agreed` is the last checkpoint. Returns false if `who` has
    /// requested it before; for an agent, more than [`ONE_SIGNAL`] before.
    pub(super) fn request_stop(
        &mut self,
        who: Option<u32>,
        agreed: CheckpointNumber,
        nodes: &mut Nodes,
        events: &mut EventBus,
    ) -> bool {
        let now = events.now();
        let first = *self.asked.entry(who).or_insert(now);
        let one = if who.is_some() { ONE_SIGNAL } else { Duration::ZERO };
        if self.schedule.stop(agreed) {
            events.news("the job stops after its next checkpoint, once that is on disk");
            nodes.send_to_all(&Down::Stopping);
        }
        now <= first + one
    }

    /// Handles an event in a job with this view, whose PEs were on the nodes of `history` so far,
    /// and their pages on the NUMA nodes of `pages`.
    /// Returns the exit status of a job that has stopped on request.
    pub(super) fn handle(
        &mut self,
        event: DiskEvent,
        (view, history, pages): (&View, &PlaceHistory, &PageNodes),
        nodes: &mut Nodes,
        events: &mut EventBus,
    ) -> Option<i32> {
        if let (
            Some(parity),
            DiskEvent::Report(ProgressReport::Checkpoint { number, places, .. }),
        ) = (&mut self.parity, &event)
        {
            parity.agree(*number, *places, history);
        }
        let orders = decide(&mut self.schedule, event, view, events.now());
        let mut status = None;
        for order in orders {
            match self.task(order, pages) {
                Ok((node, task)) => nodes.send(node, &Down::Disk(task), &[]),
                Err(Order::NotStored { number: checkpoint, warning }) => {
                    warning.iter().for_each(|line| events.error(line));
                    events.happened(What::NotStored { checkpoint });
                }
                Err(Order::Stored { number, set, sizes, took, last }) => {
                    self.stored = true;
                    let (checkpoint, place) = (number, self.place_of(set));
                    let Sizes { files: bytes, raw, spill } = sizes;
                    let raw = self.raw(raw);
                    events.happened(What::Stored { checkpoint, place, bytes, raw, spill, took });
                    if last {
                        events.print_verdict(&stopped(number, &self.folder, set));
                        status = Some(REQUEUE);
                    }
                }
                Err(_) => {}
            }
        }
        status
    }
}

/// Passes an event to the schedule. Of the reports, only that of a new checkpoint counts.
fn decide(schedule: &mut Schedule, event: DiskEvent, view: &View, now: Duration) -> Vec<Order> {
    match event {
        DiskEvent::Report(&ProgressReport::Checkpoint { number, .. }) => {
            let node_of: Vec<u32> = view.pes.iter().map(|pe| pe.node).collect();
            schedule.checkpoint(number, &node_of, now)
        }
        DiskEvent::Report(_) => Vec::new(),
        DiskEvent::Lost => schedule.interrupted(),
        DiskEvent::Outcome { node, outcome: DiskOutcome::Written { number, files } } => {
            schedule.written(node, number, files)
        }
        DiskEvent::Outcome { node, outcome: DiskOutcome::Committed { number, set } } => {
            schedule.committed(node, number, set, now)
        }
    }
}
