//! The state of the model: PEs, their memory, their logs, and the view that each node shows.
//!
//! The calls are those of `replay/call.rs` and `meeting.rs`, over the port in `port.rs`. A step of
//! a PE ends before the next access that a peer's step may precede. A process that dies leaves its
//! memory and its log; its substitute restores that memory in place.

use std::fmt::{self, Display, Formatter};
use std::ops::Range;

use super::broken::Broken;
use super::program::{Op, Program};
use crate::mutant::{self, Mutant};
use crate::quantity::Pe;
use crate::replay::decide::Reason;
use crate::replay::log::{AtomicOutcome, Carried, Located, LogRecord, Logs, Stage};
use crate::replay::merge::SubstitutePort;
use crate::replay::own::Replay;
use crate::replay::port::LogMode;
use crate::update::WordAt;

/// Number of words of a PE.
pub(super) const WORDS: usize = 3;
/// Bytes of a word.
pub(super) const WORD: usize = 8;
/// The longest payload that fits into a log.
pub(super) const LONGEST: usize = 2 * WORD;

/// The view that a substitute has joined when it begins: none.
pub(super) const NO_VIEW: usize = u32::MAX as usize;

pub(super) type Words = [u64; WORDS];

/// A record and its mutable state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LogEntry {
    pub record: LogRecord,
    pub payload: Vec<u8>,
    pub compared: u64,
    pub state: Carried,
    pub found: AtomicOutcome,
    pub repeats: u64,
}

/// The activity of a PE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum At {
    /// In a call; `script` holds the results of its accesses so far.
    Calls,
    /// A substitute whose log must be restored from its replica.
    Renews,
    /// A substitute that waits until it may restore its memory.
    Begins,
    /// A substitute that checks if its predecessor made any call.
    Replays,
}

/// The state of a PE.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PeState {
    pub call: usize,
    pub at: At,
    /// The results of the accesses of the call.
    pub script: Vec<u64>,
    pub registers: [u64; 2],
    /// Its last time.
    pub time: u64,
    pub way: LogMode,
    pub replay: Replay,
    /// Number of meetings at which this process has arrived.
    pub met: u64,
    /// The view that its node shows, and the one that it has joined.
    pub shown: usize,
    pub joined: usize,
    /// The memories of the PE in sequence: a new one after each loss of its node.
    pub memories: Vec<Words>,
    // ---- visible to peers ----
    pub log: Vec<LogEntry>,
    /// Checkpoint that the log begins at.
    pub interval: usize,
    /// Checkpoint whose copy it has made.
    pub copied: usize,
    /// Arrivals at this PE since it joined its view, and the meetings at the first PE that it has
    /// come to since then.
    pub gate: (usize, usize),
    /// Arrivals at this PE, and own barriers, without records since the last checkpoint.
    pub rounds: (usize, usize),
    /// The view in which this PE last found that all PEs were reached.
    pub saw_all: Option<usize>,
    pub said_met: u64,
    /// The first meeting without a record, and the view in which the records ended.
    pub ended: Option<(u64, usize)>,
    pub flight: Option<usize>,
    pub stage: (usize, Stage),
    /// The cursor up to which it has taken over the log of each PE in this interval.
    pub taken: Vec<usize>,
    /// Memory and call of each checkpoint.
    pub saved: Vec<(Words, usize)>,
    /// True if the log is present, or restored from its replica.
    pub has_log: bool,
    /// True if the next PE keeps a replica of the log.
    pub has_replica: bool,
}

/// A PE in a view: its incarnation, even while its process lives, and the losses of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Life {
    pub number: usize,
    pub nodes_lost: usize,
    /// True if the last loss was that of its node.
    pub with_node: bool,
}

impl Life {
    pub(super) fn lives(&self) -> bool {
        self.number.is_multiple_of(2)
    }
}

/// The state of the job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct JobState {
    pub pes: Vec<PeState>,
    pub views: Vec<Vec<Life>>,
    pub time: u64,
    pub deaths: u8,
    /// The reason for a global rollback.
    pub global: Option<Reason>,
    /// A broken promise that no other check would notice.
    pub wrong: Option<&'static str>,
}

/// The placement of PEs on nodes, and the kind of losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nodes {
    /// All PEs on one node; processes die.
    One,
    /// Each PE on its own node; processes die.
    Each,
    /// Each PE on its own node; processes die and nodes are lost.
    Lost,
}

/// The parameters of a search.
#[derive(Debug, Clone)]
pub(super) struct ReplayModel {
    pub program: Program,
    pub deaths: u8,
    pub nodes: Nodes,
    pub broken: Broken,
}

impl Display for ReplayModel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ReplayModel { program, deaths, nodes, broken } = self;
        write!(f, "{}, {} PEs, {deaths} losses, {nodes:?}", program.name, program.pes.len())?;
        if *broken == Broken::Nothing { Ok(()) } else { write!(f, ", {broken:?}") }
    }
}

impl JobState {
    pub(super) fn life(&self, pe: usize) -> Life {
        self.views.last().expect("there is the first")[pe]
    }

    /// Returns a PE as the node of another one shows it.
    pub(super) fn shows(&self, me: usize, pe: usize) -> Life {
        self.views[self.pes[me].shown][pe]
    }

    /// Returns true if another PE can read the log of a PE.
    pub(super) fn has_log(&self, me: usize, pe: usize) -> bool {
        let shown = self.shows(me, pe);
        self.pes[pe].has_log && (shown.lives() || !shown.with_node)
    }

    /// Changes one PE in the next view.
    pub(super) fn change_view(&mut self, pe: usize, change: impl FnOnce(&mut Life)) {
        let mut view = self.views.last().expect("there is the first").clone();
        change(&mut view[pe]);
        self.views.push(view);
    }

    /// Returns true if all living nodes show the last view in which that PE changed.
    pub(super) fn all_show(&self, pe: usize) -> bool {
        let life = self.life(pe);
        let gone = |of: usize| !self.life(of).lives() && self.life(of).with_node;
        (0..self.pes.len()).filter(|&of| !gone(of)).all(|of| self.shows(of, pe) == life)
    }

    /// Returns true if all PEs live in the view that the node of a PE shows.
    pub(super) fn is_whole(&self, me: usize) -> bool {
        self.views[self.pes[me].shown].iter().all(Life::lives)
    }

    /// Returns true if a PE lives and is reached directly.
    pub(super) fn is_direct(&self, pe: usize) -> bool {
        let life = self.life(pe);
        life.lives() && self.pes[pe].stage == (life.number / 2, Stage::Direct)
    }

    pub(super) fn memory(&mut self, pe: usize) -> &mut Words {
        self.pes[pe].memories.last_mut().expect("there is the first")
    }

    /// Returns the time of a call that observes nothing: one after the PE's last, behind the clock.
    pub(super) fn next_time(&mut self, me: usize) -> u64 {
        self.time += 1;
        self.pes[me].time += 1;
        self.pes[me].time
    }

    /// Reads the clock, for a call that observes peers.
    pub(super) fn tick(&mut self, me: usize) -> u64 {
        self.time += 1;
        self.pes[me].time = self.time;
        self.time
    }

    /// Returns true if a PE was lost after the view in which another ended its records: that takes
    /// all back.
    pub(super) fn is_lost_since_ended(&self) -> bool {
        let mut ended = self.pes.iter().filter_map(|pe| pe.ended);
        ended.any(|(_, view)| !self.views[view + 1..].iter().flatten().all(Life::lives))
    }

    pub(super) fn is_over(&self, program: &Program) -> bool {
        let over = |(pe, calls): (&PeState, &Vec<Op>)| {
            pe.call == calls.len() && pe.at == At::Calls && pe.way == LogMode::Logged
        };
        let lives = (0..self.pes.len()).all(|pe| self.life(pe).lives());
        lives && self.pes.iter().zip(&program.pes).all(over)
    }
}

/// The logs and the memory that a PE of the model sees.
pub(super) struct Sight<'a> {
    pub model: &'a ReplayModel,
    pub s: &'a mut JobState,
    pub me: usize,
}

impl Logs for Sight<'_> {
    fn read(&self, pe: Pe, from: usize) -> Option<Located> {
        let log = &self.s.pes[pe.at()];
        let entry = log.log.get(from).filter(|_| log.has_log || pe.at() == self.me)?;
        Some(Located { from, next: from + 1, record: entry.record, payload: from })
    }

    fn payload(&self, pe: Pe, found: &Located) -> &[u8] {
        &self.s.pes[pe.at()].log[found.from].payload
    }

    fn state(&self, pe: Pe, from: usize) -> Carried {
        self.s.pes[pe.at()].log[from].state
    }

    fn found(&self, pe: Pe, from: usize) -> AtomicOutcome {
        self.s.pes[pe.at()].log[from].found
    }

    fn compared(&self, pe: Pe, from: usize) -> u64 {
        self.s.pes[pe.at()].log[from].compared
    }

    fn repeats(&self, pe: Pe, from: usize) -> u64 {
        self.s.pes[pe.at()].log[from].repeats
    }

    fn breaks(&self, rule: Mutant) -> bool {
        self.model.broken == Broken::Rule(rule) || mutant::breaks(rule)
    }
}

impl SubstitutePort for Sight<'_> {
    fn load(&self, word: WordAt) -> Option<u64> {
        self.s.pes[self.me].memories.last().map(|memory| memory[word.offset / WORD])
    }

    fn store(&mut self, word: WordAt, value: u64) {
        self.s.memory(self.me)[word.offset / WORD] = value;
    }

    fn copy(&mut self, to: usize, pe: Pe, found: &Located, bytes: Range<usize>) {
        let words = words(&self.s.pes[pe.at()].log[found.from].payload[bytes]);
        self.s.memory(self.me)[to / WORD..][..words.len()].copy_from_slice(&words);
    }

    fn note_taken(&mut self, pe: Pe, from: usize, old: u64) {
        self.append(LogRecord::taken(pe, from, old), &[], 0);
    }
}

impl Sight<'_> {
    pub(super) fn append(&mut self, record: LogRecord, payload: &[u8], compared: u64) -> usize {
        let time = match record.kind.learns(|rule| self.breaks(rule)) {
            true => self.s.tick(self.me),
            false => self.s.next_time(self.me),
        };
        let entry = LogEntry {
            record: LogRecord { time, ..record },
            payload: payload.to_vec(),
            compared,
            state: Carried::Begun,
            found: AtomicOutcome::default(),
            repeats: 0,
        };
        let log = &mut self.s.pes[self.me].log;
        log.push(entry);
        log.len() - 1
    }
}

/// Bytes as words.
pub(super) fn words(bytes: &[u8]) -> Vec<u64> {
    let chunks = bytes.as_chunks::<WORD>().0;
    chunks.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

/// Words as bytes.
pub(super) fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

impl ReplayModel {
    pub(super) fn first(&self) -> JobState {
        let n_pes = self.program.pes.len();
        let pe = PeState {
            call: 0,
            at: At::Calls,
            script: Vec::new(),
            registers: [0; 2],
            time: 0,
            way: LogMode::Logged,
            replay: Replay::default(),
            met: 0,
            shown: 0,
            joined: 0,
            memories: vec![[0; WORDS]],
            log: Vec::new(),
            interval: 0,
            copied: 0,
            gate: (0, 0),
            rounds: (0, 0),
            saw_all: None,
            ended: None,
            said_met: 0,
            flight: None,
            stage: (0, Stage::Direct),
            taken: vec![0; n_pes],
            saved: vec![([0; WORDS], 0)],
            has_log: true,
            has_replica: self.nodes == Nodes::Lost,
        };
        let views = vec![vec![Life { number: 0, nodes_lost: 0, with_node: false }; n_pes]];
        JobState {
            pes: vec![pe; n_pes],
            views,
            time: 0,
            deaths: self.deaths,
            global: None,
            wrong: None,
        }
    }

    pub(super) fn is(&self, broken: Broken) -> bool {
        self.broken == broken
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
            if state.life(me).lives() && self.step(&mut after, me)? {
                next.push(after);
            }
            let mut after = state.clone();
            if self.is(Broken::ChosenEarly) && self.chooses(&mut after, me) {
                next.push(after);
            }
            if state.pes[me].shown + 1 < state.views.len() && self.has_own_page(state, me) {
                let mut after = state.clone();
                match self.nodes {
                    Nodes::One => after.pes.iter_mut().for_each(|pe| pe.shown += 1),
                    _ => after.pes[me].shown += 1,
                }
                for lost in 0..state.pes.len() {
                    self.chooses(&mut after, lost);
                }
                next.push(after);
            }
        }
        let moves = next.len();
        if state.deaths > 0 && !state.is_over(&self.program) {
            for &victim in self.program.victims.iter().filter(|&&pe| state.life(pe).lives()) {
                let mut after = state.clone();
                self.kill(&mut after, victim);
                next.push(after);
                if self.nodes == Nodes::Lost {
                    let mut after = state.clone();
                    self.lose_node(&mut after, victim);
                    next.push(after);
                }
            }
        }
        Ok(moves)
    }

    /// Returns true if the node of this PE is present, and no lower PE represents that node.
    fn has_own_page(&self, s: &JobState, me: usize) -> bool {
        let life = s.life(me);
        let is_there = life.lives() || !life.with_node;
        is_there && (self.nodes != Nodes::One || me == 0)
    }
}
