//! The execution of [`raidshmem_archive::schedule`]'s decisions on checkpoints on disk.

#![forbid(unsafe_code)]

use std::time::Duration;

use raidshmem_archive::schedule::{Order, Schedule, Sizes};
use raidshmem_core::disk::{DiskOutcome, Task};
use raidshmem_core::message::{Down, ProgressReport};
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_report::event::What;

use super::Launcher;
use super::report::signalled;

/// The time within which signals from one agent count as one: a batch system may signal both the
/// supervisor and the agent, and the supervisor passes its signal on.
const ONE_SIGNAL: Duration = Duration::from_secs(1);
/// Exit status of a job that stopped with its state on disk and can resume (`EX_TEMPFAIL`).
const RESUME_ME: i32 = 75;

fn stopped(number: CheckpointNumber, folder: &str, set: u64) -> String {
    format!(
        "stopped on request, with checkpoint {number} on disk: \
         oshrun --resume {folder}@{set} continues from there"
    )
}

impl Launcher {
    /// Makes the job stop once its next checkpoint is on disk, as requested by the agent `who`, or
    /// on this machine if None. Returns None without `SHMEM_FT_STORE`, and false if `who` has
    /// requested it before; for an agent, more than [`ONE_SIGNAL`] before.
    pub(super) fn stop_with_a_set(&mut self, who: Option<u32>) -> Option<bool> {
        let (_, agreed) = self.machine.not_due();
        let disk = self.disk.as_mut()?;
        let now = self.telling.now();
        let first = *disk.asked.entry(who).or_insert(now);
        let one = if who.is_some() { ONE_SIGNAL } else { Duration::ZERO };
        if disk.schedule.stop(agreed) {
            self.telling.news("the job stops after its next checkpoint, once that is on disk");
            let nodes: Vec<u32> = self.nodes.keys().copied().collect();
            nodes.into_iter().for_each(|node| self.send(node, &Down::Stopping, &[]));
        }
        Some(now <= first + one)
    }

    /// Returns the signal that stops the job at once, if one arrived. With `SHMEM_FT_STORE`, the
    /// first signal that asks for a stop only makes the job stop after its next checkpoint.
    pub(super) fn stopped_by_signal(&mut self) -> Option<i32> {
        let signal = self.signals.stopped()?;
        let asks = signal == self.signals.asks_for_a_stop();
        (!asks || self.stop_with_a_set(None) != Some(true)).then_some(signal)
    }

    /// Handles the stop signal at an agent, which a batch system sends to the processes of each
    /// node: the first from each agent requests a stop, and a second ends the job at once.
    pub(super) fn stop_signal_at(&mut self, node: u32) {
        if self.stop_with_a_set(Some(node)) == Some(false) {
            self.hurried = true;
            let end = signalled(self.signals.asks_for_a_stop());
            self.result = Some(self.ends(end));
        }
    }

    /// Passes a PE's report to the schedule if it completes a checkpoint.
    pub(super) fn note_for_disk(&mut self, report: &ProgressReport) {
        let ProgressReport::Checkpoint { number, .. } = *report else { return };
        let node_of: Vec<u32> = self.machine.view().pes.iter().map(|pe| pe.node).collect();
        let now = self.telling.now();
        self.decide(|schedule| schedule.checkpoint(number, &node_of, now));
    }

    /// Interrupts the schedule because a PE was lost.
    pub(super) fn interrupt_disk(&mut self) {
        self.decide(Schedule::interrupted);
    }

    /// Handles the outcome of an agent's task.
    pub(super) fn heard_of_disk(&mut self, node: u32, outcome: DiskOutcome) {
        let now = self.telling.now();
        self.decide(|schedule| match outcome {
            DiskOutcome::Written { number, files } => schedule.written(node, number, files),
            DiskOutcome::Committed { number, set } => schedule.committed(node, number, set, now),
        });
    }

    fn decide(&mut self, decide: impl FnOnce(&mut Schedule) -> Vec<Order>) {
        let Some(disk) = &mut self.disk else { return };
        let orders = decide(&mut disk.schedule);
        let folder = disk.folder.clone();
        let tasks: Vec<Result<(u32, Task), Order>> =
            orders.into_iter().map(|order| disk.task(order)).collect();
        for task in tasks {
            match task {
                Ok((node, task)) => self.send(node, &Down::Disk(task), &[]),
                Err(Order::Warn(line)) => self.telling.error(&line),
                Err(Order::Stored { number, set, sizes, took, last }) => {
                    let Some(disk) = &self.disk else { continue };
                    let (checkpoint, place) = (number, disk.place_of(set));
                    let Sizes { files: bytes, raw, spill } = sizes;
                    let raw = disk.raw(raw);
                    let what = What::Stored { checkpoint, place, bytes, raw, spill, took };
                    self.telling.happened(what);
                    if last {
                        self.telling.say_verdict(&stopped(number, &folder, set));
                        self.result.get_or_insert(RESUME_ME);
                    }
                }
                Err(_) => {}
            }
        }
    }
}
