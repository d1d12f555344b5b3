//! An agent's state of checkpoints on disk.

#![forbid(unsafe_code)]

use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use raidshmem_core::detector::MachineTime;
use raidshmem_core::disk::{DiskOutcome, Failure};
use raidshmem_core::message::{Job, Up};
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_disk::claim::Claims;
use raidshmem_disk::variables::SavedProgram;
use raidshmem_disk::write::Pasts;
use raidshmem_sys::process;
use rustix::event::{PollFd, PollFlags};

use super::source::Source;
use crate::bell::caught;
use crate::worker::Worker;

/// Time limit for one step of a disk: some 64 MiB, or a deletion of any size.
const ANSWER: Duration = Duration::from_secs(20);

/// The job that a set belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct SavedJob {
    pub(super) id: u64,
    /// The job that its sets name as theirs; another once the job has fallen back to disk.
    pub(super) sets: u64,
    pub(super) n_pes: u32,
    pub(super) heap_len: u64,
}

/// The disk thread, once started, and its state.
pub(super) struct DiskThread {
    pub(super) job: SavedJob,
    pub(super) worker: Option<Worker<Option<Up>>>,
    /// Checkpoints up to this number are abandoned; `u64::MAX` abandons all.
    pub(super) stop: Arc<AtomicU64>,
    /// The program's identity, once read.
    pub(super) program: Arc<OnceLock<SavedProgram>>,
    /// Pins of the checkpoint to write once it exists.
    pub(super) claims: Arc<Mutex<Option<Claims>>>,
    /// The contents of the files written last.
    pub(super) pasts: Arc<Mutex<Pasts>>,
    /// The set being written.
    pub(super) open: Option<(CheckpointNumber, String)>,
    /// The task whose outcome the launcher waits for.
    pub(super) awaited: Option<Awaited>,
    /// Tracks whether the disk answers.
    pub(super) patience: Patience,
    /// Becomes readable when the signal that asks for a stop arrives.
    pub(super) bell: Option<UnixStream>,
}

/// A task whose outcome is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    Written(CheckpointNumber),
    Committed(CheckpointNumber),
}

impl Awaited {
    /// Returns the task that `outcome` belongs to.
    pub(super) fn of(outcome: &DiskOutcome) -> Awaited {
        match *outcome {
            DiskOutcome::Written { number, .. } => Awaited::Written(number),
            DiskOutcome::Committed { number, .. } => Awaited::Committed(number),
        }
    }

    /// Returns the outcome for a task that failed.
    pub(super) fn failed(self, why: String) -> DiskOutcome {
        let failure = Failure::Refused(why);
        match self {
            Awaited::Written(number) => DiskOutcome::Written { number, files: Err(failure) },
            Awaited::Committed(number) => DiskOutcome::Committed { number, set: Err(failure) },
        }
    }
}

impl DiskThread {
    /// Catches `stop_signal`, if given, from now on; PEs ignore it until they ask for it. If it
    /// cannot be caught, it ends this process, as it does without checkpoints on disk.
    pub(super) fn new(job: &Job, stop_signal: Option<i32>) -> DiskThread {
        stop_signal.into_iter().for_each(process::ignored_by_children);
        let bell = stop_signal.and_then(|signal| caught(signal).ok());
        let job = SavedJob { id: job.id, sets: job.id, n_pes: job.n_pes, heap_len: job.heap_len };
        let (stop, program, claims, pasts, patience) = Default::default();
        let (worker, open, awaited) = (None, None, None);
        DiskThread { job, worker, stop, program, claims, pasts, open, awaited, patience, bell }
    }

    /// Returns the descriptors to poll, with their sources.
    pub(super) fn fds(&self) -> impl Iterator<Item = (PollFd<'_>, Source)> {
        let disk = self.worker.as_ref();
        let disk = disk.map(|disk| (PollFd::new(disk, PollFlags::IN), Source::Disk));
        let bell = self.bell.as_ref();
        let bell = bell.map(|bell| (PollFd::new(bell, PollFlags::IN), Source::StopSignal));
        disk.into_iter().chain(bell)
    }
}

/// The time since the disk last made progress.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// The number of steps begun, and the time at which it was first seen.
    seen: Option<(u64, MachineTime)>,
    /// True while the disk counts as stalled, which was reported.
    pub(super) is_over: bool,
}

impl Patience {
    /// Samples the number of steps `begun` by a thread that `works` or is idle. Returns true once,
    /// when there has been no progress for too long.
    pub(super) fn ends(&mut self, works: bool, begun: u64, now: MachineTime) -> bool {
        let since = self.seen.filter(|&(steps, _)| works && steps == begun).map(|(_, at)| at);
        self.seen = works.then_some((begun, since.unwrap_or(now)));
        let is_over = since.is_some_and(|since| now.saturating_sub(since) >= ANSWER);
        let was_over = std::mem::replace(&mut self.is_over, is_over);
        is_over && !was_over
    }
}

/// Returns the error message for such a disk.
pub(super) fn no_answer() -> String {
    format!("its disk has not answered for {} s", ANSWER.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hanging_disk_is_reported_once_until_it_proceeds() {
        let (mut patience, second) = (Patience::default(), Duration::from_secs(1));
        let mut look = |works, begun, at| {
            let told = patience.ends(works, begun, second * at);
            (told, patience.is_over)
        };
        assert_eq!(look(true, 7, 100), (false, false));
        assert_eq!(look(true, 8, 119), (false, false));
        assert_eq!(look(true, 8, 138), (false, false));
        assert_eq!(look(true, 8, 139), (true, true));
        assert_eq!(look(true, 8, 300), (false, true), "told before");
        assert_eq!(look(true, 9, 301), (false, false), "it moves");
        assert_eq!(look(true, 9, 321), (true, true));
        assert_eq!(look(false, 9, 322), (false, false), "it is done");
        assert_eq!(look(true, 9, 400), (false, false), "other work");
    }
}
