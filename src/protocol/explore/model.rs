//! The model: memory, views and deaths around the protocol's table.

use raidshmem_codec::stripe::{Layout, Scheme};

use crate::protocol::{At, Call, Outcome, meeting, next};

use crate::store::phase::Phase;

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
pub enum Bytes {
    Void,
    /// Sealed as this checkpoint; good if they really are.
    Sealed(u8, bool),
}

impl Bytes {
    pub fn is(self, number: u8) -> bool {
        matches!(self, Bytes::Sealed(n, _) if n == number)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pe {
    pub alive: bool,
    pub node_lost: bool,
    pub finished: bool,
    pub condemned: bool,
    // the process
    pub call: Call,
    pub at: Option<At>,
    pub middle: bool,
    pub number: u8,
    pub agreed: u8,
    pub view: u8,
    pub joined: u8,
    pub shown: u8,
    pub epoch: u8,
    pub good: bool,
    pub lost: bool,
    // its memory
    pub live: Option<u8>,
    pub phase: Option<(u8, u8)>,
    pub decided: Option<u8>,
    pub step: (u8, u8),
    pub snapshot: Bytes,
    pub slots: [Bytes; 2],
    pub findings: (bool, bool),
}

/// One state of the whole job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub pes: Vec<Pe>,
    /// Bit per PE alive, by view number; view 0 is not used.
    pub views: Vec<u8>,
    pub gate: (u8, u8),
    pub deaths: u8,
    /// PEs lost since redundancy was whole.
    pub since_whole: u8,
}

/// A job's size, how much may die, and what is broken.
#[derive(Debug)]
pub struct Model {
    pub pes: usize,
    pub parity: usize,
    pub deaths: u8,
    /// The checkpoint after which a PE is finished.
    pub last: u8,
    pub broken: Broken,
    pub layout: Layout,
}

impl std::fmt::Display for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Model { pes, parity, deaths, last, .. } = self;
        write!(f, "{pes} PEs, parity {parity}, {deaths} deaths, to checkpoint {last}")
    }
}

pub fn phase_of((kind, number): (u8, u8)) -> Phase {
    let n = u64::from(number);
    [Phase::Agreed(n), Phase::Entering(n), Phase::Encoded(n), Phase::Copying(n)][kind as usize]
}
pub const AGREED: u8 = 0;
pub const ENTERING: u8 = 1;
pub const ENCODED: u8 = 2;
pub const COPYING: u8 = 3;

impl Model {
    pub fn new(pes: usize, parity: usize, deaths: u8, last: u8, broken: Broken) -> Model {
        assert!(pes <= MOST);
        let layout = Layout::new(Scheme::Rs { parity }, pes).expect("a legal shape");
        Model { pes, parity, deaths, last, broken, layout }
    }

    pub fn slot(&self, number: u8) -> usize {
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
        let here = |q: usize| {
            let step = state.pes[q].step;
            living >> q & 1 == 0 || (step.0 == word.0 && step >= word)
        };
        if (0..self.pes).all(here) {
            Some(Outcome::Done)
        } else if state.pes[p].shown != word.0 {
            Some(Outcome::Changed)
        } else {
            None
        }
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
    pub fn current(&self) -> u8 {
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

    pub fn all_live(&self, number: u8) -> bool {
        self.pes.iter().all(|pe| pe.live == Some(number))
    }

    /// The first half of a long step, if it has not been taken.
    pub fn begins(&mut self, p: usize, first_half: impl Fn(&mut Pe)) -> bool {
        let begins = !self.pes[p].middle;
        if begins {
            first_half(&mut self.pes[p]);
            self.pes[p].middle = true;
        }
        begins
    }

    pub fn copy(&mut self, p: usize, number: u8) -> Option<Outcome> {
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
