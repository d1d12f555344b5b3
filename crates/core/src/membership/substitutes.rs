//! Substitutes: which process takes over a lost PE's number, where, and with which memory.
//!
//! Part of the machine in [`super`]. A spare on the same node is best, because the memory of a dead
//! process can be adopted there; then a new process there; then the node that
//! [`crate::placement::substitute`] chooses.

use super::recovery::CORRUPT_MAX;
use super::{Action, Membership, Role};
use crate::ended::UNRECOVERABLE;
use crate::message::{AssignmentMessage, Down, Flaw, Past, ProcId};
use crate::mutant::{Mutant, breaks};
use crate::placement::pages::PageRuns;
use crate::placement::substitute::SubstituteNode;
use crate::quantity::{Pe, ViewNumber};
use crate::replay::decide::Reason;
use crate::settings::Substitute;
use crate::view::State;

impl Membership {
    /// Finds substitutes for the dead PEs once every living node shows that they are dead.
    pub(super) fn repair(&mut self) {
        let unseen = !self.nodes.have_shown(self.members.view.number);
        let is_over = !self.members.started || self.out.is_ended();
        if is_over || unseen && !breaks(Mutant::WipedTooEarly) {
            return;
        }
        for pe in self.members.all() {
            if self.members.needs_substitute(pe) {
                self.replace(pe);
                if self.out.is_ended() {
                    return;
                }
            }
        }
        self.advance();
    }

    fn replace(&mut self, pe: Pe) {
        let member = self.members.view.pes[pe.at()];
        let (left, from_disk) = (member.state == State::ProcessDead, self.recovery.from_disk);
        let home = (left || from_disk) && self.nodes.lives(member.node);
        let spare_here = self.procs.spare(|node| node == member.node);
        let spawn = self.substitute == Substitute::Spawn || from_disk;
        let (proc, node) = match (home, spare_here, spawn) {
            (true, Some(proc), _) => (Some(proc), member.node),
            (true, None, true) => (None, member.node),
            _ => match self.elsewhere(pe, spawn) {
                Some(place) => place,
                None if self.procs.spares() > 0 => return, // one is on its way to shmem_init
                None => {
                    let words = format!(
                        "unrecoverable: no substitute left for PE {pe}: \
                         SHMEM_FT_SUBSTITUTE=spare and every spare is used"
                    );
                    return self.out.end(UNRECOVERABLE, Some(words));
                }
            },
        };
        let adopted = left && home && node == member.node && self.adopt;
        if !adopted && member.state == State::ProcessDead {
            self.members.cannot_roll_back_locally(&Reason::MemoryLost, pe, &mut self.out);
        }
        if !adopted && !breaks(Mutant::NotWiped) {
            self.wipe(pe, node);
        }
        let role = Role::Substitute(pe);
        let proc = match proc {
            Some(proc) => {
                self.procs.get_mut(proc).expect("a spare is a process").role = role;
                proc
            }
            None => self.procs.start(node, role, &mut self.out),
        };
        self.members.view.pes[pe.at()].node = node;
        let entry = &mut self.members.pes[pe.at()];
        (entry.proc, entry.assigned, entry.reached) = (Some(proc), false, false);
    }

    /// Discards the memory of a lost PE, and requests a new one on `node`.
    fn wipe(&mut self, pe: Pe, node: u32) {
        let member = &mut self.members.view.pes[pe.at()];
        self.wiping.insert((pe, member.memory));
        self.out.push(Action::Wipe { pe, memory: member.memory });
        member.memory += 1;
        member.state = State::NodeDead;
        let (memory, pages) = (member.memory, PageRuns::default());
        self.out.send(node, Down::MakeMemory { pe, memory, pages });
        self.members.pes[pe.at()].memory_made = false;
    }

    /// Returns the node for PE `lost`, and a spare on it if there is one: the living node to which
    /// the PE moves, or the best one.
    pub(super) fn elsewhere(&self, lost: Pe, spawn: bool) -> Option<(Option<ProcId>, u32)> {
        let node_of: Vec<usize> = self.members.view.nodes().map(|node| node as usize).collect();
        let spare = |node: u32| self.procs.spare(|at| at == node);
        let place =
            |node: u32| SubstituteNode { node: node as usize, spare: spare(node).is_some() };
        let best = |may_leave: bool| {
            let nodes =
                self.nodes.all().filter(|&node| may_leave || self.drains.node() != Some(node));
            let places = nodes.map(place).filter(|place| spawn || place.spare);
            self.survey.site.best(lost, &node_of, places)
        };
        let target = self.drains.target(lost).filter(|&node| spawn && self.nodes.lives(node));
        // A node that is being drained takes it only if no other can.
        let any = || best(false).or_else(|| best(true)).map(|place| place.node as u32);
        let node = target.or_else(any)?;
        Some((spare(node), node))
    }

    /// Assigns numbers to processes that are ready for them.
    pub(super) fn advance(&mut self) {
        if self.out.is_ended() {
            return;
        }
        let (members, wiping) = (&self.members, &self.wiping);
        let is_wiped = |pe: Pe| !wiping.iter().any(|&(of, _)| of == pe);
        let is_ready = |pe: &Pe| members.is_ready(*pe, &self.procs) && is_wiped(*pe);
        if !members.started {
            if members.all().all(|pe| is_ready(&pe)) {
                self.introduce(self.members.all().collect());
            }
            return;
        }
        let is_dead = |pe: &Pe| members.view.pes[pe.at()].state != State::Alive;
        self.introduce(members.all().filter(is_dead).filter(is_ready).collect());
    }

    /// Assigns processes their numbers, and shows as alive those that are reachable. The original
    /// PEs are shown together.
    fn introduce(&mut self, ready: Vec<Pe>) {
        for &pe in &ready {
            if !self.members.pes[pe.at()].assigned {
                self.assign(pe);
            }
        }
        let reached = |pe: &&Pe| self.members.pes[pe.at()].reached;
        let shown: Vec<Pe> = ready.iter().filter(reached).copied().collect();
        if shown.is_empty() || !self.members.started && shown.len() < ready.len() {
            return;
        }
        for &pe in &shown {
            self.members.bring_to_life(pe);
            let proc = self.members.pes[pe.at()].proc;
            if let Some(proc) = proc.and_then(|proc| self.procs.get_mut(proc)) {
                proc.role = Role::Pe(pe);
            }
        }
        self.members.started = true;
        self.members.show(&self.nodes, &mut self.out);
    }

    /// Restarts the recovery of `view`, because it cannot use the checkpoint data of PE `of`: all
    /// PEs recover again in a new view, and reach equal conclusions there. Ignores a report about
    /// an older view, whose recovery has been restarted already.
    pub(super) fn unusable(&mut self, view: ViewNumber, of: Pe, flaw: Flaw) {
        let is_old = view != self.members.view.number || !self.members.started;
        if is_old || breaks(Mutant::CorruptUnreported) {
            return;
        }
        if !self.recovery.restart() {
            let words = format!(
                "unrecoverable: tiles of PE {of} and others failed their checksums in \
                 {CORRUPT_MAX} recoveries in a row, though they were checked"
            );
            return self.give_up(words);
        }
        let line = match flaw {
            Flaw::Damaged => {
                format!("a tile of PE {of} does not match its checksum: the recovery begins again")
            }
            Flaw::Missing => format!(
                "PE {of} has only a part of the checkpoint: the recovery begins again, and checks \
                 everything"
            ),
        };
        self.members.cannot_roll_back_locally(&Reason::Damaged, of, &mut self.out);
        self.members.show(&self.nodes, &mut self.out);
        self.out.say(line); // once it is printed, every PE has been notified
    }

    fn assign(&mut self, pe: Pe) {
        let members = &mut self.members;
        let Some(proc) = members.pes[pe.at()].proc else { return };
        let member = members.view.pes[pe.at()];
        members.pes[pe.at()].assigned = true;
        members.pes[pe.at()].reached = !members.engine;
        let assignment = AssignmentMessage {
            pe,
            incarnation: members.next_incarnation(pe),
            memory: member.memory,
            node: member.node,
            fired: self.faults.over(),
            lost: self.recovery.lost.iter().copied().collect(),
            incarnations: members.view.pes.iter().map(|member| member.incarnation).collect(),
            past: Past::default(),
            from_disk: self.recovery.from_disk,
            prelude: self.preludes.of(pe),
            moves: members.places.moves().to_vec(),
        };
        self.out.send(member.node, Down::Assign { proc, assignment });
    }
}
