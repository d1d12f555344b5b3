//! Checkpoints on disk: carries out what [`raidshmem_archive::schedule`] decides.

#![forbid(unsafe_code)]

use raidshmem_archive::schedule::{Order, Schedule};
use raidshmem_core::disk::{Outcome, Task};
use raidshmem_core::message::{Down, Report};
use raidshmem_report::words::{bytes, time};

use super::Launcher;

impl Launcher {
    /// A PE reported something: perhaps a checkpoint that is due.
    pub(super) fn note_for_disk(&mut self, report: &Report) {
        let Report::Checkpoint { number, .. } = *report else { return };
        let node_of: Vec<u32> = self.machine.view().pes.iter().map(|pe| pe.node).collect();
        let now = self.telling.now();
        self.decide(|schedule| schedule.checkpoint(number, &node_of, now));
    }

    /// A PE was lost.
    pub(super) fn interrupt_disk(&mut self) {
        self.decide(Schedule::interrupted);
    }

    /// An agent has done what it was told to, or not.
    pub(super) fn heard_of_disk(&mut self, node: u32, outcome: Outcome) {
        let now = self.telling.now();
        self.decide(|schedule| match outcome {
            Outcome::Written { number, files } => schedule.written(node, number, files),
            Outcome::Committed { number, set } => schedule.committed(node, number, set, now),
        });
    }

    fn decide(&mut self, decide: impl FnOnce(&mut Schedule) -> Vec<Order>) {
        let Some(disk) = &mut self.disk else { return };
        let orders = decide(&mut disk.schedule);
        let (verbose, folder) = (disk.verbose, disk.folder.clone());
        let tasks: Vec<Result<(u32, Task), Order>> =
            orders.into_iter().map(|order| disk.task(order)).collect();
        for task in tasks {
            match task {
                Ok((node, task)) => self.tell(node, &Down::Disk(task), &[]),
                Err(Order::Warn(line)) => self.telling.error(&line),
                Err(Order::Stored { number, set, bytes: len, took }) if verbose => {
                    let (len, took) = (bytes(len), time(took));
                    self.telling.news(&format!(
                        "checkpoint {number} is on disk: {folder}/set-{set}, {len} in {took}"
                    ));
                }
                Err(_) => {}
            }
        }
    }
}
