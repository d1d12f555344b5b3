//! The data of this PE in a recovery, from the check of the store to the restored memory.

#![forbid(unsafe_code)]

use std::time::Instant;

use raidshmem_core::inject::Point;
use raidshmem_core::plan::{Lost, StoreFinding};
use raidshmem_core::protocol::Outcome;
use raidshmem_core::protocol::brought::Found;
use raidshmem_core::protocol::driver::OpProgress;
use raidshmem_core::protocol::operation::Op;
use raidshmem_core::view::View;

use super::saving::Saving;
use super::scope::CheckpointScope;
use crate::checkpoint;
use crate::checkpoint::since;
use crate::recovery::{Changed, rebuild, restore, verify};

/// The data of this PE in a recovery.
pub(super) struct Restoring {
    verifying: Instant,
    /// True if the own store held nothing at the first look.
    empty: bool,
    /// The results of the members of the own group, by place.
    findings: Vec<StoreFinding>,
    /// The own group, if it is lost.
    lost: Option<Lost>,
    /// The checkpoint's bytes, if no snapshot is kept.
    line: Option<Vec<u8>>,
    rebuilt: Option<rebuild::Rebuilt>,
    /// The missing part of the own parity, a bit for each chunk.
    missing: u64,
}

impl Restoring {
    /// Begins a recovery that has checked nothing yet.
    pub fn begin() -> Restoring {
        Restoring {
            verifying: Instant::now(),
            empty: false,
            findings: Vec::new(),
            lost: None,
            line: None,
            rebuilt: None,
            missing: 0,
        }
    }

    /// Returns the own group, if it is lost.
    pub fn lost(&self) -> Option<Lost> {
        self.lost
    }

    /// Carries out an operation of a recovery, with everything checked if `all` is set. `found`
    /// holds the results of the checks on all PEs.
    pub fn carry_out(
        &mut self,
        scope: CheckpointScope,
        (op, all): (Op, bool),
        view: &View,
        found: &Found,
        saving: &mut Saving,
    ) -> OpProgress {
        let CheckpointScope { world, protection, number } = scope;
        match op {
            Op::ForgetChanges => checkpoint::forget_changes(world),
            Op::CheckStore => {
                self.verifying = Instant::now();
                verify::verify(world, protection, number, all, &mut self.empty);
            }
            Op::ReadFindings => self.read_findings(scope, found, saving),
            Op::NeedSnapshot => return self.need_snapshot(scope, saving.len),
            Op::Decode => {
                let job = (view, number, saving.len);
                let found = (&self.findings[..], found.incomplete as usize);
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
                let line = self.line.take();
                match restore::restore(world, protection, view, line, number, saving.len) {
                    Ok(coverage) => saving.restored(coverage),
                    Err(Changed) => return OpProgress::Out(Outcome::Changed),
                }
            }
            Op::NeedParity => return self.need_parity(scope, all, saving),
            Op::EncodeMissing => {
                restore::reencode(world, protection, saving.covered(), number, self.missing);
            }
            Op::Account => checkpoint::account(world, protection, saving.len),
            Op::ResetWords => {
                world.barriers().reset_control();
                if !protection.mode.keeps_snapshot() && world.call_sites().has_part() {
                    world.sites.note_resumed(since::live(world));
                }
            }
            _ => unreachable!("{op:?} in a recovery"),
        }
        OpProgress::Done
    }

    /// Reads the findings of the own group's members, and checks if the group is lost.
    fn read_findings(&mut self, scope: CheckpointScope, found: &Found, saving: &mut Saving) {
        let CheckpointScope { world, protection, .. } = scope;
        saving.len = found.snapshot_len() as usize;
        self.findings = verify::findings(world, protection, found.snapshot_len());
        let lost = verify::check(world, protection, &self.findings).err();
        let (shape, _) = protection.place(world.me());
        self.lost = lost.map(|lost| Lost::of(&lost, &shape.members));
    }

    /// Skips the rebuild if the own snapshot is here; reports one that was adopted.
    fn need_snapshot(&self, scope: CheckpointScope, len: usize) -> OpProgress {
        let CheckpointScope { world, protection, number } = scope;
        if verify::misses_snapshot(world, protection, &self.findings) {
            return OpProgress::Done;
        }
        world.members.point(Point::Rebuild, number);
        let (_, place) = protection.place(world.me());
        if world.members.is_new() && !self.findings[place].empty {
            rebuild::report_adopted(world, number, len, self.verifying);
        }
        OpProgress::Out(Outcome::Done)
    }

    /// Skips the encoding if the own parity is complete.
    fn need_parity(&mut self, scope: CheckpointScope, all: bool, saving: &Saving) -> OpProgress {
        let CheckpointScope { world, protection, number } = scope;
        let findings = (&self.findings[..], all);
        self.missing = restore::missing(world, protection, findings, saving.covered(), number);
        if self.missing != 0 {
            return OpProgress::Done;
        }
        world.members.point(Point::Reencode, number);
        checkpoint::account(world, protection, saving.len);
        OpProgress::Out(Outcome::Done)
    }
}
