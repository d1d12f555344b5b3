//! The model: memory, views and deaths around the protocol's table.

use raidshmem_codec::stripe::{Layout, Scheme};

use crate::protocol::{At, Call, Outcome, meeting, next};
use crate::recovery::plan::{self, Finding};
use crate::store::phase::{Phase, Vote, decide};

/// Most PEs of a model.
const MOST: usize = 4;
/// Checkpoint that exists at the beginning.
const FIRST: u8 = 1;

/// A rule broken on purpose, to test the checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The real protocol.
    Nothing,
    /// The new parity overwrites the agreed one.
    SlotReused,
    /// Forward as soon as one survivor has encoded.
    ForwardTooEarly,
    /// Encoding is believed without looking at the view.
    ViewNotChecked,
    /// A lost node's memory is wiped before all have seen that it is lost.
    WipedTooEarly,
    /// The program hears of a fault before the checkpoint is settled.
    NoSettleBeforeReport,
    /// A PE that has gone on to a later view counts as having met in an earlier one.
    LaterViewsCount,
    /// A written decision is not looked at.
    DecisionForgotten,
}

/// How a job of the model may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All PEs made the last checkpoint.
    Finished,
    /// All living PEs said the verdict, or none is left.
    Condemned,
    /// A PE was lost when another had finished: the launcher ends the job by name.
    TooLate,
}

/// Bytes, as far as the protocol cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Bytes {
    Void,
    /// Sealed as this checkpoint; good if they really are.
    Sealed(u8, bool),
}

impl Bytes {
    fn is(self, number: u8) -> bool {
        matches!(self, Bytes::Sealed(n, _) if n == number)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Pe {
    alive: bool,
    node_lost: bool,
    finished: bool,
    condemned: bool,
    // the process
    call: Call,
    at: Option<At>,
    middle: bool,
    number: u8,
    agreed: u8,
    view: u8,
    joined: u8,
    shown: u8,
    epoch: u8,
    good: bool,
    lost: bool,
    // its memory
    live: Option<u8>,
    phase: Option<(u8, u8)>,
    decided: Option<u8>,
    step: (u8, u8),
    snapshot: Bytes,
    slots: [Bytes; 2],
    findings: (bool, bool),
}

/// One state of the whole job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pes: Vec<Pe>,
    /// Bit per PE alive, by view number; view 0 is not used.
    views: Vec<u8>,
    gate: (u8, u8),
    deaths: u8,
    /// PEs lost since redundancy was whole.
    since_whole: u8,
}

/// A job's size, how much may die, and what is broken.
#[derive(Debug)]
pub struct Model {
    pes: usize,
    parity: usize,
    deaths: u8,
    /// The checkpoint after which a PE is finished.
    last: u8,
    broken: Broken,
    layout: Layout,
}

impl std::fmt::Display for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Model { pes, parity, deaths, last, .. } = self;
        write!(f, "{pes} PEs, parity {parity}, {deaths} deaths, to checkpoint {last}")
    }
}

fn phase_of((kind, number): (u8, u8)) -> Phase {
    let n = u64::from(number);
    [Phase::Agreed(n), Phase::Entering(n), Phase::Encoded(n), Phase::Copying(n)][kind as usize]
}
const AGREED: u8 = 0;
const ENTERING: u8 = 1;
const ENCODED: u8 = 2;
const COPYING: u8 = 3;

type Step = Result<Option<Outcome>, String>;

impl Model {
    pub fn new(pes: usize, parity: usize, deaths: u8, last: u8, broken: Broken) -> Model {
        assert!(pes <= MOST);
        let layout = Layout::new(Scheme::Rs { parity }, pes).expect("a legal shape");
        Model { pes, parity, deaths, last, broken, layout }
    }

    fn slot(&self, number: u8) -> usize {
        if self.broken == Broken::SlotReused { 0 } else { usize::from(number) % 2 }
    }

    pub fn first(&self) -> State {
        let mut slots = [Bytes::Void; 2];
        slots[self.slot(FIRST)] = Bytes::Sealed(FIRST, true);
        let pe = Pe {
            alive: true,
            node_lost: false,
            finished: false,
            condemned: false,
            call: Call::Checkpoint,
            at: None,
            middle: false,
            number: FIRST,
            agreed: FIRST,
            view: 1,
            joined: 1,
            shown: 1,
            epoch: 0,
            good: false,
            lost: false,
            live: Some(FIRST),
            phase: Some((AGREED, FIRST)),
            decided: None,
            step: (0, 0),
            snapshot: Bytes::Sealed(FIRST, true),
            slots,
            findings: (false, false),
        };
        State {
            pes: vec![pe; self.pes],
            views: vec![0, (1 << self.pes) - 1],
            gate: (0, 0),
            deaths: self.deaths,
            since_whole: 0,
        }
    }

    /// All states one step away. The error says which promise a step breaks.
    pub fn successors(&self, state: &State, out: &mut Vec<State>) -> Result<(), String> {
        if state.too_late() {
            return Ok(());
        }
        for p in 0..self.pes {
            let pe = &state.pes[p];
            if pe.alive && pe.shown < state.current() {
                let mut next = state.clone();
                next.pes[p].shown += 1;
                out.push(next);
            }
            if pe.alive && !pe.finished && !pe.condemned {
                self.process(state, p, out).map_err(|error| format!("{error}\n{state:#?}"))?;
            }
            self.launcher(state, p, out);
        }
        Ok(())
    }

    /// How the job ended; anything else is a hang.
    pub fn ended(&self, state: &State) -> Result<End, String> {
        let living = || state.pes.iter().filter(|pe| pe.alive);
        if state.too_late() {
            Ok(End::TooLate)
        } else if living().all(|pe| pe.condemned) {
            Ok(End::Condemned)
        } else if living().all(|pe| pe.finished) {
            Ok(End::Finished)
        } else {
            Err(format!("no wait for ever, one verdict: nothing moves here\n{state:#?}"))
        }
    }

    // ---- deaths and substitutes -----------------------------------------------------------------

    fn launcher(&self, state: &State, p: usize, out: &mut Vec<State>) {
        let over = state.pes.iter().any(|pe| pe.alive && (pe.finished || pe.condemned));
        if over || state.pes.iter().all(|pe| !pe.alive) {
            return; // the launcher ends the job by name: finalisation is not modelled
        }
        if state.pes[p].alive && state.deaths > 0 {
            for node in [false, true] {
                let mut next = state.clone();
                next.deaths -= 1;
                next.since_whole |= 1 << p;
                next.pes[p].alive = false;
                next.pes[p].node_lost = node;
                next.views.push(state.views[usize::from(state.current())] & !(1 << p));
                if self.broken == Broken::WipedTooEarly && node {
                    next.pes[p].wipe();
                }
                out.push(next);
            }
        }
        let seen = state.pes.iter().all(|pe| !pe.alive || pe.shown == state.current());
        if !state.pes[p].alive && seen {
            let mut next = state.clone();
            if next.pes[p].node_lost {
                next.pes[p].wipe();
                if p == 0 {
                    next.gate = (0, 0);
                }
            }
            next.pes[p].begin(state.current());
            next.views.push(state.views[usize::from(state.current())] | 1 << p);
            out.push(next);
        }
    }

    // ---- the protocol ---------------------------------------------------------------------------

    fn process(&self, state: &State, p: usize, out: &mut Vec<State>) -> Result<(), String> {
        let mut next_state = state.clone();
        let Some(at) = state.pes[p].at else {
            next_state.program(p);
            out.push(next_state);
            return Ok(());
        };
        let outcome = match meeting(at) {
            Some(step) => self.meet(&mut next_state, p, at, step as u8),
            None => self.act(&mut next_state, p, at)?,
        };
        let Some(outcome) = outcome else {
            if next_state != *state {
                out.push(next_state); // in the middle of it
            }
            return Ok(());
        };
        let call = state.pes[p].call;
        let to = next(call, at, outcome).ok_or(format!("{at:?} cannot end with {outcome:?}"))?;
        next_state.pes[p].middle = false;
        next_state.pes[p].at = Some(to);
        self.end(&mut next_state, p, to)?;
        out.push(next_state);
        Ok(())
    }

    fn end(&self, state: &mut State, p: usize, to: At) -> Result<(), String> {
        let number = state.pes[p].number;
        let pe = &mut state.pes[p];
        match to {
            At::Saved => {
                (pe.agreed, pe.at) = (number, None);
                pe.finished = number >= self.last;
            }
            At::Reported => {
                (pe.at, pe.call) = (None, Call::Restart);
                pe.live = None; // user code may do what it likes now
            }
            At::MeetSettling
                if self.broken == Broken::NoSettleBeforeReport && pe.call == Call::Checkpoint =>
            {
                (pe.at, pe.call, pe.live) = (None, Call::Restart, None);
            }
            At::Condemned => {
                pe.condemned = true;
                if state.since_whole.count_ones() as usize <= self.parity {
                    return Err(format!("durability: PE {p} is condemned"));
                }
            }
            At::Resumed => {
                let (view, live) = (pe.view, pe.live);
                (pe.at, pe.call) = (None, Call::Checkpoint);
                pe.finished = number >= self.last;
                if live != Some(number) {
                    return Err(format!("no mix: PE {p} resumes {number} with {live:?}"));
                }
                let same = |other: &Pe| other.joined != view || other.agreed >= number;
                if !state.pes.iter().all(|other| !other.alive || same(other)) {
                    return Err(format!("agreement: PE {p} resumes {number}, others less"));
                }
                if state.pes.iter().all(|other| other.alive && other.joined == view) {
                    state.since_whole = 0;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn meet(&self, state: &mut State, p: usize, at: At, step: u8) -> Option<Outcome> {
        let pe = &mut state.pes[p];
        if !pe.middle {
            if at == At::MeetSettling && pe.call == Call::Checkpoint {
                pe.view = pe.shown;
            }
            pe.step = (pe.view, step);
            pe.middle = true;
            return None;
        }
        let word = (pe.view, step);
        let living = state.views[usize::from(word.0)];
        let met = |step: (u8, u8)| step >= word && step.0 == word.0;
        let passed = |step: (u8, u8)| step >= word && self.broken == Broken::LaterViewsCount;
        let here = |q: usize| {
            let step = state.pes[q].step;
            living >> q & 1 == 0 || met(step) || passed(step)
        };
        if (0..self.pes).all(here) {
            Some(Outcome::Done)
        } else if state.pes[p].shown != word.0 {
            Some(Outcome::Changed)
        } else {
            None
        }
    }

    fn act(&self, state: &mut State, p: usize, at: At) -> Step {
        let faulted = state.pes[p].shown != state.pes[p].joined;
        let healthy = if faulted { Outcome::Changed } else { Outcome::Done };
        let number = state.pes[p].number;
        let slot = self.slot(number);
        match at {
            At::Enter => return Ok(Some(healthy)),
            At::Intend => {
                let pe = &mut state.pes[p];
                pe.number = pe.agreed + 1;
                pe.phase = Some((ENTERING, pe.number));
            }
            At::BarrierQ | At::BarrierA | At::BarrierB => return Ok(self.barrier(state, p)),
            At::Encode => {
                if state.begins(p, |pe| pe.slots[slot] = Bytes::Void) {
                    return Ok(None);
                }
                state.pes[p].good = state.all_live(number);
                let unchecked = self.broken == Broken::ViewNotChecked;
                return Ok(Some(if unchecked { Outcome::Done } else { healthy }));
            }
            At::Publish => {
                let pe = &mut state.pes[p];
                pe.slots[slot] = Bytes::Sealed(number, pe.good);
                pe.phase = Some((ENCODED, number));
            }
            At::Copy => return Ok(state.copy(p, number)),
            At::Whole => {
                let shown = state.pes[p].shown;
                if state.views[usize::from(shown)].count_ones() as usize != self.pes {
                    return Ok(None);
                }
                state.pes[p].view = shown;
            }
            At::Decide => return Ok(Some(self.decide(state, p))),
            At::Finish => {
                let pe = &mut state.pes[p];
                if pe.middle || matches!(pe.phase, Some((ENCODED | COPYING, n)) if n == number) {
                    let copied = state.copy(p, number);
                    state.pes[p].agreed = number;
                    return Ok(copied);
                }
                pe.phase = pe.phase.map(|_| (AGREED, number));
                pe.agreed = number;
            }
            At::Verify => {
                let pe = &mut state.pes[p];
                pe.findings = (!pe.snapshot.is(number), !pe.slots[slot].is(number));
            }
            At::Judge => state.pes[p].lost = self.judge(state),
            At::Verdict if state.pes[p].lost => return Ok(Some(Outcome::Lost)),
            At::Rebuild if state.pes[p].findings.0 => {
                if state.begins(p, |pe| pe.snapshot = Bytes::Void) {
                    return Ok(None);
                }
                match self.sources(state, p, number, slot) {
                    Some(good) => state.pes[p].snapshot = Bytes::Sealed(number, good),
                    None if state.pes[p].shown != state.pes[p].view => {
                        return Ok(Some(Outcome::Changed));
                    }
                    None => return Err(format!("no mix: what PE {p} reads is not there")),
                }
            }
            At::Restore => {
                let pe = &mut state.pes[p];
                pe.live = (pe.snapshot == Bytes::Sealed(number, true)).then_some(number);
            }
            At::Reencode if state.pes[p].findings.1 => {
                if state.begins(p, |pe| pe.slots[slot] = Bytes::Void) {
                    return Ok(None);
                }
                let good = state.all_live(number);
                if state.pes[p].shown != state.pes[p].view && self.broken != Broken::ViewNotChecked
                {
                    return Ok(Some(Outcome::Changed));
                }
                state.pes[p].slots[slot] = Bytes::Sealed(number, good);
            }
            At::Reset => {
                state.pes[p].phase = Some((AGREED, number));
                state.pes[p].epoch = 0;
                if p == 0 {
                    state.gate = (0, 0);
                }
            }
            At::Join => {
                let pe = &mut state.pes[p];
                (pe.decided, pe.joined) = (None, pe.view);
            }
            _ => {}
        }
        Ok(Some(Outcome::Done))
    }

    fn barrier(&self, state: &mut State, p: usize) -> Option<Outcome> {
        let pe = &mut state.pes[p];
        let faulted = pe.shown != pe.joined;
        if pe.middle {
            let released = state.gate.1 >= pe.epoch;
            return released.then_some(Outcome::Done).or(faulted.then_some(Outcome::Changed));
        }
        if faulted {
            return Some(Outcome::Changed);
        }
        pe.epoch += 1;
        pe.middle = true;
        state.gate.0 += 1;
        if state.gate.0 == pe.epoch * self.pes as u8 {
            state.gate.1 = pe.epoch;
            return Some(Outcome::Done);
        }
        None
    }

    fn decide(&self, state: &mut State, p: usize) -> Outcome {
        let living = state.views[usize::from(state.pes[p].view)];
        let vote = |pe: &Pe| Vote {
            phase: pe.phase.map(phase_of),
            decided: pe.decided.map(u64::from).filter(|_| self.broken != Broken::DecisionForgotten),
        };
        let alive = (0..self.pes).filter(|q| living >> q & 1 == 1);
        let votes: Vec<Vote> = alive.map(|q| vote(&state.pes[q])).collect();
        let Some(mut target) = decide(&votes) else { return Outcome::Lost };
        if self.broken == Broken::ForwardTooEarly {
            let encoded = votes.iter().filter_map(|vote| match vote.phase {
                Some(Phase::Encoded(n)) => Some(n),
                _ => None,
            });
            target = encoded.fold(target, u64::max);
        }
        state.pes[p].number = target as u8;
        state.pes[p].decided = Some(target as u8);
        Outcome::Done
    }

    /// Each PE's findings as the real plan takes them, and the real plan's verdict.
    fn judge(&self, state: &State) -> bool {
        let finding = |(place, pe): (usize, &Pe)| {
            let all = Finding::lost(&self.layout, place);
            Finding {
                snapshot: if pe.findings.0 { all.snapshot } else { 0 },
                parity: if pe.findings.1 { all.parity } else { 0 },
            }
        };
        let findings: Vec<Finding> = state.pes.iter().enumerate().map(finding).collect();
        let members: Vec<usize> = (0..self.pes).collect();
        plan::check(0, &self.layout, &members, &findings, true).is_err()
    }

    /// What a rebuild reads is what verification passed on the other PEs. None if it is not there
    /// any more: every tile is checked as it is read.
    fn sources(&self, state: &State, p: usize, number: u8, slot: usize) -> Option<bool> {
        let others = state.pes.iter().enumerate().filter(|&(q, _)| q != p);
        let used = others
            .flat_map(|(_, pe)| [(pe.findings.0, pe.snapshot), (pe.findings.1, pe.slots[slot])]);
        let mut good = true;
        for (_, bytes) in used.filter(|(bad, _)| !bad) {
            match bytes {
                Bytes::Sealed(n, is_good) if n == number => good &= is_good,
                _ => return None,
            }
        }
        Some(good)
    }
}

impl Pe {
    /// The bytes are gone.
    fn wipe(&mut self) {
        self.live = None;
        (self.phase, self.decided, self.step) = (None, None, (0, 0));
        (self.snapshot, self.slots) = (Bytes::Void, [Bytes::Void; 2]);
    }

    /// A new process carries the number; its page may still show the view in which it is dead.
    fn begin(&mut self, shown: u8) {
        (self.alive, self.node_lost) = (true, false);
        (self.call, self.at, self.middle) = (Call::Checkpoint, None, false);
        (self.number, self.agreed, self.joined, self.view) = (0, 0, 0, 0);
        (self.shown, self.epoch, self.good, self.lost) = (shown, 0, false, false);
        (self.live, self.phase, self.decided) = (None, None, None);
    }
}

impl State {
    fn current(&self) -> u8 {
        self.views.len() as u8 - 1
    }

    /// A PE has finished without having seen the latest loss: the launcher ends the job by name.
    fn too_late(&self) -> bool {
        self.pes.iter().any(|pe| pe.alive && pe.finished && pe.joined != self.current())
    }

    /// User code: computes towards the next checkpoint, or restarts. What it computes while a peer
    /// knows of a fault already is worth nothing: that peer's puts are dropped.
    fn program(&mut self, p: usize) {
        let view = self.pes[p].joined;
        let leaving = |pe: &Pe| pe.view == view && matches!(pe.at, Some(At::MeetReset | At::Join));
        let faulted = |pe: &Pe| pe.alive && pe.shown != pe.joined && !leaving(pe);
        let disturbed = self.pes.iter().any(faulted);
        let pe = &mut self.pes[p];
        if pe.call == Call::Restart {
            pe.at = Some(At::Whole);
            return;
        }
        pe.at = Some(At::Enter);
        pe.live = pe.live.filter(|_| !disturbed).map(|live| live + 1);
    }

    fn all_live(&self, number: u8) -> bool {
        self.pes.iter().all(|pe| pe.live == Some(number))
    }

    /// The first half of a long step, if it has not been taken.
    fn begins(&mut self, p: usize, first_half: impl Fn(&mut Pe)) -> bool {
        let begins = !self.pes[p].middle;
        if begins {
            first_half(&mut self.pes[p]);
            self.pes[p].middle = true;
        }
        begins
    }

    fn copy(&mut self, p: usize, number: u8) -> Option<Outcome> {
        let first_half = |pe: &mut Pe| {
            pe.phase = Some((COPYING, number));
            pe.snapshot = Bytes::Void;
        };
        if self.begins(p, first_half) {
            return None;
        }
        let pe = &mut self.pes[p];
        pe.snapshot = Bytes::Sealed(number, pe.live == Some(number));
        pe.phase = Some((AGREED, number));
        Some(Outcome::Done)
    }
}
