//! The port of the model: the effect of the driver's operations on the small memory.

use super::model::{Broken, Model, NO_WITNESS};
use super::state::{BEFORE, Bytes, INSIDE, JobState, PeState, full, packed, program};
use crate::mutant::Mutant;
use crate::protocol::driver::{Driver, EntryStatus, Judgement, OpProgress, Port, StepResult};
use crate::protocol::operation::{Op, StorePart};
use crate::protocol::{At, Call, Outcome, meeting};
use crate::quantity::{CheckpointNumber, Pe};
use crate::status::Ending;
use crate::store::phase::{Phase, Vote, Votes};
use crate::store::site::{Activity, Calls, Progress as Shown, Verdict, apart, follow};

/// An outcome, or None in the middle of a long step; the error names the broken promise.
pub type Act = Result<Option<Outcome>, String>;

/// True before operations at which another PE's step or a death may come: before bytes move, once
/// their destination is void, and while waiting for other PEs.
fn pauses(op: Op) -> bool {
    use Op::*;
    matches!(op, Await | Encode | CopyLive | BringInherited | Decode | EncodeMissing)
}

impl Model {
    /// Continues the state of PE `p`. None if it is in the middle of the state, or must wait.
    pub fn act(&self, state: &mut JobState, p: usize) -> Act {
        let (mut driver, goes_on) = (self.driver(state, p), state.pes[p].middle);
        let at = driver.at();
        let mut memory = ModelMemory { model: self, state, p, broken_promise: None };
        let mut moved = goes_on;
        let outcome = loop {
            if driver.op().is_some_and(pauses) && !std::mem::take(&mut moved) {
                memory.state.pes[p].middle = true;
                break None;
            }
            match driver.step(&mut memory) {
                StepResult::Again => {}
                StepResult::Wait => break None,
                StepResult::Left(_, outcome) => break Some(outcome),
            }
        };
        let (pe, error) = (&mut memory.state.pes[p], memory.broken_promise);
        if ![At::Enter, At::Follow].contains(&at) {
            (pe.number, pe.ends) = (packed(driver.number()), driver.ends().is_some());
        }
        if driver.at() == At::Unrecoverable && pe.words == 0 {
            pe.words = NO_WITNESS;
        }
        error.map_or(Ok(outcome), Err)
    }

    /// Continues the background of PE `p`. Returns the end that it came to, if it did.
    pub fn act_behind(&self, state: &mut JobState, p: usize) -> Result<Option<At>, String> {
        let pe = &state.pes[p];
        let (at, middle) = pe.behind.expect("a background is under way");
        let number = (full(pe.agreed).next(), false);
        let before = middle.then_some(pauses as fn(Op) -> bool);
        let mut driver = Driver::restored((Call::Protect, at), number, None, false, before);
        let mut memory = ModelMemory { model: self, state, p, broken_promise: None };
        let mut moved = middle;
        loop {
            if driver.op().is_some_and(pauses) && !std::mem::take(&mut moved) {
                memory.own().behind = Some((driver.at(), true));
                break;
            }
            match driver.step(&mut memory) {
                StepResult::Again => {}
                StepResult::Wait => break,
                StepResult::Left(..) if driver.at().is_end() => break,
                StepResult::Left(..) => {
                    memory.own().behind = Some((driver.at(), false));
                    break;
                }
            }
        }
        let end = driver.at().is_end().then_some(driver.at());
        memory.broken_promise.map_or(Ok(end), Err)
    }

    /// Returns the driver of PE `p` at its current position.
    fn driver(&self, state: &JobState, p: usize) -> Driver {
        let pe = &state.pes[p];
        let at = pe.at.expect("inside a call");
        let begins = [At::Enter, At::Follow, At::Intend].contains(&at);
        let number = match begins {
            true if pe.groups.heals => full(pe.agreed).healed(),
            true => full(pe.agreed).next(),
            false => full(pe.number),
        };
        let number = (number, pe.groups.heals);
        let ends = pe.ends.then_some(Ending::Silent);
        let before = pe.middle.then_some(pauses as fn(Op) -> bool);
        Driver::restored((pe.call(self.parts), at), number, ends, pe.is_new(), before)
    }

    /// Publishes the call that PE `p` is about to make, in a program with two places. True if the
    /// call precedes the loop, where nothing is computed and all PEs have the same data.
    pub fn calls(&self, state: &mut JobState, p: usize) -> bool {
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

    fn find_diverged(&self, state: &mut JobState, p: usize) {
        let living = state.living_in(state.pes[p].view);
        let living = (0..self.pes).filter(|q| living >> q & 1 == 1);
        let living: Vec<usize> = living.collect();
        let ends = living.iter().any(|&q| state.pes[q].finished);
        let calls = living.iter().map(|&q| Calls::of(Pe::of(q), &state.pes[q].places.called()));
        let add = |mut all: Calls, call| {
            all.add(&call);
            all
        };
        let calls = calls.reduce(add).expect("it lives itself");
        let own = state.pes[p].places.called().site;
        let places = &mut state.pes[p].places;
        places.apart = apart(&calls, own).filter(|_| !ends).map_or((0, 0, false), |apart| {
            let sites = apart.sites.iter().fold(0, |sites, &site| sites | site as u8);
            (apart.reference.0 as u8 + 1, sites, apart.behind)
        });
        (places.written, places.shown) = (false, (0, 0, false));
    }

    /// Returns the real plan's verdict on all findings, and the number of PEs that have lost
    /// everything.
    fn verdict(&self, state: &JobState, p: usize) -> (u8, usize) {
        let mask = |found: fn(&PeState) -> bool| {
            let pes = self.pes(state).iter().enumerate();
            pes.fold(0, |mask, (p, pe)| mask | usize::from(found(pe)) << p)
        };
        let (snapshots, parities) = (mask(|pe| pe.findings.0), mask(|pe| pe.findings.1));
        let lost = (snapshots & parities).count_ones() as usize;
        (self.groups.verdict(state, p, parities << 4 | snapshots), lost)
    }

    fn judge(&self, state: &JobState, p: usize) -> Result<u8, String> {
        let (words, lost) = self.verdict(state, p);
        let incomplete = self.pes(state).iter().filter(|pe| pe.findings.0 || pe.findings.1).count();
        if self.broken == Broken::Nothing && incomplete > self.most_lost() {
            return Err(format!("{incomplete} PEs miss something, more than were ever lost"));
        }
        let hopeful =
            self.broken == Broken::Rule(Mutant::PlanTooHopeful) && lost <= self.parity + 1;
        Ok(if hopeful { 0 } else { words })
    }

    /// Returns true if the sources of a rebuild are good. A rebuild reads what verification
    /// accepted on the other PEs. None if a source is gone: every tile is checked as it is read.
    /// Decoding from fewer sources than a stripe needs gives wrong data; the real plan ensures that
    /// there are enough.
    fn sources(&self, state: &JobState, p: usize, number: u8, slot: usize) -> Option<bool> {
        let group = self.groups.group_of(state, p, p);
        let others = self.pes(state).iter().enumerate();
        let others = others.filter(|&(q, _)| q != p && group >> q & 1 == 1);
        let used = others.flat_map(|(q, pe)| {
            let of_groups = self.groups.is_of_groups(state, p, (q, slot));
            let parity = (pe.findings.1, pe.slots[slot], of_groups);
            [(pe.findings.0, pe.snapshots[self.snapshot(number)], true), parity]
        });
        let mut good =
            self.broken != Broken::Rule(Mutant::PlanTooHopeful) || self.verdict(state, p).0 == 0;
        for (_, bytes, of_groups) in used.filter(|(bad, ..)| !bad) {
            match bytes {
                Bytes::Sealed(n, is_good) if n == number => good &= is_good && of_groups,
                _ => return None,
            }
        }
        Some(good)
    }

    pub fn whole(&self, state: &JobState, view: u8) -> bool {
        state.living_in(view).count_ones() as usize == self.pes
    }

    fn all_live(&self, state: &JobState, number: u8) -> bool {
        self.pes(state).iter().all(|pe| pe.live == Some(program(number)))
    }
}

/// The memory of PE `p` and of its peers.
struct ModelMemory<'a> {
    model: &'a Model,
    state: &'a mut JobState,
    p: usize,
    broken_promise: Option<String>,
}

impl ModelMemory<'_> {
    fn own(&mut self) -> &mut PeState {
        &mut self.state.pes[self.p]
    }

    fn part(&mut self, part: StorePart, number: u8) -> &mut Bytes {
        let (slot, snapshot) = (self.model.slot(number), self.model.snapshot(number));
        match part {
            StorePart::Snapshot => &mut self.own().snapshots[snapshot],
            StorePart::Slot => &mut self.own().slots[slot],
        }
    }

    /// Seals the written part: good if the bytes are those of the checkpoint.
    fn seal(&mut self, part: StorePart, number: u8) {
        let good = std::mem::take(&mut self.own().good);
        *self.part(part, number) = Bytes::Sealed(number, good);
        if part == StorePart::Slot {
            let slot = self.model.slot(number);
            self.own().groups.slots[slot] = self.own().groups.taken;
        }
    }

    fn breaks_promise(&mut self, words: String) -> OpProgress {
        self.broken_promise = Some(words);
        OpProgress::Wait
    }

    /// Arrives at a barrier, or at a meeting, whose number must grow.
    fn arrive(&mut self, driver: &Driver) -> OpProgress {
        if driver.call() == Call::Protect {
            return OpProgress::Done;
        }
        let Some(step) = meeting(driver.at()) else { return self.arrive_at_barrier() };
        let (p, pe) = (self.p, &mut self.state.pes[self.p]);
        let (before, now) = (pe.step, (pe.view, step as u8));
        let begins = driver.at() == At::MeetSettling && pe.call.recovers();
        let settled = meeting(At::MeetSettled).is_some_and(|last| before.1 <= last as u8);
        pe.step = now;
        if now <= before && !(begins && now.0 == before.0 && settled) {
            return self
                .breaks_promise(format!("steps grow, but PE {p} goes from {before:?} to {now:?}"));
        }
        OpProgress::Done
    }

    fn arrive_at_barrier(&mut self) -> OpProgress {
        let pe = &mut self.state.pes[self.p];
        if pe.shown != pe.joined {
            return OpProgress::Out(Outcome::Changed);
        }
        pe.epoch += 1;
        self.state.gate.0 += 1;
        if self.state.gate.0 == pe.epoch * self.model.pes as u8 {
            self.state.gate.1 = pe.epoch;
        }
        OpProgress::Done
    }

    fn all_arrived(&self, driver: &Driver) -> OpProgress {
        if driver.call() == Call::Protect {
            return self.all_protected(driver.number());
        }
        let came = match meeting(driver.at()) {
            Some(step) => self.model.all_here(self.state, self.p, step as u8),
            None => self.state.gate.1 >= self.state.pes[self.p].epoch,
        };
        if came { OpProgress::Done } else { OpProgress::Wait }
    }

    /// Returns true if parity is computed from the bytes of this checkpoint.
    fn sources_are(&self, driver: &Driver, number: u8) -> bool {
        let place = self.model.snapshot(number);
        let copied = |pe: &PeState| pe.snapshots[place] == Bytes::Sealed(number, true);
        match driver.reads_snapshots(self) {
            true => self.model.pes(self.state).iter().all(copied),
            // Its peers' programs run.
            false if driver.call() == Call::Protect => false,
            false => self.model.all_live(self.state, number),
        }
    }

    /// Returns the state of the background's barrier, whose counters only grow: a PE has come there
    /// if it has ever posted that the checkpoint is protected.
    fn all_protected(&self, number: CheckpointNumber) -> OpProgress {
        let came = |pe: &PeState| {
            pe.phase.is_some_and(|phase| phase.has(number) || phase.has(number.next()))
        };
        match self.model.pes(self.state).iter().all(came) {
            true => OpProgress::Done,
            false if self.faulted() => OpProgress::Out(Outcome::Changed),
            false => OpProgress::Wait,
        }
    }

    /// Applies the real rule to what the reference has published in this view.
    fn follow(&mut self) -> OpProgress {
        let (p, pe) = (self.p, &self.state.pes[self.p]);
        let progress = |activity, site: u8, written: bool| Shown {
            activity,
            barriers: 0,
            reached: false,
            site: u64::from(site),
            written: u64::from(written),
        };
        let other = &self.state.pes[usize::from(pe.places.apart.0 - 1)];
        let (view, site, written) = other.places.shown;
        let reference = match (other.joined == pe.joined, view == pe.joined) {
            (true, _) if other.finished => Some(progress(Activity::Waits, 0, true)),
            (_, true) => Some(progress(Activity::Checkpoint, site, written)),
            _ => None,
        };
        let own = progress(Activity::Checkpoint, pe.places.call.0, pe.places.written);
        match follow(&own, reference.as_ref(), Vec::new) {
            Some(Verdict::Pass) => OpProgress::Out(Outcome::Behind),
            Some(Verdict::Meet) if written => {
                self.breaks_promise(format!("no mix: PE {p} meets a PE that has gone on"))
            }
            Some(Verdict::Meet) => OpProgress::Done,
            Some(Verdict::Mismatch) => self.breaks_promise(format!("PE {p} has written nothing")),
            None if pe.shown != pe.joined => OpProgress::Out(Outcome::Changed),
            None => OpProgress::Wait,
        }
    }

    fn check_store(&mut self, number: u8) {
        let (slot, snapshot) = (self.model.slot(number), self.model.snapshot(number));
        let unseen = self.model.broken == Broken::AdoptedUnseen;
        let pe = self.own();
        let unseen = unseen && pe.phase.is_none();
        let bad = |bytes: Bytes| !unseen && !bytes.is(number);
        pe.findings = (bad(pe.snapshots[snapshot]), bad(pe.slots[slot]));
    }

    /// Switches to the groups of the checkpoint that was decided on. No PE has gone on from a later
    /// one.
    fn take_groups(&mut self, number: u8) -> OpProgress {
        self.model.groups.take(self.state, self.p, number);
        let later = |pe: &PeState| pe.alive && full(pe.agreed) > full(number);
        match self.model.pes(self.state).iter().find(|pe| later(pe)) {
            Some(pe) => {
                let agreed = pe.agreed;
                self.breaks_promise(format!("durability: {number} is decided, not {agreed}"))
            }
            None => OpProgress::Done,
        }
    }

    fn decode(&mut self, number: u8) -> OpProgress {
        match self.model.sources(self.state, self.p, number, self.model.slot(number)) {
            Some(good) => {
                self.own().good = good;
                OpProgress::Done
            }
            None if self.changed() => OpProgress::Out(Outcome::Changed),
            None => {
                let p = self.p;
                self.breaks_promise(format!("no mix: what PE {p} reads is not there"))
            }
        }
    }
}

impl Port for ModelMemory<'_> {
    fn carry_out(&mut self, driver: &Driver, op: Op) -> OpProgress {
        let (model, p, number) = (self.model, self.p, packed(driver.number()));
        match op {
            Op::Post(posted) => self.own().phase = driver.phase(posted),
            Op::Void(part) => *self.part(part, number) = Bytes::Void,
            Op::Seal(part) => self.seal(part, number),
            Op::TakeGroups => return self.take_groups(number),
            Op::Arrive => return self.arrive(driver),
            Op::Await => return self.all_arrived(driver),
            Op::ShowCall if self.own().places.apart.0 != 0 => {
                let pe = self.own();
                pe.places.shown = (pe.joined, pe.places.call.0, pe.places.written);
            }
            Op::Follow => return self.follow(),
            Op::Compare => self.own().shows = number,
            Op::Encode => {
                let shown = model.pes(self.state).iter().all(|pe| pe.shows == number);
                let good = self.sources_are(driver, number);
                self.own().good = shown && good;
            }
            Op::EncodeMissing => self.own().good = model.all_live(self.state, number),
            Op::CopyLive => {
                let pe = self.own();
                pe.good = pe.live == Some(program(number));
            }
            Op::BringInherited => {
                let pe = self.own();
                pe.good = pe.shadow == Bytes::Sealed(number, true);
            }
            Op::ClearShadow => self.own().shadow = Bytes::Void,
            Op::AwaitWhole if !model.whole(self.state, self.state.pes[p].shown) => {
                return OpProgress::Wait;
            }
            Op::Adopt => {
                let pe = self.own();
                pe.view = pe.shown;
            }
            Op::FindApart if model.two => model.find_diverged(self.state, p),
            Op::WriteDecision => self.own().decided = Some(number),
            Op::ForgetDecision => self.own().decided = None,
            Op::SetAgreed => self.own().agreed = number,
            Op::CheckStore => self.check_store(number),
            Op::ReadFindings => match model.judge(self.state, p) {
                Ok(words) => self.own().words = words,
                Err(words) => return self.breaks_promise(words),
            },
            Op::NeedSnapshot if !self.own().findings.0 => return OpProgress::Out(Outcome::Done),
            Op::Decode => return self.decode(number),
            Op::Restore => {
                let pe = self.own();
                let good = pe.snapshots[model.snapshot(number)] == Bytes::Sealed(number, true);
                pe.live = good.then_some(program(number));
            }
            Op::NeedParity if !self.own().findings.1 => return OpProgress::Out(Outcome::Done),
            Op::ResetWords => {
                self.own().epoch = 0;
                self.state.gate = (0, 0);
            }
            Op::Join => {
                let pe = self.own();
                pe.joined = pe.view;
            }
            _ => {} // not modelled
        }
        OpProgress::Done
    }

    fn standing(&mut self) -> EntryStatus {
        let (pe, broken) = (&self.state.pes[self.p], self.model.broken);
        match () {
            () if pe.is_new() => EntryStatus::New,
            () if self.faulted() => EntryStatus::Faulted,
            () if pe.places.call.3 && broken != Broken::Rule(Mutant::EveryCallMeets) => {
                EntryStatus::Late
            }
            () => EntryStatus::Well,
        }
    }

    fn agrees(&mut self, _: &Driver) -> bool {
        true
    }

    fn in_turns(&self) -> bool {
        self.model.parts
    }

    fn keeps_snapshot(&self) -> bool {
        true
    }

    fn is_new(&self) -> bool {
        self.state.pes[self.p].is_new()
    }

    fn is_shadowed(&self, number: CheckpointNumber) -> bool {
        self.state.pes[self.p].shadow.is(packed(number))
    }

    fn phase(&self) -> Option<Phase> {
        self.state.pes[self.p].phase
    }

    fn votes(&self) -> Votes {
        let living = self.state.living_in(self.state.pes[self.p].view);
        let alive = (0..self.model.pes).filter(|q| living >> q & 1 == 1);
        let pes = alive.map(|q| &self.state.pes[q]);
        pes.map(|pe| Vote { phase: pe.phase, decided: pe.decided.map(full) }).collect()
    }

    fn faulted(&self) -> bool {
        let pe = &self.state.pes[self.p];
        pe.shown != pe.joined
    }

    fn changed(&self) -> bool {
        let pe = &self.state.pes[self.p];
        pe.shown != pe.view
    }

    fn judgement(&self) -> Judgement {
        match self.state.pes[self.p].words {
            0 => Judgement::Recoverable,
            _ => Judgement::Unrecoverable,
        }
    }

    fn ends(&self) -> Option<Ending> {
        let mut others = (0..self.model.pes).filter(|&q| q != self.p);
        others.any(|q| self.state.pes[q].finished).then_some(Ending::Silent)
    }

    fn breaks(&self, rule: Mutant) -> bool {
        self.model.broken == Broken::Rule(rule)
    }
}
