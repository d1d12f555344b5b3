//! New parity groups in the recovery itself: once all PEs have resumed after a move, the checkpoint
//! that they resumed from is encoded again in groups that survive more losses.
//!
//! This takes the steps of every checkpoint: the new parity goes to the slot that no stripe of the
//! old groups uses, and the agreement of all PEs switches to the new groups. Until then the old
//! ones decide, and afterwards their slot is free. For the store it is a checkpoint of its own,
//! with stamps and decisions of its own. The program does not see it: the number that programs,
//! people, sets on disk and rules see stays ([`CheckpointNumber::program`]). One word holds both
//! that number and the count of such encodings, so every PE, also a substitute that adopted nothing
//! or a job resumed from disk, has both numbers as soon as it has one.
//!
//! Left out: the rule, which is in [`raidshmem_core::store::grouped`].

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::sync::Arc;

use raidshmem_core::inject::Point;
use raidshmem_core::protocol::At;
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::replay::place::CallPlace;
use raidshmem_core::store::intent::Refusal;
use raidshmem_core::store::protection::Protection;
use tracing::info;

use crate::checkpoint::pages;
use crate::checkpoint::readonly::free_other_parity;
use crate::pgas::{World, complain};
use crate::protocol_memory;

/// The result of an attempt to heal the groups; equal on every PE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Healing {
    /// The groups are as they should be, or cannot be changed in this view.
    Settled,
    /// A loss interrupted it: all PEs must roll back.
    Interrupted,
}

/// Encodes the checkpoint that all PEs have just resumed from again in new groups, if fewer single
/// losses would then end the job. A PE that rolled back while others are at their end does not.
pub(super) fn groups(world: &World) -> Healing {
    let last = world.store.protection().filter(|_| !world.loss_response().is_local_rollback());
    let Some(last) = last else { return Healing::Settled };
    let agreed = world.store.agreed();
    let Some(groups) = world.grouping().heal_groups(&last, agreed) else {
        return Healing::Settled;
    };
    let ranges = world.memory.readonly();
    if !ranges.iter().all(|range| range.fits(&groups)) {
        world.grouping().stay(agreed);
        report_refusal(world, Some(&"their parity over read-only memory would exceed it"));
        return Healing::Settled;
    }
    let number = agreed.healed();
    info!("checkpoint {number} is encoded again, in new groups");
    let _healing = world.members.heal();
    world.members.point(Point::Before, number);
    pages::forget(&world.store); // parity of other groups is no base for a delta
    world.call_log().log_place(CallPlace::NONE); // the program resumes from its restart
    let heal = || protocol_memory::heal(world, &groups);
    let (end, refusal) = world.call_sites().together(number, heal);
    match end {
        At::Saved => {
            world.store.protect(groups);
            world.grouping().report_groups(number);
            world.store.set_agreed(number);
            world.completion().begin_interval();
            world.memory.note_saved();
            free_other_parity(world, &ranges, number);
            Healing::Settled
        }
        At::Refused => {
            world.grouping().stay(agreed);
            report_refusal(world, refusal.as_ref());
            Healing::Settled
        }
        _ => {
            world.loss_response().note_cut();
            Healing::Interrupted
        }
    }
}

/// Keeps the last groups for this checkpoint because new ones were refused, and reports why.
pub(super) fn keep_groups(
    world: &World,
    last: &Arc<Protection>,
    number: CheckpointNumber,
    refusal: Option<Refusal>,
) {
    world.grouping().keep_groups(last, number);
    report_refusal(world, refusal.as_ref());
}

fn report_refusal(world: &World, refusal: Option<&impl Display>) {
    if let Some(refusal) = refusal.filter(|_| world.is_reporter()) {
        complain(&format!("parity groups stay as they are: {refusal}"));
    }
}
