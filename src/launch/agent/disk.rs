//! The state of checkpoints on disk in an agent.

#![forbid(unsafe_code)]

use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use raidshmem_archive::part::Object;
use raidshmem_core::disk::DiskOutcome;
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_sys::process;

use crate::launch::bell::caught;
use crate::launch::worker::Worker;

/// The thread, once it was needed.
#[derive(Default)]
pub(super) struct DiskThread {
    pub(super) worker: Option<Worker<Option<DiskOutcome>>>,
    /// Checkpoints up to this number are given up; the largest number gives up all.
    pub(super) stop: Arc<AtomicU64>,
    /// The program, once it was read.
    pub(super) program: Arc<OnceLock<(Vec<u8>, Vec<Object>)>>,
    /// The set that is being written.
    pub(super) open: Option<(CheckpointNumber, String)>,
    /// Rings when the signal that asks for a stop has come.
    pub(super) bell: Option<UnixStream>,
}

impl DiskThread {
    /// Catches that signal from now on, if there is one; PEs ignore it until they ask for it. Where
    /// it cannot be caught it ends this process, as it does without checkpoints on disk.
    pub(super) fn new(stop_signal: Option<i32>) -> DiskThread {
        stop_signal.into_iter().for_each(process::ignored_by_children);
        DiskThread {
            bell: stop_signal.and_then(|signal| caught(signal).ok()),
            ..DiskThread::default()
        }
    }
}
