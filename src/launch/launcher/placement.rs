//! What `--report-placement` prints, once every node has said where its PEs run.

use raidshmem_core::message::Bound;
use raidshmem_core::placement::Domains;
use raidshmem_core::placement::bindings::Binding;
use raidshmem_core::placement::table::Placement;

use crate::launch::cli::ready::Ready;
use crate::launch::lines;

/// A table that is not complete yet.
pub struct PlacementReport {
    node_of: Vec<usize>,
    domains: Domains,
    group_of: Vec<usize>,
    survives: String,
    bindings: Vec<Option<Binding>>,
}

impl PlacementReport {
    /// The table of a job of which no node has said anything.
    pub fn new(ready: &Ready) -> PlacementReport {
        let node_of: Vec<usize> = ready.shape.node_of.iter().map(|&node| node as usize).collect();
        let mode = ready.settings.backup_mode.name();
        PlacementReport {
            bindings: vec![None; node_of.len()],
            node_of,
            domains: ready.site.domains.clone(),
            group_of: match &ready.survives {
                Some(_) => ready.site.group_of.clone(),
                None => Vec::new(), // nobody protects anybody
            },
            survives: match &ready.survives {
                Some(survives) => format!("{mode}: {survives}"),
                None => format!("{mode}: nothing is survived"),
            },
        }
    }

    /// Takes what a node says, and prints the table when that was the last; the table else.
    pub fn hear(mut self, bound: Vec<Bound>) -> Option<PlacementReport> {
        for Bound { pe, cpus, numa } in bound {
            if let Some(binding) = self.bindings.get_mut(pe.at()) {
                let cpus = cpus.into_iter().map(|cpu| cpu as usize).collect();
                *binding = Some(Binding { cpus, numa: numa.map(|node| node as usize) });
            }
        }
        if self.bindings.iter().any(Option::is_none) {
            return Some(self);
        }
        let bindings: Vec<Binding> = self.bindings.into_iter().flatten().collect();
        let table = Placement {
            node_of: &self.node_of,
            domains: &self.domains,
            group_of: &self.group_of,
            bindings: &bindings,
        };
        lines::print(format!("{table}{}\n", self.survives));
        None
    }
}
