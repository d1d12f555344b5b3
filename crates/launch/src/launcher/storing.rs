//! Checkpoints on disk: carries out what [`raidshmem_archive::schedule`] decides.

#![forbid(unsafe_code)]

use std::time::Duration;

use raidshmem_archive::schedule::{Order, Schedule, Sizes};
use raidshmem_core::disk::{DiskOutcome, Task};
use raidshmem_core::message::{Down, ProgressReport};
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_report::event::What;

use super::Launcher;
use super::report::signalled;

/// How long what comes from one agent is one signal: a batch system may send it to the supervisor
/// and to the agent, and the supervisor passes it on.
const ONE_SIGNAL: Duration = Duration::from_secs(1);
/// Status of a job that stopped with its state on disk, so that it can go on (`EX_TEMPFAIL`).
const RESUME_ME: i32 = 75;

fn stopped(number: CheckpointNumber, folder: &str, set: u64) -> String {
    format!(
        "stopped as asked for, with checkpoint {number} on disk: \
         oshrun --resume {folder}@{set} goes on from there"
    )
}

impl Launcher {
    /// Makes the job stop once its next checkpoint is on disk, as `who` asks: an agent, or somebody
    /// here. None without `SHMEM_FT_STORE`, false if the same has asked before; for an agent, more
    /// than [`ONE_SIGNAL`] before.
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

    /// The signal that stops the job at once, if one has come: with `SHMEM_FT_STORE` the first that
    /// asks for a stop has the next checkpoint written before.
    pub(super) fn stopped_by_signal(&mut self) -> Option<i32> {
        let signal = self.signals.stopped()?;
        let asks = signal == self.signals.asks_for_a_stop();
        (!asks || self.stop_with_a_set(None) != Some(true)).then_some(signal)
    }

    /// That signal has come to an agent, as a batch system sends it to the processes of each node:
    /// the first of each asks for a stop, and a second ends the job at once.
    pub(super) fn stop_signal_at(&mut self, node: u32) {
        if self.stop_with_a_set(Some(node)) == Some(false) {
            self.hurried = true;
            let end = signalled(self.signals.asks_for_a_stop());
            self.result = Some(self.ends(end));
        }
    }

    /// A PE reported something: perhaps a checkpoint that is due.
    pub(super) fn note_for_disk(&mut self, report: &ProgressReport) {
        let ProgressReport::Checkpoint { number, .. } = *report else { return };
        let node_of: Vec<u32> = self.machine.view().pes.iter().map(|pe| pe.node).collect();
        let now = self.telling.now();
        self.decide(|schedule| schedule.checkpoint(number, &node_of, now));
    }

    /// A PE was lost.
    pub(super) fn interrupt_disk(&mut self) {
        self.decide(Schedule::interrupted);
    }

    /// An agent has done what it was told to, or not.
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
                    let (checkpoint, place) = (number.0, disk.place_of(set));
                    let Sizes { files: bytes, raw, aside } = sizes;
                    let raw = disk.raw(raw);
                    let what = What::Stored { checkpoint, place, bytes, raw, aside, took };
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
