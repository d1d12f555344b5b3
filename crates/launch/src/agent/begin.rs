//! The agent's prerequisites: its control page, enough descriptors, and the job's fabric library.

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use raidshmem_control::page::Page;
use raidshmem_core::layout::Layout;
use raidshmem_core::message::{Job, ProcessOptions};
use raidshmem_core::settings::{Fabric, Pages, Settings};

use super::done::AgentDone;
use crate::probe::probe;
use crate::worker::Worker;
use raidshmem_segment::is_large;
use raidshmem_sys::huge::HugeFiles;
use raidshmem_sys::{memory, process};

/// The name of the memory file, as shown in `/proc`.
const NAME: &str = "raidshmem-node";

/// The resources that an agent holds from start to end.
pub struct Held {
    /// The control page.
    pub page: Page,
    pub page_fd: Arc<OwnedFd>,
    /// The memory of this node's PEs.
    pub file: Arc<OwnedFd>,
    /// A thread for long work.
    pub worker: Worker<AgentDone>,
}

/// Creates the resources of an agent, or returns the reason why the agent of `node` cannot work.
/// With `pairs`, nodes may map each other's memory; without, this is another host, which may lack a
/// library that the launcher can load. `place` holds the options of programs.
pub fn begin(
    job: &Job,
    settings: &Settings,
    node: u32,
    pairs: bool,
    place: &ProcessOptions,
) -> Result<Held, String> {
    files_missing(job, node, pairs).map_or(Ok(()), Err)?;
    if !pairs {
        probe(job.fabric, variables(place)).map_err(|error| error.to_string())?;
    }
    let file =
        node_file(job, settings.pages).map_err(|error| format!("memory for PEs: {error}"))?;
    let page = Page::create(job.n_pes as usize);
    let (page, fd) = page.map_err(|error| format!("memory for the control page: {error}"))?;
    let worker = Worker::new().map_err(|error| format!("thread for long work: {error}"))?;
    Ok(Held { page, page_fd: Arc::new(fd), file: Arc::new(file), worker })
}

/// Creates the memory file of a node. The file has space for every PE, but uses memory only where a
/// PE writes. It uses huge pages if heaps are large and the machine provides some.
fn node_file(job: &Job, pages: Pages) -> rustix::io::Result<OwnedFd> {
    let (heap_len, n_pes) = (job.heap_len as usize, job.n_pes as usize);
    let len = Layout::new(heap_len, n_pes).total * n_pes;
    let huge = is_large(heap_len, pages).then(HugeFiles::new);
    match huge.and_then(Result::ok).map(|files| files.create(NAME, len)) {
        Some(Ok(file)) => Ok(file),
        _ => memory::create(NAME, len),
    }
}

/// Returns the environment variables of programs, in addition to those of the host.
pub fn variables(place: &ProcessOptions) -> impl Iterator<Item = (&OsStr, &OsStr)> {
    place.env.iter().map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value)))
}

/// Returns an error message if the limit of open files is below the agent's minimum: its own files,
/// three per PE (process, connection, parent-death pipe), a pipe for standard input from another
/// host, and the memory files that its PEs map.
fn files_missing(job: &Job, node: u32, pairs: bool) -> Option<String> {
    const OWN: usize = 5;
    let own = job.node_of.iter().filter(|&&at| at == node).count();
    let mapped = if pairs && job.fabric == Fabric::Shm { job.machine_of.len() } else { 1 };
    let input = if pairs { 0 } else { 2 };
    let (needed, most) = (OWN + 3 * own + input + mapped, process::open_files_max());
    (needed as u64 > most).then(|| {
        format!(
            "too many open files: {own} PEs need at least {needed}, and ulimit -n allows {most}"
        )
    })
}
