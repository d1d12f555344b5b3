//! The protection of a job: mode, groups, stripe layouts and codes, computed once.

use raidshmem_codec::code::Code;
use raidshmem_codec::stripe::{Layout, Scheme};

use crate::layout::{self, TILE};
use crate::mutant::{Mutant, breaks};
use crate::placement::Domains;
use crate::placement::groups::{self, Grouping, InGroup};
use crate::placement::substitute::JobLayout;
use crate::placement::survival::{Places, Survival};
use crate::quantity::{CheckpointNumber, Pe, ViewNumber};
use crate::settings::{BackupMode, Placement, Rollback, Settings};

/// The reason why a job cannot be protected as requested.
#[derive(Debug, thiserror::Error)]
pub enum ProtectionError {
    /// The PEs cannot be divided into groups.
    #[error("{0}")]
    Group(#[from] groups::GroupError),
    /// The codec rejects the shape.
    #[error("group of {members} PEs: {error}")]
    Shape {
        /// Members of the group.
        members: usize,
        /// Error of the codec.
        error: raidshmem_codec::Error,
    },
    /// With `SHMEM_FT_PLACEMENT=strict`, the job would not survive the loss of a failure domain.
    #[error("SHMEM_FT_PLACEMENT=strict: {0}")]
    Placement(String),
}

/// The damage that a single loss can do; a greater value is worse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Risk {
    /// Domains whose loss would end the job.
    fatal: usize,
    /// Most members of a group that such a loss would take.
    most: usize,
}

/// One group's layout and the code of each of its stripes.
#[derive(Debug)]
pub struct GroupLayout {
    /// Members, by their place in the group.
    pub members: Vec<Pe>,
    /// Assignment of chunks to stripes.
    pub layout: Layout,
    /// Code of each stripe.
    pub codes: Vec<Code>,
}

impl GroupLayout {
    /// Computes the layout of a group of these members.
    ///
    /// # Errors
    /// The codec rejects the shape.
    pub fn new(scheme: Scheme, members: Vec<Pe>) -> Result<GroupLayout, ProtectionError> {
        let fault = |error| ProtectionError::Shape { members: members.len(), error };
        let layout = Layout::new(scheme, members.len()).map_err(fault)?;
        let code = |s: &raidshmem_codec::stripe::Stripe| Code::new(s.data.len(), s.parity.len());
        let codes = layout.stripes().iter().map(code).collect::<Result<_, _>>().map_err(fault)?;
        Ok(GroupLayout { members, layout, codes })
    }

    /// Returns the PE that makes the first parity over a chunk of the member at `place`, and may
    /// copy the chunk into its second snapshot in the same pass. None if some PEs make more parity
    /// than others: then each PE copies its own chunks.
    pub fn copier(&self, place: usize, chunk: usize) -> Option<Pe> {
        let stripes = self.layout.stripes();
        let stripe = &stripes[self.layout.place_of(place, chunk).stripe];
        let even = stripes.len() == self.members.len();
        even.then(|| self.members[stripe.parity[0].member])
    }

    /// Returns the bytes of a chunk of a snapshot of `len` bytes, in whole tiles.
    pub fn chunk_len(&self, len: usize) -> usize {
        self.layout.chunk_len(len, TILE)
    }

    /// Returns the bytes of parity that the member at `place` keeps over snapshots of `len` bytes,
    /// in whole tiles.
    pub fn parity_len(&self, place: usize, len: usize) -> usize {
        self.layout.parities_of(place).len() * self.chunk_len(len)
    }
}

impl std::fmt::Display for Protection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.mode {
            BackupMode::Single => write!(
                f,
                "one copy on another PE: survives the death of processes between checkpoints, not \
                 the loss of a node, and nothing while a checkpoint is written"
            ),
            BackupMode::Double => write!(
                f,
                "{}; while a checkpoint is written the one copy on another PE is not complete",
                self.plan
            ),
            _ => write!(f, "{}", self.plan),
        }
    }
}

/// The protection of a job.
#[derive(Debug)]
pub struct Protection {
    /// Backup mode: how copies or parity are kept.
    pub mode: BackupMode,
    /// Number of snapshots that a PE keeps, used in turn.
    pub snapshots: usize,
    /// Layouts of the groups.
    pub shapes: Vec<GroupLayout>,
    /// Groups, and the failures they survive.
    pub plan: Grouping,
    /// The view over whose places the groups were chosen: 0 at the start, or
    /// [`ViewNumber::OF_SET`].
    pub places: ViewNumber,
}

impl Protection {
    /// Computes the protection of PEs on the nodes `node_of`; None in mode `none`.
    pub fn new(
        settings: &Settings,
        node_of: &[usize],
        domains: &Domains,
    ) -> Result<Option<Self>, ProtectionError> {
        let all: Vec<Pe> = Pe::all(node_of.len()).collect();
        Protection::among(settings, node_of, domains, &all)
    }

    /// Like [`Protection::new`], for the `living` PEs (ascending) only; the other PEs are in no
    /// group.
    pub fn among(
        settings: &Settings,
        node_of: &[usize],
        domains: &Domains,
        living: &[Pe],
    ) -> Result<Option<Self>, ProtectionError> {
        let Some(scheme) = settings.backup_mode.scheme(settings.parity) else { return Ok(None) };
        let nodes: Vec<usize> = living.iter().map(|pe| node_of[pe.at()]).collect();
        let plan = groups::plan(&nodes, domains, settings.group_size, settings.parity)?;
        let plan = plan.of_pes(living, node_of.len());
        let strict = settings.placement == Placement::Strict;
        let protection = Protection::by(settings, scheme, plan, ViewNumber(0))?;
        if strict && !protection.survives_domains() {
            return Err(ProtectionError::Placement(protection.to_string()));
        }
        Ok(Some(protection))
    }

    /// Computes the groups that view `places` names, with PEs on the nodes `node_of`; view 0 names
    /// the initial groups. If groups of the requested size do not survive every single loss, the
    /// size is chosen freely.
    ///
    /// # Errors
    /// Those of [`Protection::new`]; `Placement` only for view 0.
    pub fn named(
        settings: &Settings,
        node_of: &[usize],
        domains: &Domains,
        places: ViewNumber,
    ) -> Result<Option<Self>, ProtectionError> {
        if places == ViewNumber(0) {
            return Protection::new(settings, node_of, domains);
        }
        let lenient = Settings { placement: Placement::Spread, ..settings.clone() };
        let free = Settings { group_size: None, ..lenient.clone() };
        let made = Protection::new(&lenient, node_of, domains);
        let survives = matches!(&made, Ok(Some(made)) if made.survives_domains());
        let made = match survives || settings.group_size.is_none() {
            true => made?,
            false => Protection::new(&free, node_of, domains)?,
        };
        Ok(made.map(|made| Protection { places, ..made }))
    }

    /// Returns the protection by the `groups` of a set on disk, which contain every PE, with PEs on
    /// the nodes `node_of`; None in mode `none`.
    ///
    /// # Errors
    /// The codec rejects a group.
    pub fn of_set(
        settings: &Settings,
        groups: Vec<Vec<Pe>>,
        node_of: &[usize],
        domains: &Domains,
    ) -> Result<Option<Self>, ProtectionError> {
        let Some(scheme) = settings.backup_mode.scheme(settings.parity) else { return Ok(None) };
        let plan = Grouping::known(groups, node_of, domains, settings.parity);
        Protection::by(settings, scheme, plan, ViewNumber::OF_SET).map(Some)
    }

    /// Computes the layouts of the groups in `plan`, which `places` names.
    fn by(
        settings: &Settings,
        scheme: Scheme,
        plan: Grouping,
        places: ViewNumber,
    ) -> Result<Self, ProtectionError> {
        let shapes = plan
            .groups
            .iter()
            .map(|group| GroupLayout::new(scheme, group.members.clone()))
            .collect::<Result<_, _>>()?;
        let (mode, snapshots) = (settings.backup_mode, settings.snapshots);
        Ok(Protection { mode, snapshots, shapes, plan, places })
    }

    /// Returns new groups for the next checkpoint if they leave a lower risk than these, with PEs
    /// on the nodes `node_of` in view `places`, or if they are fewer, with less parity, at equal
    /// risk; groups of a set also give way to others at equal risk, as the settings choose them.
    /// None if these stay, or if groups must not change: with local rollback, a substitute relies
    /// on the groups it has.
    pub fn healed(
        &self,
        settings: &Settings,
        node_of: &[usize],
        domains: &Domains,
        places: ViewNumber,
    ) -> Option<Self> {
        if settings.rollback != Rollback::Global || breaks(Mutant::GroupsKept) {
            return None;
        }
        let made = Protection::named(settings, node_of, domains, places).ok().flatten()?;
        let risk = |it: &Protection| it.risk(node_of, domains);
        let costs = |it: &Protection| (risk(it), it.shapes.len());
        let is_foreign =
            || self.places == ViewNumber::OF_SET && made.plan.groups != self.plan.groups;
        let changes = costs(&made) < costs(self) || is_foreign() && risk(&made) <= risk(self);
        changes.then_some(made)
    }

    /// Returns the groups, with the failure domains of their nodes.
    pub fn job_layout(&self, domains: &Domains) -> JobLayout {
        let group_of = self.plan.of.iter().map(|of| of.group).collect();
        JobLayout { group_of, domains: domains.clone(), parity: self.plan.parity }
    }

    /// Returns the single losses that would end the job, with PEs on these nodes, of which those in
    /// `erased` are lost and not rebuilt yet.
    pub fn survey(&self, node_of: &[usize], domains: &Domains, erased: &[bool]) -> Survival {
        let site = &self.job_layout(domains);
        Places { mode: self.mode, adopt: true, site, node_of, erased }.survey()
    }

    /// Returns true if the job survives the loss of any one domain, with PEs on these nodes.
    pub fn survives_at(&self, node_of: &[usize], domains: &Domains) -> bool {
        self.risk(node_of, domains) == Risk::default()
    }

    /// Returns the risk of a single loss with PEs on these nodes.
    fn risk(&self, node_of: &[usize], domains: &Domains) -> Risk {
        let fatal = self.survey(node_of, domains, &vec![false; node_of.len()]).fatal;
        let most = fatal.iter().map(|domain| domain.members).max().unwrap_or(0);
        Risk { fatal: fatal.len(), most }
    }

    /// True if the loss of any one failure domain of each kind is survived. Mode `single` never
    /// does: with a copy on another PE and no local one, a PE that loses its copy cannot roll back
    /// (thesis, section 5.1.1).
    pub fn survives_domains(&self) -> bool {
        self.plan.survives_all() && self.mode != BackupMode::Single
    }

    /// True if the PE is in a group: it was alive when the groups were made.
    pub fn holds(&self, pe: Pe) -> bool {
        let (shape, place) = self.place(pe);
        shape.members[place] == pe
    }

    /// Returns the group of a PE that has one, and its place in it.
    pub fn place(&self, pe: Pe) -> (&GroupLayout, usize) {
        let InGroup { group, place } = self.plan.of[pe.at()];
        (&self.shapes[group], place)
    }

    /// Returns the index of the snapshot that holds, or will hold, checkpoint `number`.
    pub fn snapshot_of(&self, number: CheckpointNumber) -> usize {
        match breaks(Mutant::SnapshotReused) {
            false => number.turn(self.snapshots),
            true => 0,
        }
    }

    /// Returns the offset of that snapshot in a segment.
    pub fn snapshot_at(&self, layout: &layout::Layout, number: CheckpointNumber) -> usize {
        layout.snapshots[self.snapshot_of(number)]
    }

    /// Returns the slot that holds, or will hold, checkpoint `number`.
    pub fn slot_of(&self, number: CheckpointNumber) -> usize {
        match breaks(Mutant::SlotReused) {
            false => number.turn(self.mode.slots().max(1)),
            true => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raid5() -> Settings {
        Settings { backup_mode: BackupMode::Raid5, ..Settings::default() }
    }

    /// For every set of survivors among seven PEs on four nodes, exactly the survivors are in
    /// groups.
    #[test]
    fn groups_contain_exactly_the_living_pes() {
        let node_of = [0, 0, 1, 1, 2, 2, 3];
        for living in 1u32..1 << node_of.len() {
            let living: Vec<Pe> =
                Pe::all(node_of.len()).filter(|pe| living >> pe.0 & 1 == 1).collect();
            let made = Protection::among(&raid5(), &node_of, &Domains::default(), &living);
            if living.len() == 1 {
                let words = "a group of 1 PE cannot hold 1 parity: needs at least 2 PEs";
                assert_eq!(made.unwrap_err().to_string(), words);
                continue;
            }
            let made = made.unwrap().expect("a mode that protects");
            for pe in Pe::all(node_of.len()) {
                assert_eq!(made.holds(pe), living.contains(&pe), "{pe} of {living:?}");
            }
            let mut members: Vec<Pe> =
                made.shapes.iter().flat_map(|shape| shape.members.clone()).collect();
            members.sort_unstable();
            assert_eq!(members, living);
            for (at, shape) in made.shapes.iter().enumerate() {
                assert_eq!(shape.members, made.plan.groups[at].members);
                for (place, &pe) in shape.members.iter().enumerate() {
                    assert_eq!(made.place(pe).1, place);
                }
            }
        }
    }

    fn made(settings: &Settings, node_of: &[usize]) -> Protection {
        let made = Protection::new(settings, node_of, &Domains::default());
        made.unwrap().expect("a mode that protects")
    }

    /// Eight PEs lose one node after another, down to two, with substitutes on random nodes. New
    /// groups always carry a lower risk, or are fewer at equal risk, and survive the next loss
    /// whenever some groups can.
    #[test]
    fn new_groups_survive_more() {
        for group_size in [None, Some(8), Some(4)] {
            let settings = Settings { group_size, ..raid5() };
            for seed in 0..500usize {
                let mut node_of: Vec<usize> = (0..8).collect();
                let mut groups = made(&settings, &node_of);
                for lost in 0..6 {
                    let left: Vec<usize> = (lost + 1..8).collect();
                    let mut moved = seed;
                    for node in &mut node_of {
                        if *node == lost {
                            *node = left[moved % left.len()];
                            moved = moved / left.len() + 7;
                        }
                    }
                    let (domains, view) = (Domains::default(), ViewNumber(lost as u64 + 2));
                    let anew = groups.healed(&settings, &node_of, &domains, view);
                    if let Some(anew) = anew {
                        assert_eq!(anew.places, view);
                        let costs =
                            |it: &Protection| (it.risk(&node_of, &domains), it.shapes.len());
                        assert!(costs(&anew) < costs(&groups));
                        let named = Protection::named(&settings, &node_of, &domains, view);
                        assert_eq!(named.unwrap().expect("one that protects").plan, anew.plan);
                        groups = anew;
                    }
                    let most = (0..8).map(|node| node_of.iter().filter(|&&at| at == node).count());
                    // Then each PE has a partner on another node.
                    let bearable = most.max() <= Some(4);
                    let survives = groups.risk(&node_of, &domains) == Risk::default();
                    assert!(survives || !bearable, "{group_size:?}, {node_of:?}: {}", groups.plan);
                }
            }
        }
    }

    #[test]
    fn groups_stay_where_they_survive_all_or_must_not_change() {
        let (domains, moved) = (Domains::default(), [0, 1, 1, 3]);
        let anew = |settings: &Settings, node_of: &[usize]| {
            made(settings, &[0, 1, 2, 3]).healed(settings, node_of, &domains, ViewNumber(4))
        };
        assert!(anew(&raid5(), &moved).is_some());
        assert!(anew(&raid5(), &[0, 1, 4, 3]).is_none(), "a spare took the PE");
        let strict = Settings { placement: Placement::Strict, ..raid5() };
        assert!(anew(&strict, &[0, 1, 1, 1]).is_none(), "nothing helps, and nothing is refused");
        let local = Settings { rollback: Rollback::Local, ..raid5() };
        assert!(anew(&local, &moved).is_none());
    }

    /// A job that resumes from a set decodes it with the groups in which it was written, and then
    /// has those of its own settings.
    #[test]
    fn groups_of_a_set_give_way_to_those_of_the_job() {
        let (domains, node_of) = (Domains::default(), [0, 1, 2, 3]);
        let of_set = |settings: &Settings, groups: &[&[usize]]| {
            let groups = groups.iter().map(|group| group.iter().copied().map(Pe::of).collect());
            let made = Protection::of_set(settings, groups.collect(), &node_of, &domains);
            made.unwrap().expect("a mode that protects")
        };
        let pairs = |settings: &Settings| of_set(settings, &[&[2, 0], &[1, 3]]);
        let set = pairs(&raid5());
        assert_eq!((set.places, set.place(Pe(0)).1, set.shapes.len()), (ViewNumber::OF_SET, 1, 2));
        assert!(set.survives_domains() && Pe::all(4).all(|pe| set.holds(pe)));
        let anew = |set: &Protection, settings: &Settings, node_of: &[usize]| {
            set.healed(settings, node_of, &domains, ViewNumber(2)).map(|made| made.shapes.len())
        };
        assert_eq!(anew(&set, &raid5(), &node_of), Some(1), "fewer");
        let two = Settings { group_size: Some(2), ..raid5() };
        let four = of_set(&two, &[&[0, 1, 2, 3]]);
        assert_eq!(anew(&four, &two, &node_of), Some(2), "the size that is requested");
        assert_eq!(anew(&pairs(&two), &two, &node_of), Some(2), "of the same size");
        let own: Vec<Vec<Pe>> =
            made(&two, &node_of).plan.groups.into_iter().map(|group| group.members).collect();
        let own = Protection::of_set(&two, own, &node_of, &domains).unwrap().expect("groups");
        assert_eq!(anew(&own, &two, &node_of), None, "they are those of the job");
        assert_eq!(anew(&set, &two, &[0, 1, 0, 1]), Some(2), "and none shares a node");
        let apart = of_set(&two, &[&[0, 1], &[2, 3]]);
        let strays = Settings { group_size: Some(4), ..raid5() };
        assert_eq!(anew(&apart, &strays, &[0, 1, 0, 1]), None, "never at a greater risk");
    }

    /// A job that had to form pairs has one group again once each PE is on a node of its own.
    #[test]
    fn groups_grow_again_when_pes_are_spread() {
        let (domains, settings) = (Domains::default(), raid5());
        let pairs = made(&settings, &[0, 1, 2, 3]);
        let pairs = pairs.healed(&settings, &[0, 1, 1, 3], &domains, ViewNumber(4)).unwrap();
        assert_eq!(pairs.shapes.len(), 2);
        let one = pairs.healed(&settings, &[0, 1, 4, 3], &domains, ViewNumber(7)).unwrap();
        assert_eq!(one.shapes.len(), 1);
        assert!(one.healed(&settings, &[0, 1, 4, 3], &domains, ViewNumber(8)).is_none());
    }

    /// Of all copying each PE has its share, one chunk of as many others as it makes parity of; who
    /// copies a chunk makes its first parity; or no PE copies for others.
    #[test]
    fn copying_for_others_is_shared_out_evenly() {
        let of = |scheme, members: usize| {
            GroupLayout::new(scheme, (10..10 + members).map(Pe::of).collect()).unwrap()
        };
        for members in 3..=9 {
            for scheme in [Scheme::Raid5, Scheme::Rs { parity: 2 }] {
                let shape = of(scheme, members);
                let chunks = shape.layout.chunks();
                let mut copied = vec![0; members];
                for (place, chunk) in (0..members).flat_map(|p| (0..chunks).map(move |c| (p, c))) {
                    let pe = shape.copier(place, chunk).expect("all make as much parity");
                    let stripe = shape.layout.place_of(place, chunk).stripe;
                    let first = shape.layout.parities_of(pe.at() - 10)[0];
                    assert_eq!((first.stripe, first.row), (stripe, 0));
                    assert_ne!(pe.at() - 10, place);
                    copied[pe.at() - 10] += 1;
                }
                assert_eq!(copied, vec![chunks; members]);
            }
            let raid4 = of(Scheme::Raid4, members);
            assert!((0..members).all(|place| raid4.copier(place, 0).is_none()));
        }
    }
}
