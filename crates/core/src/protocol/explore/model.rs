//! The model: memory, views and deaths around the protocol's table.

pub use super::broken::Broken;
use super::groups::{GroupNames, GroupTable, NodeOf, VIEWS};
use super::state::{Bytes, JobState, MOST, PeState, Places, full, program};
use crate::mutant::{self, Mutant};
use crate::protocol::{At, Call, Outcome, next};
use crate::quantity::CheckpointNumber;
use crate::store::phase::Phase;

/// The checkpoint that exists at the beginning.
const FIRST: u8 = 1;
/// The words of a PE that finds no surviving PE that saw a checkpoint.
pub const NO_WITNESS: u8 = 0xff;

/// The possible ends of a job of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All PEs have made the last checkpoint.
    Finished,
    /// All living PEs have reported the verdict, or no PE is left.
    Unrecoverable,
    /// A PE has reported the verdict and another waits for PEs to arrive. The launcher gives the
    /// other PEs a few seconds to report it too, and then ends the job with that error.
    CutShort,
}

/// The parameters of a search: the job's size, the number of deaths, and the broken rule.
#[derive(Debug)]
pub struct Model {
    pub pes: usize,
    pub parity: usize,
    pub deaths: u8,
    /// The checkpoint after which a PE enters `shmem_finalize`.
    pub last: u8,
    pub broken: Broken,
    pub groups: GroupTable,
    /// True if a node is lost first, at a moment at which all PEs compute. Otherwise groups that
    /// change are about to do so, after a recovery that moved a PE.
    pub begins_lost: bool,
    /// Number of PEs that share a node, and are lost together with it.
    pub per_node: usize,
    /// True if all processes may die at one moment, which leaves their memory whole.
    pub all_at_once: bool,
    /// True if the view that a PE has been shown is chosen when it looks; otherwise showing is a
    /// separate step.
    pub lazy: bool,
    /// True if checkpoints are made in parts: their parity is computed while the program runs.
    pub parts: bool,
    /// True if the program calls the checkpoint before its loop, until it succeeds, and at the
    /// loop's end.
    pub two: bool,
}

impl std::fmt::Display for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Model { pes, parity, deaths, last, per_node, .. } = self;
        write!(f, "{pes} PEs, {per_node} a node, parity {parity}, {deaths} deaths, ")?;
        write!(f, "checkpoints to {last}{}", self.groups.relocation)
    }
}

impl Model {
    pub fn new(pes: usize, parity: usize, deaths: u8, last: u8, broken: Broken) -> Model {
        assert!(pes <= MOST);
        let groups = GroupTable::fixed(pes, parity);
        let switched = mutant::chosen().filter(|_| broken == Broken::Nothing);
        let broken = switched.map_or(broken, Broken::Rule);
        Model {
            pes,
            parity,
            deaths,
            last,
            broken,
            groups,
            begins_lost: false,
            per_node: 1,
            all_at_once: false,
            lazy: true,
            parts: false,
            two: false,
        }
    }

    pub fn slot(&self, number: u8) -> usize {
        let reused = self.broken == Broken::Rule(Mutant::SlotReused);
        if reused { 0 } else { full(number).turn(2) }
    }

    /// Returns the maximum number of lost PEs.
    pub fn most_lost(&self) -> usize {
        match self.groups.is_by_node() {
            true => self.pes,
            false => usize::from(self.deaths) * self.per_node,
        }
    }

    pub fn first(&self) -> JobState {
        let [mut slots, mut snapshots] = [[Bytes::Void; 2]; 2];
        slots[self.slot(FIRST)] = Bytes::Sealed(FIRST, true);
        snapshots[self.snapshot(FIRST)] = Bytes::Sealed(FIRST, true);
        let pe = PeState {
            alive: true,
            node_lost: false,
            finished: false,
            unrecoverable: false,
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
            ends: false,
            shows: 0,
            words: 0,
            live: Some(FIRST),
            phase: Some(Phase::Agreed(CheckpointNumber(u64::from(FIRST)))),
            decided: None,
            step: (0, 0),
            snapshots,
            shadow: Bytes::Void,
            slots,
            findings: (false, false),
            behind: None,
            places: Places { before: self.two, ..Places::default() },
            groups: GroupNames::default(),
        };
        let mut views = [0; 8];
        views[1] = (1 << self.pes) - 1;
        let (deaths, since_whole, nodes) = (self.deaths, 0, [NodeOf::APART.0; VIEWS]);
        let (current, gate, pes) = (1, (0, 0), [pe; MOST]);
        let mut state = JobState { pes, views, current, gate, deaths, since_whole, nodes };
        match self.begins_lost {
            true => return self.lose(&JobState { deaths: deaths + 1, ..state }, 1 << 2, true),
            false => self.groups.begin(&mut state),
        }
        state
    }

    pub fn pes<'a>(&self, state: &'a JobState) -> &'a [PeState] {
        &state.pes[..self.pes]
    }

    /// Collects all states one step away. The error names the promise that a step breaks.
    pub fn successors(&self, state: &JobState, out: &mut Vec<JobState>) -> Result<(), String> {
        for p in 0..self.pes {
            let pe = &state.pes[p];
            if !self.lazy && pe.alive && pe.shown < state.current {
                let mut next = *state;
                next.pes[p].shown += 1;
                out.push(next);
            }
            self.process(state, p, out)?;
            self.launcher(state, p, out);
        }
        Ok(())
    }

    /// Returns how the job ended; any other final state is a hang.
    pub fn ended(&self, state: &JobState) -> Result<End, String> {
        let living = || self.pes(state).iter().filter(|pe| pe.alive);
        let words = living().next().map_or(0, |pe| pe.words);
        if living().all(|pe| pe.unrecoverable) {
            match living().all(|pe| pe.words == words) {
                true => Ok(End::Unrecoverable),
                false => Err("verdict: not the same words everywhere".to_string()),
            }
        } else if living().all(|pe| pe.finished && pe.at.is_none()) {
            Ok(End::Finished)
        } else if living().any(|pe| pe.unrecoverable) {
            let mut unrecoverable = living().filter(|pe| pe.unrecoverable);
            let words = unrecoverable.next().map_or(0, |pe| pe.words);
            match unrecoverable.all(|pe| pe.words == words) {
                true => Ok(End::CutShort),
                false => Err("verdict: not the same words everywhere".to_string()),
            }
        } else {
            Err("no wait for ever, one verdict: nothing moves here".to_string())
        }
    }

    // ---- the protocol ---------------------------------------------------------------------------

    /// Makes the steps of PE `p`'s process: one for each view that it may have been shown, if that
    /// makes a difference.
    pub fn process(
        &self,
        state: &JobState,
        p: usize,
        out: &mut Vec<JobState>,
    ) -> Result<(), String> {
        let pe = &state.pes[p];
        if !pe.alive || pe.unrecoverable {
            return Ok(());
        }
        if pe.behind.is_some() {
            return self.background(state, p, out);
        }
        if pe.at.is_none() && pe.finished {
            self.finalize(state, p, out);
            return Ok(());
        }
        if pe.at.is_none() {
            self.program(state, p, out);
            return Ok(());
        }
        let newest = if self.lazy { pe.newest(state.current) } else { pe.shown };
        (pe.shown..=newest).try_for_each(|shown| self.step(state, p, shown, out))
    }

    /// Makes the step of PE `p` after it has been shown view `shown`.
    pub fn step(
        &self,
        state: &JobState,
        p: usize,
        shown: u8,
        out: &mut Vec<JobState>,
    ) -> Result<(), String> {
        let pe = &state.pes[p];
        let at = pe.at.expect("inside a call");
        let mut next = *state;
        next.pes[p].shown = shown;
        let outcome = self.act(&mut next, p)?;
        if pe.middle && pe.waits() {
            // A PE that sees that the view has changed may learn late that all PEs have arrived.
            if outcome.is_some() && shown == pe.shown {
                self.leave(&next, p, (at, Outcome::Done), out)?;
            }
            return match next.pes[p].sees_change() {
                true => self.leave(&next, p, (at, Outcome::Changed), out),
                false => Ok(()),
            };
        }
        match outcome {
            Some(outcome) => self.leave(&next, p, (at, outcome), out),
            None if next != *state => {
                out.push(next); // in the middle of it
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn leave(
        &self,
        state: &JobState,
        p: usize,
        (at, outcome): (At, Outcome),
        out: &mut Vec<JobState>,
    ) -> Result<(), String> {
        let mut state = *state;
        let call = state.pes[p].call(self.parts);
        let to = next(call, at, outcome).ok_or(format!("{at:?} cannot end with {outcome:?}"))?;
        state.pes[p].middle = false;
        state.pes[p].at = Some(to);
        if (at, outcome) == (At::MeetSettling, Outcome::Done) {
            state.pes[p].findings = (false, false); // no PE is in an older view any more
        }
        self.end(&mut state, p, to)?;
        out.push(state);
        Ok(())
    }

    fn end(&self, state: &mut JobState, p: usize, to: At) -> Result<(), String> {
        let number = state.pes[p].number;
        let pe = &mut state.pes[p];
        match to {
            At::Saved => {
                (pe.agreed, pe.at) = (number, None);
                if (self.two || self.groups.settings.is_some()) && pe.live != Some(program(number))
                {
                    return Err(format!("no mix: PE {p} saves {:?} as {number}", pe.live));
                }
                pe.places = Places::default();
                pe.keep_groups();
                self.finish(pe);
                self.groups.saved(state, p)?;
            }
            At::Copied => {
                (pe.at, pe.behind) = (None, Some((At::Encode, false)));
                // From now on it puts into its peers.
                let (joined, copies) = (pe.joined, |q: &PeState| q.at == Some(At::CopyAhead));
                let peers = state.pes[..self.pes].iter_mut();
                peers.filter(|q| q.alive && q.joined == joined && copies(q)).for_each(|q| {
                    q.live = None;
                });
            }
            At::Passed => {
                pe.at = None;
                (pe.places.before, pe.places.apart.2) = (false, false);
                self.finish(pe);
            }
            At::Reported => {
                (pe.at, pe.call, pe.groups.heals) = (None, Call::Restart, false);
                pe.live = None; // user code may change memory arbitrarily now
            }
            At::MeetSettling
                if self.broken == Broken::NoSettleBeforeReport && pe.call == Call::Checkpoint =>
            {
                (pe.at, pe.call, pe.live) = (None, Call::Restart, None);
            }
            // All PEs have encoded the missing parity: only later losses count.
            At::Reset if pe.call == Call::Restart && !pe.ends => {
                let views = usize::from(pe.view)..=usize::from(state.current);
                let kept = views.fold(u8::MAX, |kept, view| kept & state.views[view]);
                state.since_whole &= !kept;
            }
            At::Unrecoverable => {
                pe.unrecoverable = true;
                let group = |q| self.groups.group_of(state, p, q) & state.since_whole;
                let bears = |q| group(q).count_ones() as usize <= self.parity;
                if (0..self.pes).all(bears) {
                    return Err(format!("durability: PE {p} is unrecoverable"));
                }
            }
            At::Resumed if pe.call == Call::Finalize => {
                (pe.at, pe.call) = (None, Call::Checkpoint);
                if pe.live.is_some() {
                    return Err(format!("its own work: PE {p} is at its end, and went back"));
                }
            }
            At::Resumed => return self.resumed(state, p),
            _ => {}
        }
        Ok(())
    }

    /// Lets PE `p` continue after a recovery.
    fn resumed(&self, state: &mut JobState, p: usize) -> Result<(), String> {
        let (number, pe) = (state.pes[p].number, &mut state.pes[p]);
        let (view, live, ends) = (pe.view, pe.live, pe.ends);
        (pe.at, pe.call) = (None, Call::Checkpoint);
        pe.agreed = number;
        // Before its loop it calls the checkpoint once more, unless other PEs are at the
        // end.
        let heals = self.groups.resumed(state, p, ends)?;
        let pe = &mut state.pes[p];
        if !heals && (ends || !pe.places.before) {
            self.finish(pe);
        }
        if ends && program(number) < self.last {
            return Err(format!("alone: PE {p} needs others that are at their end"));
        }
        if live != Some(program(number)) {
            return Err(format!("no mix: PE {p} resumes {number} with {live:?}"));
        }
        let same = |other: &PeState| other.joined != view || full(other.agreed) >= full(number);
        if !self.pes(state).iter().all(|other| !other.alive || same(other)) {
            return Err(format!("agreement: PE {p} resumes {number}, others less"));
        }
        Ok(())
    }

    /// Moves a PE that has the last checkpoint to `shmem_finalize`, after local computation.
    pub fn finish(&self, pe: &mut PeState) {
        if program(pe.agreed) >= self.last {
            (pe.finished, pe.live) = (true, None);
        }
    }

    /// Waits in `shmem_finalize`; takes part in the recovery of a loss shown to it.
    fn finalize(&self, state: &JobState, p: usize, out: &mut Vec<JobState>) {
        let pe = &state.pes[p];
        let shown = if self.lazy { state.current } else { pe.shown };
        if shown > pe.joined && self.broken != Broken::EndIgnoresLosses {
            let mut next = *state;
            let pe = &mut next.pes[p];
            (pe.call, pe.at) = (Call::Finalize, Some(At::Whole));
            pe.shown = pe.shown.max(pe.joined + 1);
            out.push(next);
        }
    }

    /// True if every living PE of the view of PE `p` has arrived at its meeting.
    pub fn all_here(&self, state: &JobState, p: usize, step: u8) -> bool {
        let word = (state.pes[p].view, step);
        let living = state.living_in(word.0);
        let here = |q: usize| {
            let step = state.pes[q].step;
            living >> q & 1 == 0 || (step.0 == word.0 && step >= word)
        };
        (0..self.pes).all(here)
    }

    /// Runs user code: computes towards the next checkpoint, or restarts. The computation is
    /// worthless if a peer in the program already knows of a fault, since that peer drops its puts.
    /// All puts of a peer that is already in the next call have arrived.
    fn program(&self, state: &JobState, p: usize, out: &mut Vec<JobState>) {
        let mut next = *state;
        if state.pes[p].call == Call::Restart {
            next.pes[p].at = Some(At::Whole);
            out.push(next);
            return;
        }
        if self.two && self.calls(&mut next, p) {
            out.push(next);
            return;
        }
        let computes = |pe: &PeState| pe.alive && pe.at.is_none() && !pe.finished;
        let disturbed = self.pes(state).iter().any(|pe| computes(pe) && pe.shown != pe.joined);
        self.groups.choose(&mut next, p);
        next.pes[p].at = Some(At::Enter);
        next.pes[p].live = state.pes[p].live.filter(|_| !disturbed).map(|live| live + 1);
        // Meanwhile it puts into all peers: a peer that is copying then has bytes of two
        // checkpoints. This applies only within one view: PEs that know of a loss drop their puts.
        let own = state.pes[p];
        let copies = |q: &PeState| q.alive && q.at == Some(At::Copy) && q.joined == own.joined;
        let peers = next.pes[..self.pes].iter_mut().filter(|q| copies(q));
        for peer in peers.filter(|q| own.agreed == q.number && !disturbed) {
            peer.live = None;
        }
        out.push(next);
        for q in (0..self.pes).filter(|_| self.lazy && !disturbed) {
            let peer = &state.pes[q];
            if computes(peer) && peer.joined < state.current {
                let mut disturbed = next;
                disturbed.pes[q].shown = peer.joined + 1;
                disturbed.pes[p].live = None;
                out.push(disturbed);
            }
        }
    }
}
