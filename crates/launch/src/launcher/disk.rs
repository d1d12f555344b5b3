//! The launcher's part in checkpoints on disk: turns the decisions of
//! [`raidshmem_archive::schedule`] into tasks.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use raidshmem_archive::encoded::EncodedGroups;
use raidshmem_archive::manifest::{Manifest, Parity};
use raidshmem_archive::schedule::{Order, Schedule, SetFiles};
use raidshmem_core::disk::{How, Resume, Task};
use raidshmem_core::message::Job;
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::settings::StoreLayout;
use raidshmem_disk::sets::node_folder;

use super::job::title;
use super::page_nodes::PageNodes;
use crate::cli::ready::Ready;

/// The schedule and the parameters of checkpoints on disk.
pub(super) struct SetWriter {
    pub(super) schedule: Schedule,
    /// The time of each first stop request: from a signal at an agent, or from this machine (None).
    pub(super) asked: BTreeMap<Option<u32>, Duration>,
    pub(super) folder: String,
    /// True if a checkpoint reached the disk since this was last asked.
    pub(super) stored: bool,
    keep: u64,
    how: How,
    /// The groups of each checkpoint, if parity is written too, because each node has its own disk.
    pub(super) parity: Option<EncodedGroups>,
    job: u64,
    heap_len: u64,
    mode: &'static str,
    program: String,
}

impl SetWriter {
    /// Returns None without `SHMEM_FT_STORE`.
    pub(super) fn new(ready: &Ready, job: &Job) -> Option<SetWriter> {
        let settings = &ready.settings;
        let folder = settings.store.clone()?;
        let layout = settings.store_layout;
        let mut schedule = Schedule::new(settings.store_every, layout);
        let has_parity = layout == StoreLayout::Local && settings.backup_mode.protects();
        let parity = has_parity.then(|| {
            let domains = ready.protected.site.domains.clone();
            EncodedGroups::new(settings.clone(), domains, ready.resume.as_ref().and_then(groups))
        });
        ready.resume.iter().for_each(|resume| schedule.resumed(resume.number, Duration::ZERO));
        Some(SetWriter {
            schedule,
            asked: BTreeMap::new(),
            folder,
            stored: false,
            keep: settings.store_keep as u64,
            how: How {
                memory: settings.store_memory,
                rate: settings.store_rate,
                compress: settings.store_compress,
                checksum: settings.checksum,
                incremental: settings.store_incremental,
                base: None,
            },
            parity,
            job: job.id,
            heap_len: job.heap_len,
            mode: settings.backup_mode.name(),
            program: title(ready).program,
        })
    }

    /// Begins from a set at `now`; further sets are those of `job`.
    pub(super) fn begin_again(&mut self, resume: &Resume, job: u64, now: Duration) {
        self.schedule.resumed(resume.number, now);
        self.parity.iter_mut().for_each(|parity| parity.begin_again(groups(resume)));
        self.job = job;
    }

    /// Returns true if a checkpoint reached the disk since the last call.
    pub(super) fn take_stored(&mut self) -> bool {
        std::mem::take(&mut self.stored)
    }

    fn manifest(&self, number: CheckpointNumber, files: SetFiles, pages: &PageNodes) -> Manifest {
        let code = self.parity.as_ref().and_then(|parity| parity.code(number)).cloned();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Manifest {
            job: self.job,
            number,
            heap_len: self.heap_len,
            seconds: since.map_or(0, |since| since.as_secs()),
            mode: self.mode.to_owned(),
            program: self.program.clone(),
            entries: files.data,
            raw: self.raw(files.raw).or((!files.bases.is_empty()).then_some(files.raw)),
            bases: files.bases,
            parity: code.map(|code| Parity { code, entries: files.parity }),
            pages: pages.of_all(),
        }
    }

    /// Returns `bytes`, a size before compression, if files are compressed.
    pub(super) fn raw(&self, bytes: u64) -> Option<u64> {
        (self.how.compress > 0).then_some(bytes)
    }

    /// Returns the folder of a node.
    fn folder_of(&self, node: u32) -> String {
        match &self.parity {
            Some(_) => node_folder(self.folder.as_ref(), node).display().to_string(),
            None => self.folder.clone(),
        }
    }

    /// Converts an order to a task for an agent; returns the order itself if it is a message.
    pub(super) fn task(&self, order: Order, pages: &PageNodes) -> Result<(u32, Task), Order> {
        match order {
            Order::Claim { node, number, pes } => {
                let (parity, memory) = (self.parity.is_some(), self.how.memory);
                Ok((node, Task::Claim { number, pes, parity, memory }))
            }
            Order::Write { node, number, pes, base } => {
                // A stopping job has no computation to slow down: lift the rate limit.
                let rate = if self.schedule.is_stopping() { 0 } else { self.how.rate };
                let base = base.filter(|_| self.how.incremental);
                let (how, folder) = (How { rate, base, ..self.how }, self.folder_of(node));
                let shares = self.parity.iter().flat_map(|parity| parity.shares(number));
                let parity = shares.filter(|share| pes.contains(&share.pe)).copied().collect();
                Ok((node, Task::Write { number, folder, pes, parity, how }))
            }
            Order::Commit { node, number, files, set } => {
                let manifest = self.manifest(number, files, pages).encode();
                let (keep, folder) = (self.keep, self.folder_of(node));
                Ok((node, Task::Commit { number, folder, manifest, set, keep }))
            }
            Order::Drop { node, number } => {
                Ok((node, Task::Drop { number, folder: self.folder_of(node) }))
            }
            Order::Stored { .. } | Order::NotStored { .. } => Err(order),
        }
    }

    /// Returns the path of a set, for messages.
    pub(super) fn place_of(&self, set: u64) -> String {
        let folder = &self.folder;
        match &self.parity {
            Some(_) => format!("{folder}/node-*/set-{set}"),
            None => format!("{folder}/set-{set}"),
        }
    }
}

/// Returns the groups of a set, if it has parity that the job can decode.
fn groups(resume: &Resume) -> Option<Vec<Vec<Pe>>> {
    resume.folders.groups().map(<[Vec<Pe>]>::to_vec)
}
