//! What an agent needs before it starts anything: its control page, files enough, and what the
//! fabric of the job needs.

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use raidshmem_core::message::{Job, Place};
use raidshmem_core::settings::Fabric;

use crate::control::page::Page;
use crate::launch::probe::probe;
use crate::sys::process;

/// The control page; or what to say if the agent of `node` cannot do its work. With `pairs` nodes
/// may map each other's memory; without, this is another host, which may lack what the launcher can
/// load. `place` says how programs run.
pub fn begin(
    job: &Job,
    node: u32,
    pairs: bool,
    place: &Place,
) -> Result<(Page, Arc<OwnedFd>), String> {
    files_missing(job, node, pairs).map_or(Ok(()), Err)?;
    if !pairs {
        probe(job.fabric, variables(place)).map_err(|error| error.to_string())?;
    }
    match Page::create(job.n_pes as usize) {
        Ok((page, fd)) => Ok((page, Arc::new(fd))),
        Err(error) => Err(format!("memory for the control page: {error}")),
    }
}

/// What programs find in their environment, over what the host has.
pub fn variables(place: &Place) -> impl Iterator<Item = (&OsStr, &OsStr)> {
    place.env.iter().map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value)))
}

/// What to say if the agent may have fewer files open than it will have at least: its own, three
/// for each of its PEs (the process, a connection, a parent-death pipe), and every memory that its
/// PEs map.
fn files_missing(job: &Job, node: u32, pairs: bool) -> Option<String> {
    const OWN: usize = 5;
    let own = job.node_of.iter().filter(|&&at| at == node).count();
    let mapped = if pairs && job.fabric == Fabric::Shm { job.node_of.len() } else { own };
    let (needed, most) = (OWN + 3 * own + mapped, process::open_files_max());
    (needed as u64 > most).then(|| {
        format!(
            "too many open files: {own} PEs need {needed} at least, and ulimit -n allows {most}"
        )
    })
}
