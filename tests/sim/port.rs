//! The port of a simulated process: the driver's operations on small memory. An operation that
//! others can see is a step of its own; long ones take several.

use std::time::Duration;

use raidshmem_core::message::{PeMessage, ProgressReport};
use raidshmem_core::mutant::{self, Mutant};
use raidshmem_core::plan::Lost;
use raidshmem_core::protocol::brought::{Brought, Found, is_in_tree};
use raidshmem_core::protocol::driver::{Driver, EntryStatus, Judgement, OpProgress, Port};
use raidshmem_core::protocol::operation::{Op, StorePart};
use raidshmem_core::protocol::{At, Outcome};
use raidshmem_core::quantity::{CheckpointNumber, Pe, ViewNumber};
use raidshmem_core::status::Ending;
use raidshmem_core::store::intent::{self, Bounds, Intent, Intents};
use raidshmem_core::store::phase::{Phase, Vote, Votes};
use raidshmem_core::store::site::{Activity, Calls};

use super::job::Job;
use super::memory::Region;
use super::pe::{Proc, Then};
use super::plan::{Broken, Short};

/// The second snapshot of a store that keeps one.
const SHADOW: usize = 1;

/// A process that executes operations.
pub struct Hands<'a> {
    pub job: &'a mut Job,
    pub p: &'a mut Proc,
    /// True if it has done something that others can see.
    pub moved: bool,
    /// Its next state, if it cannot continue at once.
    pub busy: Option<Then>,
}

impl Hands<'_> {
    fn part(&mut self, part: StorePart, number: CheckpointNumber) -> &mut Region {
        let (slot, snapshot) =
            (self.job.plan.slot_of(number.0), self.job.plan.snapshot_of(number.0));
        let memory = self.job.own(self.p);
        match part {
            StorePart::Snapshot => &mut memory.snapshots[snapshot],
            StorePart::Slot => &mut memory.slots[slot],
        }
    }

    /// Makes a part of a long operation.
    fn part_of(&mut self, whole: bool) -> OpProgress {
        if whole { OpProgress::Done } else { OpProgress::Part }
    }

    /// Returns this PE's contribution to a meeting.
    fn brings(&self, at: At) -> Brought {
        let (job, p) = (&*self.job, &*self.p);
        let (me, posted) = (p.me(), job.memory(p, p.me()).posted);
        let (calls, ending) = (Calls::of(Pe::of(me), &posted.call), u64::from(posted.ending));
        match at {
            At::BarrierQ => {
                let moves = job.nodes[p.node as usize].moves;
                Brought::Intents(job.intent(p), calls, moves)
            }
            At::MeetSettling => {
                let decided = CheckpointNumber::unpack(posted.decision);
                let vote = Vote { phase: Phase::unpack(posted.phase), decided };
                Brought::Settling(Votes::of(vote), calls, ending, job.grouped(p))
            }
            At::MeetVerified => {
                let misses = posted.findings.snapshot != 0;
                Brought::Found(Found::of(Pe::of(me), posted.found_len as u64, misses, ending))
            }
            At::MeetJudged => Brought::Judged(p.lost),
            _ => Brought::Nothing,
        }
    }

    fn arrive(&mut self, driver: &Driver) -> OpProgress {
        let at = driver.at();
        if !is_in_tree(at) {
            return self.job.arrive_at_barrier(self.p);
        }
        if at == At::BarrierQ && self.job.faulted(self.p) {
            return OpProgress::Out(Outcome::Changed);
        }
        if at == At::MeetVerified && self.p.progress == 0 {
            self.p.progress = 1;
            self.busy = Some(Then::Until(self.job.publish(self.p)));
            return OpProgress::Part;
        }
        let own = self.brings(at);
        self.job.come(self.p, at, own);
        OpProgress::Done
    }

    fn all_arrived(&mut self, driver: &Driver) -> OpProgress {
        let (job, p, at) = (&mut *self.job, &mut *self.p, driver.at());
        if !is_in_tree(at) {
            let progress = job.has_passed(p);
            job.refused |= progress == OpProgress::Done && at == At::BarrierRefuse;
            return progress;
        }
        if let Some(all) = job.met(p, at) {
            self.take(at, all);
            return OpProgress::Done;
        }
        let gone = if at == At::BarrierQ { job.faulted(p) } else { job.changed(p) };
        if gone { OpProgress::Out(Outcome::Changed) } else { OpProgress::Wait }
    }

    /// Takes the contributions of all.
    fn take(&mut self, at: At, all: Brought) {
        let p = &mut *self.p;
        match (at, all) {
            (At::BarrierQ | At::MeetSettling, all) => p.met = all,
            (_, Brought::Found(found)) => p.found = found,
            (_, Brought::Judged(lost)) => {
                let groups = p.groups();
                let shapes = &groups.shapes;
                let named = |lost: Lost| lost.named(&shapes[lost.group()], true);
                p.verdict = lost.map_or(Ok(()), |lost| Err(named(lost)));
            }
            _ => {}
        }
    }

    fn describe(&mut self) {
        let (job, p) = (&mut *self.job, &mut *self.p);
        p.len = job.own(p).live.len();
        job.show_written(p);
    }

    fn saved(&mut self) {
        let (job, p) = (&mut *self.job, &mut *self.p);
        job.keep_changes(p);
        job.keep_groups(p);
        if p.me() == 0 {
            let (number, places, bytes) = (p.number, p.groups().places, p.len as u64);
            let (kept, [took, protects], changed) = (0, [Duration::ZERO; 2], None);
            let report =
                ProgressReport::Checkpoint { number, places, bytes, kept, took, protects, changed };
            job.say(p, PeMessage::Report(report));
        }
    }

    fn join(&mut self) {
        let (job, p) = (&mut *self.job, &mut *self.p);
        p.joined = p.view.number;
        p.known.note_places(&p.view);
        job.report_groups(p);
        if p.me() == 0 {
            let (checkpoint, view) = (p.number, p.joined);
            let report = ProgressReport::Resumed { checkpoint, view, took: Duration::ZERO };
            job.say(p, PeMessage::Report(report));
        }
    }

    fn bring_inherited(&mut self) {
        let memory = self.job.own(self.p);
        memory.snapshots[0] = memory.snapshots[SHADOW].clone();
        let (_, len) = std::mem::take(&mut memory.snapshots[0].record);
        self.p.len = len;
    }

    fn show_damage(&mut self) {
        let damaged = self.p.verdict.as_ref().err().and_then(|lost| lost.damaged.first());
        let pe = *damaged.expect("the judgement was that");
        self.job.complain(self.p, pe.at());
    }
}

impl Port for Hands<'_> {
    fn carry_out(&mut self, driver: &Driver, op: Op) -> OpProgress {
        let number = driver.number();
        self.moved = true;
        let (in_turns, behind) = (self.in_turns(), driver.reads_snapshots(self));
        let (job, p) = (&mut *self.job, &mut *self.p);
        match op {
            Op::Post(posted) => {
                job.own(p).posted.phase = driver.phase(posted).map_or(0, Phase::pack);
            }
            Op::Void(part) => self.part(part, number).record = (CheckpointNumber(0), 0),
            Op::Seal(part) => {
                let len = self.p.len;
                let places = self.p.groups().places;
                let region = self.part(part, number);
                (region.record, region.places) = ((number, len), places);
            }
            Op::Arrive => return self.arrive(driver),
            Op::Await => return self.all_arrived(driver),
            Op::ShowCall => job.show_deed(p, Activity::Checkpoint),
            Op::Follow => return job.follow(p),
            Op::Describe => self.describe(),
            Op::Compare => job.compare(p),
            Op::Encode => {
                p.behind = behind;
                let whole = job.encode(p, job.parities(p));
                return self.part_of(whole);
            }
            Op::CopyLive if in_turns && driver.at() == At::Copy => job.look(p),
            Op::CopyLive => {
                let whole = job.copy(p);
                return self.part_of(whole);
            }
            Op::Watch => job.watch(p),
            Op::Saved => self.saved(),
            Op::ForgetChanges => (p.history, p.watch) = Default::default(),
            Op::AwaitWhole if !job.shown(p).whole() => return OpProgress::Wait,
            Op::AwaitNext if !job.changed(p) => return OpProgress::Wait,
            Op::Adopt => {
                p.changes = None;
                job.refresh(p);
            }
            Op::TakeGroups => job.take_groups(p, number),
            Op::FindApart => job.find_diverged(p),
            Op::WriteDecision => job.own(p).posted.decision = CheckpointNumber::pack(Some(number)),
            Op::ForgetDecision => job.own(p).posted.decision = 0,
            Op::BringInherited => self.bring_inherited(),
            Op::ClearShadow if !in_turns => job.own(p).snapshots[SHADOW] = Default::default(),
            Op::SetAgreed => p.agreed = number,
            Op::CheckStore => job.verify(p),
            Op::ReadFindings => job.judge(p),
            Op::ShowDamage => self.show_damage(),
            Op::NeedSnapshot if job.finding(p).snapshot == 0 => {
                return OpProgress::Out(Outcome::Done);
            }
            Op::Decode => return job.rebuild(p),
            Op::Restore => return job.restore(p),
            Op::NeedParity if !job.misses_parity(p) => return OpProgress::Out(Outcome::Done),
            Op::EncodeMissing => {
                let missing = job.finding(p).parity;
                let whole = job.encode(p, missing);
                return self.part_of(whole);
            }
            Op::ResetWords => {
                (job.own(p).gate, p.epoch, p.meetings.checkpoints) = ((0, 0), 0, 0);
            }
            Op::Join => self.join(),
            _ => self.moved = false, // nothing that is simulated
        }
        OpProgress::Done
    }

    fn standing(&mut self) -> EntryStatus {
        let (job, p) = (&*self.job, &*self.p);
        match (p.joined == ViewNumber(0), job.faulted(p)) {
            (true, _) => EntryStatus::New,
            (_, true) => EntryStatus::Faulted,
            _ if job.memory(p, p.me()).posted.call.late => EntryStatus::Late,
            _ => EntryStatus::Well,
        }
    }

    fn agrees(&mut self, _: &Driver) -> bool {
        if let Brought::Intents(.., moves) = self.p.met {
            self.p.agreed_move = moves;
        }
        !self.job.refuses(self.p)
    }

    fn in_turns(&self) -> bool {
        self.job.plan.settings.snapshots == 2
    }

    fn keeps_snapshot(&self) -> bool {
        true
    }

    fn is_new(&self) -> bool {
        self.p.joined == ViewNumber(0)
    }

    fn is_shadowed(&self, number: CheckpointNumber) -> bool {
        self.job.is_shadowed(self.p, number)
    }

    fn phase(&self) -> Option<Phase> {
        Phase::unpack(self.job.memory(self.p, self.p.me()).posted.phase)
    }

    fn votes(&self) -> Votes {
        match &self.p.met {
            Brought::Settling(votes, ..) => *votes,
            _ => unreachable!("the meeting before the decision settles"),
        }
    }

    fn faulted(&self) -> bool {
        self.job.faulted(self.p)
    }

    fn changed(&self) -> bool {
        self.job.changed(self.p)
    }

    fn judgement(&self) -> Judgement {
        match &self.p.verdict {
            Ok(()) => Judgement::Recoverable,
            Err(lost) if lost.damaged.is_empty() => Judgement::Unrecoverable,
            Err(_) => Judgement::Damaged,
        }
    }

    fn ends(&self) -> Option<Ending> {
        Ending::of(self.p.found.ending)
    }

    fn breaks(&self, rule: Mutant) -> bool {
        self.job.plan.broken == Broken::Rule(rule) || mutant::breaks(rule)
    }
}

impl Job {
    /// Returns the bytes that a PE wants to save, and the free memory of its machine, which is its
    /// node: exactly as much as all its PEs want.
    fn intent(&self, p: &Proc) -> Intents {
        let (wanted, pes, me) = (p.len as u64, &p.view.pes, p.me());
        let free = wanted * pes.iter().filter(|pe| pe.node == p.node).count() as u64;
        let refusal = self.plan.refusal.filter(|_| !self.refused);
        let (len, available) = match refusal.filter(|&(_, number, _)| number == p.number) {
            Some((pe, _, Short::Manifest)) if pe == me => (intent::CANNOT, free),
            Some((pe, _, Short::Machine)) if pes[pe].node == p.node => (wanted, free - 1),
            _ => (wanted, free),
        };
        let need = if len == intent::CANNOT { 0 } else { len };
        let together = self.plan.broken == Broken::Rule(Mutant::MemoryOfTheJob);
        let machine = if together { 0 } else { pes[me].node };
        Intents::of(
            (Pe::of(me), machine),
            &Intent { digest: 0, len, hold: need, need, available },
            None,
        )
    }

    /// True if this PE refuses the checkpoint, by the contributions of all.
    fn refuses(&self, p: &Proc) -> bool {
        let Brought::Intents(all, ..) = &p.met else { unreachable!("at barrier Q") };
        let machines: Vec<u32> = p.view.pes.iter().map(|pe| pe.node).collect();
        let bounds = Bounds { mode: "rs", manifest: 0, snapshot: usize::MAX, limit: None };
        intent::agree(all, &machines, &bounds).is_err()
    }

    fn gate(&mut self, p: &Proc) -> &mut (u64, u64) {
        let zero = if p.me() == 0 { p.memory } else { p.mapped[0] };
        &mut self.memories[0][zero as usize].gate
    }

    fn arrive_at_barrier(&mut self, p: &mut Proc) -> OpProgress {
        if self.faulted(p) {
            return OpProgress::Out(Outcome::Changed);
        }
        p.epoch += 1;
        let (pes, epoch) = (self.pes() as u64, p.epoch);
        let gate = self.gate(p);
        gate.0 += 1;
        if gate.0 == epoch * pes {
            gate.1 = epoch;
            for pe in 0..self.pes() {
                if let Some(proc) = self.carrier[pe] {
                    self.wake(proc);
                }
            }
        }
        OpProgress::Done
    }

    fn has_passed(&mut self, p: &Proc) -> OpProgress {
        match (self.gate(p).1 >= p.epoch, self.faulted(p)) {
            (true, _) => OpProgress::Done,
            (false, true) => OpProgress::Out(Outcome::Changed),
            (false, false) => OpProgress::Wait,
        }
    }

    /// Adopts the published view, with the memories that are new in it.
    fn refresh(&mut self, p: &mut Proc) {
        p.view = self.shown(p).clone();
        p.mapped = self.views[p.view.number.0 as usize].mapped.clone();
    }
}
