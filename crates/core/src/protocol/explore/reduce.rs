//! Reductions of the state space: symmetry, late views, dead words, local steps taken at once.
//!
//! *Symmetry.* If the real plan's verdicts are renumbered consistently under a renumbering of the
//! PEs, all rules of the model are unchanged, because no other rule depends on a number. States
//! that differ only by such a renumbering are searched once. Verdicts are compared only for sets of
//! PEs on which a plan can be queried: at most as many PEs as can be lost (`judge` fails if there
//! are ever more). The words of the barrier are on one PE; the model does not fix which one (see
//! waiting, below).
//!
//! *Late views.* An agent's publication of a view is not a step. `shown` is the oldest view that a
//! PE may still be shown. When the PE reads it, the model makes one successor for every view that
//! makes a difference, up to the newest. A substitute starts when all PEs have been shown the
//! newest view: `shown` is then that view.
//!
//! *Waiting.* A waiting PE may learn late that all PEs have arrived. If its view has changed, it
//! may turn back even then. This models a network with delayed words, and the loss of a barrier's
//! words with the node that has them. The full search has these steps too.
//!
//! *Dead words.* A word that is rewritten before any PE reads it is set to zero
//! ([`Model::forget`]): the barrier's words once no PE is in a checkpoint, the words of a dead PE
//! in a view that no PE is in or can still enter (except its vote, while its memory exists), the
//! number of a PE that is about to decide.
//!
//! *Local steps.* If taking a step first still permits everything that can follow otherwise, it is
//! taken at once ([`Model::take_local_steps`]) and the state before it is not kept:
//! - a step that reads only data no other PE changes (the PE's own fields and store) and writes
//!   only data no PE reads before this PE has arrived at a later meeting. Findings are read after
//!   `MeetVerified`, live memory after `BarrierQ` or `MeetRestored`, phase and decision at
//!   `Decide`, after `MeetSettling` of the same view, where `Entering(n + 1)` counts like
//!   `Agreed(n)`;
//! - arriving at a meeting or barrier: it delays no PE, and a PE that arrived may turn back, and
//!   arrive again in a newer view. Hence the first whole view is equivalent to a later one, too;
//! - leaving a meeting or barrier for the next one, if everything in between can be repeated:
//!   turning back from there equals turning back from here. Excluded are steps that take a
//!   decision, read findings of other PEs, change a snapshot, slot or seal that counts, restore
//!   redundancy, or end a call;
//! - the step after one that cannot be undone, if the two leave nothing behind that the first alone
//!   would not: a slot is sealed right after it is encoded (a death in between leaves a void slot,
//!   like a death before), a copy begins when its barrier is left.
//!
//! A death between two such steps is equivalent to a death before or after them. Local steps never
//! form a cycle, so no step is postponed forever, and no local step is possible in a final state.
//!
//! `the_reductions_change_no_answer` compares the ends with those of the full search.

use super::groups::PlacedGroups;
use super::model::{Broken, Model, NO_WITNESS};
use super::state::{Bytes, JobState, MOST, PeState, Places, full};
use crate::mutant::Mutant;
use crate::protocol::{At, Call, meeting};
use crate::store::phase::Phase;

impl Model {
    /// Takes local steps until no more are possible.
    pub fn take_local_steps(&self, state: &mut JobState) {
        let mut next = Vec::with_capacity(1);
        while let Some((p, shown)) = (0..self.pes).find_map(|p| self.local(state, p)) {
            match state.pes[p].at {
                None => self.process(state, p, &mut next),
                Some(_) => self.step(state, p, shown, &mut next),
            }
            .expect("a local step breaks no promise");
            // The first successor is the one that may be taken at once.
            *state = next.swap_remove(0);
            next.clear();
        }
    }

    /// Returns the view in which the next step of PE `p` may be taken at once, if it may.
    fn local(&self, state: &JobState, p: usize) -> Option<(usize, u8)> {
        let pe = &state.pes[p];
        if !pe.alive || pe.unrecoverable || pe.finished && pe.at.is_none() {
            return None;
        }
        let whole = || (pe.shown..=state.current).find(|&view| self.whole(state, view));
        match pe.at {
            Some(At::Whole) => whole().map(|view| (p, view)),
            Some(at) if pe.waits() && pe.middle => self.passes(state, p, at),
            _ => (pe.waits() || self.local_act(pe)).then_some((p, pe.shown)),
        }
    }

    /// Returns the view in which a PE may leave a complete meeting at once, if it may: when the
    /// next state waits again, and no PE could notice that this one has not turned back instead.
    fn passes(&self, state: &JobState, p: usize, at: At) -> Option<(usize, u8)> {
        let pe = &state.pes[p];
        let slot = pe.slots[self.slot(pe.number)];
        let free = match at {
            At::BarrierQ => true,
            At::BarrierC => slot == Bytes::Void,
            At::MeetDecided => !self.copies(pe),
            At::MeetSettled => pe.call.recovers() && pe.number != 0,
            At::MeetJudged => {
                pe.words == 0
                    && (!pe.findings.0 || pe.snapshots[self.snapshot(pe.number)] == Bytes::Void)
            }
            At::MeetRebuilt => true,
            At::MeetRestored => !pe.findings.1 || slot == Bytes::Void,
            _ => false,
        };
        let all = match meeting(at) {
            Some(step) => self.all_here(state, p, step as u8),
            None => state.gate.1 >= pe.epoch,
        };
        (free && all).then_some((p, pe.shown))
    }

    fn copies(&self, pe: &PeState) -> bool {
        let number = full(pe.number);
        pe.phase.and_then(Phase::encoded) == Some(number)
    }

    fn local_act(&self, pe: &PeState) -> bool {
        let slot = pe.slots[self.slot(pe.number)];
        let faulted = pe.shown != pe.joined;
        match pe.at {
            None => pe.call == Call::Restart || faulted,
            Some(At::Enter | At::Intend | At::Agree | At::Compare | At::Publish) => true,
            Some(At::Verify) => pe.number != 0,
            Some(At::Restore | At::Reset) => true,
            Some(At::Copy) => !pe.middle,
            Some(At::Finish) => !pe.middle && !self.copies(pe),
            Some(At::Verdict) => pe.words == 0,
            Some(At::Rebuild) => {
                !pe.findings.0
                    || !pe.middle && pe.snapshots[self.snapshot(pe.number)] == Bytes::Void
            }
            Some(At::Reencode) => !pe.findings.1 || !pe.middle && slot == Bytes::Void,
            Some(At::Encode) if pe.middle => {
                faulted && self.broken != Broken::Rule(Mutant::ViewNotChecked)
            }
            Some(At::Encode) => slot == Bytes::Void,
            _ => false,
        }
    }

    /// Sets to zero all values that are rewritten before any PE reads them.
    pub fn forget(&self, state: &mut JobState) {
        let pes = state.pes;
        let alive = || pes[..self.pes].iter().filter(|pe| pe.alive);
        // A view that some PE is in, or may still enter.
        let entered = |view: u8| alive().any(|pe| pe.shown <= view || pe.view == view);
        let reads_live = |pe: &PeState, p: usize| match pe.call {
            Call::Checkpoint | Call::Copy | Call::Protect => checkpoints(pe),
            Call::Restart | Call::Finalize => state.views[usize::from(pe.view)] >> p & 1 == 1,
        };
        for (p, pe) in state.pes[..self.pes].iter_mut().enumerate() {
            if pe.alive {
                let begins = [At::Enter, At::Follow, At::Whole, At::MeetSettling];
                if pe.at.is_none_or(|at| begins.contains(&at)) {
                    (pe.number, pe.words, pe.ends) = (0, 0, false);
                }
                pe.good &= pe.at == Some(At::Publish); // elsewhere it is sealed at once
                if pe.at.is_none() || checkpoints(pe) {
                    pe.view = 0;
                } else {
                    pe.epoch = 0;
                }
            } else if !pe.may_be_rescued() && !alive().any(|pe| reads_live(pe, p)) {
                pe.live = None;
            }
            for (names, bytes) in pe.groups.slots.iter_mut().zip(pe.slots) {
                *names *= u8::from(bytes != Bytes::Void);
            }
            if !entered(pe.step.0) {
                pe.step = (0, 0);
                if !pe.alive {
                    pe.findings = (false, false);
                }
                if pe.node_lost {
                    (pe.phase, pe.decided) = (None, None); // it is wiped before any PE looks
                }
            }
        }
        if !alive().any(checkpoints) {
            state.gate = (0, 0);
        }
    }

    /// Normalizes an end, independent of the reporting PE: all PEs have seen the newest view, and a
    /// verdict only counts the lost and the unusable PEs.
    pub fn answer(&self, state: &JobState) -> JobState {
        let mut end = *state;
        end.pes.iter_mut().for_each(|pe| pe.places = Places::default());
        for pe in end.pes[..self.pes].iter_mut().filter(|pe| pe.alive) {
            pe.shown = state.current;
            if pe.words != NO_WITNESS {
                let (lost, unusable) = (pe.words & 15, pe.words >> 4);
                pe.words = (lost.count_ones() | unusable.count_ones() << 4) as u8;
            }
        }
        self.forget(&mut end);
        end
    }

    /// Returns the renumberings of the PEs that no rule can distinguish.
    pub fn symmetries(&self) -> Vec<[u8; MOST]> {
        let mut found = Vec::new();
        for code in 0..MOST.pow(MOST as u32) {
            let order: [u8; MOST] =
                std::array::from_fn(|place| (code / MOST.pow(place as u32) % MOST) as u8);
            let all = order.iter().fold(0, |all, p| all | 1u8 << p) == 15;
            let fixed = |p: usize| usize::from(order[p]) == p;
            if all && (self.pes..MOST).all(fixed) && self.same_under(&order) {
                found.push(order);
            }
        }
        found
    }

    fn same_under(&self, order: &[u8; MOST]) -> bool {
        let moved = |set: usize| (0..MOST).fold(0, |out, p| out | (set >> p & 1) << order[p]);
        let both = |sets: usize| moved(sets & 15) | moved(sets >> 4) << 4;
        // No rule queries the plan about more PEs than are lost: `judge` checks that.
        let incomplete = |sets: usize| (sets & 15 | sets >> 4).count_ones() as usize;
        let few = |sets| self.broken != Broken::Nothing || incomplete(sets) <= self.most_lost();
        let sets = (0..256).filter(|sets| (sets & 15 | sets >> 4) >> self.pes == 0 && few(*sets));
        let node = |p: usize| p / self.per_node;
        let pair = |p: usize, q: usize| {
            let (to_p, to_q) = (usize::from(order[p]), usize::from(order[q]));
            (node(p) == node(q)) == (node(to_p) == node(to_q))
        };
        let nodes = (0..self.pes).all(|p| (0..self.pes).all(|q| pair(p, q)));
        let words = |it: &PlacedGroups, sets: usize| usize::from(it.verdicts[sets]);
        let alike_in = |sets: usize| {
            let alike = |it| both(words(it, sets)) == words(it, both(sets));
            self.groups.alternating().all(alike)
        };
        // The reference is the lowest of several PEs, and so is a node: numbers matter.
        let alike = |p: usize| usize::from(order[p]) == p;
        (!self.two && !self.groups.is_by_node() || (0..self.pes).all(alike))
            && nodes
            && self.groups.alternating().all(|placed| placed.same_under(order))
            && sets.into_iter().all(alike_in)
    }
}

/// True if the PE is in a checkpoint, or in the program before it.
fn checkpoints(pe: &PeState) -> bool {
    use At::*;
    let steps = [
        Enter, Follow, Intend, BarrierQ, Agree, Compare, BarrierC, Encode, Publish, BarrierA, Copy,
        BarrierB,
    ];
    pe.call == Call::Checkpoint && !pe.finished && pe.at.is_none_or(|at| steps.contains(&at))
}
