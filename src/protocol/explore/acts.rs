//! What the states of the protocol do to the model's memory: the driver's acts, made small.

use super::model::{Broken, Bytes, Model, NOBODY};
use super::state::{BEFORE, INSIDE, Pe, State};
use crate::protocol::{At, Call, Outcome};
use crate::store::phase::{Phase, Vote, decide};
use crate::store::site::{Deed, Progress, Verdict, apart, follow};

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
            At::Enter if state.pes[p].is_new() => return Ok(Some(Outcome::Lost)),
            At::Enter => return Ok(Some(self.enter(state, p, healthy))),
            At::Follow => return self.follow(state, p),
            At::Intend => {
                let pe = &mut state.pes[p];
                pe.number = pe.agreed + 1;
                pe.phase = Some(Phase::Entering(u64::from(pe.number)));
            }
            At::BarrierB if self.broken == Broken::NoBarrierB => {}
            At::BarrierA if self.broken == Broken::NoBarrierA => {}
            At::BarrierQ | At::BarrierC | At::BarrierA | At::BarrierB => {
                return Ok(self.barrier(state, p));
            }
            At::Compare => state.pes[p].shows = number,
            At::Encode => {
                if state.begins(p, |pe| pe.slots[slot] = Bytes::Void) {
                    return Ok(None);
                }
                let shown = state.pes[..self.pes].iter().all(|pe| pe.shows == number);
                state.pes[p].good = shown && self.all_live(state, number);
                let unchecked = self.broken == Broken::ViewNotChecked;
                return Ok(Some(if unchecked { Outcome::Done } else { healthy }));
            }
            At::Publish => {
                let pe = &mut state.pes[p];
                pe.slots[slot] = Bytes::Sealed(number, pe.good);
                pe.phase = Some(Phase::Encoded(u64::from(number)));
                pe.good = false;
            }
            At::Copy => return Ok(state.copy(p, number)),
            _ => {}
        }
        Ok(Some(Outcome::Done))
    }

    /// Shows the call that PE `p` is about to make, in a program with two places. True if it is
    /// made before the loop, where nothing is computed: what is saved there is what all have.
    pub fn calls(&self, state: &mut State, p: usize) -> bool {
        let pe = &mut state.pes[p];
        let places = &mut pe.places;
        let site = if places.before { BEFORE } else { INSIDE };
        let late = places.apart.2 && places.apart.1 & site as u8 == 0;
        places.call = (site as u8, pe.agreed + 1, pe.joined == 0, late);
        places.written |= !places.before;
        if places.before {
            pe.at = Some(At::Enter);
            pe.live = pe.live.map(|live| live + u8::from(!late));
        }
        pe.places.before
    }

    fn enter(&self, state: &mut State, p: usize, healthy: Outcome) -> Outcome {
        let pe = &mut state.pes[p];
        let (site, _, _, late) = pe.places.call;
        if late && healthy == Outcome::Done && self.broken != Broken::EveryCallMeets {
            return Outcome::Behind;
        }
        if pe.places.apart.0 != 0 {
            pe.places.shown = (pe.joined, site, pe.places.written);
        }
        healthy
    }

    /// The real rule, over what the reference has shown in this view.
    fn follow(&self, state: &State, p: usize) -> Act {
        let pe = &state.pes[p];
        let progress = |deed, site: u8, written: bool| Progress {
            deed,
            barriers: 0,
            reached: false,
            site: u64::from(site),
            written: u64::from(written),
        };
        let other = &state.pes[usize::from(pe.places.apart.0 - 1)];
        let (view, site, written) = other.places.shown;
        let reference = match (other.joined == pe.joined, view == pe.joined) {
            (true, _) if other.finished => Some(progress(Deed::Waits, 0, true)),
            (_, true) => Some(progress(Deed::Checkpoint, site, written)),
            _ => None,
        };
        let own = progress(Deed::Checkpoint, pe.places.call.0, pe.places.written);
        match follow(&own, reference.as_ref(), Vec::new) {
            Some(Verdict::Pass) => Ok(Some(Outcome::Behind)),
            Some(Verdict::Meet) if written => Err(format!("no mix: PE {p} meets who has gone on")),
            Some(Verdict::Meet) => Ok(Some(Outcome::Done)),
            Some(Verdict::Mismatch) => Err(format!("PE {p} has written nothing")),
            None if pe.shown != pe.joined => Ok(Some(Outcome::Changed)),
            None => Ok(None),
        }
    }

    fn find_apart(&self, state: &mut State, p: usize) {
        let living = state.living_in(state.pes[p].view);
        let living = (0..self.pes).filter(|q| living >> q & 1 == 1);
        let calls: Vec<_> = living.map(|q| (q, state.pes[q].places.called())).collect();
        let ends = calls.iter().any(|&(q, _)| state.pes[q].finished);
        let places = &mut state.pes[p].places;
        places.apart = apart(&calls).filter(|_| !ends).map_or((0, 0, false), |apart| {
            let sites = apart.sites.iter().fold(0, |sites, &site| sites | site as u8);
            (apart.reference as u8 + 1, sites, apart.behind.contains(&p))
        });
        (places.written, places.shown) = (false, (0, 0, false));
    }

    fn settle(&self, state: &mut State, p: usize, at: At) -> Act {
        let number = state.pes[p].number;
        match at {
            At::Whole => {
                let shown = state.pes[p].shown;
                if !self.whole(state, shown) {
                    return Ok(None);
                }
                state.pes[p].view = shown;
            }
            At::Decide => return Ok(Some(self.decide(state, p))),
            At::Finish if state.pes[p].is_new() => return Ok(state.finish_inherited(p, number)),
            At::Finish => {
                let pe = &mut state.pes[p];
                let copies = match pe.phase {
                    Some(Phase::Encoded(n) | Phase::Copying(n)) => n == u64::from(number),
                    _ => false,
                };
                if pe.middle || copies {
                    let copied = state.copy(p, number);
                    state.pes[p].agreed = number;
                    return Ok(copied);
                }
                pe.phase = pe.phase.map(|_| Phase::Agreed(u64::from(number)));
                pe.agreed = number;
            }
            _ => {}
        }
        Ok(Some(Outcome::Done))
    }

    fn restart(&self, state: &mut State, p: usize, at: At) -> Act {
        let number = state.pes[p].number;
        let slot = self.slot(number);
        let serves = state.pes[p].call == Call::Finalize && self.broken != Broken::EndGoesBack;
        match at {
            At::Rebuild | At::Restore | At::Reencode if serves => {}
            At::Reencode if state.pes[p].ends && self.broken != Broken::ParityOfTheEnd => {}
            At::Verify => {
                let unseen = self.broken == Broken::AdoptedUnseen;
                let pe = &mut state.pes[p];
                let unseen = unseen && pe.phase.is_none();
                let bad = |bytes: Bytes| !unseen && !bytes.is(number);
                pe.findings = (bad(pe.snapshot), bad(pe.slots[slot]));
            }
            At::Judge => {
                let others = self.pes(state).iter().enumerate().filter(|&(q, _)| q != p);
                let ends = others.into_iter().any(|(_, pe)| pe.finished);
                (state.pes[p].words, state.pes[p].ends) = (self.judge(state)?, ends);
            }
            At::Verdict if state.pes[p].words != 0 => return Ok(Some(Outcome::Lost)),
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
            At::Reencode if self.broken == Broken::ParityNotMadeAnew => {}
            At::Reencode if state.pes[p].findings.1 => {
                if state.begins(p, |pe| pe.slots[slot] = Bytes::Void) {
                    return Ok(None);
                }
                let good = self.all_live(state, number);
                if state.pes[p].shown != state.pes[p].view && self.broken != Broken::ViewNotChecked
                {
                    return Ok(Some(Outcome::Changed));
                }
                state.pes[p].slots[slot] = Bytes::Sealed(number, good);
            }
            At::Reset => {
                state.pes[p].phase = Some(Phase::Agreed(u64::from(number)));
                state.pes[p].epoch = 0;
                state.gate = (0, 0);
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
        if pe.middle {
            return (state.gate.1 >= pe.epoch).then_some(Outcome::Done);
        }
        if pe.shown != pe.joined {
            return Some(Outcome::Changed);
        }
        pe.epoch += 1;
        pe.middle = true;
        state.gate.0 += 1;
        if state.gate.0 == pe.epoch * self.pes as u8 {
            state.gate.1 = pe.epoch;
        }
        None
    }

    fn decide(&self, state: &mut State, p: usize) -> Outcome {
        let living = state.living_in(state.pes[p].view);
        let vote = |pe: &Pe| Vote { phase: pe.phase, decided: pe.decided.map(u64::from) };
        let alive = (0..self.pes).filter(|q| living >> q & 1 == 1);
        let votes: Vec<Vote> = alive.map(|q| vote(&state.pes[q])).collect();
        let Some(mut target) = decide(&votes) else {
            if state.pes[p].shown != state.pes[p].view {
                return Outcome::Changed;
            }
            state.pes[p].words = NOBODY;
            return Outcome::Lost;
        };
        if self.broken == Broken::ForwardTooEarly {
            let encoded = votes.iter().filter_map(|vote| match vote.phase {
                Some(Phase::Encoded(n)) => Some(n),
                _ => None,
            });
            target = encoded.fold(target, u64::max);
        }
        if self.two && state.pes[p].call.recovers() {
            self.find_apart(state, p);
        }
        state.pes[p].number = target as u8;
        if self.broken != Broken::DecisionNotWritten {
            state.pes[p].decided = Some(target as u8);
        }
        Outcome::Done
    }

    /// The real plan's verdict on the findings of all, and how many PEs have lost everything.
    fn verdict(&self, state: &State) -> (u8, usize) {
        let mask = |found: fn(&Pe) -> bool| {
            let pes = self.pes(state).iter().enumerate();
            pes.fold(0, |mask, (p, pe)| mask | usize::from(found(pe)) << p)
        };
        let (snapshots, parities) = (mask(|pe| pe.findings.0), mask(|pe| pe.findings.1));
        let lost = (snapshots & parities).count_ones() as usize;
        (self.verdicts[parities << 4 | snapshots], lost)
    }

    fn judge(&self, state: &State) -> Result<u8, String> {
        let (words, lost) = self.verdict(state);
        let incomplete = self.pes(state).iter().filter(|pe| pe.findings.0 || pe.findings.1).count();
        if self.broken == Broken::Nothing && incomplete > self.most_lost() {
            return Err(format!("{incomplete} PEs miss something, more than were ever lost"));
        }
        let hopeful = self.broken == Broken::PlanTooHopeful && lost <= self.parity + 1;
        Ok(if hopeful { 0 } else { words })
    }

    /// What a rebuild reads is what verification passed on the other PEs. None if it is not there
    /// any more: every tile is checked as it is read. What is decoded of less than a stripe needs
    /// is not what was saved; that there is enough, the true plan has seen to.
    fn sources(&self, state: &State, p: usize, number: u8, slot: usize) -> Option<bool> {
        let others = self.pes(state).iter().enumerate().filter(|&(q, _)| q != p);
        let used = others
            .flat_map(|(_, pe)| [(pe.findings.0, pe.snapshot), (pe.findings.1, pe.slots[slot])]);
        let mut good = self.broken != Broken::PlanTooHopeful || self.verdict(state).0 == 0;
        for (_, bytes) in used.filter(|(bad, _)| !bad) {
            match bytes {
                Bytes::Sealed(n, is_good) if n == number => good &= is_good,
                _ => return None,
            }
        }
        Some(good)
    }

    pub fn whole(&self, state: &State, view: u8) -> bool {
        state.living_in(view).count_ones() as usize == self.pes
    }

    fn all_live(&self, state: &State, number: u8) -> bool {
        self.pes(state).iter().all(|pe| pe.live == Some(number))
    }
}

impl State {
    /// The first half of a long step, if it has not been taken.
    fn begins(&mut self, p: usize, first_half: impl Fn(&mut Pe)) -> bool {
        let begins = !self.pes[p].middle;
        if begins {
            first_half(&mut self.pes[p]);
            self.pes[p].middle = true;
        }
        begins
    }

    /// What a substitute took over is made that of checkpoint `number`, or has no say.
    fn finish_inherited(&mut self, p: usize, number: u8) -> Option<Outcome> {
        let target = u64::from(number);
        let first_half = |pe: &mut Pe| {
            pe.phase = Some(Phase::Copying(target));
            pe.snapshot = Bytes::Void;
        };
        let pe = self.pes[p];
        let forward = pe.middle || pe.phase == Some(Phase::Encoded(target));
        if forward && self.begins(p, first_half) {
            return None;
        }
        let pe = &mut self.pes[p];
        if forward {
            pe.snapshot = pe.beside;
        }
        pe.beside = Bytes::Void;
        pe.phase = pe.phase.filter(|phase| phase.has(target)).map(|_| Phase::Agreed(target));
        pe.agreed = number;
        Some(Outcome::Done)
    }

    fn copy(&mut self, p: usize, number: u8) -> Option<Outcome> {
        let first_half = |pe: &mut Pe| {
            pe.phase = Some(Phase::Copying(u64::from(number)));
            pe.snapshot = Bytes::Void;
        };
        if self.begins(p, first_half) {
            return None;
        }
        let pe = &mut self.pes[p];
        pe.snapshot = Bytes::Sealed(number, pe.live == Some(number));
        pe.phase = Some(Phase::Agreed(u64::from(number)));
        Some(Outcome::Done)
    }
}
