//! The table of `--report-placement`, printed once every node has reported its PEs' bindings.

use std::fmt;

use raidshmem_core::message::Bound;
use raidshmem_core::placement::bindings::Binding;
use raidshmem_core::placement::table::PlacementTable;
use raidshmem_core::placement::{Domains, Source};
use raidshmem_sys::machine;

use crate::cli::ready::Ready;
use crate::lines::{self, Tone};

/// A table that may not be complete yet. `Display` prints it, with what the job survives.
pub struct PlacementReport {
    node_of: Vec<usize>,
    domains: Domains,
    group_of: Vec<usize>,
    survives: String,
    bindings: Vec<Option<Binding>>,
}

impl PlacementReport {
    /// Creates the table of a job before any node has reported.
    pub fn new(ready: &Ready) -> PlacementReport {
        let node_of: Vec<usize> = ready.shape.node_of.iter().map(|&node| node as usize).collect();
        let mode = ready.settings.backup_mode.name();
        PlacementReport {
            bindings: vec![None; node_of.len()],
            node_of,
            domains: ready.protected.site.domains.clone(),
            group_of: match &ready.protected.survives {
                Some(_) => ready.protected.site.group_of.clone(),
                None => Vec::new(), // no PE is protected
            },
            survives: match &ready.protected.survives {
                Some(survives) => format!("{mode}: {survives}{}", ready.protected.remedies),
                None => format!("{mode}: nothing is survived"),
            },
        }
    }

    /// Adds a node's bindings. Prints a complete table and returns None; returns an incomplete
    /// table.
    pub fn add(mut self, bound: Vec<Bound>) -> Option<PlacementReport> {
        for Bound { pe, cpus, numa } in bound {
            if let Some(binding) = self.bindings.get_mut(pe.at()) {
                let cpus = cpus.into_iter().map(|cpu| cpu as usize).collect();
                *binding = Some(Binding { cpus, numa: numa.map(|node| node as usize) });
            }
        }
        if self.bindings.iter().any(Option::is_none) {
            return Some(self);
        }
        lines::print(self.to_string());
        None
    }

    /// Adds the bindings of all PEs, in the order of their numbers.
    pub fn add_all(&mut self, bindings: Vec<Binding>) {
        self.bindings = bindings.into_iter().map(Some).collect();
    }
}

impl fmt::Display for PlacementReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bindings: Option<Vec<Binding>> = self.bindings.iter().cloned().collect();
        let table = PlacementTable {
            node_of: &self.node_of,
            domains: &self.domains,
            group_of: &self.group_of,
            bindings: bindings.as_deref(),
        };
        writeln!(f, "{table}{}\n{}", sources(&self.domains), self.survives)
    }
}

/// Prints the losses that the job survives, if a domain's loss is not among them or reports are on.
pub fn print_what_is_survived(ready: &Ready) {
    let worth = ready.protected.fragile || ready.settings.report;
    if let Some(survives) = ready.protected.survives.as_ref().filter(|_| worth) {
        let (mode, remedies) = (ready.settings.backup_mode.name(), &ready.protected.remedies);
        let tone = if ready.protected.fragile { Tone::Loss } else { Tone::Plain };
        lines::tell(tone, &format!("{mode}: {survives}{remedies}"));
    }
}

/// Lists the kinds of failure domain, with the source of each.
fn sources(domains: &Domains) -> String {
    let by = |source| match source {
        Source::User => "named by SHMEM_FT_DOMAINS".to_owned(),
        Source::Firmware => "by the serial numbers of firmware".to_owned(),
        Source::Processors => format!("found by {}", machine::SOURCE),
    };
    let kind = |at| format!(", {} ({})", domains.kind_name(at), by(domains.source(at)));
    let above: String = domains.kinds().skip(1).map(kind).collect();
    format!("failure domains: node{above}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidshmem_core::placement::DomainKind;

    #[test]
    fn the_report_names_the_source_of_a_domain() {
        let none = Domains::of_hosts(vec!["a".into(), "b".into(), "c".into()]);
        assert_eq!(sources(&none), "failure domains: node");
        let kind = |name: &str, source| {
            let domains = vec!["0".to_owned(), "1".to_owned()];
            DomainKind { name: name.to_owned(), domains, of: vec![0, 0, 1], source }
        };
        let some = none.with_kinds(vec![
            kind("chassis", Source::Firmware),
            kind("package", Source::Processors),
            kind("rack", Source::User),
        ]);
        assert_eq!(
            sources(&some),
            format!(
                "failure domains: node, chassis (by the serial numbers of firmware), package \
                 (found by {}), rack (named by SHMEM_FT_DOMAINS)",
                machine::SOURCE
            )
        );
    }
}
