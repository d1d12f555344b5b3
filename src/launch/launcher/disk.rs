//! What the launcher has of checkpoints on disk: what [`raidshmem_archive::schedule`] decides, as
//! tasks.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use raidshmem_archive::manifest::Manifest;
use raidshmem_archive::schedule::{Order, Schedule};
use raidshmem_core::disk::{Entry, How, Task};
use raidshmem_core::message::Job;
use raidshmem_core::quantity::CheckpointNumber;

use super::job::title;
use crate::launch::cli::ready::Ready;

/// What is written, and how.
pub(super) struct Disk {
    pub(super) schedule: Schedule,
    /// When each has asked for a stop: agents by a signal there, somebody here (None).
    pub(super) asked: BTreeMap<Option<u32>, Duration>,
    pub(super) folder: String,
    keep: u64,
    how: How,
    /// A line for each set.
    pub(super) verbose: bool,
    job: u64,
    heap_len: u64,
    mode: &'static str,
    program: String,
}

impl Disk {
    /// None without `SHMEM_FT_STORE`.
    pub(super) fn new(ready: &Ready, job: &Job) -> Option<Disk> {
        let settings = &ready.settings;
        let folder = settings.store.clone()?;
        let mut schedule = Schedule::new(settings.store_every);
        ready.resume.iter().for_each(|resume| schedule.resumed(resume.number));
        Some(Disk {
            schedule,
            asked: BTreeMap::new(),
            folder,
            keep: settings.store_keep as u64,
            how: How {
                memory: settings.store_memory,
                rate: settings.store_rate,
                checksum: settings.checksum,
            },
            verbose: settings.report,
            job: job.id,
            heap_len: job.heap_len,
            mode: settings.backup_mode.name(),
            program: title(ready).program,
        })
    }

    fn manifest(&self, number: CheckpointNumber, entries: Vec<Entry>) -> Manifest {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Manifest {
            job: self.job,
            number,
            heap_len: self.heap_len,
            seconds: since.map_or(0, |since| since.as_secs()),
            mode: self.mode.to_owned(),
            program: self.program.clone(),
            entries,
        }
    }

    /// What an order is for an agent, or itself if it is for people.
    pub(super) fn task(&self, order: Order) -> Result<(u32, Task), Order> {
        let folder = self.folder.clone();
        match order {
            Order::Write { node, number, pes } => {
                // A job that is to stop computes for nothing from then on.
                let rate = if self.schedule.is_stopping() { 0 } else { self.how.rate };
                Ok((node, Task::Write { number, folder, pes, how: How { rate, ..self.how } }))
            }
            Order::Commit { node, number, entries } => {
                let manifest = self.manifest(number, entries).encode();
                let keep = self.keep;
                Ok((node, Task::Commit { number, folder, manifest, keep }))
            }
            Order::Drop { node, number } => Ok((node, Task::Drop { number, folder })),
            Order::Stored { .. } | Order::Warn(_) => Err(order),
        }
    }
}
