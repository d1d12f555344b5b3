//! What the states of the protocol do to the model's memory: the driver's acts, made small.

use super::model::{AGREED, Broken, Bytes, COPYING, ENCODED, ENTERING, Model, Pe, State, phase_of};
use crate::protocol::{At, Outcome};
use crate::recovery::plan::{self, Finding};
use crate::store::phase::{Phase, Vote, decide};

/// An outcome, or None in the middle of a long step; the error says which promise is broken.
pub type Act = Result<Option<Outcome>, String>;

impl Model {
    /// Does what `at` says. None: in the middle of it, or it must wait.
    pub fn act(&self, state: &mut State, p: usize, at: At) -> Act {
        match at {
            At::Verify | At::Judge | At::Verdict | At::Rebuild | At::Restore => {
                self.restart(state, p, at)
            }
            At::Reencode | At::Reset | At::Join => self.restart(state, p, at),
            At::Whole | At::Decide | At::Finish => self.settle(state, p, at),
            _ => self.checkpoint(state, p, at),
        }
    }

    fn checkpoint(&self, state: &mut State, p: usize, at: At) -> Act {
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
            _ => {}
        }
        Ok(Some(Outcome::Done))
    }

    fn settle(&self, state: &mut State, p: usize, at: At) -> Act {
        let number = state.pes[p].number;
        match at {
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
            _ => {}
        }
        Ok(Some(Outcome::Done))
    }

    fn restart(&self, state: &mut State, p: usize, at: At) -> Act {
        let number = state.pes[p].number;
        let slot = self.slot(number);
        match at {
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
        let vote =
            |pe: &Pe| Vote { phase: pe.phase.map(phase_of), decided: pe.decided.map(u64::from) };
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
