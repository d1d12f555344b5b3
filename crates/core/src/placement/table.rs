//! The placement of a job as a human-readable table: the location of each PE and what it shares.
//!
//! A row is a PE; in a large job a node, and in a very large one a domain of the widest kind.

use std::collections::BTreeMap;

use super::bindings::Binding;
use super::domains::Domains;
use crate::machine;

/// Maximum number of rows before rows stand for the next larger unit.
const ROWS_MAX: usize = 64;
/// Maximum length of a list before only its count is printed.
const LIST_MAX: usize = 24;

/// The data to show; every list is indexed by PE.
#[derive(Clone, Copy, Debug)]
pub struct PlacementTable<'a> {
    /// The node of each PE.
    pub node_of: &'a [usize],
    /// The domains above the nodes.
    pub domains: &'a Domains,
    /// Parity groups; empty in a job without groups.
    pub group_of: &'a [usize],
    /// The CPU binding of each PE; None if they are unknown.
    pub bindings: Option<&'a [Binding]>,
}

impl std::fmt::Display for PlacementTable<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let above = self.domains.kinds().skip(1).map(|kind| self.domains.kind_name(kind));
        let mut table = vec![["PE", "node"].into_iter().chain(above).map(str::to_owned).collect()];
        let first: &mut Vec<String> = &mut table[0];
        first.extend(["group", "cpus", "NUMA"].map(str::to_owned));
        table.extend(self.rows().values().map(|pes| self.row(pes)));
        let width = |column: usize| table.iter().map(|row: &Vec<String>| row[column].len()).max();
        let widths: Vec<usize> = (0..table[0].len()).filter_map(width).collect();
        for row in &table {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

impl PlacementTable<'_> {
    /// Returns the PEs of each row.
    fn rows(&self) -> BTreeMap<usize, Vec<usize>> {
        let by = |key: &dyn Fn(usize) -> usize| {
            let mut rows: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            (0..self.node_of.len()).for_each(|pe| rows.entry(key(pe)).or_default().push(pe));
            rows
        };
        let of = |kind: usize| by(&|pe| self.domains.of(kind, self.node_of[pe]));
        let kinds = self.domains.kinds().map(of);
        let units = std::iter::once(by(&|pe| pe)).chain(kinds);
        let units: Vec<_> = units.collect();
        let short = units.iter().position(|rows| rows.len() <= ROWS_MAX);
        let least = (0..units.len()).min_by_key(|&unit| units[unit].len());
        units.into_iter().nth(short.or(least).unwrap_or(0)).unwrap_or_default()
    }

    fn row(&self, pes: &[usize]) -> Vec<String> {
        let mut row = vec![numbers(pes.iter().copied(), "PEs")];
        for kind in self.domains.kinds() {
            let mut domains: Vec<usize> =
                pes.iter().map(|&pe| self.domains.of(kind, self.node_of[pe])).collect();
            domains.sort_unstable();
            domains.dedup();
            row.push(match domains.as_slice() {
                [one] => self.domains.name(kind, *one),
                many => format!("{} {}s", many.len(), self.domains.kind_name(kind)),
            });
        }
        let groups = pes.iter().filter_map(|&pe| self.group_of.get(pe).copied());
        let groups = numbers(groups, "groups");
        row.push(if groups.is_empty() { "none".to_owned() } else { groups });
        let Some(bindings) = self.bindings else {
            row.extend(["unknown", "unknown"].map(str::to_owned));
            return row;
        };
        let bindings = || pes.iter().filter_map(|&pe| bindings.get(pe));
        let cpus = numbers(bindings().flat_map(|binding| binding.cpus.iter().copied()), "cpus");
        let numa = numbers(bindings().filter_map(|binding| binding.numa), "nodes");
        row.extend([cpus, numa].map(|cell| if cell.is_empty() { "any".to_owned() } else { cell }));
        row
    }
}

/// Formats numbers as `0-3,8`, or as their count if that would be long.
fn numbers(all: impl Iterator<Item = usize>, what: &str) -> String {
    let mut all: Vec<usize> = all.collect();
    all.sort_unstable();
    all.dedup();
    let text = machine::show(&all);
    if text.len() > LIST_MAX { format!("{} {what}", all.len()) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{DomainKind, Source};

    fn job(
        nodes: usize,
        each: usize,
        racks: usize,
    ) -> (Vec<usize>, Domains, Vec<usize>, Vec<Binding>) {
        let node_of: Vec<usize> = (0..nodes * each).map(|pe| pe / each).collect();
        let of = (0..nodes).map(|node| node * racks / nodes).collect();
        let domains = (0..racks).map(|rack| format!("r{rack}")).collect();
        let rack = DomainKind { name: "rack".into(), domains, of, source: Source::User };
        let groups = (0..nodes * each).map(|pe| pe % (nodes * each / 4)).collect();
        let binding = |pe: usize| Binding { cpus: vec![pe % each], numa: Some(0) };
        let bindings = (0..nodes * each).map(binding).collect();
        (node_of, Domains::default().with_kinds(vec![rack]), groups, bindings)
    }

    fn text(nodes: usize, each: usize, racks: usize) -> String {
        let (node_of, domains, group_of, bindings) = job(nodes, each, racks);
        let placement = PlacementTable {
            node_of: &node_of,
            domains: &domains,
            group_of: &group_of,
            bindings: Some(&bindings),
        };
        placement.to_string()
    }

    #[test]
    fn a_small_job_has_a_row_for_each_pe() {
        let text = text(4, 2, 2);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "PE  node   rack  group  cpus  NUMA");
        assert_eq!(lines[1], "0   node0  r0    0      0     0");
        assert_eq!(lines[8], "7   node3  r1    1      1     0");
        assert_eq!(lines.len(), 9);
    }

    #[test]
    fn a_large_job_is_short() {
        let by_node = text(50, 20, 5);
        assert_eq!(by_node.lines().count(), 51);
        assert!(by_node.contains("\n20-39    node1   r0    20-39        0-19  0\n"), "{by_node}");
        let by_rack = text(250, 4, 5);
        assert_eq!(by_rack.lines().count(), 6);
        assert!(by_rack.contains("\n200-399  50 nodes  r1"), "{by_rack}");
    }

    #[test]
    fn an_unbound_pe_may_run_anywhere() {
        let (node_of, domains, group_of, _) = job(4, 1, 1);
        let bindings = vec![Binding::default(); 4];
        let placement = PlacementTable {
            node_of: &node_of,
            domains: &domains,
            group_of: &group_of,
            bindings: Some(&bindings),
        };
        assert!(
            placement
                .to_string()
                .lines()
                .all(|line| line.starts_with("PE") || line.ends_with("any   any"))
        );
    }
}
