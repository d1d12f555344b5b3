//! Selection of the disks that a job resumes from: given the files listed by each host, chooses the
//! set, the host of each node, and the lost PEs.
//!
//! ```text
//! host A: PE 2, parity of 2      node 0 = host B      PE 0 found
//! host B: PE 0, parity of 0  ->  node 1 = host C      PE 1 lost: rebuilt from parity
//! host C: nothing                node 2 = host A      PE 2 found
//! ```
//!
//! A set exists if any host has its manifest, because that is committed after all files are on all
//! disks. It is chosen if the recovery can reconstruct the files that are not listed, and the tiles
//! that were read and are damaged ([`crate::judge`]).
//!
//! Invariants: every host is one node; as many PEs as possible begin on their home node; a PE whose
//! file is on any disk is not lost.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use raidshmem_codec::stripe::Scheme;
use raidshmem_core::disk::{Content, Damage, Held};
use raidshmem_core::quantity::{CheckpointNumber, Pe};

use crate::judge::{FileState, judge};
use crate::manifest::Manifest;

/// The job that will begin.
pub struct Wanted<'a> {
    /// The requested set; None for the newest.
    pub set: Option<u64>,
    /// The node of each PE, if all nodes exist.
    pub home: &'a [u32],
    /// The parity that the job can decode; None in mode `none`.
    pub scheme: Option<Scheme>,
    /// Damaged files, each with its host.
    pub damages: &'a [(usize, Damage)],
    /// Returns true for a set that may be taken.
    pub may_be: &'a dyn Fn(&Manifest) -> bool,
    /// True if each host is the node of its number already.
    pub are_nodes: bool,
}

/// The starting point of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The number of the set.
    pub set: u64,
    /// Its manifest.
    pub manifest: Manifest,
    /// The host of each node.
    pub host_of: Vec<usize>,
    /// The node on which each PE begins.
    pub node_of: Vec<u32>,
    /// The folders that are read on each node.
    pub folders: Vec<Vec<String>>,
    /// The groups of the set's parity, if the job can decode it.
    pub groups: Option<Vec<Vec<Pe>>>,
    /// The PEs whose data is on no disk.
    pub lost: Vec<Pe>,
    /// The reasons why newer sets were skipped.
    pub passed: Vec<String>,
}

impl Chosen {
    /// Iterates over the hosts with the folders that the job reads there.
    pub fn folders_of(&self) -> impl Iterator<Item = (usize, &[String])> {
        self.host_of.iter().zip(&self.folders).map(|(&host, folders)| (host, folders.as_slice()))
    }
}

/// A set with a manifest.
struct Candidate {
    set: u64,
    manifest: Manifest,
}

/// The folder of each file of a host, by content and PE.
type Files<'a> = BTreeMap<(Content, Pe), &'a str>;

/// Chooses the requested set, or the newest that is sufficiently complete.
///
/// # Errors
/// The mismatch, as text.
pub fn choose(hosts: &[Vec<Held>], wanted: &Wanted) -> Result<Chosen, String> {
    let mut all = candidates(hosts);
    all.retain(|it| (wanted.may_be)(&it.manifest));
    let named = |it: &&Candidate| wanted.set.is_none_or(|set| it.set == set);
    let mut passed = Vec::new();
    for candidate in all.iter().filter(named) {
        match fit(hosts, wanted, candidate) {
            Ok(chosen) => return Ok(Chosen { passed, ..chosen }),
            Err(why) if wanted.set.is_some() => {
                return Err(format!("set {}: {why}", candidate.set));
            }
            Err(why) => passed.push(format!("set {} is skipped: {why}", candidate.set)),
        }
    }
    match (passed.into_iter().next(), wanted.set) {
        (Some(why), _) => Err(format!("there is no complete checkpoint; {why}")),
        (None, Some(_)) if !all.is_empty() => {
            let numbers: Vec<String> = all.iter().map(|it| format!("@{}", it.set)).collect();
            Err(format!("expected {}", numbers.join(" or ")))
        }
        (None, _) => Err("there is no checkpoint on the disk of any node".to_owned()),
    }
}

/// Returns the PEs of a set whose data is on no disk of these hosts.
pub fn missing(hosts: &[Vec<Held>], manifest: &Manifest) -> Vec<Pe> {
    let files: Vec<Files> = hosts.iter().map(|host| files(host, manifest)).collect();
    let has = |pe: &Pe| files.iter().any(|files| files.contains_key(&(Content::Data, *pe)));
    Pe::all(manifest.entries.len()).filter(|pe| !has(pe)).collect()
}

/// Returns the sets that have a manifest, newest first.
fn candidates(hosts: &[Vec<Held>]) -> Vec<Candidate> {
    let mut found: BTreeMap<(u64, CheckpointNumber), (u64, Option<Manifest>)> = BTreeMap::new();
    for held in hosts.iter().flatten() {
        let Some((set, bytes)) = &held.set else { continue };
        let entry = found.entry((held.job, held.number)).or_default();
        entry.0 = entry.0.max(*set);
        if entry.1.is_none() {
            let is_its = |it: &Manifest| (it.job, it.number) == (held.job, held.number);
            entry.1 = Manifest::decode(bytes).ok().filter(is_its);
        }
    }
    let whole = found
        .into_values()
        .filter_map(|(set, manifest)| manifest.map(|manifest| Candidate { set, manifest }));
    let mut all: Vec<Candidate> = whole.collect();
    all.sort_by_key(|it| Reverse((it.set, it.manifest.seconds)));
    all
}

/// Returns the starting point of the job with this set.
fn fit(hosts: &[Vec<Held>], wanted: &Wanted, candidate: &Candidate) -> Result<Chosen, String> {
    let Candidate { set, manifest } = candidate;
    let (saved, pes) = (manifest.entries.len(), wanted.home.len());
    if saved != pes {
        return Err(format!("it is of {saved} PEs; expected -n {saved}"));
    }
    let files: Vec<Files> = hosts.iter().map(|host| files(host, manifest)).collect();
    let has = |host: usize, content, pe| files[host].contains_key(&(content, pe));
    let files_for = |node, host| {
        let homes = Pe::all(pes).filter(|pe| wanted.home[pe.at()] as usize == node);
        homes.filter(|&pe| has(host, Content::Data, pe)).count()
    };
    let host_of = match wanted.are_nodes {
        true => (0..hosts.len()).collect(),
        false => assign(hosts.len(), files_for),
    };
    let mut folders = vec![BTreeSet::new(); hosts.len()];
    let (mut node_of, mut lost, mut bare) = (Vec::new(), Vec::new(), BTreeSet::new());
    for pe in Pe::all(pes) {
        let home = wanted.home[pe.at()] as usize;
        let with = |&node: &usize| has(host_of[node], Content::Data, pe);
        let found = std::iter::once(home).chain(0..hosts.len()).find(with);
        let node = found.unwrap_or(home);
        node_of.push(node as u32);
        let of_host = &files[host_of[node]];
        let of_pe = |content| of_host.get(&(content, pe)).map(|&folder| folder.to_owned());
        folders[node].extend([Content::Data, Content::Parity].into_iter().filter_map(of_pe));
        lost.extend(found.is_none().then_some(pe));
        bare.extend((!of_host.contains_key(&(Content::Parity, pe))).then_some(pe));
    }
    let damage_of = |content, pe: Pe| {
        let host = host_of[node_of[pe.at()] as usize];
        let folder = *files[host].get(&(content, pe))?;
        let is_its = |(on, it): &&(usize, Damage)| {
            (*on, it.folder.as_str(), it.content, it.pe) == (host, folder, content, pe)
        };
        wanted.damages.iter().find(is_its).map(|(_, damage)| damage)
    };
    let state = |content, pe: Pe| {
        let is_missing = match content {
            Content::Data => lost.contains(&pe),
            Content::Parity => bare.contains(&pe),
        };
        match damage_of(content, pe) {
            _ if is_missing => FileState::Missing,
            Some(damage) => FileState::Damaged(damage),
            None => FileState::Whole,
        }
    };
    let code = manifest.parity.as_ref().map(|parity| &parity.code);
    let code = code.filter(|code| wanted.scheme.is_some_and(|scheme| code.is_by(scheme)));
    let shapes = code.and_then(|code| code.groups().ok());
    judge(manifest, shapes.as_deref(), &state)?;
    let folders = folders.into_iter().map(|all| all.into_iter().collect()).collect();
    let groups = shapes.map(|shapes| shapes.into_iter().map(|shape| shape.members).collect());
    let (set, manifest) = (*set, manifest.clone());
    Ok(Chosen { set, manifest, host_of, node_of, folders, groups, lost, passed: Vec::new() })
}

/// Returns the files of a host that belong to the set.
fn files<'a>(host: &'a [Held], manifest: &Manifest) -> Files<'a> {
    let of_set = |held: &&Held| (held.job, held.number) == (manifest.job, manifest.number);
    let all = host.iter().filter(of_set).flat_map(|held| {
        let is_its = |&&(content, pe, entry): &&_| manifest.entry(content, pe) == Some(entry);
        let place = |&(content, pe, _): &_| ((content, pe), held.folder.as_str());
        held.files.iter().filter(is_its).map(place)
    });
    all.collect()
}

/// Assigns a host to each of `nodes` nodes, so that as many nodes as possible have files there
/// (`has` returns how many a host has for a node); a node keeps its number if possible.
fn assign(nodes: usize, has: impl Fn(usize, usize) -> usize) -> Vec<usize> {
    let wants: Vec<Vec<usize>> = (0..nodes)
        .map(|node| {
            let mut hosts: Vec<usize> = (0..nodes).filter(|&host| has(node, host) > 0).collect();
            hosts.sort_by_key(|&host| (Reverse(has(node, host)), host != node, host));
            hosts
        })
        .collect();
    let mut node_at: Vec<Option<usize>> = vec![None; nodes];
    for node in 0..nodes {
        settle(node, &wants, &mut node_at, &mut vec![false; nodes]);
    }
    let mut host_of: Vec<Option<usize>> = vec![None; nodes];
    for (host, node) in node_at.iter().enumerate() {
        node.iter().for_each(|&node| host_of[node] = Some(host));
    }
    let is_free = |host: &usize| node_at[*host].is_none();
    let mut free: BTreeSet<usize> = (0..nodes).filter(is_free).collect();
    // First the nodes that keep their number.
    for (node, host) in host_of.iter_mut().enumerate().filter(|(_, host)| host.is_none()) {
        *host = free.take(&node);
    }
    let host = |host: Option<usize>| host.or_else(|| free.pop_first()).expect("a host each");
    host_of.into_iter().map(host).collect()
}

/// Assigns one of its candidate hosts to the node, moving other nodes to another of their
/// candidates if necessary; returns false if that is impossible.
fn settle(
    node: usize,
    wants: &[Vec<usize>],
    node_at: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    for &host in &wants[node] {
        if std::mem::replace(&mut tried[host], true) {
            continue;
        }
        if node_at[host].is_none_or(|other| settle(other, wants, node_at, tried)) {
            node_at[host] = Some(node);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests;
