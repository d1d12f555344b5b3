//! The teardown of a lost node: the end of its agent and of its processes.
//!
//! Invariant: a node is given up only after all processes there have ended. The membership machine
//! learns of the loss after that, and defers what depends on it.

use std::time::{Duration, Instant};

use raidshmem_core::ended::Ended;
use raidshmem_core::message::{Down, ProcId};
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_sys::process::Process;

use super::gather::Node;
use super::nodes::Nodes;
use super::teardown::NodeTeardown;
use crate::handshake::ALL_DEAD;

/// The delay after which a line reports the launcher's wait.
const LATE: Duration = Duration::from_secs(10);

/// The time for which a check of an end blocks the loop: none.
fn patience() -> i32 {
    if breaks(Mutant::LoopWaits) { 5_000 } else { 0 }
}

impl Nodes {
    /// Orders a node to end.
    pub fn kill(&mut self, node: u32) {
        let Some(entry) = self.all.get_mut(&node) else { return };
        entry.ordered = true;
        match (&entry.remote, &entry.link) {
            (Some(_), Some(_)) => self.send(node, &Down::Die, &[]),
            _ => entry.process.kill(),
        }
    }

    /// Begins the teardown of a lost node; its earlier messages count if it is `trusted`.
    pub fn begin_teardown(&mut self, node: u32, trusted: bool) {
        let Some(entry) = self.all.get_mut(&node) else { return };
        entry.process.kill();
        if !trusted {
            entry.link = None;
        }
        let late = Some(Instant::now() + LATE);
        self.leaving.insert(node, NodeTeardown { without_agent: false, trusted, late });
    }

    /// Returns true if a node is being torn down.
    pub fn is_leaving(&self, node: u32) -> bool {
        self.leaving.contains_key(&node)
    }

    /// Handles the end of a local agent, or of the command that started a remote one. The status
    /// may be the supervisor's or the command's own. Returns true if no process is left there, and
    /// None if the node is gone.
    pub fn end_starter(&mut self, node: u32) -> Option<bool> {
        let entry = self.all.get_mut(&node)?;
        entry.started_over = true;
        self.waiting.renew();
        Some(entry.remote.is_none() || entry.process.reap() == Some(Ended::Exited(ALL_DEAD)))
    }

    /// Returns the processes of a node whose end the loop awaits now.
    pub fn awaited<'a>(&'a self, node: u32, entry: &'a Node) -> Vec<&'a Process> {
        match self.leaving.get(&node) {
            None if entry.started_over => Vec::new(),
            None | Some(NodeTeardown { without_agent: false, .. }) => vec![&entry.process],
            Some(_) => self.procs_of(node).map(|(_, process)| process).collect(),
        }
    }

    /// Checks whether the agent of a node that is torn down has ended, until
    /// [`Nodes::kill_processes`] follows. Returns true then if its last messages count.
    pub fn end_agent(&mut self, node: u32) -> Option<bool> {
        self.waiting.renew();
        let leaving = self.leaving.get(&node).filter(|leaving| !leaving.without_agent)?;
        let has_ended = self.all.get(&node)?.process.wait_end(patience());
        has_ended.then_some(leaving.trusted)
    }

    /// Kills the processes that an agent left behind: they are children of this process by now.
    pub fn kill_processes(&mut self, node: u32) {
        self.procs_of(node).for_each(|(_, process)| process.kill());
        self.leaving.entry(node).and_modify(|leaving| leaving.without_agent = true);
    }

    /// Reaps processes of a node without an agent. Takes the node once none is left, and returns
    /// with it whether its messages counted.
    pub fn take_ended(&mut self, node: u32) -> Option<(Node, bool)> {
        let &NodeTeardown { trusted, .. } =
            self.leaving.get(&node).filter(|leaving| leaving.without_agent)?;
        let ended = self.procs_of(node).filter(|(_, process)| process.wait_end(patience()));
        let ended = ended.map(|(proc, process)| (proc, process.reap()));
        for (proc, _) in ended.collect::<Vec<_>>() {
            self.procs.remove(&proc);
        }
        if self.procs_of(node).next().is_some() {
            return None;
        }
        self.leaving.remove(&node);
        Some((self.all.remove(&node)?, trusted))
    }

    /// Returns the next time at which a slow node must be reported.
    pub fn late(&self) -> Option<Instant> {
        self.leaving.values().filter_map(|leaving| leaving.late).min()
    }

    /// Returns a line for each node that takes long to end, once.
    pub fn report_late(&mut self) -> Vec<String> {
        let now = Instant::now();
        let mut lines = Vec::new();
        for (node, leaving) in &mut self.leaving {
            if leaving.late.take_if(|late| *late <= now).is_some() {
                lines.push(format!(
                    "node {node} is lost, but processes of it have not ended after {} s: they are \
                     waited for",
                    LATE.as_secs()
                ));
            }
        }
        lines
    }

    fn procs_of(&self, node: u32) -> impl Iterator<Item = (ProcId, &Process)> {
        let here = self.procs.iter().filter(move |(_, (at, _))| *at == node);
        here.map(|(&proc, (_, process))| (proc, process))
    }
}
