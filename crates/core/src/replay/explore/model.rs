//! The state that the explorer steps through: PEs, their memory, their logs, and what each node
//! shows.
//!
//! Every call has the steps in which it is visible: the entry, the check, the write (two for
//! bytes), the mark. The model keeps the memory of each incarnation: a PE whose node does not show
//! a loss yet accesses the memory of the dead process. Left out: the effects of a lost node
//! (`nodes.rs`).

use std::fmt::{self, Display, Formatter};

use super::broken::Broken;
use super::program::{Op, Program, Value};
use crate::replay::handover::Stage;
use crate::replay::log::{Arrival, Asked, Effect, EntryProgress, Event, LogEntry, Time};
use crate::replay::merge::Merge;
use crate::replay::own::Replay;

/// Number of words of a PE.
pub(super) const WORDS: usize = 3;

pub(super) type Words = [u64; WORDS];
pub(super) type Bytes = [u64; 2];
pub(super) type Chain = Vec<LogEntry<Bytes>>;

/// The contribution of a PE to a meeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Came {
    Barrier,
    Broadcast(u64),
    Sum(u64),
    Checkpoint,
    /// A copy of its memory is complete.
    Copied,
}

/// The step within a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum At {
    Ready,
    /// The entry with this index of the chain is appended; the next step checks the stage.
    Logged {
        to: usize,
        index: usize,
    },
    /// It executes the entry on the memory of an incarnation.
    Writes {
        to: usize,
        index: usize,
        on: usize,
        half: bool,
    },
    Wrote {
        to: usize,
        index: usize,
        on: usize,
        old: u64,
    },
    /// It waits for the substitute.
    Waits {
        to: usize,
        index: usize,
    },
    Reads {
        from: usize,
        on: usize,
    },
    /// It has arrived at the meeting with this number.
    Meets {
        number: usize,
    },
    /// All have arrived, and it reads their contributions; `shown` are the losses that its node
    /// showed before.
    Gathers {
        number: usize,
        shown: Vec<usize>,
    },
    Query {
        number: usize,
    },
    Copied,
    Closes {
        number: usize,
    },
    /// Only with a broken rule: the operation happened, and is logged next.
    LogsLate {
        to: usize,
        effect: Effect<Bytes>,
        old: u64,
    },
    /// Only with a broken rule: it has read the chains, and drains next.
    TookOver(Box<At>),
    /// Only with a broken rule: it has drawn the time of a wait.
    Drew {
        time: Time,
    },
}

/// The log of a PE, as seen by other PEs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum LogState {
    There,
    /// Its node is lost, and its memory is still unchanged.
    Lost,
    Wiped,
}

/// The state of a PE.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PeState {
    pub call: usize,
    pub at: At,
    pub registers: [u64; 2],
    /// The last time that it drew.
    pub time: Time,
    /// Memory, and the stage shown to origins, by incarnation.
    pub memories: Vec<Words>,
    pub stages: Vec<Stage>,
    /// Number of losses of each PE that its node shows.
    pub shown: Vec<usize>,
    /// True if it has only logged an operation, and released no PE since.
    pub owes: bool,
    /// Chains by target.
    pub chains: Vec<Chain>,
    pub events: Vec<Event>,
    pub meetings: Vec<Arrival<Came>>,
    pub met: usize,
    /// Number of checkpoints that it has left.
    pub interval: usize,
    /// Memory and next call of each checkpoint.
    pub saved: Vec<(Words, usize)>,
    /// True if it drains, and has read the chains.
    pub took_over: bool,
    pub log: LogState,
    /// Number of incarnations whose memory was lost with a node.
    pub lost_memories: usize,
    /// True if the next PE keeps a replica of the log.
    pub has_replica: bool,
    /// True for a substitute that saw the logs of all PEs.
    pub has_begun: bool,
    /// State of a substitute that is not live yet.
    pub replay: Option<(Replay, Merge)>,
}

/// The state of the job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct JobState {
    pub pes: Vec<PeState>,
    pub time: u64,
    pub deaths: u8,
    /// True if all PEs roll back.
    pub global: bool,
}

/// The parameters of a search.
#[derive(Debug, Clone)]
pub(super) struct Model {
    pub program: Program,
    pub deaths: u8,
    /// True if nodes are lost, too.
    pub nodes: bool,
    pub broken: Broken,
}

impl Display for Model {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Model { program, deaths, nodes, broken } = self;
        let what = if *nodes { "deaths and lost nodes" } else { "deaths" };
        write!(f, "{}, {} PEs, {deaths} {what}", program.name, program.pes.len())?;
        if *broken == Broken::Nothing { Ok(()) } else { write!(f, ", {broken:?}") }
    }
}

impl JobState {
    /// Returns the time of a step that gives a PE no information: the next one of its own, behind
    /// the clock.
    pub(super) fn next(&mut self, me: usize) -> Time {
        self.time += 1;
        let time = &mut self.pes[me].time;
        time.0 += 1;
        *time
    }

    /// Returns the clock's time for a step that gives a PE information: it may know everything with
    /// a smaller time.
    pub(super) fn learns(&mut self, me: usize) -> Time {
        self.time += 1;
        self.pes[me].time = Time(self.time);
        Time(self.time)
    }

    /// Returns the number of the current incarnation.
    pub(super) fn incarnation(&self, pe: usize) -> usize {
        self.pes[pe].memories.len() - 1
    }

    pub(super) fn memory(&mut self, pe: usize) -> &mut Words {
        self.pes[pe].memories.last_mut().expect("there is the first")
    }

    pub(super) fn all_show(&self) -> bool {
        let shows =
            |pe: &PeState| (0..self.pes.len()).all(|of| pe.shown[of] == self.incarnation(of));
        self.pes.iter().all(shows)
    }

    /// True if all PEs have arrived at the meeting with this number.
    pub(super) fn all_met(&self, number: usize) -> bool {
        let came = |pe: &PeState| pe.log != LogState::Wiped && pe.met + pe.meetings.len() > number;
        self.pes.iter().all(came)
    }

    /// Returns the contribution of the call to its meeting.
    pub(super) fn brings(&mut self, me: usize, op: Op) -> Came {
        match op {
            Op::Broadcast { root, from, .. } if root == me => {
                Came::Broadcast(self.memory(me)[from])
            }
            Op::Broadcast { .. } => Came::Broadcast(0),
            Op::Sum { from, .. } => Came::Sum(self.memory(me)[from]),
            Op::Checkpoint => Came::Checkpoint,
            _ => Came::Barrier,
        }
    }

    /// Records the arrival of a PE at its next meeting, and returns the number of the meeting.
    pub(super) fn arrives(&mut self, me: usize, what: Came) -> usize {
        let time = self.next(me);
        self.pes[me].meetings.push(Arrival { time, what });
        self.pes[me].met + self.pes[me].meetings.len() - 1
    }

    pub(super) fn is_over(&self, program: &Program) -> bool {
        let over = |(pe, calls): (&PeState, &Vec<Op>)| {
            pe.call == calls.len() && pe.at == At::Ready && pe.replay.is_none()
        };
        self.pes.iter().zip(&program.pes).all(over)
    }

    /// Completes the call, and keeps the value that an operation found.
    pub(super) fn returns(&mut self, me: usize, op: Op, found: u64) {
        let pe = &mut self.pes[me];
        match op {
            Op::Atomic { into: Some(into), .. }
            | Op::Get { into, .. }
            | Op::Test { into, .. }
            | Op::Load { into, .. } => pe.registers[into] = found,
            _ => {}
        }
        (pe.call, pe.at) = (pe.call + 1, At::Ready);
    }
}

impl Model {
    pub(super) fn first(&self) -> JobState {
        let n_pes = self.program.pes.len();
        let pe = PeState {
            call: 0,
            at: At::Ready,
            registers: [0; 2],
            time: Time(0),
            memories: vec![[0; WORDS]],
            stages: vec![Stage::Direct],
            shown: vec![0; n_pes],
            owes: false,
            chains: vec![Vec::new(); n_pes],
            events: Vec::new(),
            meetings: Vec::new(),
            met: 0,
            interval: 0,
            saved: vec![([0; WORDS], 0)],
            took_over: false,
            log: LogState::There,
            lost_memories: 0,
            has_replica: self.nodes,
            has_begun: false,
            replay: None,
        };
        JobState { pes: vec![pe; n_pes], time: 0, deaths: self.deaths, global: false }
    }

    pub(super) fn breaks(&self, rule: Broken) -> bool {
        self.broken == rule
    }

    /// Collects all next states, the steps of PEs and nodes first; returns the number of those.
    pub(super) fn successors(
        &self,
        state: &JobState,
        next: &mut Vec<JobState>,
    ) -> Result<usize, String> {
        next.clear();
        for me in 0..state.pes.len() {
            let mut after = state.clone();
            if self.step(&mut after, me)? {
                next.push(after);
            }
            for of in (0..state.pes.len()).filter(|&of| of != me) {
                if state.pes[me].shown[of] < state.incarnation(of) {
                    let mut after = state.clone();
                    after.pes[me].shown[of] += 1;
                    next.push(after);
                }
            }
            if state.pes[me].log == LogState::Lost && self.may_wipe(state, me) {
                let mut after = state.clone();
                after.wipe(me);
                next.push(after);
            }
        }
        let moves = next.len();
        if state.deaths > 0 && !state.is_over(&self.program) {
            for &victim in &self.program.victims {
                let mut after = state.clone();
                self.kill(&mut after, victim);
                next.push(after);
                if self.nodes {
                    let mut after = state.clone();
                    self.lose_node(&mut after, victim);
                    next.push(after);
                }
            }
        }
        Ok(moves)
    }

    /// Makes one step of a PE; false if it must wait.
    fn step(&self, s: &mut JobState, me: usize) -> Result<bool, String> {
        if let At::TookOver(at) = s.pes[me].at.clone() {
            self.goes_live(s, me);
            s.pes[me].at = *at;
            return Ok(true);
        }
        if s.pes[me].replay.is_some() && !s.pes[me].has_begun {
            if !self.has_its_logs(s, me) {
                return Ok(self.log_comes_back(s, me));
            }
            s.pes[me].has_begun = true;
        }
        let Some(&op) = self.program.pes[me].get(s.pes[me].call) else {
            return self.end(s, me);
        };
        match s.pes[me].at.clone() {
            At::Ready if s.pes[me].replay.is_some() => self.replays(s, me, op),
            At::Ready => Ok(self.calls(s, me, op)),
            At::Logged { to, index } => Ok(self.looks(s, me, op, (to, index), true)),
            At::Waits { to, index } => Ok(self.looks(s, me, op, (to, index), false)),
            At::Writes { to, index, on, half } => Ok(self.writes(s, me, (to, index), on, half)),
            At::Wrote { to, index, on, .. }
                if matches!(op, Op::Atomic { .. })
                    && s.may_be_wiped(me, to, on)
                    && !self.breaks(Broken::FoundInWiped) =>
            {
                s.global = !self.breaks(Broken::DoneInWipedAgain);
                s.pes[me].chains[to][index].progress = EntryProgress::Begun;
                s.pes[me].at = At::Logged { to, index };
                Ok(true)
            }
            At::Wrote { to, index, old, .. } => {
                let fetches = matches!(op, Op::Atomic { into: Some(_), .. });
                let seen = if fetches { s.learns(me) } else { Time(0) };
                let entry = &mut s.pes[me].chains[to][index];
                (entry.progress, entry.seen) = (EntryProgress::Done { old }, seen);
                s.returns(me, op, old);
                Ok(true)
            }
            At::Reads { from, on }
                if s.may_be_wiped(me, from, on) && !self.breaks(Broken::ReadInWiped) =>
            {
                s.pes[me].at = At::Ready;
                Ok(true)
            }
            At::Reads { from, on } => {
                let Op::Get { at, .. } = op else { unreachable!("a get reads") };
                let outcome = s.pes[from].memories[self.incarnation_used(s, from, on)][at];
                let event = Event { asked: Asked::Get, outcome, until: Time(0) };
                s.pes[me].events.push(event);
                s.returns(me, op, outcome);
                Ok(true)
            }
            At::Meets { number } if self.nodes => self.gathers(s, me, op, number),
            At::Meets { number } => self.leaves(s, me, op, number),
            At::Gathers { number, shown } => self.reads_all(s, me, op, (number, shown)),
            At::Query { .. } | At::Copied | At::Closes { .. } => self.checkpoints(s, me),
            At::LogsLate { to, effect, old } => {
                let time = s.next(me);
                let progress = EntryProgress::Done { old };
                let entry = LogEntry { time, effect, progress, seen: time };
                s.pes[me].chains[to].push(entry);
                s.returns(me, op, old);
                Ok(true)
            }
            At::Drew { time } => Ok(self.sees(s, me, op, Some(time))),
            At::TookOver(_) => unreachable!("it is above"),
        }
    }

    /// Returns the target and the effect of an operation.
    pub(super) fn effect(&self, s: &JobState, me: usize, op: Op) -> Option<(usize, Effect<Bytes>)> {
        let value = |value: Value| match value {
            Value::Just(value) => value,
            Value::Of { register, plus } => s.pes[me].registers[register] + plus,
        };
        Some(match op {
            Op::Put { to, at, value: v } => (to, Effect::Assign { at, value: value(v) }),
            Op::Bulk { to, at, value: v } => {
                (to, Effect::Bulk { at, bytes: [value(v), value(v) + 1] })
            }
            Op::Atomic { to, at, change, value: v, .. } => {
                (to, Effect::Atomic { at, change: change.with(value(v)) })
            }
            _ => return None,
        })
    }
}
