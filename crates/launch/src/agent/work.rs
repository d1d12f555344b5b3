//! What an agent does off the loop that renews its lease: making and wiping memory, and starting
//! processes, one after another.

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

/// How long what was begun may take when the agent ends.
const LAST_JOB: Duration = Duration::from_secs(5);

impl Agent {
    /// Does `job` beside the loop, after those before it.
    pub(super) fn work(&mut self, job: impl FnOnce() -> AgentDone + Send + 'static) {
        self.worker.begin(job);
    }

    /// The worker has something done.
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

    /// Nothing is started any more. True if everything that was is known.
    pub(super) fn stop_worker(&mut self) -> bool {
        self.worker.stop();
        let end = Instant::now() + LAST_JOB;
        while self.worker.waits_until(end) {
            let _ = self.hear_worker(); // whom nobody can be told of is ended all the same
        }
        self.worker.is_idle()
    }

    /// The memory of a PE, if that is here.
    pub(super) fn part(&self, pe: Pe) -> Part {
        let len = Layout::new(self.job.heap_len as usize, self.job.n_pes as usize).total;
        Part::new(Arc::clone(&self.files[&self.node]), pe.at() * len, len)
    }

    /// Makes the memory of a PE: empties its place, where older memory of it may lie.
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

    /// Gives back the memory of a PE that is on another node now; processes here may still map it.
    /// Where nodes map each other the launcher does that.
    pub(super) fn wipe(&mut self, pe: Pe) {
        let part = self.part(pe);
        self.work(move || {
            let _ = part.wipe(); // what is not given back now is at the end of the job
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
            deaf: false,
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
