//! Losses that a job survives with its PEs where they are now, and changes that would mend the
//! rest.
//!
//! Substitutes may gather on the nodes that are left, so a job can be less safe after a loss than
//! at its start, or safe again once a spare has taken a PE.
//!
//! Invariant: a pure function of where the PEs are, their groups and the failure domains; a domain
//! that holds no PE is survived. At the start it agrees with [`Grouping::worst`].
//!
//! Left out: whether a checkpoint exists to go back to, and losses of several domains at once.
//!
//! [`Grouping::worst`]: super::groups::Grouping::worst

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::substitute::JobLayout;
use crate::mutant::{Mutant, breaks};
use crate::quantity::Pe;
use crate::settings::BackupMode;

/// Domains that a line names before it counts the rest.
const NAMED: usize = 4;

/// One loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A process, whose memory its node still holds.
    Process(Pe),
    /// A domain of a kind, by their numbers in [`super::Domains`]; kind 0 is the node.
    Domain {
        /// The kind.
        kind: usize,
        /// The domain.
        domain: usize,
    },
}

/// The places of the PEs of a job, and how they protect each other.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// How copies or parity are kept.
    pub mode: BackupMode,
    /// Whether a substitute takes over the memory that a dead process left.
    pub adopt: bool,
    /// Groups, failure domains and parity.
    pub site: &'a JobLayout,
    /// The node of each PE.
    pub node_of: &'a [usize],
    /// Whether the memory of each PE is lost and not rebuilt yet.
    pub erased: &'a [bool],
}

/// A domain whose loss would end the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FatalDomain {
    /// The word for its kind.
    pub kind: String,
    /// Its number among those of its kind.
    pub domain: usize,
    /// Its name.
    pub name: String,
    /// The group that would lose most.
    pub group: usize,
    /// Members that the group would lose.
    pub members: usize,
}

/// Single losses that would end a job. `Display` is one line; `{:#}` leaves out what would mend it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survival {
    /// Domains whose loss would end the job, nodes first.
    pub fatal: Vec<FatalDomain>,
    /// PEs whose death would end the job.
    pub fatal_pes: Vec<Pe>,
    /// Changes each of which would make the loss of any one domain survivable.
    pub mends: Vec<String>,
}

impl Places<'_> {
    /// Whether the job survives a loss.
    pub fn survive(&self, loss: Loss) -> bool {
        match (self.mode, loss) {
            (BackupMode::None, _) => false,
            (BackupMode::Single, Loss::Domain { kind, domain }) => !self.holds_pes(kind, domain),
            (_, Loss::Process(pe)) if self.adopt => !self.erased[pe.at()] || self.bears([pe]),
            (_, Loss::Process(pe)) => self.bears([pe]),
            (_, Loss::Domain { kind, domain }) => self.bears(self.members(kind, domain)),
        }
    }

    /// Surveys every single loss.
    pub fn survey(&self) -> Survival {
        let domains = &self.site.domains;
        let all = domains.kinds().flat_map(|kind| {
            let used: BTreeSet<usize> =
                self.node_of.iter().map(|&node| domains.of(kind, node)).collect();
            used.into_iter().map(move |domain| (kind, domain))
        });
        let fatal: Vec<FatalDomain> = all
            .filter(|&(kind, domain)| !self.survive(Loss::Domain { kind, domain }))
            .map(|(kind, domain)| self.fatal(kind, domain))
            .collect();
        let pes = Pe::all(self.node_of.len());
        let fatal_pes = pes.filter(|&pe| !self.survive(Loss::Process(pe))).collect();
        let mends = if fatal.is_empty() { Vec::new() } else { self.mends(&fatal) };
        Survival { fatal, fatal_pes, mends }
    }

    fn holds_pes(&self, kind: usize, domain: usize) -> bool {
        self.members(kind, domain).next().is_some()
    }

    /// PEs in a domain.
    fn members(&self, kind: usize, domain: usize) -> impl Iterator<Item = Pe> {
        let domains = &self.site.domains;
        let here = move |pe: &Pe| domains.of(kind, self.node_of[pe.at()]) == domain;
        Pe::all(self.node_of.len()).filter(here)
    }

    /// Members that each group lacks once these PEs are lost too.
    fn missing(&self, lost: impl IntoIterator<Item = Pe>) -> BTreeMap<usize, usize> {
        let erased = Pe::all(self.node_of.len()).filter(|pe| self.erased[pe.at()]);
        let lost: BTreeSet<Pe> = erased.chain(lost).collect();
        let mut missing = BTreeMap::new();
        for pe in lost {
            *missing.entry(self.site.group_of[pe.at()]).or_insert(0) += 1;
        }
        missing
    }

    fn bears(&self, lost: impl IntoIterator<Item = Pe>) -> bool {
        let bearable = self.site.parity + usize::from(breaks(Mutant::MovesUncounted));
        self.missing(lost).into_values().all(|members| members <= bearable)
    }

    fn fatal(&self, kind: usize, domain: usize) -> FatalDomain {
        let domains = &self.site.domains;
        let missing = self.missing(self.members(kind, domain)).into_iter();
        let most = missing.max_by_key(|&(group, members)| (members, std::cmp::Reverse(group)));
        let (group, members) = most.unwrap_or_default();
        let (kind_name, name) = (domains.kind_name(kind).to_owned(), domains.name(kind, domain));
        FatalDomain { kind: kind_name, domain, name, group, members }
    }

    /// Changes that would make any one of these losses survivable, each alone.
    fn mends(&self, fatal: &[FatalDomain]) -> Vec<String> {
        if matches!(self.mode, BackupMode::None | BackupMode::Single) {
            return vec!["SHMEM_FT_BACKUP_MODE=raid5".to_owned()];
        }
        let parity = self.site.parity.max(1);
        let group = |number| self.site.group_of.iter().filter(|&&of| of == number).count();
        let kinds: BTreeSet<&str> = fatal.iter().map(|domain| domain.kind.as_str()).collect();
        let size = fatal.iter().map(|domain| group(domain.group)).max().unwrap_or(0);
        let members = fatal.iter().map(|domain| domain.members).max().unwrap_or(0);
        let mut mends: Vec<String> = kinds
            .iter()
            .map(|kind| format!("{} {kind}s for each group", size.div_ceil(parity)))
            .collect();
        if members < size && kinds.len() == 1 {
            mends.push(format!("SHMEM_FT_BACKUP_MODE=rs with SHMEM_FT_PARITY={members}"));
        }
        mends
    }
}

impl Survival {
    /// Whether the loss of any one domain of the kind with this name is survived.
    pub fn survives(&self, kind: &str) -> bool {
        self.fatal.iter().all(|domain| domain.kind != kind)
    }

    /// Whether every single loss is survived.
    pub fn is_whole(&self) -> bool {
        self.fatal.is_empty() && self.fatal_pes.is_empty()
    }
}

impl fmt::Display for Survival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.fatal.first() else {
            return match self.fatal_pes.as_slice() {
                [] => write!(f, "survives the loss of any one node or domain"),
                [pe, ..] => write!(f, "does not survive the loss of PE {pe}"),
            };
        };
        let same = self.fatal.iter().filter(|domain| domain.kind == first.kind);
        let names: Vec<&str> = same.take(NAMED).map(|domain| domain.name.as_str()).collect();
        let more = self.fatal.len() - names.len();
        let kind = if first.kind == "node" { String::new() } else { format!("{} ", first.kind) };
        write!(f, "does not survive the loss of {kind}{}", names.join(" or "))?;
        if more > 0 {
            write!(f, " or {more} more")?;
        }
        let FatalDomain { name, group, members, .. } = first;
        write!(f, " ({members} members of group {group} are in {name})")?;
        if !self.mends.is_empty() && !f.alternate() {
            write!(f, "; would survive it: {}", self.mends.join(", or "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{Domains, groups};

    fn site(node_of: &[usize], size: Option<usize>, parity: usize) -> JobLayout {
        let plan = groups::plan(node_of, &Domains::default(), size, parity).unwrap();
        let group_of = plan.of.iter().map(|of| of.group).collect();
        JobLayout { group_of, domains: Domains::default(), parity }
    }

    fn places<'a>(site: &'a JobLayout, node_of: &'a [usize], erased: &'a [bool]) -> Places<'a> {
        Places { mode: BackupMode::Raid5, adopt: true, site, node_of, erased }
    }

    fn line(site: &JobLayout, node_of: &[usize]) -> String {
        places(site, node_of, &vec![false; node_of.len()]).survey().to_string()
    }

    /// Every shape of a small job as it starts: what the plan says of the largest share.
    #[test]
    fn a_job_that_starts_survives_as_its_plan_says() {
        for pes in 2..=6usize {
            for code in 0..4usize.pow(pes as u32) {
                let node_of: Vec<usize> = (0..pes).map(|at| code >> (2 * at) & 3).collect();
                for parity in 1..pes.min(3) {
                    let plan = groups::plan(&node_of, &Domains::default(), None, parity).unwrap();
                    let site = site(&node_of, None, parity);
                    let survey = places(&site, &node_of, &vec![false; pes]).survey();
                    assert_eq!(survey.survives("node"), plan.survives(0), "{node_of:?} {parity}");
                    let most = survey.fatal.iter().map(|domain| domain.members).max();
                    assert!(most.is_none_or(|most| most == plan.worst[0].members));
                }
            }
        }
    }

    #[test]
    fn a_pe_that_moved_to_a_node_of_its_group_makes_that_node_fatal() {
        let site = site(&[0, 1, 2, 3], None, 1);
        assert_eq!(line(&site, &[0, 1, 2, 3]), "survives the loss of any one node or domain");
        assert_eq!(
            line(&site, &[0, 1, 1, 3]),
            "does not survive the loss of node1 (2 members of group 0 are in node1); would survive \
             it: 4 nodes for each group, or SHMEM_FT_BACKUP_MODE=rs with SHMEM_FT_PARITY=2"
        );
        let both = line(&site, &[0, 0, 1, 1]);
        assert!(
            both.starts_with("does not survive the loss of node0 or node1 (2 members"),
            "{both}"
        );
        assert!(!line(&site, &[2; 4]).contains("PARITY"), "no parity bears a whole group");
        assert_eq!(line(&site, &[0, 1, 7, 3]), "survives the loss of any one node or domain");
    }

    #[test]
    fn memory_that_is_not_rebuilt_yet_uses_up_parity() {
        let site = site(&[0, 1, 2, 3], None, 1);
        let node_of = [0, 1, 2, 3];
        let erased = [false, false, true, false];
        let places = places(&site, &node_of, &erased);
        let node = |domain| places.survive(Loss::Domain { kind: 0, domain });
        assert_eq!([0, 1, 2, 3, 9].map(node), [false, false, true, false, true]);
        assert!(places.survive(Loss::Process(Pe(0))), "its memory is taken over");
        let starved = Places { adopt: false, ..places };
        assert!(!starved.survive(Loss::Process(Pe(0))));
        assert_eq!(starved.survey().fatal_pes, [Pe(0), Pe(1), Pe(3)]);
    }

    #[test]
    fn modes_differ() {
        let site = site(&[0, 1, 2, 3], None, 1);
        let (node_of, erased) = ([0, 1, 2, 3], [false; 4]);
        let of = |mode| Places { mode, ..places(&site, &node_of, &erased) };
        let node = Loss::Domain { kind: 0, domain: 1 };
        let each = |mode| (of(mode).survive(Loss::Process(Pe(1))), of(mode).survive(node));
        assert_eq!(each(BackupMode::None), (false, false));
        assert_eq!(each(BackupMode::Single), (true, false));
        assert_eq!(each(BackupMode::Double), (true, true));
        assert_eq!(each(BackupMode::Raid5), (true, true));
        let single = of(BackupMode::Single).survey();
        assert_eq!(single.mends, ["SHMEM_FT_BACKUP_MODE=raid5"]);
    }
}
