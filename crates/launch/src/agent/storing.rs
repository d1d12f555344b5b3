//! The agent's tasks for checkpoints on disk, run on a thread of their own.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use raidshmem_archive::program;
use raidshmem_core::detector::MachineTime;
use raidshmem_core::disk::{DiskOutcome, Failure, Task};
use raidshmem_core::message::{Down, Up};
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_disk::claim::{self, Claims};
use raidshmem_disk::variables::{self, SavedProgram, entry_of, name_of};
use raidshmem_disk::{sets, step, write};
use raidshmem_sys::lock;
use raidshmem_sys::socket::ChannelError;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::disk::{Awaited, DiskThread, no_answer};
use super::lists::answer_to;
use super::memory::NodeMemory;
use super::uplink::Uplink;
use crate::worker::Worker;

/// Time limit for writes in progress to stop when the agent ends.
const LAST_FILES: Duration = Duration::from_secs(3);

impl DiskThread {
    /// Begins a task; `carrier` is a process of the program.
    pub(super) fn begin(
        &mut self,
        task: Task,
        memory: &NodeMemory,
        carrier: Option<u32>,
        up: &mut Uplink,
    ) -> Result<(), ChannelError> {
        if let Err(why) = self.start() {
            return self.refuse(awaited(&task), why, up);
        }
        self.awaited = awaited(&task);
        if self.awaited.is_some() && self.patience.is_over {
            return self.refuse(self.awaited, no_answer(), up);
        }
        self.queue(task, memory, carrier);
        Ok(())
    }

    /// Starts the thread, unless it runs.
    fn start(&mut self) -> Result<(), String> {
        if self.worker.is_none() {
            let worker = Worker::new();
            let why = |error| format!("thread for checkpoints on disk: {error}");
            self.worker = Some(worker.map_err(why)?);
        }
        Ok(())
    }

    /// Answers a question about this disk once earlier tasks are over.
    pub(super) fn answer(&mut self, question: Down, up: &mut Uplink) -> Result<(), ChannelError> {
        if let Err(why) = self.start() {
            return up.fail(why);
        }
        self.work(move || answer_to(&question));
        Ok(())
    }

    /// Writes further sets as those of the job `sets`. Checkpoint numbers begin anew, so earlier
    /// orders to abandon some no longer count.
    pub(super) fn begin_again(&mut self, sets: u64) {
        self.job.sets = sets;
        let stop = Arc::clone(&self.stop);
        self.work(move || {
            let _ = stop.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |abandoned| {
                (abandoned != u64::MAX).then_some(0)
            });
            None
        });
    }

    fn queue(&mut self, task: Task, memory: &NodeMemory, carrier: Option<u32>) {
        let (job, claims) = (self.job.sets, Arc::clone(&self.claims));
        match task {
            Task::Claim { number, pes, parity, memory: spilled } => {
                let (pes, layout) = (memory.parts(pes), memory.layout());
                self.work(move || {
                    // If this fails, the write pins the snapshot itself, and reports any error.
                    let (_, spilled_max) = claim::shares(spilled);
                    *lock(&claims) = Claims::new(number, &pes, layout, parity, spilled_max).ok();
                    None
                });
            }
            Task::Write { number, folder, pes, parity, how } => {
                self.open = Some((number, folder.clone()));
                let program = self.program(carrier);
                let mut order = write::Order {
                    job: self.job.id,
                    sets: job,
                    n_pes: self.job.n_pes,
                    heap_len: self.job.heap_len,
                    number,
                    folder: folder.into(),
                    pes: memory.parts(pes),
                    parity,
                    how,
                    program: SavedProgram::default(),
                };
                let (stop, pasts) = (Arc::clone(&self.stop), Arc::clone(&self.pasts));
                self.work(move || {
                    order.program = program();
                    let claims = lock(&claims).take();
                    let files = write::write(&order, claims, &mut lock(&pasts), &stop);
                    Some(Up::Disk(DiskOutcome::Written { number, files }))
                });
            }
            Task::Commit { number, folder, manifest, set, keep } => {
                self.open = None; // another node may commit: do not drop it
                self.work(move || {
                    let folder = Path::new(&folder);
                    let part = sets::part_folder(folder, job, number);
                    let set = sets::commit(folder, &part, &manifest, set).and_then(|set| {
                        sets::prune(folder, usize::try_from(keep).unwrap_or(usize::MAX))?;
                        Ok(set)
                    });
                    let set = set.map_err(|error| Failure::Refused(error.to_string()));
                    Some(Up::Disk(DiskOutcome::Committed { number, set }))
                });
            }
            Task::Drop { number, folder } => {
                self.stop.store(number.0, Ordering::SeqCst);
                self.work(move || {
                    lock(&claims).take();
                    drop_part(&folder, job, number);
                    None
                });
            }
        }
    }

    fn refuse(
        &mut self,
        awaited: Option<Awaited>,
        why: String,
        up: &mut Uplink,
    ) -> Result<(), ChannelError> {
        self.awaited = None;
        awaited.map_or(Ok(()), |it| up.send(&Up::Disk(it.failed(why))))
    }

    fn work(&mut self, job: impl FnOnce() -> Option<Up> + Send + 'static) {
        if let Some(worker) = &mut self.worker {
            worker.begin(job);
        }
    }

    /// Reports the outcomes of tasks that are over.
    pub(super) fn report_outcomes(&mut self, up: &mut Uplink) -> Result<(), ChannelError> {
        let outcomes = self.worker.as_mut().map(Worker::results).unwrap_or_default();
        for outcome in outcomes.into_iter().flatten() {
            if let Up::Disk(outcome) = &outcome {
                self.awaited.take_if(|awaited| *awaited == Awaited::of(outcome));
            }
            up.send(&outcome)?;
        }
        Ok(())
    }

    /// Stops waiting for a disk that does not answer, and reports it as failed.
    pub(super) fn check(&mut self, now: MachineTime, up: &mut Uplink) -> Result<(), ChannelError> {
        let works = self.worker.as_ref().is_some_and(|worker| !worker.is_idle());
        match self.patience.ends(works, step::begun(), now) {
            true => self.refuse(self.awaited, no_answer(), up),
            false => Ok(()),
        }
    }

    /// Reports the signal that asks for a stop; the launcher decides.
    pub(super) fn report_stop_signal(&mut self, up: &mut Uplink) -> Result<(), ChannelError> {
        let mut rings = [0; 64];
        match self.bell.as_mut().map(|bell| bell.read(&mut rings)) {
            Some(Ok(_)) => up.send(&Up::StopSignal),
            _ => Ok(()),
        }
    }

    /// Returns a function that reads the program's build and variables from the process `carrier`
    /// of it. It runs on the disk thread: an executable may be large, and the main loop renews the
    /// lease.
    fn program(&self, carrier: Option<u32>) -> impl FnOnce() -> SavedProgram + Send + 'static {
        let known = Arc::clone(&self.program);
        let of = carrier.map(|pid| PathBuf::from(format!("/proc/{pid}")));
        let file = of.as_ref().and_then(|of| File::open(of.join("exe")).ok());
        move || {
            let mut bytes = Vec::new();
            if let (None, Some(of), Some(mut file)) = (known.get(), of, file)
                && file.read_to_end(&mut bytes).is_ok()
            {
                let (program, name) = (program::read(&bytes), name_of(&of.join("exe")));
                let entry = std::fs::read(of.join("auxv")).ok().and_then(|it| entry_of(&it));
                let image = entry.map_or(0..0, |entry| program.image(entry));
                let objects = variables::objects(&program);
                let build = program.build;
                let _ = known.set(SavedProgram { build, name, image, objects });
            }
            known.get().cloned().unwrap_or_default()
        }
    }

    /// Stops writing, and removes an unfinished set.
    pub(super) fn end(&mut self, memory: &NodeMemory) {
        let Some(worker) = &mut self.worker else { return };
        self.stop.store(u64::MAX, Ordering::SeqCst);
        worker.stop();
        let end = Instant::now() + LAST_FILES;
        while !self.patience.is_over && worker.waits_until(end) {
            worker.results();
        }
        let is_over = match (worker.is_idle(), self.open.take()) {
            (true, Some((number, folder))) => {
                let job = self.job.sets;
                does_in_time(move || drop_part(&folder, job, number))
            }
            (is_idle, _) => is_idle,
        };
        if !is_over {
            leave_behind(memory);
        }
    }
}

/// Releases the standard streams and the PEs' memory: the kernel cannot end a thread that waits for
/// a disk, so this process may linger.
fn leave_behind(memory: &NodeMemory) {
    if let Ok(nowhere) = File::options().read(true).write(true).open("/dev/null") {
        let _ = dup2_stdin(&nowhere);
        let _ = dup2_stdout(&nowhere);
        let _ = dup2_stderr(&nowhere);
    }
    memory.wipe_all(); // otherwise freed once the disk answers
}

/// Runs a disk operation on a thread of its own; returns false if the disk does not answer in time.
fn does_in_time(job: impl FnOnce() + Send + 'static) -> bool {
    let Ok(mut worker) = Worker::new() else { return true }; // without a thread, skip it
    worker.begin(job);
    let end = Instant::now() + LAST_FILES;
    while worker.waits_until(end) {
        worker.results();
    }
    worker.is_idle()
}

/// Removes the unfinished set; other nodes remove theirs.
fn drop_part(folder: &str, job: u64, number: CheckpointNumber) {
    let _ = std::fs::remove_dir_all(sets::part_folder(Path::new(folder), job, number));
}

/// Returns the task whose outcome the launcher will wait for, if any.
fn awaited(task: &Task) -> Option<Awaited> {
    match *task {
        Task::Write { number, .. } => Some(Awaited::Written(number)),
        Task::Commit { number, .. } => Some(Awaited::Committed(number)),
        Task::Claim { .. } | Task::Drop { .. } => None,
    }
}
