//! The wait of the PEs in a checkpoint after which a node is drained, or PEs move to a new one.
//!
//! All PEs learn in barrier Q of a checkpoint that it is the one. Once it is agreed, none of them
//! computes: they stay in the call until the launcher has killed the node, and the call then
//! reports its loss like the next call of a job that loses a node. So all PEs resume from the
//! checkpoint that they have just made. With local rollback the survivors go on instead.
//!
//! Invariant: the launcher kills the node, or the PEs that move, only once each of these PEs has
//! reported that it waits, which means that every PE has the checkpoint. A wait ends with any loss,
//! and when the launcher says that the request is over.

use raidshmem_core::inject::Point;
use raidshmem_core::protocol::Call;
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_segment::words::Barrier;
use raidshmem_sys::exit;
use tracing::info;

use crate::pgas::World;

/// Waits until the node is lost that is drained after checkpoint `number`, which has just been
/// agreed; returns at once if none is. Returns true if the call must report a loss.
pub(super) fn wait_after(world: &World, number: CheckpointNumber) -> bool {
    let call = Call::Checkpoint.name();
    let carries_pes = |node: u32| world.members.view().nodes().any(|at| at == node);
    let drain = world.members.agreed_drain();
    let drain = drain.filter(|request| request.joins || carries_pes(request.node));
    let Some(request) = drain else { return false };
    info!("waits after checkpoint {number} for PEs to move, because of node {}", request.node);
    let all_have_it = world.barriers().barrier_of(Barrier::Protocol, call).is_ok();
    world.members.point(Point::Drain, number);
    if all_have_it && (request.joins || world.members.is_on(request.node)) {
        exit::flush_streams(); // the process will be killed
        world.members.report_drained(request, number);
    }
    world.wait_raw(
        || world.waiting_for_all(call),
        || world.members.faulted() || world.members.is_drain_over(request),
    );
    world.loss_response().interrupted()
}
