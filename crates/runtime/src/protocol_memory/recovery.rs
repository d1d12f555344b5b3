//! The steps of a recovery: from the check of the store to the resumed program.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Instant;

use raidshmem_core::inject::Point;
use raidshmem_core::message::ProgressReport;
use raidshmem_core::plan::Lost;
use raidshmem_core::protocol::driver::{Driver, OpProgress};
use raidshmem_core::protocol::operation::Op;
use raidshmem_core::protocol::{At, Call, Outcome};
use raidshmem_core::quantity::Pe;
use raidshmem_core::status::Ending;
use raidshmem_sys::lock;

use super::RealMemory;
use crate::checkpoint;
use crate::checkpoint::{pages, since};
use crate::recovery::{Changed, rebuild, restore, verify};

impl RealMemory<'_> {
    pub(super) fn restart(&mut self, driver: &Driver, op: Op) -> OpProgress {
        let (world, number) = (self.world, driver.number());
        let protection = &*Arc::clone(&self.protection);
        match op {
            Op::ForgetChanges => {
                *lock(&world.store.history) = None;
                pages::forget(&world.store);
            }
            Op::CheckStore => {
                self.verifying = Instant::now();
                let all = driver.checks() > 1;
                verify::verify(world, protection, number, all, &mut self.empty);
            }
            Op::ReadFindings => self.read_findings(),
            Op::NeedSnapshot if verify::misses_snapshot(world, protection, &self.findings) => {}
            Op::NeedSnapshot => {
                world.members.point(Point::Rebuild, number);
                let (_, place) = protection.place(world.me());
                let adopted = world.members.is_new() && !self.findings[place].empty;
                if adopted {
                    rebuild::report_adopted(world, number, self.len, self.verifying);
                }
                return OpProgress::Out(Outcome::Done);
            }
            Op::Decode => {
                let job = (&self.view, number, self.len);
                let found = (&self.findings[..], self.found.incomplete as usize);
                match rebuild::rebuild(world, protection, job, found) {
                    Ok((rebuilt, line)) => (self.rebuilt, self.line) = (Some(rebuilt), line),
                    Err(Changed) => return OpProgress::Out(Outcome::Changed),
                }
            }
            Op::Rebuilt => {
                let rebuilt = self.rebuilt.take().expect("set at Decode");
                rebuilt.report(world, protection, number, self.verifying);
            }
            Op::Restore => {
                let (line, view) = (self.line.take(), &self.view);
                match restore::restore(world, protection, view, line, number, self.len) {
                    Ok(coverage) => (self.len, self.coverage) = (coverage.len(), Some(coverage)),
                    Err(Changed) => return OpProgress::Out(Outcome::Changed),
                }
            }
            Op::NeedParity => {
                let (covered, checked) = (self.covered(), driver.checks() > 1);
                let findings = (&self.findings[..], checked);
                self.missing = restore::missing(world, protection, findings, covered, number);
                if self.missing == 0 {
                    world.members.point(Point::Reencode, number);
                    checkpoint::account(world, protection, self.len);
                    return OpProgress::Out(Outcome::Done);
                }
            }
            Op::EncodeMissing => {
                restore::reencode(world, protection, self.covered(), number, self.missing);
            }
            Op::Account => checkpoint::account(world, protection, self.len),
            Op::ResetWords => {
                world.barriers().reset_control();
                if !protection.mode.keeps_snapshot() && world.call_sites().has_part() {
                    world.sites.note_resumed(since::live(world));
                }
            }
            Op::Join => self.join(driver),
            _ => unreachable!("{op:?} at {:?}", driver.at()),
        }
        OpProgress::Done
    }

    /// Reads the findings of the own group's members, and checks if the group is lost.
    fn read_findings(&mut self) {
        let (world, protection) = (self.world, &*self.protection);
        self.len = self.found.snapshot_len() as usize;
        self.findings = verify::findings(world, protection, self.found.snapshot_len());
        let lost = verify::check(world, protection, &self.findings).err();
        let (shape, _) = protection.place(world.me());
        self.lost = lost.map(|lost| Lost::of(&lost, &shape.members));
    }

    fn join(&self, driver: &Driver) {
        let (world, checkpoint, took) = (self.world, driver.number(), self.begun.elapsed());
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
        match &self.verdict {
            Err(verdict) if from == At::Verdict => self.world.members.abort(&verdict.to_string()),
            _ if from == At::Verify => self.world.members.abort(&format!(
                "unrecoverable: {} lost before the first checkpoint",
                self.world.members.replaced_in(&self.view)
            )),
            _ => self.world.members.abort("unrecoverable: no PE that saw a checkpoint is left"),
        }
    }
}
