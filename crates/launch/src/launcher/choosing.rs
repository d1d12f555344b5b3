//! A job that begins from the disks of its nodes: asks every agent what its disk has, and makes the
//! hosts the nodes that [`raidshmem_archive::choose`] says.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use raidshmem_archive::choose::{Chosen, Wanted, choose};
use raidshmem_archive::manifest::Manifest;
use raidshmem_core::disk::{Folders, Held, Resume};
use raidshmem_core::message::{Down, Up};
use rustix::event::{PollFd, poll};

use super::error::LaunchError;
use super::gather::{self, Node};
use super::signals::Signals;
use crate::cli::ready::{Disks, Ready};
use crate::lines::news;
use raidshmem_control::link::{Link, timespec};

/// How long a disk may take to be listed.
const LISTED: Duration = Duration::from_secs(60);

/// Finds the set that the job begins from, if it begins from the disks of its nodes.
///
/// # Errors
/// No set fits, a node does not answer, or a signal came; nothing that was started is left then.
pub(super) fn find_set(
    ready: &mut Ready,
    nodes: &mut BTreeMap<u32, Node>,
    signals: &Signals,
) -> Result<(), LaunchError> {
    let Some(disks) = ready.disks.take() else { return Ok(()) };
    let found = ask(&disks, nodes, signals).and_then(|hosts| {
        let protect = |host_of: &[usize]| {
            let protected = gather::protected_on(ready, nodes, host_of).ok()?;
            ready.protection_in(&protected.site.domains)
        };
        let wanted = Wanted { set: disks.set, home: &ready.shape.node_of, protect: &protect };
        let given = disks.given.clone();
        choose(&hosts, &wanted).map_err(|why| LaunchError::Resume { given, why })
    });
    match found {
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

/// What the disk of each host has.
fn ask(
    disks: &Disks,
    nodes: &mut BTreeMap<u32, Node>,
    signals: &Signals,
) -> Result<Vec<Vec<Held>>, LaunchError> {
    for link in nodes.values_mut().filter_map(|node| node.link.as_mut()) {
        link.send(&Down::List { folder: disks.folder.clone() }, &[])?;
    }
    let end = Instant::now() + LISTED;
    let listed = |node: &mut Node| match &mut node.link {
        Some(link) => answer(link, end, signals)?.ok_or_else(|| {
            let (given, limit) = (disks.given.clone(), LISTED.as_secs());
            let why = format!("{}: its disk was not listed within {limit} s", node.name);
            LaunchError::Resume { given, why }
        }),
        None => Ok(Vec::new()),
    };
    nodes.values_mut().map(listed).collect()
}

/// What an agent has; None if it takes too long.
fn answer(
    link: &mut Link,
    end: Instant,
    signals: &Signals,
) -> Result<Option<Vec<Held>>, LaunchError> {
    loop {
        link.flush()?;
        if let Some((Up::Held(held), _)) = link.try_receive()? {
            return Ok(Some(held));
        }
        if let Some(signal) = signals.stopped() {
            return Err(LaunchError::Signal(signal));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let mut fds = vec![PollFd::new(&*link, link.interest())];
        fds.extend(signals.fds());
        let _ = poll(&mut fds, Some(&timespec(left)));
    }
}

fn tell(chosen: &Chosen) {
    chosen.passed.iter().for_each(|why| news(&format!("{why}; it is passed over")));
    let Chosen { set, manifest, lost, .. } = chosen;
    let lost: Vec<String> = lost.iter().map(ToString::to_string).collect();
    let lost = match lost.len() {
        0 => String::new(),
        1 => format!("; PE {} is rebuilt from the parity there", lost[0]),
        _ => format!("; PEs {} are rebuilt from the parity there", lost.join(",")),
    };
    let (number, program) = (manifest.number, &manifest.program);
    news(&format!("begins from set {set}, checkpoint {number} of {program}{lost}"));
}

/// Makes hosts, nodes and the job fit the set.
fn adopt(
    ready: &mut Ready,
    nodes: &mut BTreeMap<u32, Node>,
    chosen: Chosen,
    rebuilt: bool,
) -> Result<(), LaunchError> {
    let Chosen { manifest, host_of, node_of, folders, parity, .. } = chosen;
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
    let folders = Folders::Local { of: folders, parity };
    let Manifest { job, number, .. } = manifest;
    ready.resume = Some(Resume { job, number, folders, rebuilt });
    Ok(())
}
