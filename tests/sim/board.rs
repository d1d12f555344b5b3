//! What PEs tell each other: read where it is by PEs of one node, written into the reader's board
//! by PEs of others, where nobody can look into the other's memory.
//!
//! The words travel first, each to its reader in its own time; when all have arrived the step
//! follows, in its own time again. What is under way when its writer dies may be lost, or arrive;
//! what arrives when the reader has entered a view with another incarnation is refused.

use raidshmem::control::view::State;

use super::job::{Job, What};
use super::memory::Told;
use super::pe::Proc;
use super::plan::Broken;

/// A transfer into the board of a PE.
#[derive(Debug)]
pub struct Transfer {
    from: usize,
    writer: u32,
    to: usize,
    memory: u32,
    told: Told,
    /// The step, not the words before it.
    last: bool,
}

impl Job {
    /// True if the PE is out of a process's reach.
    fn is_far(&self, p: &Proc, pe: usize) -> bool {
        self.plan.far && p.view.pes.get(pe).is_some_and(|member| member.node != p.node)
    }

    pub fn told(&self, p: &Proc, pe: usize) -> Told {
        match self.is_far(p, pe) && pe != p.me() {
            true => self.memory(p, p.me()).board.get(pe).copied().unwrap_or_default(),
            false => self.memory(p, pe).told,
        }
    }

    /// Sends what this PE tells to those it cannot be read by. Returns when the words are there.
    pub fn publish(&mut self, p: &mut Proc) -> u64 {
        if !self.plan.far {
            return self.now;
        }
        let told = self.memory(p, p.me()).told;
        let living = |&pe: &usize| p.view.pes[pe].state == State::Alive && self.is_far(p, pe);
        let far: Vec<usize> = (0..self.pes()).filter(living).collect();
        let mut quiet = self.now.max(p.told_at);
        for &to in &far {
            let time = self.now + self.delay(self.plan.message);
            quiet = quiet.max(time);
            let (from, memory) = (p.me(), p.mapped[to]);
            let transfer = Transfer { from, writer: p.id, to, memory, told, last: false };
            self.at(time, What::Board(transfer));
        }
        let posted = if self.plan.broken == Broken::StepBeforeWords { self.now } else { quiet };
        p.told_at = quiet;
        for &to in &far {
            let time = posted + self.delay(self.plan.message);
            p.told_at = p.told_at.max(time);
            let (from, memory) = (p.me(), p.mapped[to]);
            let transfer = Transfer { from, writer: p.id, to, memory, told, last: true };
            self.at(time, What::Board(transfer));
        }
        quiet
    }

    pub fn land(&mut self, transfer: Transfer) {
        let Transfer { from, writer, to, memory, told, last } = transfer;
        let entered = self.carrier[to].map(|proc| &self.procs[proc as usize].view);
        let newest = entered.and_then(|view| view.pes.get(from)).map_or(0, |pe| pe.incarnation);
        // Who enters a view disconnects from the incarnations that are dead in it.
        let fenced = self.procs[writer as usize].incarnation < newest;
        let lost = !self.procs[writer as usize].alive && self.plan.chance.one_in(2);
        if lost || fenced && self.plan.broken != Broken::DeadNotFenced {
            return;
        }
        let pes = self.pes();
        let board = &mut self.memories[to][memory as usize].board;
        board.resize(pes, Told::default());
        board[from] = match last {
            true => Told { step: told.step, ..board[from] },
            false => Told { step: board[from].step, ..told },
        };
        if let Some(proc) = self.carrier[to].filter(|_| last) {
            self.wake(proc);
        }
    }
}
