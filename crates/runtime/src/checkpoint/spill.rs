//! The spill: copies of tiles that a checkpoint is about to overwrite and that are not on disk yet.
//!
//! A PE spills before barrier C, after which other PEs write into its second snapshot. So no
//! checkpoint waits for a disk: it takes at most the time to copy what is not on disk yet.

#![forbid(unsafe_code)]

use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::protection::Protection;
use raidshmem_disk::spill::SpillCopier;

use crate::pgas::World;

/// Spills tiles that are not on disk yet, before checkpoint `number` overwrites the own store.
pub fn keep(world: &World, protection: &Protection, number: CheckpointNumber) {
    let (segments, pool) = (world.segments, &world.store.pool);
    let (own, part, pe, job) = (segments.own(), segments.part(), segments.me(), world.job());
    SpillCopier { own, part, pe, job, protection, pool, sharing: world.pes_of_machine() }
        .keep(number);
}
