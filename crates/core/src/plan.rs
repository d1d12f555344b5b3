//! The recovery plan: from the survivors' findings to the parts that must be rebuilt, or a failure.
//!
//! Pure: a function of the stripe layout and each member's findings. Every PE computes it from the
//! same words, so every PE gets the same plan or the same verdict.

use raidshmem_codec::stripe::{Data, Layout, Parity, Stripe};

use crate::mutant::{Mutant, breaks};
use crate::quantity::Pe;
use crate::store::protection::GroupLayout;

/// The findings of one member in its own store, for the checkpoint decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreFinding {
    /// Bit per chunk of its snapshot: 1 if unusable.
    pub snapshot: u64,
    /// Bit per parity chunk it holds: 1 if unusable.
    pub parity: u64,
    /// True if its store was empty at the first check: this counts as a loss even if its snapshot
    /// was rebuilt since.
    pub empty: bool,
}

impl StoreFinding {
    /// Returns the finding of a member that has lost everything.
    pub fn lost(layout: &Layout, place: usize) -> StoreFinding {
        let parity = bits(layout.parities_of(place).len());
        StoreFinding { snapshot: bits(layout.chunks()), parity, empty: true }
    }
}

/// Returns a mask of the lowest `count` bits.
pub fn bits(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// Returns a flag for each shard of a stripe, in code order: true if it is unusable.
pub fn lost_shards(stripe: &Stripe, findings: &[StoreFinding]) -> Vec<bool> {
    let data = stripe.data.iter().map(|d| findings[d.member].snapshot >> d.chunk & 1 == 1);
    let parity = stripe.parity.iter().map(|p| findings[p.member].parity >> p.slot & 1 == 1);
    data.chain(parity).collect()
}

/// Returns the number of leading tiles of a parity chunk that are read, and hence checked, when
/// members rebuild their snapshots according to `found` (by place). `tiles` returns the number of
/// tiles of a snapshot chunk.
pub fn read(
    shape: &GroupLayout,
    parity: Parity,
    found: &[StoreFinding],
    tiles: impl Fn(usize) -> usize,
) -> usize {
    let (stripe, code) = (&shape.layout.stripes()[parity.stripe], &shape.codes[parity.stripe]);
    let (lost, shard) = (lost_shards(stripe, found), stripe.data.len() + parity.row);
    let reads = |&(at, _): &(usize, &Data)| {
        let plan = code.plan(&lost, at).ok().filter(|_| lost[at]);
        plan.is_some_and(|plan| plan.sources().contains(&shard))
    };
    let readers = stripe.data.iter().enumerate().filter(reads);
    readers.map(|(_, data)| tiles(data.chunk)).max().unwrap_or(0)
}

/// The error that more was lost than the parity covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrecoverable {
    /// Number of the group.
    pub group: usize,
    /// PEs that have lost everything.
    pub pes: Vec<Pe>,
    /// PEs that lack a part that would have been needed: corrupt, or, in a mode with one slot,
    /// overwritten by the next checkpoint.
    pub damaged: Vec<Pe>,
    /// Parity of the group; None in mode `single`, which has no second copy.
    pub parity: Option<usize>,
}

/// [`Unrecoverable`] of the lowest group, as bits: one per member, by place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    group: usize,
    pes: u64,
    damaged: u64,
}

impl Lost {
    /// Packs the error of a group with these members.
    pub fn of(lost: &Unrecoverable, members: &[Pe]) -> Lost {
        let bit = |pe: &Pe| members.iter().position(|member| member == pe);
        let bits = |pes: &[Pe]| pes.iter().filter_map(bit).fold(0, |bits, at| bits | 1 << at);
        Lost { group: lost.group, pes: bits(&lost.pes), damaged: bits(&lost.damaged) }
    }

    /// Returns the error of the lower group.
    pub fn lower(one: Option<Lost>, other: Option<Lost>) -> Option<Lost> {
        [one, other].into_iter().flatten().min_by_key(|lost| lost.group)
    }

    /// Returns the number of the group.
    pub fn group(&self) -> usize {
        self.group
    }

    /// Unpacks the error. `keeps_snapshot` is false in mode `single`.
    pub fn named(&self, shape: &GroupLayout, keeps_snapshot: bool) -> Unrecoverable {
        let pes = |bits: u64| {
            let members = shape.members.iter().enumerate();
            let mut pes: Vec<Pe> =
                members.filter(|(at, _)| bits >> at & 1 == 1).map(|(_, &pe)| pe).collect();
            pes.sort_unstable();
            pes
        };
        let parity = keeps_snapshot.then(|| shape.layout.parity());
        let (pes, damaged) = (pes(self.pes), pes(self.damaged));
        Unrecoverable { group: self.group, pes, damaged, parity }
    }

    /// Packs an optional error into words.
    pub fn words(lost: Option<Lost>) -> [u64; 3] {
        lost.map_or([0; 3], |lost| [lost.group as u64 + 1, lost.pes, lost.damaged])
    }

    /// Unpacks an optional error.
    pub fn read([group, pes, damaged]: [u64; 3]) -> Option<Lost> {
        let group = group.checked_sub(1)? as usize;
        Some(Lost { group, pes, damaged })
    }
}

impl std::fmt::Display for Unrecoverable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (group, pes) = (self.group, Pe::names(&self.pes));
        match self.parity {
            Some(parity) => write!(f, "unrecoverable: group {group} lost {pes}, parity {parity}")?,
            // These PEs may well be alive: a checkpoint overwrites the only slot of each.
            None => write!(
                f,
                "unrecoverable: group {group} lost the copies on {pes}, mode single keeps no other"
            )?,
        }
        if !self.damaged.is_empty() {
            write!(f, "; not usable on {}", Pe::names(&self.damaged))?;
        }
        Ok(())
    }
}

impl std::error::Error for Unrecoverable {}

/// Checks that every stripe of a group can be decoded. `members` are the PEs by place;
/// `keeps_snapshot` is false in mode `single`, where a missing snapshot is not a loss.
pub fn check(
    group: usize,
    layout: &Layout,
    members: &[Pe],
    findings: &[StoreFinding],
    keeps_snapshot: bool,
) -> Result<(), Unrecoverable> {
    let over = |stripe: &&Stripe| {
        let lost = lost_shards(stripe, findings).iter().filter(|&&lost| lost).count();
        lost > stripe.parity.len() + usize::from(breaks(Mutant::PlanTooHopeful))
    };
    if !layout.stripes().iter().any(|stripe| over(&stripe)) {
        return Ok(());
    }
    let gone = |place: &usize| {
        let (found, all) = (findings[*place], StoreFinding::lost(layout, *place));
        let nothing = found.snapshot == all.snapshot || !keeps_snapshot;
        found.empty || found.parity == all.parity && nothing
    };
    let whole = |place: &usize| {
        let found = findings[*place];
        found.parity == 0 && (found.snapshot == 0 || !keeps_snapshot)
    };
    let pes = |places: &mut dyn Iterator<Item = usize>| {
        let mut pes: Vec<Pe> = places.map(|place| members[place]).collect();
        pes.sort_unstable();
        pes
    };
    let all = || 0..members.len();
    let damaged = pes(&mut all().filter(|place| !gone(place) && !whole(place)));
    let parity = keeps_snapshot.then(|| layout.parity());
    Err(Unrecoverable { group, pes: pes(&mut all().filter(gone)), damaged, parity })
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidshmem_codec::stripe::Scheme;

    const FOUR: [Pe; 4] = [Pe(0), Pe(1), Pe(2), Pe(3)];

    fn findings(layout: &Layout, lost: &[usize]) -> Vec<StoreFinding> {
        let of = |place: usize| match lost.contains(&place) {
            true => StoreFinding::lost(layout, place),
            false => StoreFinding::default(),
        };
        (0..layout.members()).map(of).collect()
    }

    /// Any m losses are survivable, and no m + 1 losses are.
    #[test]
    fn the_parity_is_the_boundary_for_every_pattern() {
        for members in 2..=9 {
            for parity in 1..members.min(4) {
                let layout = Layout::new(Scheme::Rs { parity }, members).unwrap();
                let pes: Vec<Pe> = (10..10 + members).map(Pe::of).collect();
                for pattern in 0u32..1 << members {
                    let lost: Vec<usize> = (0..members).filter(|i| pattern >> i & 1 == 1).collect();
                    let got = check(7, &layout, &pes, &findings(&layout, &lost), true);
                    if lost.len() <= parity {
                        assert_eq!(got, Ok(()), "{members} {parity} {lost:?}");
                    } else {
                        let pes = lost.iter().map(|place| Pe::of(place + 10)).collect();
                        let (damaged, parity) = (Vec::new(), Some(parity));
                        assert_eq!(got, Err(Unrecoverable { group: 7, pes, damaged, parity }));
                    }
                }
            }
        }
    }

    #[test]
    fn the_verdict_names_group_pes_and_parity() {
        let layout = Layout::new(Scheme::Raid5, 4).unwrap();
        let error = check(0, &layout, &FOUR, &findings(&layout, &[2, 1]), true).unwrap_err();
        assert_eq!(error.to_string(), "unrecoverable: group 0 lost PEs 1,2, parity 1");
    }

    /// A lost PE still counts as lost if its snapshot was rebuilt before further damage was found.
    #[test]
    fn lost_pes_stay_lost_in_the_verdict() {
        let layout = Layout::new(Scheme::Raid5, 4).unwrap();
        let mut found = findings(&layout, &[2]);
        (found[2].snapshot, found[0].snapshot) = (0, u64::MAX);
        let error = check(0, &layout, &FOUR, &found, true).unwrap_err();
        assert_eq!((error.pes, error.damaged), (vec![Pe(2)], vec![Pe(0)]));
    }

    #[test]
    fn single_survives_no_lost_copy_and_double_survives_one() {
        let layout = Layout::new(Scheme::Mirror, 4).unwrap();
        let none = StoreFinding { snapshot: 1, ..StoreFinding::default() };
        let intact = vec![none; 4];
        assert_eq!(check(0, &layout, &FOUR, &intact, false), Ok(()));
        let mut one = intact.clone();
        one[2].parity = 1;
        let error = check(0, &layout, &FOUR, &one, false).unwrap_err();
        assert_eq!(error.pes, [Pe(2)]);
        assert_eq!(check(0, &layout, &FOUR, &findings(&layout, &[2]), true), Ok(()));
    }

    #[test]
    fn damage_of_single_chunks_counts_by_stripe() {
        let layout = Layout::new(Scheme::Raid5, 4).unwrap();
        let mut found = findings(&layout, &[]);
        found[0].snapshot = 1; // chunk 0 of place 0 is in stripe 1
        assert_eq!(check(0, &layout, &FOUR, &found, true), Ok(()));
        found[2].parity = 1; // the parity of stripe 2: another stripe
        assert_eq!(check(0, &layout, &FOUR, &found, true), Ok(()));
        found[1].parity = 1; // the parity of stripe 1
        assert!(check(0, &layout, &FOUR, &found, true).is_err());
    }
}
