//! The place of this PE's call after a restart, compared with that of the reference PE.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::time::{Duration, Instant};

use raidshmem_core::protocol::driver::OpProgress;
use raidshmem_core::protocol::{At, Outcome};
use raidshmem_core::store::site::{Activity, Verdict};

use super::scope::CheckpointScope;
use crate::checkpoint::since;
use crate::pgas::World;

/// The pause before a remote PE is asked again.
const PAUSE: Duration = Duration::from_millis(1);

/// The place of this PE's call.
#[derive(Default)]
pub(super) struct Following {
    /// The writes since the restart, as one number, if they are needed.
    written: u64,
    /// The time of the last query to the reference.
    asked: Cell<Option<Instant>>,
}

impl Following {
    /// Publishes the place of the call, and the writes since the restart if they are needed.
    pub fn show_call(&mut self, scope: CheckpointScope, at: At) {
        let CheckpointScope { world, protection, number } = scope;
        let asked = at == At::Follow || world.call_sites().is_reference();
        self.written = match asked {
            true => since::written(world, protection, number.previous()),
            false => 0,
        };
        world.call_sites().show_progress(Activity::Checkpoint, self.written);
    }

    /// Decides this PE's call, once the reference has published how it continued after the restart.
    pub fn follow(&self, world: &World) -> OpProgress {
        let Some(reference) = world.sites.reference() else { return OpProgress::Done };
        // A remote PE is asked again only after a pause.
        let now = Instant::now();
        let soon = |at: Instant| world.segments.is_remote(reference) && now - at < PAUSE;
        if self.asked.get().is_some_and(soon) {
            return OpProgress::Wait;
        }
        self.asked.set(Some(now));
        match world.call_sites().follow(self.written) {
            None if world.members.faulted() => OpProgress::Out(Outcome::Changed),
            None => OpProgress::Wait,
            Some(Verdict::Mismatch) => world.members.abort(&format!(
                "checkpoints do not fit: after the restart PE {} wrote to symmetric memory and \
                 called the checkpoint at {}, but PE {reference} has continued to {}",
                world.me(),
                world.call_sites().site_of(world.me()),
                world.call_sites().describe(reference)
            )),
            Some(Verdict::Meet) => {
                world.call_sites().caught_up();
                OpProgress::Done
            }
            Some(Verdict::Pass) => {
                world.call_sites().caught_up();
                OpProgress::Out(Outcome::Behind)
            }
        }
    }
}
