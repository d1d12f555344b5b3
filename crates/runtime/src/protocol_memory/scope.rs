//! The checkpoint that an operation of the protocol is about.

#![forbid(unsafe_code)]

use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::protection::Protection;

use crate::pgas::World;

/// A checkpoint of a process, and its protection.
#[derive(Clone, Copy)]
pub(super) struct CheckpointScope<'a> {
    pub world: &'a World,
    pub protection: &'a Protection,
    pub number: CheckpointNumber,
}
