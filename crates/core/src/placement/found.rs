//! Failure domains that machines report by themselves.
//!
//! Hosts whose firmware reports the same chassis or board fail together, as blades of one enclosure
//! do. Agents that share a machine fail with the package, or the NUMA node, that their PEs are
//! bound to.
//!
//! Invariants: a kind that is found has at least two domains, at least one of them with two nodes
//! or more; no two kinds divide the nodes in the same way; of two kinds one is nested in the other.
//! Found kinds spread groups and substitutes. They never refuse a job and never make groups
//! smaller, because the user did not ask for that.
//!
//! Left out: querying firmware and the kernel, which the agents do.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::bindings::Binding;
use super::domains::{DomainKind, Source};
use crate::machine::Machine;

/// Maximum bytes of a serial number that are compared.
const SERIAL_MAX: usize = 64;
/// Firmware's placeholders for a serial number that was never set, in lower case.
const PLACEHOLDERS: &[&str] = &[
    "chassis serial number",
    "board serial number",
    "base board serial number",
    "system serial number",
    "default string",
    "empty",
    "invalid",
    "n/a",
    "no asset tag",
    "none",
    "not applicable",
    "not available",
    "not specified",
    "o.e.m.",
    "oem",
    "serial number",
    "to be filled by o.e.m.",
    "unknown",
];

/// The enclosure of a host as its firmware reports it (DMI, types 2 and 3; hwloc reports these as
/// `DMIChassisSerial` and `DMIBoardSerial`). None if unreadable or not a real serial number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enclosure {
    /// Serial number of the chassis.
    pub chassis: Option<String>,
    /// Serial number of the board.
    pub board: Option<String>,
}

/// Returns a serial number that identifies a machine; None for a placeholder.
pub fn serial(text: &str) -> Option<String> {
    let text: String = text.trim().chars().filter(|c| !c.is_control()).take(SERIAL_MAX).collect();
    let lower = text.to_ascii_lowercase();
    let first = text.chars().next()?;
    let same = text.chars().all(|c| c == first); // 0000000 or ......
    let counted = "0123456789".contains(&text) || "1234567890".contains(&text);
    (!same && !counted && !PLACEHOLDERS.contains(&lower.as_str())).then_some(text)
}

/// Finds kinds of domain above hosts with these names. A host without data is on its own.
pub fn of_hosts(names: &[String], enclosures: &[Enclosure]) -> Vec<DomainKind> {
    let kind = |name: &str, of: &dyn Fn(&Enclosure) -> Option<String>| {
        let serials = enclosures.iter().map(|enclosure| of(enclosure).as_deref().and_then(serial));
        divide(name, Source::Firmware, serials.collect(), names)
    };
    let chassis = kind("chassis", &|enclosure| enclosure.chassis.clone());
    let board = kind("board", &|enclosure| enclosure.board.clone());
    nested([chassis, board])
}

/// Finds kinds of domain above nodes, named `names`, that share `machine`: `bindings` by PE,
/// `node_of` its node. A node without PEs is on its own. Omits a kind if a node is in two of its
/// domains.
pub fn of_machine(
    machine: &Machine,
    bindings: &[Binding],
    node_of: &[usize],
    names: &[String],
) -> Vec<DomainKind> {
    let kind = |name: &str, of: &dyn Fn(usize) -> Option<usize>| {
        let mut homes = vec![BTreeSet::new(); names.len()];
        for (binding, &node) in bindings.iter().zip(node_of) {
            if binding.cpus.is_empty() {
                return None; // the PE may run anywhere
            }
            homes.get_mut(node)?.extend(binding.cpus.iter().map(|&cpu| of(cpu)));
        }
        if homes.iter().any(|home| home.len() > 1 || home.contains(&None)) {
            return None;
        }
        let home = |home: BTreeSet<Option<usize>>| home.into_iter().flatten().next();
        let homes = homes.into_iter().map(|set| home(set).map(|at| at.to_string()));
        divide(name, Source::Processors, homes.collect(), names)
    };
    let of = |cpu| machine.processors.iter().find(|processor| processor.cpu == cpu);
    let package = kind("package", &|cpu| Some(of(cpu)?.package));
    let numa = kind("NUMA node", &|cpu| Some(of(cpu)?.numa));
    nested([package, numa])
}

/// Groups nodes with equal keys into domains of a kind; None if that adds nothing to the nodes.
fn divide(
    name: &str,
    source: Source,
    keys: Vec<Option<String>>,
    nodes: &[String],
) -> Option<DomainKind> {
    let key = |(key, node): (Option<String>, &String)| match key {
        Some(key) => (0, key),
        None => (1, node.clone()),
    };
    let keys: Vec<(u8, String)> = keys.into_iter().zip(nodes).map(key).collect();
    let mut number = BTreeMap::new();
    let mut domains = Vec::new();
    for key in &keys {
        number.entry(key).or_insert_with(|| {
            domains.push(key.1.clone());
            domains.len() - 1
        });
    }
    let of: Vec<usize> = keys.iter().map(|key| number[key]).collect();
    let divides = (2..nodes.len()).contains(&domains.len());
    divides.then(|| DomainKind { name: name.to_owned(), domains, of, source })
}

/// Returns the kinds that exist; of two that are equal or cross each other only the first.
fn nested(kinds: [Option<DomainKind>; 2]) -> Vec<DomainKind> {
    let kinds: Vec<DomainKind> = kinds.into_iter().flatten().collect();
    let [outer, inner] = kinds.as_slice() else { return kinds };
    let pairs: BTreeSet<(usize, usize)> =
        outer.of.iter().copied().zip(inner.of.iter().copied()).collect();
    let (outside, inside) = (outer.domains.len(), inner.domains.len());
    let lies_inside = pairs.len() == outside.max(inside);
    if lies_inside && outside != inside { kinds } else { kinds.into_iter().take(1).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Processor;
    use crate::placement::bindings::bindings;
    use crate::settings::Bind;

    fn names(nodes: usize) -> Vec<String> {
        (0..nodes).map(|node| format!("h{node}")).collect()
    }

    fn hosts(serials: &[(&str, &str)]) -> Vec<DomainKind> {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let enclosure =
            |&(chassis, board): &_| Enclosure { chassis: some(chassis), board: some(board) };
        let enclosures: Vec<Enclosure> = serials.iter().map(enclosure).collect();
        of_hosts(&names(serials.len()), &enclosures)
    }

    /// Builds a machine of packages of NUMA nodes of cores.
    fn machine(packages: usize, nodes: usize, cores: usize) -> Machine {
        let processor = |cpu: usize| Processor {
            cpu,
            core: cpu,
            numa: cpu / cores,
            package: cpu / cores / nodes,
        };
        Machine::new((0..packages * nodes * cores).map(processor).collect())
    }

    fn shared(machine: &Machine, pes: usize, nodes: usize, bind: Bind) -> Vec<DomainKind> {
        let node_of: Vec<usize> = (0..pes).map(|pe| pe * nodes / pes).collect();
        of_machine(machine, &bindings(machine, pes, bind), &node_of, &names(nodes))
    }

    fn shown(kinds: &[DomainKind]) -> Vec<(&str, Vec<&str>)> {
        let all = kinds.iter().map(|kind| {
            let domains = kind.of.iter().map(|&at| kind.domains[at].as_str());
            (kind.name.as_str(), domains.collect())
        });
        all.collect()
    }

    #[test]
    fn blades_of_a_chassis_are_a_domain() {
        let found = hosts(&[("C7", "B1"), ("C7", "B2"), ("C9", "B3"), ("", "B4")]);
        assert_eq!(shown(&found), [("chassis", vec!["C7", "C7", "C9", "h3"])]);
        assert!(found.iter().all(|kind| kind.source == Source::Firmware));
    }

    #[test]
    fn boards_lie_inside_chassis() {
        let found = hosts(&[("C7", "B1"), ("C7", "B1"), ("C7", "B2"), ("C9", "B3"), ("C9", "B4")]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].of, [0, 0, 1, 2, 3]);
    }

    #[test]
    fn a_kind_that_divides_nothing_is_not_a_domain() {
        assert_eq!(hosts(&[("C7", "B1"), ("C7", "B2")]), [], "all in one, and each alone");
        assert_eq!(hosts(&[("", ""), ("", "")]), []);
        let both = hosts(&[("C7", "B1"), ("C7", "B1"), ("C9", "B2")]);
        assert_eq!(shown(&both), [("chassis", vec!["C7", "C7", "C9"])], "the board says the same");
        let across = hosts(&[("C7", "B1"), ("C7", "B2"), ("C9", "B1"), ("C9", "B2")]);
        assert_eq!(across.len(), 1, "no board is in two chassis: one of the numbers is wrong");
    }

    #[test]
    fn a_placeholder_is_no_serial() {
        for text in ["", " \n", "0", "00000000", "..........", "Default string", "NONE"] {
            assert_eq!(serial(text), None, "{text:?}");
        }
        for text in ["To be filled by O.E.M.", "123456789", "0123456789", "Not Specified"] {
            assert_eq!(serial(text), None, "{text:?}");
        }
        assert_eq!(serial(" CN7475\u{7}103\n"), Some("CN7475103".into()));
        assert_eq!(serial(&"ab".repeat(500)).map(|text| text.len()), Some(SERIAL_MAX));
        assert_eq!(hosts(&[("None", "B1"), ("None", "B2"), ("C7", "B3"), ("C9", "B4")]), []);
    }

    #[test]
    fn agents_of_a_machine_share_packages_and_numa_nodes() {
        let two = machine(2, 2, 2); // packages of two NUMA nodes of two cores
        let found = shared(&two, 8, 8, Bind::Auto);
        let packages = ["0", "0", "0", "0", "1", "1", "1", "1"].to_vec();
        let numa = ["0", "0", "1", "1", "2", "2", "3", "3"].to_vec();
        assert_eq!(shown(&found), [("package", packages), ("NUMA node", numa)]);
        let four = shared(&two, 4, 4, Bind::Auto);
        assert_eq!(shown(&four).len(), 1, "a NUMA node each: only the package says more");
        assert_eq!(four[0].of, [0, 0, 1, 1]);
    }

    #[test]
    fn a_node_that_runs_anywhere_is_in_no_package() {
        let two = machine(2, 1, 4);
        assert_eq!(shared(&two, 8, 4, Bind::None), []);
        assert_eq!(shared(&two, 9, 9, Bind::Auto), [], "more PEs than processors: not bound");
        assert_eq!(shared(&two, 8, 3, Bind::Auto), [], "the second node has PEs of both");
        assert_eq!(shared(&machine(1, 1, 8), 8, 4, Bind::Auto), [], "one package is no division");
        let spare = of_machine(&two, &bindings(&two, 4, Bind::Auto), &[0, 1, 2, 3], &names(5));
        assert_eq!(spare[0].of, [0, 0, 1, 1, 2], "the node of spares is alone");
    }
}
