//! Losses that a job survives with its PEs at their current places, and changes that would make the
//! remaining ones survivable.
//!
//! Substitutes may gather on the remaining nodes, so a job can be less safe after a loss than at
//! its start, or safe again once a spare has taken over a PE.
//!
//! Invariant: a pure function of the PEs' places, their groups and the failure domains; the loss of
//! a domain without PEs is survived. At the start it agrees with [`Grouping::worst`].
//!
//! Left out: the existence of a checkpoint to roll back to, and losses of several domains at once.
//!
//! [`Grouping::worst`]: super::groups::Grouping::worst

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::substitute::JobLayout;
use crate::mutant::{Mutant, breaks};
use crate::quantity::Pe;
use crate::settings::BackupMode;

/// Maximum number of domains that a line names; it only counts further ones.
const NAMED: usize = 4;

/// A single loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The loss of a process, whose memory its node still holds.
    Process(Pe),
    /// The loss of a domain, by its kind and number in [`super::Domains`]; kind 0 is the node.
    Domain {
        /// The kind.
        kind: usize,
        /// The domain.
        domain: usize,
    },
}

/// The places of the PEs of a job, and their protection.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The mode of copies or parity.
    pub mode: BackupMode,
    /// True if a substitute adopts the memory that a dead process left.
    pub adopt: bool,
    /// Groups, failure domains and parity.
    pub site: &'a JobLayout,
    /// The node of each PE.
    pub node_of: &'a [usize],
    /// True for each PE whose memory is lost and not rebuilt yet.
    pub erased: &'a [bool],
}

/// A domain whose loss would end the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FatalDomain {
    /// The name of its kind.
    pub kind: String,
    /// Its number among those of its kind.
    pub domain: usize,
    /// Its name.
    pub name: String,
    /// The group that would lose the most members.
    pub group: usize,
    /// Members that the group would lose.
    pub members: usize,
}

/// Single losses that would end a job. `Display` prints one line; `{:#}` omits the remedies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survival {
    /// Domains whose loss would end the job, nodes first.
    pub fatal: Vec<FatalDomain>,
    /// PEs whose death would end the job.
    pub fatal_pes: Vec<Pe>,
    /// Changes each of which would make the loss of any one domain survivable.
    pub mends: Vec<String>,
}

/// The members that a group lacks; ordered by their number, then by lower group number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct GroupLoss {
    members: usize,
    group: Reverse<usize>,
}

/// The members that each group lacks before another loss, and the worst group.
struct Lacking {
    of: Vec<usize>,
    most: GroupLoss,
}

impl Places<'_> {
    /// Returns true if the job survives a loss.
    pub fn survive(&self, loss: Loss) -> bool {
        let lacking = self.lacking();
        match loss {
            Loss::Process(pe) => self.survives_process(&lacking, pe),
            Loss::Domain { kind, domain } => match self.shares(&lacking, kind).get(&domain) {
                Some(&most) => self.survives_domain(most),
                None => self.mode == BackupMode::Single || self.survives_domain(lacking.most),
            },
        }
    }

    /// Surveys every single loss in one pass over the PEs per kind of domain, plus three.
    pub fn survey(&self) -> Survival {
        let domains = &self.site.domains;
        let lacking = self.lacking();
        let mut fatal = Vec::new();
        for kind in domains.kinds() {
            let shares = self.shares(&lacking, kind).into_iter();
            for (domain, most) in shares.filter(|&(_, most)| !self.survives_domain(most)) {
                let GroupLoss { members, group: Reverse(group) } = most;
                let (word, name) = (domains.kind_name(kind).to_owned(), domains.name(kind, domain));
                fatal.push(FatalDomain { kind: word, domain, name, group, members });
            }
        }
        let fatal_pes = self.pes().filter(|&pe| !self.survives_process(&lacking, pe)).collect();
        let mends = if fatal.is_empty() { Vec::new() } else { self.mends(&fatal) };
        Survival { fatal, fatal_pes, mends }
    }

    fn survives_process(&self, lacking: &Lacking, pe: Pe) -> bool {
        let kept = !self.erased[pe.at()];
        let group = self.site.group_of[pe.at()];
        let own =
            GroupLoss { members: lacking.of[group] + usize::from(kept), group: Reverse(group) };
        match self.mode {
            BackupMode::None => false,
            _ if self.adopt && kept => true,
            _ => self.bears(own.max(lacking.most)),
        }
    }

    /// Returns true if the loss of a domain with PEs is survived, given the worst group after it.
    fn survives_domain(&self, most: GroupLoss) -> bool {
        !matches!(self.mode, BackupMode::None | BackupMode::Single) && self.bears(most)
    }

    fn bears(&self, most: GroupLoss) -> bool {
        most.members <= self.site.parity + usize::from(breaks(Mutant::MovesUncounted))
    }

    /// Returns all PEs of the job, as one pass.
    fn pes(&self) -> impl Iterator<Item = Pe> {
        #[cfg(test)]
        tests::PASSES.set(tests::PASSES.get() + 1);
        Pe::all(self.node_of.len())
    }

    /// Counts the members that are lost already.
    fn lacking(&self) -> Lacking {
        let groups = self.site.group_of.iter().max().map_or(0, |last| last + 1);
        let mut of = vec![0; groups];
        for pe in self.pes().filter(|pe| self.erased[pe.at()]) {
            of[self.site.group_of[pe.at()]] += 1;
        }
        let each = of.iter().enumerate();
        let most = each.map(|(group, &members)| GroupLoss { members, group: Reverse(group) }).max();
        Lacking { most: most.unwrap_or_default(), of }
    }

    /// Returns the worst group after the loss of each domain of a kind that holds PEs.
    fn shares(&self, lacking: &Lacking, kind: usize) -> BTreeMap<usize, GroupLoss> {
        let domains = &self.site.domains;
        let mut kept: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for pe in self.pes() {
            let domain = domains.of(kind, self.node_of[pe.at()]);
            let count = kept.entry((domain, self.site.group_of[pe.at()])).or_default();
            *count += usize::from(!self.erased[pe.at()]);
        }
        let mut shares = BTreeMap::new();
        for ((domain, group), members) in kept {
            let here = GroupLoss { members: lacking.of[group] + members, group: Reverse(group) };
            let most = shares.entry(domain).or_insert(lacking.most);
            *most = here.max(*most);
        }
        shares
    }

    /// Returns changes, each of which alone would make any one of these losses survivable.
    fn mends(&self, fatal: &[FatalDomain]) -> Vec<String> {
        if matches!(self.mode, BackupMode::None | BackupMode::Single) {
            return vec!["use --mode raid5".to_owned()];
        }
        let parity = self.site.parity.max(1);
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        for pe in self.pes() {
            *sizes.entry(self.site.group_of[pe.at()]).or_default() += 1;
        }
        let kinds: BTreeSet<&str> = fatal.iter().map(|domain| domain.kind.as_str()).collect();
        let size = fatal.iter().map(|domain| sizes[&domain.group]).max().unwrap_or(0);
        let members = fatal.iter().map(|domain| domain.members).max().unwrap_or(0);
        let mut mends: Vec<String> = kinds
            .iter()
            .map(|kind| format!("spread each group over {} {kind}s", size.div_ceil(parity)))
            .collect();
        if members < size && kinds.len() == 1 {
            mends.push(format!("use --mode rs --parity {members}"));
        }
        mends
    }
}

impl Survival {
    /// Returns true if the loss of any one domain of the kind with this name is survived.
    pub fn survives(&self, kind: &str) -> bool {
        self.fatal.iter().all(|domain| domain.kind != kind)
    }

    /// Returns the end of a line that names the remedies; empty if there are none.
    pub fn remedies(&self) -> String {
        match self.mends.as_slice() {
            [] => String::new(),
            mends => format!("; to survive it, {}", mends.join(", or ")),
        }
    }

    /// Returns true if every single loss is survived.
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
        if f.alternate() { Ok(()) } else { f.write_str(&self.remedies()) }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::placement::{DomainKind, Domains, Source, groups};

    thread_local! {
        /// Passes over the PEs that this thread has started.
        pub(super) static PASSES: Cell<usize> = const { Cell::new(0) };
    }

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

    /// Every shape of a small job at its start agrees with the plan's largest share.
    #[test]
    fn a_starting_job_survives_what_its_plan_promises() {
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
            "does not survive the loss of node1 (2 members of group 0 are in node1); to survive \
             it, spread each group over 4 nodes, or use --mode rs --parity 2"
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
        assert_eq!(single.mends, ["use --mode raid5"]);
    }

    /// Checks each loss against the definition, with the members that each group lacks counted
    /// anew.
    #[test]
    fn a_survey_agrees_with_every_single_loss() {
        for code in 0..4usize.pow(4) * 16 * 2 {
            let node_of: Vec<usize> = (0..4).map(|at| code >> (2 * at) & 3).collect();
            let erased: Vec<bool> = (0..4).map(|at| code >> (8 + at) & 1 == 1).collect();
            let site = JobLayout { group_of: vec![0, 1, 0, 1], ..JobLayout::from(Vec::new()) };
            let adopt = code >> 12 == 1;
            let places = Places { adopt, ..places(&site, &node_of, &erased) };
            let survey = places.survey();
            let lacking = |lost: &dyn Fn(usize) -> bool, group: usize| {
                let members = (0..4).filter(|pe| site.group_of[*pe] == group);
                members.filter(|&pe| erased[pe] || lost(pe)).count()
            };
            let bears = |lost: &dyn Fn(usize) -> bool| (0..2).all(|of| lacking(lost, of) <= 1);
            for node in 0..4 {
                let lost = |pe: usize| node_of[pe] == node;
                let fatal = survey.fatal.iter().find(|fatal| fatal.domain == node);
                let survives = places.survive(Loss::Domain { kind: 0, domain: node });
                assert_eq!(survives, bears(&lost), "{code}");
                assert_eq!(fatal.is_some(), !survives && node_of.contains(&node), "{code}");
                if let Some(fatal) = fatal {
                    let most = lacking(&lost, 0).max(lacking(&lost, 1));
                    assert_eq!(fatal.members, most, "{code}");
                    assert_eq!(fatal.group, usize::from(lacking(&lost, 0) < most), "{code}");
                }
            }
            for (pe, &erased) in erased.iter().enumerate() {
                let survives = (adopt && !erased) || bears(&|other| other == pe);
                assert_eq!(places.survive(Loss::Process(Pe::of(pe))), survives, "{code}");
                assert_eq!(survey.fatal_pes.contains(&Pe::of(pe)), !survives, "{code}");
            }
        }
    }

    /// Counts passes over the PEs: a pass for each domain, or each PE, would be thousands.
    #[test]
    fn the_survey_of_a_large_job_takes_as_many_passes_as_that_of_a_small_one() {
        const NODES: usize = 1024;
        const PES: usize = 16 * NODES;
        let rack = DomainKind {
            name: "rack".to_owned(),
            domains: (0..NODES / 32).map(|rack| format!("rack{rack}")).collect(),
            of: (0..NODES).map(|node| node / 32).collect(),
            source: Source::User,
        };
        let domains = Domains::default().with_kinds(vec![rack]);
        let group_of = (0..PES).map(|pe| pe / 16 / 4 * 16 + pe % 16).collect();
        let site = JobLayout { group_of, domains, parity: 1 };
        let node_of: Vec<usize> = (0..PES).map(|pe| pe / 16).collect();
        let mut erased = vec![false; PES];
        for adopt in [true, false] {
            erased[0] = !adopt;
            let places = Places { adopt, ..places(&site, &node_of, &erased) };
            PASSES.set(0);
            let survey = places.survey();
            assert!((1..=6).contains(&PASSES.get()), "{} passes", PASSES.get());
            let nodes = survey.fatal.iter().filter(|fatal| fatal.kind == "node").count();
            assert_eq!(nodes, if adopt { 0 } else { 3 }, "the other nodes of group 0");
            assert_eq!(survey.fatal.len() - nodes, NODES / 32, "a rack holds whole groups");
            assert_eq!(survey.fatal_pes.len(), if adopt { 0 } else { 3 });
        }
    }
}
