//! Fewer states for the same answer: symmetry, dead words, local steps taken alone.
//!
//! *Symmetry.* A renumbering of the PEs that keeps PE 0 (whose memory has the barrier) and under
//! which the real plan's verdicts are renumbered too leaves every rule of the model as it is, for
//! no other rule looks at a number. States that differ by it are searched once. With one parity
//! all PEs but PE 0 are interchangeable; with two parities over four PEs only a reflection is left.
//!
//! *Dead words.* What is written anew before anybody reads it is put to zero ([`Model::forget`]):
//! the barrier's words once nobody is on the way through a checkpoint, what a dead PE wrote in a
//! view that nobody is in or can enter any more, the number of a PE that is about to decide.
//!
//! *Local steps.* Where a PE stands at a step that nobody can tell from having been taken already,
//! it is taken at once ([`Model::take_local_steps`]) and the state before it is not kept. It
//! - reads what nobody else changes: the PE's own fields and own store, and of `shown`, which the
//!   agent writes, only that it differs from `joined`, which stays so;
//! - writes what nobody reads before this PE has come to a later meeting: its findings are read
//!   after `MeetVerified`, its live memory after `BarrierQ` or `MeetRestored`, phase and decision
//!   at `Decide`, behind `MeetSettling` of the same view, the barrier's words after `MeetReset`;
//! - leaves nothing that a substitute could find: if the PE dies, its findings, live memory, phase
//!   and the barrier's words are written anew before anybody reads them (the first half of a long
//!   step is local only where the bytes it voids are void already);
//! - cannot break a promise and ends no call.
//!
//! So it commutes with every step of the others, with views being shown and with deaths, its own
//! among them: whatever can follow before it can follow after it. Local steps never lead back, so
//! nothing is put off for ever. Meetings, arrivals at barriers, decisions, and what changes
//! snapshots, slots or seals are never local.
//!
//! `the_reductions_change_no_answer` compares the ends with those of the full search.

use super::model::{Broken, Bytes, MOST, Model};
use super::state::{Pe, State};
use crate::protocol::{At, Call};
use crate::store::phase::Phase;

impl Model {
    /// Takes the steps that may be taken alone until there is none.
    pub fn take_local_steps(&self, state: &mut State) {
        let mut next = Vec::with_capacity(1);
        while let Some(p) = (0..self.pes).find(|&p| self.local(&state.pes[p])) {
            self.process(state, p, &mut next).expect("a local step breaks no promise");
            *state = next.pop().expect("a local step waits for nothing");
        }
    }

    /// Whether the next step of a PE may be taken alone.
    fn local(&self, pe: &Pe) -> bool {
        let number = u64::from(pe.number);
        let slot = pe.slots[self.slot(pe.number)];
        let copies = matches!(pe.phase, Some(Phase::Encoded(n) | Phase::Copying(n)) if n == number);
        if !pe.alive || pe.finished || pe.condemned {
            return false;
        }
        let faulted = pe.shown != pe.joined;
        match pe.at {
            None => pe.call == Call::Restart || faulted,
            Some(At::Enter) => faulted,
            Some(At::BarrierQ | At::BarrierC | At::BarrierA | At::BarrierB) => {
                faulted && !pe.middle
            }
            Some(At::Intend | At::Agree | At::Verify | At::Restore | At::Reset) => true,
            Some(At::Finish) => !pe.middle && !copies,
            Some(At::Verdict) => pe.words == 0,
            Some(At::Rebuild) => !pe.findings.0 || !pe.middle && pe.snapshot == Bytes::Void,
            Some(At::Reencode) => !pe.findings.1 || !pe.middle && slot == Bytes::Void,
            Some(At::Encode) if pe.middle => faulted && self.broken != Broken::ViewNotChecked,
            Some(At::Encode) => slot == Bytes::Void,
            _ => false,
        }
    }

    /// Puts to zero what nobody reads before it is written anew.
    pub fn forget(&self, state: &mut State) {
        let pes = state.pes;
        let alive = || pes[..self.pes].iter().filter(|pe| pe.alive);
        // A view somebody is in, or may yet enter.
        let entered = |view: u8| alive().any(|pe| pe.shown <= view || pe.view == view);
        let reads_live = |pe: &Pe, p: usize| match pe.call {
            Call::Checkpoint => checkpoints(pe),
            Call::Restart => state.views[usize::from(pe.view)] >> p & 1 == 1,
        };
        for (p, pe) in state.pes[..self.pes].iter_mut().enumerate() {
            if pe.alive {
                if matches!(pe.at, None | Some(At::Enter | At::Whole | At::MeetSettling)) {
                    (pe.number, pe.good, pe.words) = (0, false, 0);
                }
                if pe.at.is_none() || checkpoints(pe) {
                    pe.view = 0;
                } else {
                    pe.epoch = 0;
                }
            } else if !alive().any(|pe| reads_live(pe, p)) {
                pe.live = None;
            }
            if !entered(pe.step.0) {
                pe.step = (0, 0);
                if !pe.alive {
                    (pe.phase, pe.decided, pe.findings) = (None, None, (false, false));
                }
            }
        }
        if !alive().any(checkpoints) {
            state.gate = (0, 0);
        }
    }

    /// The orders in which the PEs may be numbered without any rule noticing.
    pub fn symmetries(&self) -> Vec<[u8; MOST]> {
        let mut found = Vec::new();
        for code in 0..MOST.pow(MOST as u32) {
            let order: [u8; MOST] =
                std::array::from_fn(|place| (code / MOST.pow(place as u32) % MOST) as u8);
            let all = order.iter().fold(0, |all, p| all | 1u8 << p) == 15;
            let fixed = |p: usize| usize::from(order[p]) == p;
            if all && fixed(0) && (self.pes..MOST).all(fixed) && self.same_under(&order) {
                found.push(order);
            }
        }
        found
    }

    fn same_under(&self, order: &[u8; MOST]) -> bool {
        let moved = |set: usize| (0..MOST).fold(0, |out, p| out | (set >> p & 1) << order[p]);
        let both = |sets: usize| moved(sets & 15) | moved(sets >> 4) << 4;
        let sets = (0..256).filter(|sets| (sets & 15 | sets >> 4) >> self.pes == 0);
        let node = |p: usize| p / self.per_node;
        let pair = |p: usize, q: usize| {
            let (to_p, to_q) = (usize::from(order[p]), usize::from(order[q]));
            (node(p) == node(q)) == (node(to_p) == node(to_q))
        };
        let nodes = (0..self.pes).all(|p| (0..self.pes).all(|q| pair(p, q)));
        let words = |sets: usize| usize::from(self.verdicts[sets]);
        nodes && sets.into_iter().all(|sets| both(words(sets)) == words(both(sets)))
    }
}

/// On the way through a checkpoint, or in the program before it.
fn checkpoints(pe: &Pe) -> bool {
    use At::*;
    let steps = [
        Enter, Intend, BarrierQ, Agree, Compare, BarrierC, Encode, Publish, BarrierA, Copy,
        BarrierB,
    ];
    pe.call == Call::Checkpoint && pe.at.is_none_or(|at| steps.contains(&at))
}
