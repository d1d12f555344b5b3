//! The parity groups of a job and the losses they survive, for the launcher and for messages.

#![forbid(unsafe_code)]

use raidshmem_core::placement::Domains;
use raidshmem_core::placement::groups::Grouping;
use raidshmem_core::placement::substitute::JobLayout;
use raidshmem_core::placement::survival::Places;
use raidshmem_core::quantity::Pe;
use raidshmem_core::settings::Settings;
use raidshmem_core::store::protection::{Protection, ProtectionError};

/// The protection of a job, in words and numbers.
#[derive(Clone, Debug)]
pub struct ProtectionTable {
    /// The groups, the names of the nodes, and their failure domains.
    pub site: JobLayout,
    /// The losses survived, in words; None in mode `none`.
    pub survives: Option<String>,
    /// True if the job is protected, but does not survive the loss of some failure domain.
    pub fragile: bool,
    /// The end of a line on the losses survived: what would make the loss of any domain survivable.
    pub remedies: String,
    /// PEs of each parity group, in order of their places.
    pub groups: Vec<Vec<Pe>>,
    /// A notice if the groups do not have the requested size.
    pub bent: Option<String>,
}

impl ProtectionTable {
    /// Computes the protection of PEs on the nodes `node_of`, with the failure domains `domains`.
    ///
    /// # Errors
    /// An error of [`Protection::new`].
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
            let remedies = String::new();
            return Ok(ProtectionTable { site, survives, fragile, remedies, groups, bent });
        };
        let plan = &protection.plan;
        let group_of = plan.of.iter().map(|of| of.group).collect();
        let site = JobLayout { group_of, domains, parity };
        Ok(ProtectionTable {
            remedies: remedies(settings, &site, &places),
            site,
            survives: Some(protection.to_string()),
            fragile: !protection.survives_domains(),
            groups: plan.groups.iter().map(|group| group.members.clone()).collect(),
            bent: bent(settings, plan),
        })
    }
}

/// Returns the remedies for the domains whose loss would end a job that has just started.
fn remedies(settings: &Settings, site: &JobLayout, node_of: &[usize]) -> String {
    let (mode, erased) = (settings.backup_mode, vec![false; node_of.len()]);
    Places { mode, adopt: true, site, node_of, erased: &erased }.survey().remedies()
}

fn bent(settings: &Settings, plan: &Grouping) -> Option<String> {
    let asked = settings.group_size?;
    let (sizes, pes) = (plan.sizes(), plan.of.len());
    ((sizes.least, sizes.most) != (asked, asked))
        .then(|| format!("groups of {asked} were asked for; {pes} PEs make groups of {sizes}"))
}
