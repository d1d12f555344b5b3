//! The driver of checkpoint and recovery, which selects the next operation of a PE.
//!
//! A [`Driver`] is a value. It walks the states of [`super::next`]; each state is a list of
//! operations ([`super::operation`]) that a [`Port`] executes one at a time: the crate `raidshmem`
//! on real memory, the simulator, and the model checker (`explore`). So the order of operations is
//! defined once, and every seed and every search tests the code that runs.
//!
//! Invariants: no call of a port blocks; a port that must wait reports that, and the caller of the
//! driver retries later. The complete state of the driver is in the value.
//!
//! Left out: data movement, waiting, messages to people.

use super::operation::{Op, Path, Posted, list};
use super::{At, Call, Outcome, next};
use crate::mutant::{self, Mutant};
use crate::quantity::CheckpointNumber;
use crate::status::Ending;
use crate::store::phase::{Phase, Votes, decide, forward_too_early};

/// The condition of a PE at the beginning of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryStatus {
    /// A substitute that has not recovered yet.
    New,
    /// It knows of a loss.
    Faulted,
    /// It is behind, and the other PEs have moved on.
    Late,
    /// None of these.
    Well,
}

/// The verdict of the plan on the findings of all PEs; equal on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// All that is lost can be rebuilt.
    Recoverable,
    /// Too much is lost, and a part of it is corrupt.
    Damaged,
    /// Too much is lost.
    Unrecoverable,
}

/// The progress of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpProgress {
    /// The operation is complete.
    Done,
    /// A part of the operation is complete; the next call continues it.
    Part,
    /// The operation must wait; the driver will repeat it.
    Wait,
    /// The operation and its state are complete, with this outcome.
    Out(Outcome),
}

/// The result of a step of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepResult {
    /// There is another step.
    Again,
    /// There is another step once something has changed.
    Wait,
    /// The driver left this state, with this outcome.
    Left(At, Outcome),
}

/// The environment of a driver: memory, views and peers of one PE.
pub trait Port {
    /// Executes an operation of the driver, or a part of it. Does not block.
    fn carry_out(&mut self, driver: &Driver, op: Op) -> OpProgress;

    /// Returns the condition of this PE at the beginning of a checkpoint.
    fn standing(&mut self) -> EntryStatus;
    /// True if the intents of all PEs fit.
    fn agrees(&mut self, driver: &Driver) -> bool;
    /// True if two snapshots are kept and used in turn.
    fn in_turns(&self) -> bool;
    /// True if snapshots are kept.
    fn keeps_snapshot(&self) -> bool;
    /// True for a substitute that has not recovered yet.
    fn is_new(&self) -> bool;
    /// True if a substitute keeps its predecessor's live memory as a shadow snapshot of this
    /// checkpoint.
    fn is_shadowed(&self, number: CheckpointNumber) -> bool;
    /// Returns the phase of this PE.
    fn phase(&self) -> Option<Phase>;
    /// Returns the combined votes of the living PEs of the adopted view.
    fn votes(&self) -> Votes;
    /// True if the published view is not the joined one.
    fn faulted(&self) -> bool;
    /// True if the published view is not the adopted one.
    fn changed(&self) -> bool;
    /// Returns the verdict of the plan on the findings that were read.
    fn judgement(&self) -> Judgement;
    /// Returns how other PEs entered `shmem_finalize`, if any did.
    fn ends(&self) -> Option<Ending>;
    /// True if this rule is broken on purpose.
    fn breaks(&self, rule: Mutant) -> bool {
        mutant::breaks(rule)
    }
}

/// The passage of one call of a program through the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Driver {
    call: Call,
    at: At,
    path: Path,
    /// Number of completed operations of the list, plus 1; 0 before a list is chosen.
    done: u8,
    /// The checkpoint being made, or the one decided on.
    number: CheckpointNumber,
    /// Number of checks of this PE's store in this call.
    checks: u32,
    /// Set if other PEs are in `shmem_finalize`.
    ends: Option<Ending>,
    /// True if it encodes a restored checkpoint again.
    heals: bool,
}

impl Driver {
    /// Returns a driver for a call that is about to begin, after checkpoint `agreed`.
    pub fn new(call: Call, agreed: CheckpointNumber) -> Driver {
        let (at, number) = match call {
            Call::Checkpoint | Call::Copy => (At::Enter, agreed.next()),
            Call::Protect => (At::Encode, agreed.next()),
            Call::Restart | Call::Finalize => (At::Whole, agreed),
        };
        Driver { call, at, path: Path::Usual, done: 0, number, checks: 0, ends: None, heals: false }
    }

    /// Returns a driver that encodes checkpoint `agreed` again, in new groups. Every PE has just
    /// resumed from it, so none is behind, and no call of the program has to be awaited.
    pub fn heal(agreed: CheckpointNumber) -> Driver {
        let number = agreed.healed();
        Driver { at: At::Intend, number, heals: true, ..Driver::new(Call::Checkpoint, agreed) }
    }

    /// Returns the phase that this PE posts.
    pub fn phase(&self, posted: Posted) -> Option<Phase> {
        posted.phase(self.number, self.heals)
    }

    /// Returns the call.
    pub fn call(&self) -> Call {
        self.call
    }

    /// Returns the state.
    pub fn at(&self) -> At {
        self.at
    }

    /// Returns the checkpoint being made, or the one decided on.
    pub fn number(&self) -> CheckpointNumber {
        self.number
    }

    /// Returns how other PEs entered `shmem_finalize`, if this recovery found any there.
    pub fn ends(&self) -> Option<Ending> {
        self.ends
    }

    /// Returns true if parity is computed from snapshots: live memory has changed since.
    pub fn reads_snapshots(&self, port: &impl Port) -> bool {
        self.call == Call::Protect && !port.breaks(Mutant::LiveProtected)
    }

    /// Returns the number of checks of this PE's store in this call, the current one included.
    pub fn checks(&self) -> u32 {
        self.checks
    }

    /// Returns the next operation; None at the beginning of a state and at an end.
    pub fn op(&self) -> Option<Op> {
        let op = list(self.at, self.path).get(usize::from(self.done).checked_sub(1)?);
        op.copied()
    }

    /// Takes one step: chooses the list of a state, or executes an operation.
    pub fn step(&mut self, port: &mut impl Port) -> StepResult {
        if self.done == 0 {
            self.done = 1;
            return match self.choose(port) {
                Ok(path) => {
                    self.path = path;
                    StepResult::Again
                }
                Err(outcome) => self.leave(outcome),
            };
        }
        let Some(op) = self.op() else { return self.leave(self.outcome()) };
        let progress = match self.decides(port, op) {
            Some(progress) => progress,
            None => port.carry_out(self, op),
        };
        match progress {
            OpProgress::Done => self.done += 1,
            OpProgress::Part => {}
            OpProgress::Wait => return StepResult::Wait,
            OpProgress::Out(outcome) => return self.leave(outcome),
        }
        StepResult::Again
    }

    /// Leaves the state with this outcome.
    fn leave(&mut self, outcome: Outcome) -> StepResult {
        let from = self.at;
        self.at = next(self.call, from, outcome).expect("an outcome of the table");
        (self.path, self.done) = (Path::Usual, 0);
        StepResult::Left(from, outcome)
    }

    /// Returns the outcome of a state whose list is complete.
    fn outcome(&self) -> Outcome {
        match self.path {
            Path::Refused => Outcome::Refused,
            Path::Damaged => Outcome::Changed,
            _ => Outcome::Done,
        }
    }

    /// Chooses the list of the state, or returns the outcome of a state that has nothing to do.
    fn choose(&mut self, port: &mut impl Port) -> Result<Path, Outcome> {
        let serves = self.call == Call::Finalize && !port.breaks(Mutant::EndRollsBack);
        match self.at {
            At::Enter => match port.standing() {
                EntryStatus::New => return Err(Outcome::Lost),
                EntryStatus::Faulted => return Err(Outcome::Changed),
                EntryStatus::Late => return Err(Outcome::Behind),
                EntryStatus::Well => {}
            },
            At::Agree if !port.agrees(self) => return Ok(Path::Refused),
            At::BarrierA if port.breaks(Mutant::NoBarrierA) => return Err(Outcome::Done),
            At::BarrierCopied if port.breaks(Mutant::CopiesNotMet) => return Err(Outcome::Done),
            At::Encode | At::Publish | At::Copy if self.call == Call::Protect => {
                return Ok(Path::Ahead);
            }
            At::Encode | At::Copy if port.in_turns() => return Ok(Path::InTurns),
            At::MeetSettling if !self.call.recovers() => return Ok(Path::Report),
            At::Finish => return Ok(self.finish(port)),
            At::Verify if self.number == CheckpointNumber::START => return Err(Outcome::Lost),
            At::Verify => self.checks += 1,
            At::Verdict => match port.judgement() {
                Judgement::Recoverable => return Err(Outcome::Done),
                // Further damage may still be undetected.
                Judgement::Damaged if self.checks == 1 => return Ok(Path::Damaged),
                Judgement::Damaged | Judgement::Unrecoverable => return Err(Outcome::Lost),
            },
            At::Rebuild | At::Restore | At::Reencode if serves => return Err(Outcome::Done),
            At::Rebuild | At::Restore if !port.keeps_snapshot() => return Ok(Path::NoSnapshot),
            At::Reencode if port.breaks(Mutant::ParityNotRecomputed) => return Err(Outcome::Done),
            At::Reencode if self.ends.is_some() && !port.breaks(Mutant::ParityOfTheEnd) => {
                return Err(Outcome::Done);
            }
            _ => {}
        }
        Ok(Path::Usual)
    }

    /// Chooses how this PE reaches the checkpoint decided on.
    fn finish(&self, port: &impl Port) -> Path {
        let target = self.number;
        match (port.is_new(), port.phase()) {
            (_, None) => Path::Nothing,
            (true, Some(Phase::Encoded(n) | Phase::Healed(n)))
                if n == target && port.is_shadowed(n) =>
            {
                Path::Brings
            }
            (true, Some(phase)) if phase.has(target) => Path::Inherits,
            (true, Some(_)) => Path::Forfeits,
            (false, Some(phase)) if phase.encoded() == Some(target) => Path::Copies,
            (false, Some(Phase::Protected(n)))
                if n == target && port.breaks(Mutant::CopiedAgain) =>
            {
                Path::Copies
            }
            (false, Some(_)) => Path::Usual,
        }
    }

    /// Executes operations that only check and decide; None for the others.
    fn decides(&mut self, port: &mut impl Port, op: Op) -> Option<OpProgress> {
        let unless = |gone: bool| match gone && !port.breaks(Mutant::ViewNotChecked) {
            true => OpProgress::Out(Outcome::Changed),
            false => OpProgress::Done,
        };
        Some(match op {
            Op::StillJoined => unless(port.faulted()),
            Op::StillAdopted => unless(port.changed()),
            Op::Decide => match self.decide(port) {
                Some(target) => {
                    self.number = target;
                    OpProgress::Done
                }
                // A lost node's memory is wiped only after this node has published the loss.
                None if port.changed() => OpProgress::Out(Outcome::Changed),
                None => OpProgress::Out(Outcome::Lost),
            },
            Op::FindApart if !self.call.recovers() => OpProgress::Done,
            Op::WriteDecision if port.breaks(Mutant::DecisionNotWritten) => OpProgress::Done,
            Op::ReadFindings => {
                let progress = port.carry_out(self, op);
                self.ends = port.ends();
                progress
            }
            // The list continues after the operation.
            Op::Arrive | Op::Await
                if self.at == At::BarrierB && port.breaks(Mutant::NoBarrierB) =>
            {
                OpProgress::Done
            }
            _ => return None,
        })
    }

    fn decide(&self, port: &impl Port) -> Option<CheckpointNumber> {
        let votes = port.votes();
        match port.breaks(Mutant::ForwardTooEarly) {
            false => decide(&votes),
            true => forward_too_early(&votes),
        }
    }
}

#[cfg(test)]
impl Driver {
    /// Restores the driver of a model: at the beginning of a state, or before its first operation
    /// for which `pauses` is true.
    pub fn restored(
        (call, at): (Call, At),
        (number, heals): (CheckpointNumber, bool),
        ends: Option<Ending>,
        is_new: bool,
        pauses: Option<fn(Op) -> bool>,
    ) -> Driver {
        let path = match at {
            At::Finish if is_new => Path::Brings,
            At::Finish => Path::Copies,
            At::MeetSettling if !call.recovers() => Path::Report,
            At::Encode | At::Publish | At::Copy if call == Call::Protect => Path::Ahead,
            _ => Path::Usual,
        };
        let mut driver = Driver { call, at, path, done: 0, number, checks: 0, ends, heals };
        if let Some(pauses) = pauses {
            let before = list(driver.at, driver.path).iter().position(|&op| pauses(op));
            driver.done = before.expect("the state has such an operation") as u8 + 1;
        }
        driver
    }
}
