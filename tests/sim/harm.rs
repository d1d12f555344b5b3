//! Deaths of processes and nodes, and flipped bits, as planned and within the allowed number.

use std::sync::Arc;

use raidshmem_core::ended::Ended;
use raidshmem_core::membership::MembershipEvent;
use raidshmem_core::message::PeMessage;
use raidshmem_core::protocol::At;
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::store::protection::Protection;

use super::job::{Job, What};
use super::pe::Proc;
use super::plan::{Fault, Harm, Mode, When};

impl Job {
    /// Triggers a fault that is due. It waits for its next occasion if it would cost more than the
    /// mode allows.
    pub fn strike(&mut self, index: usize) {
        let Fault { harm, pe, fired, when, .. } = self.plan.faults[index];
        let struck = !fired
            && match self.plan.mode {
                Mode::Beyond => self.strike_beyond(pe),
                Mode::Within => self.strike_within(harm, pe),
            };
        self.plan.faults[index].fired |= struck;
        if let (false, false, When::Time(_)) = (struck, fired, when) {
            let later = self.now + self.delay(10 * self.plan.message);
            self.plan.faults[index].tries += 1;
            if self.plan.faults[index].tries < 50 {
                self.at(later, What::Fault(index));
            }
        }
    }

    fn strike_within(&mut self, harm: Harm, pe: usize) -> bool {
        let Some(proc) = self.carrier[pe].filter(|&proc| self.procs[proc as usize].alive) else {
            return false;
        };
        let node = self.procs[proc as usize].node;
        match harm {
            Harm::Process if self.may_lose(&[pe]) => {
                self.lose(&[pe]);
                self.note(|| format!("-- PE {pe} dies"));
                self.process_dies(proc, Ended::Killed(9));
                true
            }
            Harm::Node => {
                let here = self.carried_on(node);
                let others = self.nodes.iter().filter(|node| node.alive).count() > 2;
                let may = others && self.nodes[node as usize].alive && self.may_lose(&here);
                if may {
                    self.lose(&here);
                    self.note(|| format!("-- node {node} dies with PEs {here:?}"));
                    self.node_dies(node);
                }
                may
            }
            Harm::AtOnce if self.may_lose(&[]) && self.suspects.is_empty() => {
                self.all_die();
                true
            }
            Harm::Suspect if self.may_lose(&[pe]) => self.suspect(pe, proc),
            Harm::Flip if self.may_lose(&[pe]) => self.flip(pe),
            Harm::Rot if self.may_lose(&[pe]) => self.rot(pe, proc),
            _ => false,
        }
    }

    fn all_die(&mut self) {
        self.lose(&[]);
        self.note(|| "-- all PEs die".to_string());
        self.ending.at_once += 1;
        for proc in 0..self.procs.len() {
            if self.procs[proc].me.is_some() {
                self.process_dies(proc as u32, Ended::Killed(9));
            }
        }
    }

    /// Lets a PE of another node report that its connection to a live one broke: then one of them
    /// is killed, so that both may be lost.
    fn suspect(&mut self, pe: usize, proc: u32) -> bool {
        let (node, incarnation) = {
            let suspected = &self.procs[proc as usize];
            (suspected.node, suspected.incarnation)
        };
        let knows = |who: &Proc| {
            let both = who.me.is_some_and(|me| self.may_lose(&[pe, me]));
            let known = who.view.pes.get(pe).is_some_and(|of| of.incarnation == incarnation);
            who.alive && both && who.node != node && known && !self.is_parted(who.node)
        };
        let Some(by) = self.procs.iter().find(|who| knows(who)).map(|who| (who.id, who.node))
        else {
            return false;
        };
        let accuser = self.procs[by.0 as usize].me();
        self.lose(&[pe]);
        self.suspects.insert(pe, accuser);
        self.ending.suspected += 1;
        self.note(|| format!("-- the connection to PE {pe} breaks"));
        // In shmem_finalize it waits for no answer.
        if !self.is_finishing(&self.procs[by.0 as usize]) {
            self.procs[by.0 as usize].blocked = Some((pe, incarnation.0));
        }
        let what = PeMessage::Suspect { pe: Pe::of(pe), incarnation };
        self.up(by.1, MembershipEvent::Message { proc: by.0, what });
        true
    }

    /// Kills a suspected process on the launcher's order.
    pub fn end_suspect(&mut self, proc: u32) {
        let pe = self.procs[proc as usize].me();
        if self.suspects.remove(&pe).is_none() {
            self.ending.accusers += 1;
            self.suspects.retain(|_, accuser| *accuser != pe);
        }
        self.lost.insert(pe);
        self.process_dies(proc, Ended::Killed(9));
    }

    /// Reports whether node `by` hears another one, and sometimes wrongly that it does not.
    pub fn give_opinion(&mut self, by: u32, about: u32) {
        let hears = self.nodes[about as usize].alive && !self.is_parted(about);
        let alive = hears && !self.plan.chance.one_in(3);
        self.up(by, MembershipEvent::Opinion { by, about, alive });
    }

    /// Returns the PEs whose memory is on a node.
    pub fn carried_on(&self, node: u32) -> Vec<usize> {
        let here = |&pe: &usize| {
            self.carrier[pe].is_some_and(|proc| self.procs[proc as usize].node == node)
        };
        (0..self.pes()).filter(here).collect()
    }

    /// True if no group loses more than its parity, counting losses since it was whole.
    pub fn may_lose(&self, pes: &[usize]) -> bool {
        self.saved > CheckpointNumber(0) && self.bears(&[pes, &self.about_to_move()].concat())
    }

    /// True if no group has then lost more than its parity.
    pub fn bears(&self, pes: &[usize]) -> bool {
        let mut lost = self.lost.clone();
        lost.extend(pes);
        lost.extend(self.suspects.iter().flat_map(|(&pe, &accuser)| [pe, accuser]));
        let bears = |groups: Arc<Protection>| {
            let group = |pe: usize| groups.plan.of[pe].group;
            let with = |pe: usize| lost.iter().filter(|&&one| group(one) == group(pe)).count();
            lost.iter().all(|&pe| with(pe) <= self.plan.settings.parity)
        };
        self.groups_in_use().into_iter().all(bears)
    }

    pub fn lose(&mut self, pes: &[usize]) {
        self.lost.extend(pes);
        self.ending.losses += pes.len() as u32;
        let last = self.plan.last;
        self.ending.late |= self.procs.iter().any(|proc| proc.alive && proc.number >= last);
    }

    /// Flips bits of a PE's store together with a death that causes a check: damage while a
    /// recovery reads it is a named error, not a repair.
    fn flip(&mut self, pe: usize) -> bool {
        let recovering = !self.lost.is_empty();
        let others: Vec<usize> = (0..self.pes()).filter(|&other| other != pe).collect();
        let other = self.plan.chance.pick(&others);
        let dies = self.carrier[other].filter(|&proc| self.procs[proc as usize].alive);
        let (Some(carrier), Some(dies)) = (self.carrier[pe], dies) else { return false };
        if recovering || !self.may_lose(&[pe, other]) {
            return false;
        }
        self.lose(&[pe, other]);
        let number = self.procs[carrier as usize].memory as usize;
        self.flip_some(pe, number);
        self.note(|| format!("-- bits flip in the store of PE {pe}, and PE {other} dies"));
        self.process_dies(dies, Ended::Killed(9));
        true
    }

    /// Flips bits of a PE's checkpoints; not of a copy from which parity is computed, which is no
    /// safer than live memory until the checkpoint protects.
    fn flip_some(&mut self, pe: usize, number: usize) {
        let copied = self.carrier[pe].map(|proc| &self.procs[proc as usize]);
        let protected = copied.filter(|p| p.is_behind()).map(|p| self.plan.snapshot_of(p.agreed.0));
        for _ in 0..1 + self.plan.chance.below(3) {
            let (random, which) = (self.plan.chance.next(), self.plan.chance.below(3));
            let memory = &mut self.memories[pe][number];
            let snapshot = protected.unwrap_or(self.plan.snapshot_of(random >> 32));
            let flipped = match which {
                0 => memory.snapshots[snapshot].flip(random),
                which => memory.slots[which - 1].flip(random),
            };
            self.ending.flips += u32::from(flipped);
        }
    }

    /// Flips bits of a PE's store that go unnoticed until the next recovery, whenever that is. The
    /// scrub may have found them before the next comparison, without repairing them.
    fn rot(&mut self, pe: usize, proc: u32) -> bool {
        if !self.lost.is_empty() || self.moving.is_some() {
            return false;
        }
        self.lose(&[pe]);
        let number = self.procs[proc as usize].memory as usize;
        if self.plan.chance.one_in(2) {
            let slot = self.plan.slot_of((self.procs[proc as usize].agreed).0);
            let random = self.plan.chance.next();
            self.memories[pe][number].slots[slot].flip_all(random);
        } else {
            self.flip_some(pe, number);
        }
        self.ending.rotten += 1;
        let at = self.procs[proc as usize].at();
        let before = matches!(at, None | Some(At::Intend | At::BarrierQ | At::Agree));
        let seen = before && self.plan.chance.one_in(2);
        if seen {
            self.procs[proc as usize].history = None;
        }
        self.note(|| format!("-- bits flip in the store of PE {pe}, seen {seen}"));
        true
    }

    /// Damages everything that another PE of the group holds just before the next tile is decoded,
    /// although it was valid when checked; unless that tile does not depend on it, because then the
    /// damage would go unnoticed until the next loss. Occurs less often in a row than the launcher
    /// tolerates.
    pub fn spoil(&mut self, p: &Proc, tile: usize) {
        let groups = p.groups();
        let (shape, _) = groups.place(Pe::of(p.me()));
        let members = shape.members.clone();
        let pe = self.plan.chance.pick(&members);
        let enough = self.spoils == 5 || pe == Pe::of(p.me());
        if self.plan.mode != Mode::Within || enough || !self.may_lose(&[pe.at()]) {
            return;
        }
        let random = self.plan.chance.next();
        let flip = |job: &mut Job| {
            let memory = &mut job.memories[pe.at()][p.mapped[pe.at()] as usize];
            let regions = memory.snapshots.iter_mut().chain(&mut memory.slots);
            regions.for_each(|region| region.flip_all(random));
        };
        let held = self.decode(p, tile).is_ok();
        flip(self);
        if held && self.decode(p, tile).is_err() {
            self.lose(&[pe.at()]);
            self.ending.corrupt += 1;
            self.spoils += 1;
            self.note(|| format!("-- what PE {pe} holds goes bad while PE {} uses it", p.me()));
        } else {
            flip(self);
        }
    }

    /// Kills one node more than the parity of PE `pe`'s group covers, all at one moment.
    fn strike_beyond(&mut self, pe: usize) -> bool {
        let (shape, _) = self.plan.protection.place(Pe::of(pe));
        let members = shape.members.clone();
        let mut nodes: Vec<u32> = Vec::new();
        let mut lost = 0;
        for member in members {
            let Some(proc) = self.carrier[member.at()] else { continue };
            let node = self.procs[proc as usize].node;
            if lost <= self.plan.settings.parity && !nodes.contains(&node) {
                nodes.push(node);
            }
            lost += usize::from(nodes.contains(&node) && lost <= self.plan.settings.parity);
        }
        let pes: Vec<usize> = nodes.iter().flat_map(|&node| self.carried_on(node)).collect();
        let over = self.procs.iter().any(|proc| proc.number >= self.plan.last);
        let whole = self.views.len() > 1;
        if over || !whole || lost <= self.plan.settings.parity {
            return false;
        }
        self.lose(&pes);
        for node in nodes {
            self.note(|| format!("-- node {node} dies"));
            self.node_dies(node);
        }
        true
    }
}
