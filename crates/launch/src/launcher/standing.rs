//! The status of the job, collected from the membership machine, the statistics, and the agents'
//! answers.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use raidshmem_core::membership::Membership;
use raidshmem_core::message::{Answer, ProcessSeen};
use raidshmem_core::quantity::Pe;

use super::event_bus::EventBus;
use super::job::title;
use super::nodes::Nodes;
use super::status::{NodeNow, PeNow, Picture, Title, view};
use crate::cli::ready::Ready;
use crate::lines::show;

/// The interval between redraws of the terminal view.
const PERIOD: Duration = Duration::from_millis(250);

/// The fixed properties of a job, and its terminal view.
pub(super) struct StatusDisplay {
    title: Title,
    /// The time of the next redraw of the terminal view, if there is one.
    next: Option<Instant>,
}

impl StatusDisplay {
    /// Creates the display of a job, with a terminal view if requested.
    pub fn new(ready: &Ready) -> StatusDisplay {
        StatusDisplay { title: title(ready), next: ready.live.then(Instant::now) }
    }

    /// Returns the time of the next redraw, if any.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Takes over the groups that are now in force.
    pub fn regroup(&mut self, group_of: &[usize]) {
        self.title.group_of = group_of.to_vec();
    }

    /// Draws the terminal view, if there is one and a redraw is due.
    pub fn draw(&mut self, machine: &Membership, nodes: &Nodes, events: &EventBus) {
        let now = Instant::now();
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        self.next = Some(now + PERIOD);
        show(Some(view(&self.picture(machine, nodes, events, &BTreeMap::new()))));
    }

    /// Returns the status of the job, with the processes of the nodes that have answered.
    pub fn picture(
        &self,
        machine: &Membership,
        nodes: &Nodes,
        events: &EventBus,
        answers: &BTreeMap<u32, Answer>,
    ) -> Picture<'_> {
        let shown = nodes.all.keys().map(|&node| {
            let answer = answers.get(&node);
            let spare = |seen: &&ProcessSeen| machine.pe_of(seen.proc).is_none();
            let spares = answer.iter().flat_map(|answer| &answer.processes).filter(spare);
            let spares = spares.map(|seen| seen.pid).collect();
            let agent = answer.map(|answer| answer.agent);
            let sleeping = machine.spares(Some(node));
            let drained = machine.drained_node() == Some(node);
            (node, NodeNow { name: nodes.name(node), agent, spares, sleeping, drained })
        });
        Picture {
            title: &self.title,
            now: events.now(),
            nodes: shown.collect(),
            pes: pes(machine, answers),
            spares: machine.spares(None),
            figures: events.figures(),
            survival: machine.known_survival().cloned(),
        }
    }
}

/// Returns the status of each PE.
fn pes(machine: &Membership, answers: &BTreeMap<u32, Answer>) -> Vec<PeNow> {
    let seen = answers.values().flat_map(|answer| &answer.processes);
    let seen = seen.filter_map(|seen| Some((machine.pe_of(seen.proc)?, seen)));
    let seen: BTreeMap<Pe, &ProcessSeen> = seen.collect();
    let (view, standing) = (machine.view(), machine.standing());
    let members = Pe::all(view.pes.len()).zip(view.pes.iter().zip(standing));
    let pes = members.map(|(pe, (member, state))| {
        let seen = seen.get(&pe);
        PeNow {
            node: member.node,
            incarnation: member.incarnation,
            state,
            stopped: seen.is_some_and(|seen| seen.stopped),
            pid: seen.map(|seen| seen.pid),
            calls: seen.map(|seen| seen.calls.clone()).unwrap_or_default(),
        }
    });
    pes.collect()
}
