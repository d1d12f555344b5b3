//! Fewer states for the same answer: symmetry, late looks, dead words, local steps taken alone.
//!
//! *Symmetry.* A renumbering of the PEs under which the real plan's verdicts are renumbered too
//! leaves every rule of the model as it is, for no other rule looks at a number. States that differ
//! by it are searched once. Verdicts are compared as far as a plan can be asked for one: on at most
//! as many PEs as can be lost (`judge` fails if it is ever more). The words of the barrier lie with
//! one PE; which one, the model leaves open (see waiting, below).
//!
//! *Late looks.* That an agent shows a view is no step. `shown` is the oldest view that a PE may
//! still be shown; where it looks, one successor is made for every view that makes a difference, up
//! to the newest. A substitute is started when all have been shown the newest: `shown` is that.
//!
//! *Waiting.* A PE that waits may see late that all have come: where its view has changed it may
//! turn back even then, as over a network, whose words take their time, and as when the words of a
//! barrier are lost with the node that has them. The full search has these steps too.
//!
//! *Dead words.* What is written anew before anybody reads it is put to zero ([`Model::forget`]):
//! the barrier's words once nobody is on the way through a checkpoint, what a dead PE wrote in a
//! view that nobody is in or can enter any more (but not its vote, while its memory is there), the
//! number of a PE that is about to decide.
//!
//! *Local steps.* Where going on first allows all that can follow otherwise, it is done at once
//! ([`Model::take_local_steps`]) and the state before it is not kept:
//! - a step that reads what nobody else changes (the PE's own fields and store) and writes what
//!   nobody reads before this PE has come to a later meeting: findings are read after
//!   `MeetVerified`, live memory after `BarrierQ` or `MeetRestored`, phase and decision at
//!   `Decide`, behind `MeetSettling` of the same view, where `Entering(n + 1)` counts like
//!   `Agreed(n)`;
//! - coming to a meeting or barrier: it holds up no PE, and a PE that came may turn back, and come
//!   again in a newer view. Hence the first whole view is as good as a later one, too;
//! - leaving a meeting or barrier for the next one, where nothing lies between that could not be
//!   done again: to turn back from there is to turn back from here. Never where a decision is
//!   taken, findings of others are read, a snapshot, slot or seal that counts is changed,
//!   redundancy is whole, or a call ends;
//! - the step after one that cannot be turned back from, where the two leave behind nothing that
//!   the first alone would not: a slot is sealed right after it is encoded (who dies in between
//!   leaves a void slot, as who dies before), a copy begins when its barrier is left.
//!
//! A death between two such steps leaves what a death before or after them leaves. Local steps
//! never lead back, so nothing is put off for ever, and a state in which nothing moves has none.
//!
//! `the_reductions_change_no_answer` compares the ends with those of the full search.

use super::model::{Broken, Model, NOBODY};
use super::state::{Bytes, JobState, MOST, PeState, Places};
use crate::mutant::Mutant;
use crate::protocol::{At, Call, meeting};
use crate::quantity::CheckpointNumber;
use crate::store::phase::Phase;

impl Model {
    /// Takes the steps that may be taken alone until there is none.
    pub fn take_local_steps(&self, state: &mut JobState) {
        let mut next = Vec::with_capacity(1);
        while let Some((p, shown)) = (0..self.pes).find_map(|p| self.local(state, p)) {
            match state.pes[p].at {
                None => self.process(state, p, &mut next),
                Some(_) => self.step(state, p, shown, &mut next),
            }
            .expect("a local step breaks no promise");
            // The first of waiting and leaving is what may be done alone.
            *state = next.swap_remove(0);
            next.clear();
        }
    }

    /// The view in which the next step of PE `p` may be taken alone, if it may.
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

    /// Whether a PE that all have come to may go on alone: to where it waits again, and nobody
    /// could tell that it has not turned back instead.
    fn passes(&self, state: &JobState, p: usize, at: At) -> Option<(usize, u8)> {
        let pe = &state.pes[p];
        let slot = pe.slots[self.slot(pe.number)];
        let free = match at {
            At::BarrierQ => true,
            At::BarrierC => slot == Bytes::Void,
            At::MeetDecided => !self.copies(pe),
            At::MeetSettled => pe.call.recovers() && pe.number != 0,
            At::MeetJudged => pe.words == 0 && (!pe.findings.0 || pe.snapshot == Bytes::Void),
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
        let number = CheckpointNumber(pe.number.into());
        matches!(pe.phase, Some(Phase::Encoded(n) | Phase::Copying(n)) if n == number)
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
            Some(At::Rebuild) => !pe.findings.0 || !pe.middle && pe.snapshot == Bytes::Void,
            Some(At::Reencode) => !pe.findings.1 || !pe.middle && slot == Bytes::Void,
            Some(At::Encode) if pe.middle => {
                faulted && self.broken != Broken::Rule(Mutant::ViewNotChecked)
            }
            Some(At::Encode) => slot == Bytes::Void,
            _ => false,
        }
    }

    /// Puts to zero what nobody reads before it is written anew.
    pub fn forget(&self, state: &mut JobState) {
        let pes = state.pes;
        let alive = || pes[..self.pes].iter().filter(|pe| pe.alive);
        // A view somebody is in, or may yet enter.
        let entered = |view: u8| alive().any(|pe| pe.shown <= view || pe.view == view);
        let reads_live = |pe: &PeState, p: usize| match pe.call {
            Call::Checkpoint => checkpoints(pe),
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
            if !entered(pe.step.0) {
                pe.step = (0, 0);
                if !pe.alive {
                    pe.findings = (false, false);
                }
                if pe.node_lost {
                    (pe.phase, pe.decided) = (None, None); // as it is wiped before anybody looks
                }
            }
        }
        if !alive().any(checkpoints) {
            state.gate = (0, 0);
        }
    }

    /// What an end says, whoever says it: all have been shown all there is, and of a verdict it
    /// counts how many PEs are lost and how many are of no use.
    pub fn answer(&self, state: &JobState) -> JobState {
        let mut end = *state;
        end.pes.iter_mut().for_each(|pe| pe.places = Places::default());
        for pe in end.pes[..self.pes].iter_mut().filter(|pe| pe.alive) {
            pe.shown = state.current;
            if pe.words != NOBODY {
                let (lost, unusable) = (pe.words & 15, pe.words >> 4);
                pe.words = (lost.count_ones() | unusable.count_ones() << 4) as u8;
            }
        }
        self.forget(&mut end);
        end
    }

    /// The orders in which the PEs may be numbered without any rule noticing.
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
        // No rule asks the plan about more PEs than are lost: `judge` sees to that.
        let incomplete = |sets: usize| (sets & 15 | sets >> 4).count_ones() as usize;
        let few = |sets| self.broken != Broken::Nothing || incomplete(sets) <= self.most_lost();
        let sets = (0..256).filter(|sets| (sets & 15 | sets >> 4) >> self.pes == 0 && few(*sets));
        let node = |p: usize| p / self.per_node;
        let pair = |p: usize, q: usize| {
            let (to_p, to_q) = (usize::from(order[p]), usize::from(order[q]));
            (node(p) == node(q)) == (node(to_p) == node(to_q))
        };
        let nodes = (0..self.pes).all(|p| (0..self.pes).all(|q| pair(p, q)));
        let words = |sets: usize| usize::from(self.verdicts[sets]);
        // The reference is the lowest of several: numbers count.
        let alike = |p: usize| usize::from(order[p]) == p;
        (!self.two || (0..self.pes).all(alike))
            && nodes
            && sets.into_iter().all(|sets| both(words(sets)) == words(both(sets)))
    }
}

/// On the way through a checkpoint, or in the program before it.
fn checkpoints(pe: &PeState) -> bool {
    use At::*;
    let steps = [
        Enter, Follow, Intend, BarrierQ, Agree, Compare, BarrierC, Encode, Publish, BarrierA, Copy,
        BarrierB,
    ];
    pe.call == Call::Checkpoint && !pe.finished && pe.at.is_none_or(|at| steps.contains(&at))
}
