//! Hosts that Slurm drains: their nodes are drained like by `oshrun --drain`, as long as the job
//! survives that.
//!
//! A thread asks `scontrol show node` about the hosts of the job every [`PERIOD`]. If Slurm does
//! not answer, nothing is drained.
//!
//! Left out: hosts that Slurm takes down, which are lost like any other.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use raidshmem_core::membership::{DrainRefusal, Membership};

use super::event_bus::EventBus;
use crate::cli::ready::Ready;
use crate::cli::starter::Means;
use crate::worker::Worker;

/// The time from an answer of Slurm to the next question.
const PERIOD: Duration = Duration::from_secs(10);

/// The hosts of a job in a Slurm allocation.
pub(super) struct SlurmHosts {
    /// The name of the host of each node.
    names: BTreeMap<u32, String>,
    worker: Worker<Option<String>>,
    /// The time of the next question; None while Slurm is being asked.
    due: Option<Instant>,
    /// Nodes that stay for a reason that was printed.
    stay: BTreeSet<u32>,
}

impl SlurmHosts {
    /// Returns None if the job is in no Slurm allocation.
    ///
    /// # Errors
    /// Too few threads or descriptors.
    pub fn new(ready: &Ready) -> std::io::Result<Option<SlurmHosts>> {
        let cluster = ready.cluster.as_ref().filter(|cluster| cluster.means == Means::Slurm);
        let Some(cluster) = cluster else { return Ok(None) };
        let (worker, due) = (Worker::new()?, Some(Instant::now() + PERIOD));
        let names = (0..).zip(cluster.names.iter().cloned()).collect();
        Ok(Some(SlurmHosts { names, worker, due, stay: BTreeSet::new() }))
    }

    /// Returns the descriptor to poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.worker.as_fd()
    }

    /// Returns the time until the next question.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(now))
    }

    /// Adds a host that has joined as `node`.
    pub fn add(&mut self, node: u32, name: &str) {
        self.names.insert(node, name.to_owned());
    }

    /// Returns the nodes to drain now, each with the name of its host, since Slurm drains them. One
    /// that must stay is tried again after each answer of Slurm, and the reason is printed once.
    pub fn due(&mut self, machine: &mut Membership, events: &mut EventBus) -> Vec<(u32, String)> {
        use DrainRefusal::{Busy, Filling, NoNode, NotRunning};
        let mut due = Vec::new();
        for node in self.drained() {
            let name = &self.names[&node];
            match machine.refuses_move(Some(node)) {
                None => due.push((node, name.clone())),
                Some(Busy { .. } | Filling { .. } | NoNode { .. } | NotRunning) => {}
                Some(why) if self.stay.insert(node) => {
                    events.news(&format!("Slurm drains {name}, but node {node} stays: {why}"));
                }
                Some(_) => {}
            }
        }
        due
    }

    /// Asks Slurm if that is due. Returns the nodes that it drains, if it has answered.
    fn drained(&mut self) -> Vec<u32> {
        let answers = self.worker.results();
        if !answers.is_empty() {
            self.due = Some(Instant::now() + PERIOD);
        }
        if self.due.take_if(|due| *due <= Instant::now()).is_some() {
            let names = self.names.values().map(String::as_str).collect::<Vec<_>>().join(",");
            self.worker.begin(move || ask(&names));
        }
        let Some(answer) = answers.into_iter().flatten().next_back() else { return Vec::new() };
        let drained = drained_in(&answer);
        let is_drained = |(_, name): &(&u32, &String)| drained.contains(name.as_str());
        let nodes: Vec<u32> = self.names.iter().filter(is_drained).map(|(&node, _)| node).collect();
        self.stay.retain(|node| nodes.contains(node));
        nodes
    }
}

/// Returns Slurm's description of hosts, a line for each; None if it gives none.
fn ask(names: &str) -> Option<String> {
    let mut command = Command::new("scontrol");
    command.args(["--oneliner", "show", "node", names]).stdin(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

/// Returns the names of the hosts that are being drained, or are drained.
fn drained_in(answer: &str) -> BTreeSet<&str> {
    let drained = answer.lines().filter_map(|line| {
        let field = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name));
        let is_drained = field("State=")?.split('+').any(|flag| flag.starts_with("DRAIN"));
        field("NodeName=").filter(|_| is_drained)
    });
    drained.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drained_hosts_are_read_from_what_slurm_prints() {
        let line = |name: &str, state: &str| {
            format!(
                "NodeName={name} Arch=x86_64 CoresPerSocket=1 CPUAlloc=1 NodeAddr=10.9.0.1 \
                 OS=Linux 6.1.0 #1 SMP State={state} ThreadsPerCore=1 Partitions=all \
                 Reason=State=DRAIN is what it will be [root@2026-01-01T00:00:00]\n"
            )
        };
        let states = [
            ("n0", "ALLOCATED"),
            ("n1", "MIXED+DRAIN"),
            ("n2", "IDLE+DRAIN"),
            ("n3", "DOWN*+NOT_RESPONDING"),
            ("n4", "ALLOCATED*+DRAIN"),
            ("n5", "IDLE+MAINTENANCE+RESERVED"),
            ("n6", "DRAINING"),
        ];
        let text: String = states.iter().map(|(name, state)| line(name, state)).collect();
        assert_eq!(Vec::from_iter(drained_in(&text)), ["n1", "n2", "n4", "n6"]);
        assert!(drained_in("").is_empty() && drained_in("Node n9 not found\n").is_empty());
    }
}
