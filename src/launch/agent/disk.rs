//! What an agent has of checkpoints on disk.

#![forbid(unsafe_code)]

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use raidshmem_archive::part::Object;
use raidshmem_core::disk::Outcome;
use raidshmem_core::quantity::CheckpointNumber;

use crate::launch::worker::Worker;

/// The thread, once it was needed.
#[derive(Default)]
pub(super) struct Disk {
    pub(super) worker: Option<Worker<Option<Outcome>>>,
    /// The checkpoint that is not to be written any more; the largest number is every one.
    pub(super) stop: Arc<AtomicU64>,
    /// The program, once it was read.
    pub(super) program: Arc<OnceLock<(Vec<u8>, Vec<Object>)>>,
    /// What was begun and is no set yet.
    pub(super) open: Option<(CheckpointNumber, String)>,
}
