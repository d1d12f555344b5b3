//! The search for the set of a job that resumes from its nodes' disks: asks every agent for the
//! contents of its disk, and assigns hosts to nodes as [`raidshmem_archive::choose`] decides.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use raidshmem_archive::choose::{Chosen, Wanted, choose};
use raidshmem_archive::manifest::Manifest;
use raidshmem_control::link::{Link, timespec};
use raidshmem_core::disk::{Damage, Folders, Held, Resume};
use raidshmem_core::message::{Down, Up};
use raidshmem_core::quantity::Pe;
use rustix::event::{PollFd, poll};

use super::error::LaunchError;
use super::gather::{self, Node};
use super::signals::Signals;
use crate::cli::ready::{Disks, Ready};
use crate::lines::news;

/// Time limit for listing a disk.
pub(super) const LISTED: Duration = Duration::from_secs(60);

/// Finds the set to resume from, if the job resumes from its nodes' disks.
///
/// # Errors
/// No set fits, a node does not answer, or a signal arrived; every started process has then been
/// ended.
pub(super) fn find_set(
    ready: &mut Ready,
    nodes: &mut BTreeMap<u32, Node>,
    signals: &Signals,
) -> Result<(), LaunchError> {
    let Some(disks) = ready.disks.take() else { return Ok(()) };
    match look(&disks, ready, nodes, signals) {
        Ok(chosen) => {
            tell(&chosen);
            adopt(ready, nodes, chosen, disks.rebuilt)
        }
        Err(error) => {
            for link in nodes.values_mut().filter_map(|node| node.link.as_mut()) {
                let _ = link.send(&Down::Shutdown, &[]);
                let _ = link.flush();
            }
            gather::end(nodes);
            Err(error)
        }
    }
}

/// Finds the newest set that can be restored, after every byte of it was read; or the requested
/// set, which the PEs verify when they load it.
fn look(
    disks: &Disks,
    ready: &Ready,
    nodes: &mut BTreeMap<u32, Node>,
    signals: &Signals,
) -> Result<Chosen, LaunchError> {
    let hosts = ask(disks, nodes, signals)?;
    let mut search = DiskSearch::default();
    let scheme = ready.settings.backup_mode.scheme(ready.settings.parity);
    loop {
        let (set, home, may_be) = (disks.set, &ready.shape.node_of, &|_: &Manifest| true);
        let wanted = Wanted { set, home, scheme, damages: &[], may_be, are_nodes: false };
        let given = disks.given.clone();
        match search.step(&hosts, wanted).map_err(|why| LaunchError::Resume { given, why })? {
            SearchStep::Chosen(chosen) => return Ok(*chosen),
            SearchStep::Read(folders) => search.damages.extend(check(folders, nodes, signals)?),
        }
    }
}

/// The search for the newest set that holds, of which every byte is read first.
#[derive(Debug, Default)]
pub(super) struct DiskSearch {
    /// The damaged files that were found, each with its host.
    pub damages: Vec<(usize, Damage)>,
    /// The folders that were read, each with its host.
    read: BTreeSet<(usize, String)>,
}

/// The next step of a search.
pub(super) enum SearchStep {
    /// It is over: this set holds.
    Chosen(Box<Chosen>),
    /// These folders of each host must be read for damage.
    Read(BTreeMap<usize, Vec<String>>),
}

impl DiskSearch {
    /// Chooses among the sets that `hosts` list. A set that is named is not read.
    ///
    /// # Errors
    /// No set holds: the reason, as text.
    pub fn step(&mut self, hosts: &[Vec<Held>], wanted: Wanted) -> Result<SearchStep, String> {
        let chosen = choose(hosts, &Wanted { damages: &self.damages, ..wanted })?;
        let mut unread: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (host, folders) in chosen.folders_of() {
            let new = folders.iter().filter(|&folder| self.read.insert((host, folder.clone())));
            unread.entry(host).or_default().extend(new.cloned());
        }
        unread.retain(|_, folders| !folders.is_empty());
        match wanted.set.is_some() || unread.is_empty() {
            true => Ok(SearchStep::Chosen(Box::new(chosen))),
            false => Ok(SearchStep::Read(unread)),
        }
    }
}

/// Returns the damaged files in these folders of hosts. All hosts read at once.
fn check(
    folders: BTreeMap<usize, Vec<String>>,
    nodes: &mut BTreeMap<u32, Node>,
    signals: &Signals,
) -> Result<Vec<(usize, Damage)>, LaunchError> {
    let mut asked = Vec::new();
    for (host, node) in nodes.values_mut().enumerate() {
        if let (Some(folders), Some(link)) = (folders.get(&host), &mut node.link) {
            link.send(&Down::Check { folders: folders.clone() }, &[])?;
            asked.push(host);
        }
    }
    let mut found = Vec::new();
    for (host, node) in nodes.values_mut().enumerate().filter(|(host, _)| asked.contains(host)) {
        let Some(link) = &mut node.link else { continue };
        let checked = |message| match message {
            Up::Checked(damages) => Some(damages),
            _ => None,
        };
        let damages = answer(link, None, signals, checked)?.unwrap_or_default();
        found.extend(damages.into_iter().map(|damage| (host, damage)));
    }
    Ok(found)
}

/// Returns the sets on each host's disk.
fn ask(
    disks: &Disks,
    nodes: &mut BTreeMap<u32, Node>,
    signals: &Signals,
) -> Result<Vec<Vec<Held>>, LaunchError> {
    for link in nodes.values_mut().filter_map(|node| node.link.as_mut()) {
        link.send(&Down::List { folder: disks.folder.clone() }, &[])?;
    }
    let end = Instant::now() + LISTED;
    let held = |message| match message {
        Up::Held(held) => Some(held),
        _ => None,
    };
    let listed = |node: &mut Node| match &mut node.link {
        Some(link) => answer(link, Some(end), signals, held)?.ok_or_else(|| {
            let (given, limit) = (disks.given.clone(), LISTED.as_secs());
            let why = format!("{}: its disk was not listed within {limit} s", node.name);
            LaunchError::Resume { given, why }
        }),
        None => Ok(Vec::new()),
    };
    nodes.values_mut().map(listed).collect()
}

/// Waits for an agent's answer, which `of` extracts from a message; returns None if `end` passes
/// first.
fn answer<T>(
    link: &mut Link,
    end: Option<Instant>,
    signals: &Signals,
    of: impl Fn(Up) -> Option<T>,
) -> Result<Option<T>, LaunchError> {
    loop {
        link.flush()?;
        if let Some((message, _)) = link.try_receive()?
            && let Some(answer) = of(message)
        {
            return Ok(Some(answer));
        }
        if let Some(signal) = signals.stopped() {
            return Err(LaunchError::Signal(signal));
        }
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
        let mut fds = vec![PollFd::new(&*link, link.interest())];
        fds.extend(signals.fds());
        let _ = poll(&mut fds, left.map(timespec).as_ref());
    }
}

fn tell(chosen: &Chosen) {
    chosen.passed.iter().for_each(|why| news(why));
    let Chosen { set, manifest, lost, .. } = chosen;
    let names = Pe::names(lost);
    let lost = match lost.len() {
        0 => String::new(),
        1 => format!("; {names} is rebuilt from the parity there"),
        _ => format!("; {names} are rebuilt from the parity there"),
    };
    let (number, program) = (manifest.number, &manifest.program);
    news(&format!("begins from set {set}, checkpoint {number} of {program}{lost}"));
}

/// Adapts hosts, nodes and the job to the set.
fn adopt(
    ready: &mut Ready,
    nodes: &mut BTreeMap<u32, Node>,
    chosen: Chosen,
    rebuilt: bool,
) -> Result<(), LaunchError> {
    let Chosen { manifest, host_of, node_of, folders, groups, .. } = chosen;
    ready.protected = gather::protected_on(ready, nodes, &host_of)?;
    if let Some(cluster) = &mut ready.cluster {
        let names = host_of.iter().map(|&host| cluster.names[host].clone());
        cluster.names = names.collect();
    }
    let mut hosts = std::mem::take(nodes);
    for (node, &host) in (0..).zip(&host_of) {
        let Some(mut entry) = hosts.remove(&(host as u32)) else { continue };
        entry.name = match &ready.cluster {
            Some(cluster) => format!("node {node} ({})", cluster.names[node as usize]),
            None => format!("node {node}"),
        };
        nodes.insert(node, entry);
    }
    ready.heap_len = manifest.heap_len;
    ready.starts = (node_of != ready.shape.node_of).then_some(node_of);
    let folders = Folders::Local { of: folders, groups };
    let Manifest { job, number, pages, .. } = manifest;
    ready.resume = Some(Resume { job, number, folders, rebuilt, pages });
    Ok(())
}
