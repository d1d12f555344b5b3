//! Failure domains of the nodes: the kinds of domain, and the domain of each node in each kind.
//!
//! Kind 0 is the node itself; the others are the user's, in the order of the file, or reported by
//! machines ([`super::found`]). Every node is in exactly one domain of each kind. Two kinds may be
//! nested (racks in rooms) or cross each other (racks and power feeds). A node that has joined a
//! running job is in domains of its own.

use serde::{Deserialize, Serialize};

/// The source of the information that nodes fail together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// The user's file.
    User,
    /// The firmware of hosts.
    Firmware,
    /// The processors of a machine that several agents share.
    Processors,
}

/// A kind of failure domain above the node, such as the rack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainKind {
    /// The user's name for the kind.
    pub name: String,
    /// Names of its domains.
    pub domains: Vec<String>,
    /// Domain of each node, an index into `domains`.
    pub of: Vec<usize>,
    /// The source of the information.
    pub source: Source,
}

/// The failure domains of a job. The default has only nodes, in any number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domains {
    hosts: Vec<String>,
    kinds: Vec<DomainKind>,
}

impl Domains {
    /// Creates nodes with these names, and nothing above them.
    pub fn of_hosts(hosts: Vec<String>) -> Domains {
        Domains { hosts, kinds: Vec::new() }
    }

    /// Returns these nodes with `kinds` of domain above them.
    pub fn with_kinds(self, kinds: Vec<DomainKind>) -> Domains {
        Domains { kinds, ..self }
    }

    /// Returns the kinds of domain, numbered from 0, which is the node.
    pub fn kinds(&self) -> std::ops::RangeInclusive<usize> {
        0..=self.kinds.len()
    }

    /// Returns true if the node is in a domain of every kind.
    pub fn hold(&self, node: usize) -> bool {
        let inside =
            |kind: &DomainKind| kind.of.get(node).is_some_and(|at| *at < kind.domains.len());
        self.kinds.iter().all(inside)
    }

    /// Returns the number of named domains of a kind.
    pub fn count(&self, kind: usize) -> usize {
        match kind.checked_sub(1) {
            None => self.hosts.len(),
            Some(above) => self.kinds[above].domains.len(),
        }
    }

    /// Returns the name of a kind.
    pub fn kind_name(&self, kind: usize) -> &str {
        match kind.checked_sub(1) {
            None => "node",
            Some(above) => &self.kinds[above].name,
        }
    }

    /// Returns the source of a kind; the node itself counts as the user's.
    pub fn source(&self, kind: usize) -> Source {
        kind.checked_sub(1).map_or(Source::User, |above| self.kinds[above].source)
    }

    /// Returns true if the loss of a domain of this kind must be survived: groups then become
    /// smaller if necessary, and a strict placement refuses a job that would not survive it.
    pub fn asked(&self, kind: usize) -> bool {
        self.source(kind) == Source::User
    }

    /// Returns the domain of a kind that a node is in.
    pub fn of(&self, kind: usize, node: usize) -> usize {
        match kind.checked_sub(1) {
            None => node,
            Some(above) => {
                let DomainKind { of, domains, .. } = &self.kinds[above];
                of.get(node).copied().unwrap_or(domains.len() + node)
            }
        }
    }

    /// Returns the name of a domain; `node3` for an unnamed node.
    pub fn name(&self, kind: usize, domain: usize) -> String {
        match kind.checked_sub(1) {
            None => self.hosts.get(domain).cloned().unwrap_or_else(|| format!("node{domain}")),
            Some(above) => {
                let DomainKind { name, domains, .. } = &self.kinds[above];
                let of_its_own = || format!("{name} of node{}", domain - domains.len());
                domains.get(domain).cloned().unwrap_or_else(of_its_own)
            }
        }
    }

    /// Returns the number of kinds in which two nodes are in different domains; 0 for one node.
    pub fn separation(&self, a: usize, b: usize) -> usize {
        self.kinds().filter(|&kind| self.of(kind, a) != self.of(kind, b)).count()
    }
}
