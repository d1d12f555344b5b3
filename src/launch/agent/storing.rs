//! An agent writes checkpoints to disk, on a thread of its own.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use raidshmem_archive::part::Object;
use raidshmem_archive::program;
use raidshmem_core::disk::{DiskOutcome, Failure, Task};
use raidshmem_core::message::Up;
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_sys::socket::ChannelError;

use super::{Agent, Local};
use crate::disk::{sets, variables, write};
use crate::launch::worker::Worker;

/// How long what is being written may take to stop when the agent ends.
const LAST_FILES: Duration = Duration::from_secs(5);

impl Agent {
    pub(super) fn disk(&mut self, task: Task) -> Result<(), ChannelError> {
        if self.disk.worker.is_none() {
            match Worker::new() {
                Ok(worker) => self.disk.worker = Some(worker),
                Err(error) => return self.up.send(&Up::Disk(cannot(&task, &error)), &[]),
            }
        }
        let job = self.job.id;
        match task {
            Task::Write { number, folder, pes, parity, how } => {
                self.disk.open = Some((number, folder.clone()));
                let program = self.program();
                let mut order = write::Order {
                    job,
                    n_pes: self.job.n_pes,
                    heap_len: self.job.heap_len,
                    number,
                    folder: folder.into(),
                    pes: pes.into_iter().map(|pe| (pe, self.part(pe))).collect(),
                    parity,
                    how,
                    build: Vec::new(),
                    objects: Vec::new(),
                };
                let stop = Arc::clone(&self.disk.stop);
                self.begin(move || {
                    (order.build, order.objects) = program();
                    let files = write::write(&order, &stop);
                    Some(DiskOutcome::Written { number, files })
                });
            }
            Task::Commit { number, folder, manifest, set, keep } => {
                self.disk.open = None; // another node may commit: it is not taken back
                self.begin(move || {
                    let folder = Path::new(&folder);
                    let part = sets::part_folder(folder, job, number);
                    let set = sets::commit(folder, &part, &manifest, set).and_then(|set| {
                        sets::prune(folder, usize::try_from(keep).unwrap_or(usize::MAX))?;
                        Ok(set)
                    });
                    let set = set.map_err(|error| Failure::Refused(error.to_string()));
                    Some(DiskOutcome::Committed { number, set })
                });
            }
            Task::Drop { number, folder } => {
                self.disk.stop.store(number.0, Ordering::SeqCst);
                self.begin(move || {
                    drop_part(&folder, job, number);
                    None
                });
            }
        }
        Ok(())
    }

    fn begin(&mut self, job: impl FnOnce() -> Option<DiskOutcome> + Send + 'static) {
        if let Some(worker) = &mut self.disk.worker {
            worker.begin(job);
        }
    }

    pub(super) fn hear_disk(&mut self) -> Result<(), ChannelError> {
        let outcomes = self.disk.worker.as_mut().map(Worker::results).unwrap_or_default();
        outcomes.into_iter().flatten().try_for_each(|it| self.up.send(&Up::Disk(it), &[]))
    }

    /// The signal that asks for a stop has come: the launcher decides.
    pub(super) fn hear_stop_signal(&mut self) -> Result<(), ChannelError> {
        let mut rings = [0; 64];
        match self.disk.bell.as_mut().map(|bell| bell.read(&mut rings)) {
            Some(Ok(_)) => self.up.send(&Up::StopSignal, &[]),
            _ => Ok(()),
        }
    }

    /// Reads the build of the program and its variables, by a process of it, on the thread: an
    /// executable may be large, and this loop renews the lease.
    fn program(&self) -> impl FnOnce() -> (Vec<u8>, Vec<Object>) + Send + 'static {
        let known = Arc::clone(&self.disk.program);
        let carrier = self.procs.values().find(|local| local.pe.is_some()).map(Local::carrier);
        let file = carrier.and_then(|it| File::open(format!("/proc/{}/exe", it.pid)).ok());
        move || {
            let mut bytes = Vec::new();
            if known.get().is_none()
                && file.is_some_and(|mut it| it.read_to_end(&mut bytes).is_ok())
            {
                let program = program::read(&bytes);
                let _ = known.set((program.build.clone(), variables::objects(program)));
            }
            known.get().cloned().unwrap_or_default()
        }
    }

    /// Nothing is written any more, and what is no set goes.
    pub(super) fn stop_disk(&mut self) {
        let Some(worker) = &mut self.disk.worker else { return };
        self.disk.stop.store(u64::MAX, Ordering::SeqCst);
        worker.stop();
        let end = Instant::now() + LAST_FILES;
        while worker.waits_until(end) {
            worker.results();
        }
        if let Some((number, folder)) = self.disk.open.take() {
            drop_part(&folder, self.job.id, number);
        }
    }
}

/// Takes back what was written; what other nodes write there goes by their own hands.
fn drop_part(folder: &str, job: u64, number: CheckpointNumber) {
    let _ = std::fs::remove_dir_all(sets::part_folder(Path::new(folder), job, number));
}

/// What becomes of a task that has no thread.
fn cannot(task: &Task, error: &std::io::Error) -> DiskOutcome {
    let failure = Failure::Refused(format!("thread for checkpoints on disk: {error}"));
    match *task {
        Task::Commit { number, .. } => DiskOutcome::Committed { number, set: Err(failure) },
        Task::Write { number, .. } | Task::Drop { number, .. } => {
            DiskOutcome::Written { number, files: Err(failure) }
        }
    }
}
