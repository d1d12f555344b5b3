//! What a checkpoint is about to overwrite, and is not on disk yet, is copied aside.
//!
//! A PE does so before barrier C, after which others write into its second snapshot. So no
//! checkpoint waits for a disk: it takes at most the time to copy what the disk has not come to.

#![forbid(unsafe_code)]

use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::protection::Protection;
use raidshmem_disk::aside::AsideCopier;

use crate::pgas::World;

/// To be called before checkpoint `number` overwrites anything in the own store.
pub fn keep(world: &World, protection: &Protection, number: CheckpointNumber) {
    let (segments, pool) = (world.segments, &world.store.pool);
    let (own, part, pe, job) = (segments.own(), segments.part(), segments.me(), world.job());
    AsideCopier { own, part, pe, job, protection, pool, sharing: world.pes_of_machine() }
        .keep(number);
}
