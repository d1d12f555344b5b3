//! Failure domains of the nodes: kinds of domain, and in which domain of each kind a node is.
//!
//! Kind 0 is the node itself; the others are the user's, in the order of the file, or what machines
//! say of themselves ([`super::found`]). A kind divides the nodes: every node is in exactly one
//! domain of each. Two kinds may be nested (racks in rooms)
//! or cross each other (racks and power feeds).

use serde::{Deserialize, Serialize};

/// Who says that nodes fail together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// The user's file.
    User,
    /// The firmware of hosts.
    Firmware,
    /// The processors of the machine that agents share.
    Processors,
}

/// A kind of failure domain above the node, such as the rack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainKind {
    /// What the user calls it.
    pub name: String,
    /// Names of its domains.
    pub domains: Vec<String>,
    /// Domain of each node, an index into `domains`.
    pub of: Vec<usize>,
    /// Who says so.
    pub source: Source,
}

/// The failure domains of a job. The default knows of nodes only, as many as there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domains {
    hosts: Vec<String>,
    kinds: Vec<DomainKind>,
}

impl Domains {
    /// Nodes with these names, and nothing above them.
    pub fn of_hosts(hosts: Vec<String>) -> Domains {
        Domains { hosts, kinds: Vec::new() }
    }

    /// The same nodes with these kinds of domain above them.
    pub fn with_kinds(self, kinds: Vec<DomainKind>) -> Domains {
        Domains { kinds, ..self }
    }

    /// Kinds of domain, the node included: they are numbered from 0, which is the node.
    pub fn kinds(&self) -> std::ops::RangeInclusive<usize> {
        0..=self.kinds.len()
    }

    /// True if the node is in a domain of every kind.
    pub fn hold(&self, node: usize) -> bool {
        let inside =
            |kind: &DomainKind| kind.of.get(node).is_some_and(|at| *at < kind.domains.len());
        self.kinds.iter().all(inside)
    }

    /// Domains of a kind that have a name.
    pub fn count(&self, kind: usize) -> usize {
        match kind.checked_sub(1) {
            None => self.hosts.len(),
            Some(above) => self.kinds[above].domains.len(),
        }
    }

    /// The word for a kind.
    pub fn kind_name(&self, kind: usize) -> &str {
        match kind.checked_sub(1) {
            None => "node",
            Some(above) => &self.kinds[above].name,
        }
    }

    /// Who says what the domains of a kind are; that nodes fail is what the user says.
    pub fn source(&self, kind: usize) -> Source {
        kind.checked_sub(1).map_or(Source::User, |above| self.kinds[above].source)
    }

    /// True if the loss of a domain of this kind is to be survived: groups are made smaller for it,
    /// and a strict placement refuses a job for it.
    pub fn asked(&self, kind: usize) -> bool {
        self.source(kind) == Source::User
    }

    /// The domain of a kind that a node is in.
    pub fn of(&self, kind: usize, node: usize) -> usize {
        match kind.checked_sub(1) {
            None => node,
            Some(above) => self.kinds[above].of[node],
        }
    }

    /// The name of a domain of a kind; `node3` for a node that was given none.
    pub fn name(&self, kind: usize, domain: usize) -> String {
        match kind.checked_sub(1) {
            None => self.hosts.get(domain).cloned().unwrap_or_else(|| format!("node{domain}")),
            Some(above) => self.kinds[above].domains[domain].clone(),
        }
    }

    /// The number of kinds in which two nodes are in different domains: 0 for the same node.
    pub fn separation(&self, a: usize, b: usize) -> usize {
        self.kinds().filter(|&kind| self.of(kind, a) != self.of(kind, b)).count()
    }
}
