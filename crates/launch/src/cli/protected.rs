//! Who protects whom in a job, and what that survives: for the launcher, and for people.

#![forbid(unsafe_code)]

use raidshmem_core::placement::Domains;
use raidshmem_core::placement::groups::Grouping;
use raidshmem_core::placement::substitute::JobLayout;
use raidshmem_core::quantity::Pe;
use raidshmem_core::settings::Settings;
use raidshmem_core::store::protection::{Protection, ProtectionError};

/// The protection of a job in words and numbers.
#[derive(Clone, Debug)]
pub struct ProtectionTable {
    /// Groups, and what the nodes are called and fail together with.
    pub site: JobLayout,
    /// What is survived, in words; None in mode `none`.
    pub survives: Option<String>,
    /// True if the loss of some failure domain is not survived though losses are to be.
    pub fragile: bool,
    /// PEs of each parity group, in the order of their places.
    pub groups: Vec<Vec<Pe>>,
    /// What became of a group size that the number of PEs does not divide into.
    pub bent: Option<String>,
}

impl ProtectionTable {
    /// The protection of PEs on the nodes `node_of`, which fail together as `domains` says.
    ///
    /// # Errors
    /// What [`Protection::new`] refuses.
    pub fn new(
        settings: &Settings,
        node_of: &[u32],
        domains: Domains,
    ) -> Result<ProtectionTable, ProtectionError> {
        let places: Vec<usize> = node_of.iter().map(|&node| node as usize).collect();
        let parity = settings.parity;
        let Some(protection) = Protection::new(settings, &places, &domains)? else {
            let site = JobLayout { group_of: vec![0; places.len()], domains, parity };
            let (survives, fragile, groups, bent) = (None, false, Vec::new(), None);
            return Ok(ProtectionTable { site, survives, fragile, groups, bent });
        };
        let plan = &protection.plan;
        let group_of = plan.of.iter().map(|of| of.group).collect();
        Ok(ProtectionTable {
            site: JobLayout { group_of, domains, parity },
            survives: Some(protection.to_string()),
            fragile: !protection.survives_domains(),
            groups: plan.groups.iter().map(|group| group.members.clone()).collect(),
            bent: bent(settings, plan),
        })
    }
}

fn bent(settings: &Settings, plan: &Grouping) -> Option<String> {
    let asked = settings.group_size?;
    let (sizes, pes) = (plan.sizes(), plan.of.len());
    ((sizes.least, sizes.most) != (asked, asked))
        .then(|| format!("groups of {asked} were asked for; {pes} PEs make groups of {sizes}"))
}
