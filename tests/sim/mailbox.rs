//! What PEs tell each other: read where it is by PEs of one node, written into the reader's mailbox
//! by PEs of others, where nobody can look into the other's memory.
//!
//! The words travel first, in two parts, each to its reader in its own time; when all have arrived
//! the step follows, in its own time again. What is under way when its writer dies may be lost, or
//! arrive, or be held back for long; what arrives when the reader has entered a view with another
//! incarnation is refused. An incarnation and its successor write in different halves, and what is
//! read bears its tag.

use raidshmem_core::quantity::Incarnation;
use raidshmem_core::view::State;

use super::job::{Job, What};
use super::memory::Posted;
use super::pe::Proc;
use super::plan::Broken;

/// A transfer into the mailbox of a PE.
#[derive(Debug)]
pub struct Transfer {
    from: usize,
    writer: u32,
    to: usize,
    memory: u32,
    posted: Posted,
    part: Part,
    /// Held back once, since its writer died.
    held: bool,
}

/// What of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The tag, and what was found.
    First,
    /// Phase and decision.
    Second,
    Step,
}

/// What one incarnation of a PE posted, with its tag: 0 is nobody's.
#[derive(Debug, Clone, Copy, Default)]
pub struct Half {
    tag: u32,
    posted: Posted,
}

impl Job {
    /// True if the PE is out of a process's reach.
    pub fn is_far(&self, p: &Proc, pe: usize) -> bool {
        self.plan.far && p.view.pes.get(pe).is_some_and(|member| member.node != p.node)
    }

    pub fn posted(&self, p: &Proc, pe: usize) -> Posted {
        match self.is_far(p, pe) && pe != p.me() {
            true => self.heard(p, pe),
            false => self.memory(p, pe).posted,
        }
    }

    /// What the incarnation of PE `pe` in the view of a process wrote in its mailbox.
    fn heard(&self, p: &Proc, pe: usize) -> Posted {
        let wanted = p.view.pes[pe].incarnation;
        let entry = self.memory(p, p.me()).mailbox.get(pe);
        let Half { tag, posted } =
            entry.map_or_else(Half::default, |halves| halves[self.half(wanted)]);
        let own = tag == wanted.0 + 1 || self.untagged();
        if own { posted } else { Posted::default() }
    }

    fn half(&self, incarnation: Incarnation) -> usize {
        if self.untagged() { 0 } else { (incarnation.0 & 1) as usize }
    }

    fn untagged(&self) -> bool {
        self.plan.broken == Broken::WordsNotTagged
    }

    /// Sends what this PE tells to those it cannot be read by. Returns when the words are there.
    pub fn publish(&mut self, p: &mut Proc) -> u64 {
        if !self.plan.far {
            return self.now;
        }
        let posted = self.memory(p, p.me()).posted;
        let living = |&pe: &usize| p.view.pes[pe].state == State::Alive && self.is_far(p, pe);
        let far: Vec<usize> = (0..self.pes()).filter(living).collect();
        let mut quiet = self.now.max(p.told_at);
        for (to, part) in far.iter().flat_map(|&to| [(to, Part::First), (to, Part::Second)]) {
            let time = self.now + self.delay(self.plan.message);
            quiet = quiet.max(time);
            let (from, memory, held) = (p.me(), p.mapped[to], false);
            let transfer = Transfer { from, writer: p.id, to, memory, posted, part, held };
            self.at(time, What::Mailbox(transfer));
        }
        let sent = if self.plan.broken == Broken::StepBeforeWords { self.now } else { quiet };
        p.told_at = quiet;
        for &to in &far {
            let time = sent + self.delay(self.plan.message);
            p.told_at = p.told_at.max(time);
            let part = Part::Step;
            let (from, memory, held) = (p.me(), p.mapped[to], false);
            let transfer = Transfer { from, writer: p.id, to, memory, posted, part, held };
            self.at(time, What::Mailbox(transfer));
        }
        quiet
    }

    pub fn land(&mut self, mut transfer: Transfer) {
        let dead = !self.procs[transfer.writer as usize].alive;
        if dead && !transfer.held && self.plan.chance.one_in(3) {
            transfer.held = true;
            let later = self.now + self.delay(40 * self.plan.message);
            return self.at(later, What::Mailbox(transfer));
        }
        let Transfer { from, writer, to, memory, posted, part, held } = transfer;
        let entered = self.carrier[to].map(|proc| &self.procs[proc as usize].view);
        let newest =
            entered.and_then(|view| view.pes.get(from)).map_or(Incarnation(0), |pe| pe.incarnation);
        // Who enters a view disconnects from the incarnations that are dead in it.
        let incarnation = self.procs[writer as usize].incarnation;
        let fenced = incarnation < newest && !self.untagged();
        let lost = dead && !held && self.plan.chance.one_in(2);
        if lost || fenced {
            return;
        }
        let (pes, half) = (self.pes(), self.half(incarnation));
        let mailbox = &mut self.memories[to][memory as usize].mailbox;
        mailbox.resize(pes, Default::default());
        let entry = &mut mailbox[from][half];
        match part {
            Part::First => {
                let Posted { phase, decision, step, .. } = entry.posted;
                entry.tag = incarnation.0 + 1;
                entry.posted = Posted { phase, decision, step, ..posted };
            }
            Part::Second => {
                (entry.posted.phase, entry.posted.decision) = (posted.phase, posted.decision);
            }
            Part::Step => entry.posted.step = posted.step,
        }
        if let Some(proc) = self.carrier[to].filter(|_| part == Part::Step) {
            self.wake(proc);
        }
    }
}
