//! What an agent does off the loop that renews its lease: making and wiping memory, and starting
//! processes, one after another.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use raidshmem_core::layout::Layout;
use raidshmem_core::message::Up;
use raidshmem_core::settings::Fabric;
use rustix::event::{PollFd, PollFlags, poll};

use super::done::{Done, Started};
use super::{Agent, Local};
use crate::control::link::timespec;
use crate::segment;
use crate::sys::huge::HugeFiles;
use crate::sys::memory;
use crate::sys::socket::ChannelError;

/// How long what was begun may take when the agent ends.
const LAST_JOB: Duration = Duration::from_secs(5);

impl Agent {
    /// Does `job` beside the loop, after those before it.
    pub(super) fn work(&mut self, job: impl FnOnce() -> Done + Send + 'static) {
        self.worker.begin(job);
    }

    /// The worker has something done.
    pub(super) fn hear_worker(&mut self) -> Result<(), ChannelError> {
        for done in self.worker.results() {
            match done {
                Done::Made { pe, memory, result } => self.memory_made(pe, memory, result)?,
                Done::Started(started) => self.started(*started)?,
                Done::Wiped => {}
            }
        }
        Ok(())
    }

    /// Nothing is started any more. True if everything that was is known.
    pub(super) fn stop_worker(&mut self) -> bool {
        self.worker.stop();
        let end = Instant::now() + LAST_JOB;
        while !self.worker.is_idle() && Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now());
            let _ = poll(&mut [PollFd::new(&self.worker, PollFlags::IN)], Some(&timespec(left)));
            let _ = self.hear_worker(); // whom nobody can be told of is ended all the same
        }
        self.worker.is_idle()
    }

    /// Makes the memory of a PE.
    pub(super) fn make_memory(&mut self, pe: u32, memory: u32) {
        let len = Layout::new(self.job.heap_len as usize, self.job.n_pes as usize).total;
        let large = segment::is_large(self.job.heap_len as usize, self.job.pages);
        let (binder, huge) = (Arc::clone(&self.binder), Arc::clone(&self.huge));
        self.work(move || {
            let files = large.then(|| huge.get_or_init(|| HugeFiles::new().ok()).as_ref());
            let result = create_memory(files.flatten(), "raidshmem-pe", len);
            let result = result.inspect(|fd| binder.place_memory(pe, fd, len));
            Done::Made { pe, memory, result }
        });
    }

    fn memory_made(
        &mut self,
        pe: u32,
        memory: u32,
        result: rustix::io::Result<OwnedFd>,
    ) -> Result<(), ChannelError> {
        match result {
            Ok(fd) if self.up.carries_descriptors() && self.job.fabric == Fabric::Shm => {
                self.up.send(&Up::Memory { pe, memory }, &[Arc::new(fd)])
            }
            Ok(fd) => {
                self.keep(pe, memory, fd)?; // nobody outside the node has it
                self.up.send(&Up::Memory { pe, memory }, &[])
            }
            Err(error) => self.fail(format!("memory for PE {pe}: {error}")),
        }
    }

    /// Gives back memory that is no PE's any more; processes here may still map it. Where nodes map
    /// each other the launcher does that.
    pub(super) fn wipe(&mut self, file: Arc<OwnedFd>) {
        let own = self.job.fabric != Fabric::Shm;
        self.work(move || {
            if own {
                let _ = memory::wipe(&file); // what is not given back now is at the end of the job
            }
            drop(file); // frees it, if it was the last
            Done::Wiped
        });
    }

    fn started(&mut self, started: Started) -> Result<(), ChannelError> {
        let Started { proc, meant, channel, sink, parent_death, result } = started;
        let process = match result {
            Ok(process) => process,
            Err(what) => return self.fail(what),
        };
        let pid = process.pid;
        let fds = match self.up.carries_descriptors() {
            true => vec![process.copy().map_err(|_| ChannelError::Descriptors)?],
            false => Vec::new(),
        };
        let local = Local {
            process,
            inner: None,
            channel: Some(channel),
            _parent_death: parent_death,
            meant,
            finalized: false,
            deaf: false,
            until: None,
            pe: None,
            sink,
            control: None,
            unsent: BTreeSet::new(),
        };
        self.procs.insert(proc, local);
        self.up.send(&Up::Started { proc, pid }, &fds)
    }
}

/// A file with huge pages if it is large and they can be had.
fn create_memory(huge: Option<&HugeFiles>, name: &str, len: usize) -> rustix::io::Result<OwnedFd> {
    match huge.map(|files| files.create(name, len)) {
        Some(Ok(file)) => Ok(file),
        _ => memory::create(name, len),
    }
}
