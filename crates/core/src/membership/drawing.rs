//! The membership machine as a drawing: every change of a PE that any order of events can cause,
//! found by exhaustive search on a small job, so the picture always matches the code.
//!
//! Two PEs on two nodes, up to two deaths. Actions requested from the launcher complete at any
//! time, or are cancelled by an end or a lost node.

use std::collections::{BTreeSet, HashSet};

use super::*;
use crate::ended::UNRECOVERABLE;
use crate::settings::Fabric;
use crate::view::MoveRequest;

#[derive(Clone)]
struct DrawnJob {
    machine: Membership,
    /// Requested actions that have not completed yet.
    pending: Vec<MembershipEvent>,
    /// Processes and their nodes.
    running: Vec<(ProcId, u32)>,
    losses: u32,
    /// True once a drain was requested; the request that the PEs know.
    has_asked: bool,
    drain: Option<MoveRequest>,
}

impl DrawnJob {
    fn new() -> DrawnJob {
        let (node_of, spares) = (vec![0, 1], Vec::new());
        let shape = Shape { node_of, nodes: 2, spares, fabric: Fabric::Shm };
        let settings = Settings { backup_mode: BackupMode::Raid5, ..Settings::default() };
        let (machine, first) = Membership::new(&shape, &settings, vec![0; 2]);
        let (pending, running) = Default::default();
        let (losses, has_asked, drain) = (2, false, None);
        let mut job = DrawnJob { machine, pending, running, losses, has_asked, drain };
        job.act(first);
        job
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            let (node, message) = match action {
                Action::Send { node, message } => (node, message),
                Action::Wipe { pe, memory } => {
                    self.pending.push(MembershipEvent::Wiped { pe, memory });
                    continue;
                }
                Action::KillNode { node } => {
                    self.pending.push(MembershipEvent::NodeLost { node });
                    continue;
                }
                Action::Rest { pe, .. } => {
                    self.pending.push(MembershipEvent::Rested { pe });
                    continue;
                }
                _ => continue,
            };
            match message {
                Down::MakeMemory { pe, memory, .. } => {
                    self.pending.push(MembershipEvent::MemoryMade { pe, memory });
                }
                Down::Start { proc, .. } => {
                    self.running.push((proc, node));
                    self.pending.push(MembershipEvent::Message { proc, what: PeMessage::Hello });
                }
                Down::Drain(request) => self.drain = Some(request),
                Down::DrainOver { .. } => self.drain = None,
                Down::Kill { proc } => {
                    self.pending.push(MembershipEvent::Ended { proc, how: Ended::Killed(9) });
                }
                Down::Show(view) => {
                    self.pending.retain(
                        |e| !matches!(e, MembershipEvent::Shown { node: n, .. } if *n == node),
                    );
                    self.pending.push(MembershipEvent::Shown { node, number: view.number });
                }
                _ => {}
            }
        }
    }

    /// Returns every event that may come next.
    fn events(&self) -> Vec<MembershipEvent> {
        let mut events = self.pending.clone();
        let joined = self.machine.view().number;
        for &(proc, _) in &self.running {
            if self.losses > 0 {
                events.push(MembershipEvent::Ended { proc, how: Ended::Killed(9) });
            }
            let Some(pe) = self.machine.members.pes.iter().position(|pe| pe.proc == Some(proc))
            else {
                continue;
            };
            let verdict = PeMessage::Verdict { status: UNRECOVERABLE, words: String::new() };
            let says = match self.machine.members.pes[pe].stage {
                PeStage::Running => {
                    let on = |request: &MoveRequest| {
                        let mut leaving = self.machine.members.on(request.node);
                        request.joins || leaving.any(|on| on.at() == pe)
                    };
                    let waits = self.drain.filter(on).map(|request| {
                        let checkpoint = CheckpointNumber(1);
                        PeMessage::Drained { request, view: joined, checkpoint }
                    });
                    let ends = [PeMessage::Finalizing { joined, cut: false }, verdict];
                    waits.into_iter().chain(ends).collect()
                }
                PeStage::Finalizing if self.machine.members.all_in_finalize() => {
                    vec![PeMessage::Finalized]
                }
                // It has seen the loss, and served the PEs that rolled back.
                PeStage::Finalizing if self.machine.members.pes[pe].joined < joined => {
                    vec![PeMessage::Finalizing { joined, cut: false }]
                }
                _ => Vec::new(),
            };
            events.extend(says.into_iter().map(|what| MembershipEvent::Message { proc, what }));
            if self.machine.members.pes[pe].stage >= PeStage::Finalized {
                events.push(MembershipEvent::Ended { proc, how: Ended::Exited(0) });
            }
        }
        if self.losses > 0 {
            events.extend(self.machine.nodes.all().map(|node| MembershipEvent::NodeLost { node }));
        }
        if !self.has_asked && self.losses > 0 {
            let mut machine = self.machine.clone();
            let nodes =
                self.machine.nodes.all().filter(|node| machine.refuses_move(Some(*node)).is_none());
            events.extend(nodes.map(|node| MembershipEvent::Drain { node }));
            let joins = machine.refuses_move(None).is_none();
            events.extend(joins.then_some(MembershipEvent::Joined { node: 2, room: None }));
        }
        events
    }

    fn after(&self, event: &MembershipEvent) -> DrawnJob {
        let mut job = self.clone();
        let text = format!("{event:?}");
        job.pending.retain(|pending| format!("{pending:?}") != text);
        let lost: Vec<ProcId> = match event {
            MembershipEvent::Ended { proc, .. } => vec![*proc],
            MembershipEvent::NodeLost { node } => {
                let here = job.running.iter().filter(|(_, at)| at == node);
                here.map(|&(proc, _)| proc).collect()
            }
            _ => Vec::new(),
        };
        job.running.retain(|(proc, _)| !lost.contains(proc));
        job.pending
            .retain(|e| !matches!(e, MembershipEvent::Message { proc, .. } if lost.contains(proc)));
        if let MembershipEvent::NodeLost { node } = event {
            job.pending
                .retain(|e| !matches!(e, MembershipEvent::Shown { node: n, .. } if n == node));
        }
        if matches!(
            event,
            MembershipEvent::NodeLost { .. } | MembershipEvent::Ended { how: Ended::Killed(_), .. }
        ) {
            job.losses = job.losses.saturating_sub(1); // a drain has counted at its request
        }
        if let MembershipEvent::Drain { .. } = event {
            (job.losses, job.has_asked) = (job.losses - 1, true);
        }
        if let MembershipEvent::Joined { .. } = event {
            job.has_asked = true;
        }
        let actions = job.machine.handle(event.clone());
        job.act(actions);
        job
    }

    fn place(&self, pe: Pe) -> &'static str {
        let carried = self.machine.members.pes[pe.at()].proc.is_some();
        match (self.machine.members.pes[pe.at()].stage, self.machine.view().pes[pe.at()].state) {
            _ if self.machine.out.is_ended() => "JobEnded",
            (PeStage::Starting, _) => "Starting",
            (PeStage::Finalizing, _) => "Finalizing",
            (PeStage::Finalized, _) => "Finalized",
            (PeStage::Unrecoverable, _) => "Unrecoverable",
            (PeStage::Running, State::Alive) => "Running",
            (PeStage::Running, _) if carried => "Replacing",
            (PeStage::Running, State::ProcessDead) => "ProcessDead",
            (PeStage::Running, State::NodeDead) => "NodeDead",
        }
    }
}

fn name(event: &MembershipEvent) -> &'static str {
    match event {
        MembershipEvent::MemoryMade { .. } => "memory made",
        MembershipEvent::Wiped { .. } => "memory wiped",
        MembershipEvent::Ended { .. } => "process ended",
        MembershipEvent::NodeLost { .. } => "node lost",
        MembershipEvent::Shown { .. } => "view shown everywhere",
        MembershipEvent::Message { what: PeMessage::Hello, .. } => "hello",
        MembershipEvent::Message { what: PeMessage::Finalizing { .. }, .. } => "finalizing",
        MembershipEvent::Message { what: PeMessage::Finalized, .. } => "finalized",
        MembershipEvent::Message { what: PeMessage::Drained { .. }, .. } => "waits to move",
        MembershipEvent::Drain { .. } => "drain",
        MembershipEvent::Joined { .. } => "joined",
        MembershipEvent::Message { .. } => "verdict",
        MembershipEvent::Rested { .. } => "held back for long enough",
        MembershipEvent::Looked { .. } | MembershipEvent::Opinion { .. } => "suspected",
        MembershipEvent::SetStored => "stored",
        MembershipEvent::SetChosen { .. } | MembershipEvent::NoSet { .. } => "fell back",
    }
}

/// Returns all changes of a PE's place as a graph in the DOT language, and the number of states.
fn draw() -> (String, usize) {
    let mut rows = BTreeSet::new();
    let mut seen = HashSet::new();
    let mut stack = vec![DrawnJob::new()];
    while let Some(job) = stack.pop() {
        for event in job.events() {
            let next = job.after(&event);
            for pe in Pe::all(2) {
                let (from, to) = (job.place(pe), next.place(pe));
                if from != to {
                    rows.insert(format!("  {from} -> {to} [label=\"{}\"];\n", name(&event)));
                }
            }
            let DrawnJob { machine, pending, running, losses, has_asked, drain } = &next;
            let goes_on = !(machine.out.is_ended() || machine.unrecoverable());
            let is_empty = running.is_empty() && pending.is_empty();
            assert!(!(goes_on && is_empty), "no process is left to end it: {machine:?}");
            if !machine.out.is_ended()
                && seen.insert(format!(
                    "{machine:?}{pending:?}{running:?}{losses}{has_asked}{drain:?}"
                ))
            {
                stack.push(next);
            }
        }
    }
    let rows: String = rows.into_iter().collect();
    (format!("digraph membership {{\n{rows}}}\n"), seen.len())
}

/// A change of the machine changes the picture. `RAIDSHMEM_WRITE_DOCS=1` updates it.
#[test]
fn the_drawing_is_that_of_the_machine() {
    let (drawn, states) = draw();
    println!("{states} states of a job of two PEs");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/membership.dot");
    if std::env::var_os("RAIDSHMEM_WRITE_DOCS").is_some() {
        std::fs::write(path, &drawn).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), drawn, "docs/membership.dot is stale");
}
