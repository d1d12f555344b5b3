//! Long work of an agent, done outside the loop that renews its lease: creating and wiping memory,
//! and starting processes, one after another.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use raidshmem_core::layout::Layout;
use raidshmem_core::message::Up;
use raidshmem_core::quantity::Pe;

use super::done::{AgentDone, Started};
use super::{Agent, Local};
use raidshmem_sys::memory::Part;
use raidshmem_sys::socket::ChannelError;

/// Time limit for jobs in progress when the agent ends.
const LAST_JOB: Duration = Duration::from_secs(5);

impl Agent {
    /// Queues `job` for the worker thread.
    pub(super) fn work(&mut self, job: impl FnOnce() -> AgentDone + Send + 'static) {
        self.worker.begin(job);
    }

    /// Handles the worker's results.
    pub(super) fn hear_worker(&mut self) -> Result<(), ChannelError> {
        for done in self.worker.results() {
            match done {
                AgentDone::Made { pe, memory, result } => self.memory_made(pe, memory, result)?,
                AgentDone::Started(started) => self.started(*started)?,
                AgentDone::Wiped => {}
            }
        }
        if self.worker.is_idle() {
            self.missed.forget();
        }
        Ok(())
    }

    /// Starts no further processes. Returns true if the outcome of every start is known.
    pub(super) fn stop_worker(&mut self) -> bool {
        self.worker.stop();
        let end = Instant::now() + LAST_JOB;
        while self.worker.waits_until(end) {
            let _ = self.hear_worker(); // a process that cannot be reported is killed too
        }
        self.worker.is_idle()
    }

    /// Returns the memory of a PE, if it is on this node.
    pub(super) fn part(&self, pe: Pe) -> Part {
        let len = Layout::new(self.job.heap_len as usize, self.job.n_pes as usize).total;
        Part::new(Arc::clone(&self.files[&self.node]), pe.at() * len, len)
    }

    /// Creates the memory of a PE: wipes its part of the file, which may hold older memory of the
    /// PE.
    pub(super) fn make_memory(&mut self, pe: Pe, memory: u32) {
        let (binder, part) = (Arc::clone(&self.binder), self.part(pe));
        self.here.insert(pe);
        self.work(move || {
            let result = part.wipe();
            binder.place_memory(pe, &part);
            AgentDone::Made { pe, memory, result }
        });
    }

    fn memory_made(
        &mut self,
        pe: Pe,
        memory: u32,
        result: rustix::io::Result<()>,
    ) -> Result<(), ChannelError> {
        match result {
            Ok(()) => self.up.send(&Up::Memory { pe, memory }, &[]),
            Err(error) => self.fail(format!("memory for PE {pe}: {error}")),
        }
    }

    /// Frees the memory of a PE that moved to another node; processes here may still map it. If
    /// nodes map each other, the launcher does so instead.
    pub(super) fn wipe(&mut self, pe: Pe) {
        let part = self.part(pe);
        self.work(move || {
            let _ = part.wipe(); // otherwise freed at the end of the job
            AgentDone::Wiped
        });
    }

    fn started(&mut self, started: Started) -> Result<(), ChannelError> {
        let Started { proc, begun, meant, channel, sink, parent_death, result } = started;
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
            same_build: false,
            _parent_death: parent_death,
            meant,
            finalized: false,
            channel_lost: false,
            until: None,
            pe: None,
            sink,
            control: None,
        };
        if meant {
            self.missed.since(begun).for_each(|signal| local.carrier().signal(signal));
        }
        self.procs.insert(proc, local);
        self.up.send(&Up::Started { proc, pid }, &fds)
    }
}
