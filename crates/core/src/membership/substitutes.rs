//! Substitutes: which process takes over a lost PE's number, where, and with which memory.
//!
//! Part of the machine in [`super`]. A spare on the same node is best, because the memory of a dead
//! process can be adopted there; then a new process there; then the node that
//! [`crate::placement::substitute`] chooses.

use super::{Action, Membership, Role, Stage};
use crate::ended::UNRECOVERABLE;
use crate::inject::FaultTarget;
use crate::message::{AssignmentMessage, Down, Flaw, Past, ProcId};
use crate::mutant::{Mutant, breaks};
use crate::placement::substitute::SubstituteNode;
use crate::quantity::{Incarnation, Pe, ViewNumber};
use crate::replay::decide::Reason;
use crate::settings::Substitute;
use crate::view::State;

/// Maximum restarts of a recovery because of corrupt tiles.
const CORRUPT_MAX: u32 = 8;

impl Membership {
    /// Finds substitutes for the dead PEs once every living node shows that they are dead.
    pub(super) fn repair(&mut self) {
        let current = self.view.number;
        let unseen = self.shown.values().any(|&shown| shown < current);
        if !self.started || self.ended || unseen && !breaks(Mutant::WipedTooEarly) {
            return;
        }
        for pe in Pe::all(self.pes.len()) {
            let over = self.pes[pe.at()].stage == Stage::Finalized;
            let free = self.pes[pe.at()].proc.is_none() && !self.pes[pe.at()].rests;
            if self.view.pes[pe.at()].state != State::Alive && free && !over {
                self.replace(pe);
                if self.ended {
                    return;
                }
            }
        }
        self.advance();
    }

    fn replace(&mut self, pe: Pe) {
        let member = self.view.pes[pe.at()];
        let home = member.state == State::ProcessDead && self.shown.contains_key(&member.node);
        let spare_here = self.spare(|node| node == member.node);
        let spawn = self.substitute == Substitute::Spawn;
        let (proc, node) = match (home, spare_here, spawn) {
            (true, Some(proc), _) => (Some(proc), member.node),
            (true, None, true) => (None, member.node),
            _ => match self.elsewhere(pe, spawn) {
                Some(place) => place,
                None if self.procs.values().any(|proc| proc.role == Role::Spare) => {
                    return; // a spare is on its way to shmem_init
                }
                None => {
                    let words = format!(
                        "unrecoverable: no substitute left for PE {pe}: \
                         SHMEM_FT_SUBSTITUTE=spare and every spare is used"
                    );
                    return self.end(UNRECOVERABLE, Some(words));
                }
            },
        };
        let adopted = home && node == member.node && self.adopt;
        if !adopted && member.state == State::ProcessDead {
            self.cannot_roll_back_locally(&Reason::MemoryLost, pe);
        }
        if !adopted && !breaks(Mutant::NotWiped) {
            self.wiping.insert((pe, member.memory));
            self.out.push(Action::Wipe { pe, memory: member.memory });
            let member = &mut self.view.pes[pe.at()];
            member.memory += 1;
            member.state = State::NodeDead;
            let memory = member.memory;
            self.pes[pe.at()].memory_made = false;
            self.send(node, Down::MakeMemory { pe, memory });
        }
        let role = Role::Substitute(pe);
        let proc = match proc {
            Some(proc) => {
                self.procs.get_mut(&proc).expect("a spare is a process").role = role;
                proc
            }
            None => self.start(node, role),
        };
        self.view.pes[pe.at()].node = node;
        self.pes[pe.at()].proc = Some(proc);
        (self.pes[pe.at()].assigned, self.pes[pe.at()].reached) = (false, false);
    }

    /// Returns true if no PE is alive and no memory is left that a substitute could adopt.
    pub(super) fn no_pe_is_left(&self) -> bool {
        self.view.pes.iter().all(|pe| match pe.state {
            State::Alive => false,
            State::ProcessDead => !self.adopt || !self.shown.contains_key(&pe.node),
            State::NodeDead => true,
        })
    }

    fn spare(&self, on: impl Fn(u32) -> bool) -> Option<ProcId> {
        let found = self.procs.iter().find(|(_, p)| p.role == Role::Spare && p.hello && on(p.node));
        found.map(|(&id, _)| id)
    }

    /// Returns the best living node for PE `lost`, and a spare on it if there is one.
    fn elsewhere(&self, lost: Pe, spawn: bool) -> Option<(Option<ProcId>, u32)> {
        let node_of: Vec<usize> = self.view.pes.iter().map(|pe| pe.node as usize).collect();
        let place = |&node: &u32| SubstituteNode {
            node: node as usize,
            spare: self.spare(|at| at == node).is_some(),
        };
        let places = self.shown.keys().map(place).filter(|place| spawn || place.spare);
        let node = self.site.best(lost, &node_of, places)?.node as u32;
        Some((self.spare(|at| at == node), node))
    }

    /// Records that the contents of a lost memory were discarded.
    pub(super) fn wiped(&mut self, pe: Pe, memory: u32) {
        self.wiping.remove(&(pe, memory));
        self.advance();
    }

    /// Assigns numbers to processes that are ready for them.
    pub(super) fn advance(&mut self) {
        if self.ended {
            return;
        }
        let ready = |m: &Self, pe: Pe| {
            m.pes[pe.at()].memory_made
                && !m.wiping.iter().any(|&(of, _)| of == pe)
                && m.pes[pe.at()].proc.is_some_and(|id| m.procs.get(&id).is_some_and(|p| p.hello))
        };
        if !self.started {
            if Pe::all(self.pes.len()).all(|pe| ready(self, pe)) {
                self.introduce(Pe::all(self.pes.len()).collect());
            }
            return;
        }
        let waiting = |&pe: &Pe| self.view.pes[pe.at()].state != State::Alive && ready(self, pe);
        self.introduce(Pe::all(self.pes.len()).filter(waiting).collect());
    }

    /// Assigns processes their numbers, and shows as alive those that are reachable. The original
    /// PEs are shown together.
    fn introduce(&mut self, ready: Vec<Pe>) {
        for &pe in &ready {
            if !self.pes[pe.at()].assigned {
                self.assign(pe);
            }
        }
        let reached = |pe: &&Pe| self.pes[pe.at()].reached;
        let shown: Vec<Pe> = ready.iter().filter(reached).copied().collect();
        if shown.is_empty() || !self.started && shown.len() < ready.len() {
            return;
        }
        for &pe in &shown {
            let incarnation = self.next_incarnation(pe);
            let member = &mut self.view.pes[pe.at()];
            member.incarnation = incarnation;
            member.state = State::Alive;
            self.pes[pe.at()].stage = Stage::Running;
            if self.started {
                self.pes[pe.at()].crashes.begin();
            }
            let proc = self.pes[pe.at()].proc.and_then(|proc| self.procs.get_mut(&proc));
            if let Some(proc) = proc {
                proc.role = Role::Pe(pe);
            }
        }
        self.started = true;
        self.show();
    }

    /// Records the address of a process with an assigned number. All others receive the address
    /// before the view that shows the process as alive.
    pub(super) fn addressed(&mut self, proc: ProcId, address: Vec<u8>) {
        let carries = |pe: &Pe| self.pes[pe.at()].proc == Some(proc) && self.pes[pe.at()].assigned;
        let Some(pe) =
            Pe::all(self.pes.len()).find(carries).filter(|&pe| !self.pes[pe.at()].reached)
        else {
            return;
        };
        let incarnation = self.next_incarnation(pe);
        let nodes: Vec<u32> = self.shown.keys().copied().collect();
        for node in nodes {
            let address = address.clone();
            self.send(node, Down::Address { pe, incarnation, address });
        }
        self.pes[pe.at()].reached = true;
        self.advance();
    }

    /// Restarts the recovery of `view`, because it cannot use the checkpoint data of PE `of`: all
    /// PEs recover again in a new view, and reach equal conclusions there. Ignores a report about
    /// an older view, whose recovery has been restarted already.
    pub(super) fn unusable(&mut self, view: ViewNumber, of: Pe, flaw: Flaw) {
        if view != self.view.number || !self.started || breaks(Mutant::CorruptUnreported) {
            return;
        }
        self.corrupt += 1;
        if self.corrupt > CORRUPT_MAX {
            let words = format!(
                "unrecoverable: tiles of PE {of} and others failed their checksums in \
                 {CORRUPT_MAX} recoveries in a row, though they were checked"
            );
            return self.end(UNRECOVERABLE, Some(words));
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
        self.cannot_roll_back_locally(&Reason::Damaged, of);
        self.show();
        self.out.push(Action::Say(line)); // once it is printed, every PE has been notified
    }

    /// Records that PE `pe` has reached its first checkpoint call, with the results of its earlier
    /// calls. No PE begins a checkpoint before all records are here, so any PE lost after that has
    /// one.
    pub(super) fn prelude_over(&mut self, pe: Pe, record: Vec<u8>) {
        if self.preludes.keep(pe, record) {
            let nodes: Vec<u32> = self.shown.keys().copied().collect();
            nodes.into_iter().for_each(|node| self.send(node, Down::PreludesKept));
        }
    }

    /// Carries out a rule whose point a process has reached: kills the rule's target, once. A
    /// process that stops itself needs nothing more.
    pub(super) fn at_point(&mut self, proc: ProcId, rule: u32) {
        let Some(target) = self.rules.get(rule as usize).map(|rule| rule.target) else { return };
        if !self.fired.insert(rule) {
            return;
        }
        match target {
            FaultTarget::Stop(_) => {}
            FaultTarget::Pe(_) => {
                let node = self.procs[&proc].node;
                self.send(node, Down::Kill { proc });
            }
            FaultTarget::Node(node) => self.out.push(Action::KillNode { node: node as u32 }),
        }
    }

    /// Returns true for a rule that fires each time.
    fn stops(&self, rule: u32) -> bool {
        let rule = self.rules.get(rule as usize);
        rule.is_some_and(|rule| matches!(rule.target, FaultTarget::Stop(_)))
    }

    /// Returns the incarnation of the next process of PE `pe`; the processes that the job starts
    /// with are the first.
    fn next_incarnation(&self, pe: Pe) -> Incarnation {
        let last = self.view.pes[pe.at()].incarnation;
        if self.started { last.next() } else { last }
    }

    fn assign(&mut self, pe: Pe) {
        let Some(proc) = self.pes[pe.at()].proc else { return };
        let member = self.view.pes[pe.at()];
        self.pes[pe.at()].assigned = true;
        self.pes[pe.at()].reached = !self.engine;
        let assignment = AssignmentMessage {
            pe,
            incarnation: self.next_incarnation(pe),
            memory: member.memory,
            node: member.node,
            fired: self.fired.iter().copied().filter(|&rule| !self.stops(rule)).collect(),
            lost: self.lost.iter().copied().collect(),
            incarnations: self.view.pes.iter().map(|member| member.incarnation).collect(),
            past: Past::default(),
            from_disk: self.from_disk,
            prelude: self.preludes.of(pe),
            moves: self.places.moves().to_vec(),
        };
        self.send(member.node, Down::Assign { proc, assignment });
    }
}
