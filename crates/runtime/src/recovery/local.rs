//! Local rollback: a substitute rolls back to the last checkpoint, and no other PE does.
//!
//! This runs in its first checkpoint call, which then returns as it did when the checkpoint was
//! made. The substitute first looks for reasons against a local rollback, and reports any to the
//! launcher: then all PEs roll back, as in all other recoveries.
//!
//! ```text
//! renew      after the loss of a node: restores the log from its replica, the snapshot and the
//!            own parity from the other PEs of the group (`renew.rs`)
//! look       checks that no reason speaks against a local rollback, and waits until no survivor is
//!            in a put to the dead PE (`core/replay/look.rs`)
//! restore    copies the own snapshot to live memory
//! replay     takes the results of calls from the log, up to its end (`pgas/replay.rs`)
//! ```
//!
//! Invariant: nothing that is present in a store changes.

use raidshmem_sys::site::CallSite;

use super::renew::renew;
use super::restore;
use crate::pgas::World;

/// Rolls back locally if possible. Returns false if all PEs roll back.
pub(crate) fn go_back(world: &World, site: &CallSite) -> bool {
    // After a local rollback this PE's calls are logged again, or all PEs roll back.
    if !world.local.is_on() || world.logs() || !world.members.is_new() {
        return false;
    }
    let view = world.members.view();
    if !view.local {
        return false;
    }
    world.refresh(&view);
    let renewed = match renew(world) {
        Ok(renewed) => renewed,
        Err(why) => {
            world.call_log().roll_all_back(&why);
            return false;
        }
    };
    let Some((number, len)) = world.log_meetings().look(site.place) else {
        if renewed {
            world.store.recovery.forget_phase(); // it was that of an old replica
        }
        return false;
    };
    let protection = world.grouping().groups_recorded(number);
    if restore::restore(world, &protection, &view, None, number, len).is_err() {
        return false; // it has reported an invalid tile
    }
    world.store.set_agreed(number);
    world.grouping().report_groups(number); // the dead process may not have come to it
    world.completion().begin_interval();
    world.timing.rolled_back_locally();
    world.log_writer().continue_replica();
    world.log_meetings().begin_replay();
    true
}
