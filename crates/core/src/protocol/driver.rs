//! The driver of checkpoint and recovery: which operation a PE carries out next.
//!
//! A [`Driver`] is a value. It walks the states of [`super::next`]; each state is a list of
//! operations ([`super::operation`]) that a [`Port`] carries out one at a time: that of the crate
//! `raidshmem` over real memory, the simulator and the model checker (`explore`). So the order of
//! operations stands once, and what every seed and every search tries of it is what runs.
//!
//! Invariants: no call of a port blocks: where a PE has to wait the port says so, and whoever runs
//! the driver asks again later. All that the driver remembers is in the value.
//!
//! Left out: how bytes move, how a PE waits, what people are told.

use super::operation::{Op, Path, list};
use super::{At, Call, Outcome, next};
use crate::mutant::{self, Mutant};
use crate::quantity::CheckpointNumber;
use crate::status::Ending;
use crate::store::phase::{Phase, Votes, decide, forward_too_early};

/// What is true of a PE at the begin of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A substitute that has not recovered yet.
    New,
    /// It knows of a loss.
    Faulted,
    /// It is behind, and the others have gone on.
    Late,
    /// Nothing of these.
    Well,
}

/// What the plan says of the findings of all PEs; the same on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// All that is lost can be rebuilt.
    Recoverable,
    /// Too much is lost, and a part of it is damaged.
    Damaged,
    /// Too much is lost.
    Unrecoverable,
}

/// How an operation went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpProgress {
    /// It is done.
    Done,
    /// A part of it is done; it goes on from there.
    Part,
    /// It has to wait; it is asked for again.
    Wait,
    /// It is done, and so is the state, with this outcome.
    Out(Outcome),
}

/// How far a step came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepResult {
    /// There is another one.
    Again,
    /// There is another one once something has changed.
    Wait,
    /// A state is left.
    Left(At, Outcome),
}

/// What a driver runs over: memory, views and peers of one PE.
pub trait Port {
    /// Carries out an operation of the driver, or a part of it. Does not block.
    fn carry_out(&mut self, driver: &Driver, op: Op) -> OpProgress;

    /// What is true of this PE at the begin of a checkpoint.
    fn standing(&mut self) -> Standing;
    /// True if the intents of all fit.
    fn agrees(&mut self, driver: &Driver) -> bool;
    /// Two snapshots are kept in turns.
    fn in_turns(&self) -> bool;
    /// Snapshots are kept at all.
    fn keeps_snapshot(&self) -> bool;
    /// True in a substitute that has not recovered yet.
    fn is_new(&self) -> bool;
    /// A substitute keeps the dead's live memory of this checkpoint beside the snapshot.
    fn is_beside(&self, number: CheckpointNumber) -> bool;
    /// The own phase.
    fn phase(&self) -> Option<Phase>;
    /// What the living of the adopted view vote, added up.
    fn votes(&self) -> Votes;
    /// The view shown is not the one joined.
    fn faulted(&self) -> bool;
    /// The view shown is not the one adopted.
    fn changed(&self) -> bool;
    /// What the plan says of the findings that were read.
    fn judgement(&self) -> Judgement;
    /// How other PEs came into `shmem_finalize`, if any did.
    fn ends(&self) -> Option<Ending>;
    /// True if this rule is broken on purpose.
    fn breaks(&self, rule: Mutant) -> bool {
        mutant::breaks(rule)
    }
}

/// One call of a program on its way through the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Driver {
    call: Call,
    at: At,
    path: Path,
    /// Operations of the list that are done; none is chosen yet at 0.
    done: u8,
    /// The checkpoint being made, or the one decided on.
    number: CheckpointNumber,
    /// How often the own store was checked in this call.
    checks: u32,
    /// Others are in `shmem_finalize`.
    ends: Option<Ending>,
}

impl Driver {
    /// A call that is about to begin, after checkpoint `agreed`.
    pub fn new(call: Call, agreed: CheckpointNumber) -> Driver {
        let (at, number) = match call {
            Call::Checkpoint => (At::Enter, agreed.next()),
            Call::Restart | Call::Finalize => (At::Whole, agreed),
        };
        Driver { call, at, path: Path::Usual, done: 0, number, checks: 0, ends: None }
    }

    /// The call.
    pub fn call(&self) -> Call {
        self.call
    }

    /// The state.
    pub fn at(&self) -> At {
        self.at
    }

    /// The checkpoint being made, or the one decided on.
    pub fn number(&self) -> CheckpointNumber {
        self.number
    }

    /// How others came into `shmem_finalize`, as far as this recovery found any there.
    pub fn ends(&self) -> Option<Ending> {
        self.ends
    }

    /// How often the own store was checked in this call, now included.
    pub fn checks(&self) -> u32 {
        self.checks
    }

    /// The operation that comes next; None at the begin of a state and at an end.
    pub fn op(&self) -> Option<Op> {
        let op = list(self.at, self.path).get(usize::from(self.done).checked_sub(1)?);
        op.copied()
    }

    /// Takes one step: chooses what a state does, or carries out an operation.
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

    /// How a state ends whose list is done.
    fn outcome(&self) -> Outcome {
        match self.path {
            Path::Refused => Outcome::Refused,
            Path::Damaged => Outcome::Changed,
            _ => Outcome::Done,
        }
    }

    /// What the state does, or its outcome if it does nothing.
    fn choose(&mut self, port: &mut impl Port) -> Result<Path, Outcome> {
        let serves = self.call == Call::Finalize && !port.breaks(Mutant::EndGoesBack);
        match self.at {
            At::Enter => match port.standing() {
                Standing::New => return Err(Outcome::Lost),
                Standing::Faulted => return Err(Outcome::Changed),
                Standing::Late => return Err(Outcome::Behind),
                Standing::Well => {}
            },
            At::Agree if !port.agrees(self) => return Ok(Path::Refused),
            At::BarrierA if port.breaks(Mutant::NoBarrierA) => return Err(Outcome::Done),
            At::Encode | At::Copy if port.in_turns() => return Ok(Path::InTurns),
            At::MeetSettling if self.call == Call::Checkpoint => return Ok(Path::Report),
            At::Finish => return Ok(self.finish(port)),
            At::Verify if self.number == CheckpointNumber::START => return Err(Outcome::Lost),
            At::Verify => self.checks += 1,
            At::Verdict => match port.judgement() {
                Judgement::Recoverable => return Err(Outcome::Done),
                // What else is damaged is not known yet.
                Judgement::Damaged if self.checks == 1 => return Ok(Path::Damaged),
                Judgement::Damaged | Judgement::Unrecoverable => return Err(Outcome::Lost),
            },
            At::Rebuild | At::Restore | At::Reencode if serves => return Err(Outcome::Done),
            At::Rebuild | At::Restore if !port.keeps_snapshot() => return Ok(Path::NoSnapshot),
            At::Reencode if port.breaks(Mutant::ParityNotMadeAnew) => return Err(Outcome::Done),
            At::Reencode if self.ends.is_some() && !port.breaks(Mutant::ParityOfTheEnd) => {
                return Err(Outcome::Done);
            }
            _ => {}
        }
        Ok(Path::Usual)
    }

    /// How the checkpoint decided on comes to be the own one.
    fn finish(&self, port: &impl Port) -> Path {
        let target = self.number;
        match (port.is_new(), port.phase()) {
            (_, None) => Path::Nothing,
            (true, Some(Phase::Encoded(n))) if n == target && port.is_beside(n) => Path::Brings,
            (true, Some(phase)) if phase.has(target) => Path::Inherits,
            (true, Some(_)) => Path::Forfeits,
            (false, Some(Phase::Encoded(n) | Phase::Copying(n))) if n == target => Path::Copies,
            (false, Some(_)) => Path::Usual,
        }
    }

    /// Operations that only look and decide.
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
                // Memory is wiped only after this node has shown that it is lost.
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
            // The list goes on behind it.
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
    /// A driver as a model keeps it: at the begin of a state, or before the first operation of it
    /// that `pauses` names.
    pub fn restored(
        (call, at): (Call, At),
        number: CheckpointNumber,
        ends: Option<Ending>,
        is_new: bool,
        pauses: Option<fn(Op) -> bool>,
    ) -> Driver {
        let path = match at {
            At::Finish if is_new => Path::Brings,
            At::Finish => Path::Copies,
            At::MeetSettling if call == Call::Checkpoint => Path::Report,
            _ => Path::Usual,
        };
        let mut driver = Driver { call, at, path, done: 0, number, checks: 0, ends };
        if let Some(pauses) = pauses {
            let before = list(driver.at, driver.path).iter().position(|&op| pauses(op));
            driver.done = before.expect("the state has such an operation") as u8 + 1;
        }
        driver
    }
}
