//! The status of the job, collected from the membership machine, the statistics, and the agents'
//! answers.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use raidshmem_core::message::{Answer, ProcessSeen};
use raidshmem_core::quantity::Pe;

use super::Launcher;
use super::status::{NodeNow, PeNow, Picture, view};
use crate::lines::show;

/// The interval between redraws of the terminal view.
const PERIOD: Duration = Duration::from_millis(250);

impl Launcher {
    /// Draws the terminal view, if there is one and a redraw is due.
    pub(super) fn draw_view(&mut self) {
        let now = Instant::now();
        if self.view.is_none_or(|next| next > now) {
            return;
        }
        self.view = Some(now + PERIOD);
        show(Some(view(&self.picture(&BTreeMap::new()))));
    }

    /// Returns the status of the job, with the processes of the nodes that have answered.
    pub(super) fn picture(&self, answers: &BTreeMap<u32, Answer>) -> Picture<'_> {
        let nodes = self.nodes.keys().map(|&node| {
            let answer = answers.get(&node);
            let spare = |seen: &&ProcessSeen| self.machine.pe_of(seen.proc).is_none();
            let spares = answer.iter().flat_map(|answer| &answer.processes).filter(spare);
            let spares = spares.map(|seen| seen.pid).collect();
            let agent = answer.map(|answer| answer.agent);
            let sleeping = self.machine.spares_on(node);
            (node, NodeNow { name: self.name(node), agent, spares, sleeping })
        });
        let seen = answers.values().flat_map(|answer| &answer.processes);
        let seen = seen.filter_map(|seen| Some((self.machine.pe_of(seen.proc)?, seen)));
        let seen: BTreeMap<Pe, &ProcessSeen> = seen.collect();
        let (view, standing) = (self.machine.view(), self.machine.standing());
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
        let now = self.telling.now();
        Picture {
            title: &self.title,
            now,
            nodes: nodes.collect(),
            pes: pes.collect(),
            spares: self.machine.spares(),
            figures: self.telling.figures(),
            survival: self.machine.known_survival().cloned(),
        }
    }
}
