//! The end of a recovery: the resumed program, or the end of the job.

#![forbid(unsafe_code)]

use raidshmem_core::message::ProgressReport;
use raidshmem_core::protocol::driver::Driver;
use raidshmem_core::protocol::{At, Call};
use raidshmem_core::quantity::Pe;
use raidshmem_core::status::Ending;

use super::RealMemory;

impl RealMemory<'_> {
    /// Ends the recovery of this PE: it is a member of the new view.
    pub(super) fn join(&self, driver: &Driver) {
        let (world, checkpoint, took) =
            (self.world, driver.number(), self.saving.begun().elapsed());
        match (driver.call(), driver.ends()) {
            (Call::Finalize, _) => world.join(&self.view),
            (_, Some(ending)) => {
                world
                    .completion()
                    .join_locally(&self.view, ending == Ending::Silent && !world.memory.excludes());
                let pe = world.me();
                world.members.report(ProgressReport::Alone { pe, checkpoint, took });
            }
            (_, None) => {
                world.completion().join_all(&self.view);
                world.grouping().report_groups(checkpoint);
                if world.me() == Pe(0) {
                    let view = self.view.number;
                    world.members.report(ProgressReport::Resumed { checkpoint, view, took });
                }
            }
        }
    }

    /// Ends the job: the lost data cannot be recovered.
    pub(super) fn abort(&self, from: At) -> ! {
        match &self.results.verdict {
            Err(verdict) if from == At::Verdict => self.world.members.abort(&verdict.to_string()),
            _ if from == At::Verify => self.world.members.abort(&format!(
                "unrecoverable: {} lost before the first checkpoint",
                self.world.members.replaced_in(&self.view)
            )),
            _ => self.world.members.abort("unrecoverable: no PE that saw a checkpoint is left"),
        }
    }
}
