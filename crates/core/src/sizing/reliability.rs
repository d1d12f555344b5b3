//! The chance of an unrecoverable loss by simulation: nodes are lost, repaired and returned as
//! spares, and the PEs move as those of a job do.
//!
//! Groups, substitutes' places and new groups are those of [`crate::store::protection`] and
//! [`crate::placement`], so that spares may run out, and a node may carry several members of a
//! group. [`super::risk`] is the closed form for a job that always finds a spare. Pure: time and
//! losses come from a seed.
//!
//! Left out: losses of processes alone, and of the launcher; the loss of an idle node costs nothing
//! but a spare. After an unrecoverable loss the job starts again at once on the nodes that live.

use super::random::Random;
use super::risk::MONTH;
use super::spread;
use crate::placement::Domains;
use crate::placement::substitute::SubstituteNode;
use crate::quantity::{Pe, ViewNumber};
use crate::settings::Settings;
use crate::store::protection::Protection;

/// A job, its machine, and the rates of losses. Times in seconds.
#[derive(Debug, Clone)]
pub struct Reliability {
    /// Mode, parity and group size.
    pub settings: Settings,
    /// Failure domains of all nodes, spares included.
    pub domains: Domains,
    /// PEs, in equal shares on the first nodes.
    pub pes: usize,
    /// Nodes that carry PEs at the start.
    pub nodes: usize,
    /// Nodes beyond them.
    pub spares: usize,
    /// Average life of a node.
    pub life: f64,
    /// Average time between two losses of a whole domain of the first kind above the node; None if
    /// nodes fail independently.
    pub domain_life: Option<f64>,
    /// Time until a lost node is back, as a spare; None if it stays away.
    pub repair: Option<f64>,
    /// Time from a loss until all groups are whole again.
    pub recovery: f64,
    /// True if a recovery forms new groups where these survive more.
    pub heals: bool,
}

/// The outcome of simulated years.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SimulatedYears {
    /// Seconds simulated.
    pub seconds: f64,
    /// Losses that took PEs.
    pub losses: usize,
    /// Losses that were unrecoverable.
    pub ends: usize,
    /// Seconds in which the loss of some single node would have been unrecoverable.
    pub exposed: f64,
}

impl SimulatedYears {
    /// Returns the probability of an unrecoverable loss within 30 days.
    pub fn chance(&self) -> f64 {
        -(-(self.ends as f64) * MONTH / self.seconds).exp_m1()
    }

    /// Returns an upper bound of that probability with a confidence of 95 % if no loss was
    /// unrecoverable: the rule of three.
    pub fn bound(&self) -> f64 {
        -(-3.0 * MONTH / self.seconds).exp_m1()
    }
}

impl Reliability {
    /// Simulates `runs` jobs of `length` seconds each, all nodes living at the start. Equal seeds
    /// give equal outcomes.
    ///
    /// # Panics
    /// The settings name no mode with parity or copies, or the PEs cannot be divided into groups.
    pub fn simulate(&self, seed: u64, runs: usize, length: f64) -> SimulatedYears {
        let mut random = Random::new(seed);
        let mut sum = SimulatedYears::default();
        for _ in 0..runs {
            Course::new(self).run(&mut random, length, &mut sum);
        }
        sum
    }

    fn all(&self) -> usize {
        self.nodes + self.spares
    }

    /// Returns the groups of a job that starts on these nodes.
    fn start(&self, node_of: &[usize]) -> Protection {
        let made = Protection::new(&self.settings, node_of, &self.domains);
        made.expect("the groups are possible").expect("the mode protects")
    }
}

/// One job in its course.
struct Course<'a> {
    site: &'a Reliability,
    now: f64,
    lives: Vec<bool>,
    /// Lost nodes, with the time at which each is back; in order of time.
    away: Vec<(f64, usize)>,
    node_of: Vec<usize>,
    protection: Protection,
    /// PEs that are not rebuilt yet.
    erased: Vec<bool>,
    /// The end of the recovery that runs.
    whole: Option<f64>,
    view: ViewNumber,
    exposed: bool,
}

/// The next change of a course.
#[derive(Clone, Copy)]
enum Change {
    Whole,
    Back(usize),
    Node(usize),
    Domain(usize),
}

impl<'a> Course<'a> {
    fn new(site: &'a Reliability) -> Course<'a> {
        let node_of = spread(site.pes, &(0..site.nodes).collect::<Vec<_>>());
        let mut course = Course {
            site,
            now: 0.0,
            lives: vec![true; site.all()],
            away: Vec::new(),
            protection: site.start(&node_of),
            node_of,
            erased: vec![false; site.pes],
            whole: None,
            view: ViewNumber(0),
            exposed: false,
        };
        course.exposed = course.is_exposed();
        course
    }

    fn run(&mut self, random: &mut Random, length: f64, sum: &mut SimulatedYears) {
        sum.seconds += length;
        while let Some((at, change)) = self.next(random).filter(|&(at, _)| at < length) {
            sum.exposed += if self.exposed { at - self.now } else { 0.0 };
            self.now = at;
            match change {
                Change::Whole => self.complete(),
                Change::Back(node) => {
                    self.away.remove(0);
                    self.lives[node] = true;
                }
                Change::Node(node) => self.lose(|at| at == node, sum),
                Change::Domain(domain) => {
                    let domains = &self.site.domains;
                    self.lose(|node| domains.of(1, node) == domain, sum);
                }
            }
            self.exposed = self.is_exposed();
        }
        sum.exposed += if self.exposed { (length - self.now).max(0.0) } else { 0.0 };
    }

    /// Returns the next change and its time. Losses have no memory, so they may be drawn anew after
    /// every change.
    fn next(&self, random: &mut Random) -> Option<(f64, Change)> {
        let living = self.living();
        let mut changes = Vec::new();
        if !living.is_empty() {
            let at = self.now + random.exponential(self.site.life / living.len() as f64);
            changes.push((at, Change::Node(living[random.below(living.len())])));
        }
        if let Some(life) = self.site.domain_life {
            let domain = random.below(self.site.domains.count(1));
            let at = self.now + random.exponential(life / self.site.domains.count(1) as f64);
            changes.push((at, Change::Domain(domain)));
        }
        changes.extend(self.whole.map(|at| (at, Change::Whole)));
        changes.extend(self.away.first().map(|&(at, node)| (at, Change::Back(node))));
        changes.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Ends a recovery: the PEs are rebuilt, and the groups chosen anew where jobs do so.
    fn complete(&mut self) {
        self.whole = None;
        self.erased.fill(false);
        let Reliability { settings, domains, heals, .. } = self.site;
        let others = || self.protection.healed(settings, &self.node_of, domains, self.view);
        if let Some(made) = heals.then(others).flatten() {
            self.protection = made;
        }
    }

    fn lose(&mut self, is_lost: impl Fn(usize) -> bool, sum: &mut SimulatedYears) {
        let gone: Vec<usize> = self.living().into_iter().filter(|&node| is_lost(node)).collect();
        for &node in &gone {
            self.lives[node] = false;
            self.away.extend(self.site.repair.map(|repair| (self.now + repair, node)));
        }
        let is_on = |pe: &Pe| gone.contains(&self.node_of[pe.at()]);
        let lost: Vec<Pe> = Pe::all(self.site.pes).filter(is_on).collect();
        if lost.is_empty() {
            return;
        }
        sum.losses += 1;
        self.view = ViewNumber(self.view.0 + 1);
        lost.iter().for_each(|pe| self.erased[pe.at()] = true);
        let living = self.living();
        if self.is_over() || living.is_empty() {
            sum.ends += 1;
            return self.begin_again();
        }
        let layout = self.protection.job_layout(&self.site.domains);
        for pe in lost {
            let idle = |&node| SubstituteNode { node, spare: !self.node_of.contains(&node) };
            let place = layout.best(pe, &self.node_of, living.iter().map(idle));
            self.node_of[pe.at()] = place.expect("a node lives").node;
        }
        self.whole = Some(self.now + self.site.recovery);
    }

    /// True if a group lacks more members than it has parities.
    fn is_over(&self) -> bool {
        let plan = &self.protection.plan;
        let lacking = |members: &[Pe]| members.iter().filter(|pe| self.erased[pe.at()]).count();
        plan.groups.iter().any(|group| lacking(&group.members) > plan.parity)
    }

    /// Starts the job anew on the nodes that live, or once the first one is back.
    fn begin_again(&mut self) {
        if self.living().is_empty() {
            let Some(&(at, node)) = self.away.first() else { return };
            self.away.remove(0);
            (self.now, self.lives[node]) = (at, true);
        }
        let on: Vec<usize> = self.living().into_iter().take(self.site.nodes).collect();
        self.node_of = spread(self.site.pes, &on);
        self.protection = self.site.start(&self.node_of);
        self.erased.fill(false);
        self.whole = None;
    }

    fn living(&self) -> Vec<usize> {
        (0..self.lives.len()).filter(|&node| self.lives[node]).collect()
    }

    /// True if the loss of some single node would be unrecoverable.
    fn is_exposed(&self) -> bool {
        let domains = &self.site.domains;
        let survival = self.protection.survey(&self.node_of, domains, &self.erased);
        !survival.survives(domains.kind_name(0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::risk::Exposure;
    use super::*;
    use crate::placement::domains::{DomainKind, Source};
    use crate::settings::BackupMode;

    const DAY: f64 = 86_400.0;
    const YEAR: f64 = 365.0 * DAY;

    fn job(nodes: usize, spares: usize, heals: bool) -> Reliability {
        let settings = Settings { backup_mode: BackupMode::Raid5, ..Settings::default() };
        Reliability {
            settings,
            domains: Domains::default(),
            pes: nodes,
            nodes,
            spares,
            life: YEAR,
            domain_life: None,
            repair: Some(DAY),
            recovery: 60.0,
            heals,
        }
    }

    #[test]
    fn equal_seeds_have_equal_outcomes() {
        let site = job(8, 0, true);
        assert_eq!(site.simulate(3, 50, YEAR), site.simulate(3, 50, YEAR));
        assert_ne!(site.simulate(3, 50, YEAR), site.simulate(4, 50, YEAR));
    }

    /// With a spare for every loss, and recoveries long enough for the rate to be found.
    #[test]
    fn a_job_with_spares_has_the_rate_of_the_closed_form() {
        for (parity, recovery) in [(1, 0.2 * DAY), (2, 2.0 * DAY)] {
            let mut site = job(16, 16, true);
            site.settings.backup_mode = BackupMode::Rs;
            (site.settings.parity, site.settings.group_size) = (parity, Some(8));
            (site.recovery, site.repair) = (recovery, Some(recovery));
            let found = site.simulate(7, 4000, YEAR);
            let exposure = Exposure {
                nodes: 16.0,
                group: 8,
                groups: 2.0,
                parity,
                mtbf: YEAR / 16.0,
                recovery,
            };
            let ratio = found.ends as f64 / found.seconds / exposure.rate();
            assert!((ratio - 1.0).abs() < 0.1, "{ratio} with parity {parity}, of {}", found.ends);
        }
    }

    /// Without spares, the PEs of lost nodes share nodes with members of their groups.
    #[test]
    fn new_groups_lower_the_chance_of_a_job_without_spares() {
        let (kept, healed) = (job(8, 0, false), job(8, 0, true));
        let (kept, healed) = (kept.simulate(1, 2000, YEAR), healed.simulate(1, 2000, YEAR));
        assert!(kept.ends > 200, "{kept:?}");
        assert!(healed.ends * 50 < kept.ends, "{healed:?}, {kept:?}");
        assert!(healed.exposed * 50.0 < kept.exposed, "{healed:?}, {kept:?}");
    }

    /// A rack takes four of eight nodes: survived only if its groups are spread over four racks.
    #[test]
    fn domains_are_lost_as_a_whole() {
        let racks = |racks: usize| {
            let kind = DomainKind {
                name: "rack".to_owned(),
                domains: (0..racks).map(|rack| format!("rack{rack}")).collect(),
                of: (0..8).map(|node| node * racks / 8).collect(),
                source: Source::User,
            };
            let domains = Domains::default().with_kinds(vec![kind]);
            let (life, domain_life) = (1e6 * YEAR, Some(YEAR));
            Reliability { domains, life, domain_life, ..job(8, 0, true) }
        };
        let (two, four) = (racks(2), racks(4));
        let (two, four) = (two.simulate(5, 50, YEAR), four.simulate(5, 50, YEAR));
        assert!(two.ends > 20 && two.ends <= two.losses, "{two:?}");
        assert!(four.losses > 100 && four.ends < four.losses / 20, "{four:?}");
    }

    #[test]
    fn a_job_whose_nodes_are_all_gone_waits_for_the_first() {
        let site = Reliability { life: DAY, repair: None, ..job(4, 0, true) };
        let found = site.simulate(2, 20, YEAR);
        assert!((20..=80).contains(&found.losses), "{found:?}");
        let repaired = Reliability { repair: Some(10.0 * DAY), ..site };
        assert!(repaired.simulate(2, 20, YEAR).losses > 200);
    }
}
