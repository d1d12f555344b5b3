//! Diagnosis of this node's processes: their last events, and the calls they wait in. The agent
//! reads both from memory that it holds, so it needs no help from a process.

#![forbid(unsafe_code)]

use raidshmem_control::trace;
use raidshmem_core::layout::Layout;
use raidshmem_core::message::{Answer, ProcId, ProcessSeen, Traced, Up};
use raidshmem_core::quantity::Pe;
use raidshmem_segment::Traced as Mapped;
use raidshmem_sys::process::is_stopped;
use raidshmem_sys::socket::ChannelError;

use super::{Agent, Local};

/// The maximum number of events of a node in one answer, about 100 bytes each.
const MOST: usize = 50_000;

impl Agent {
    /// Answers the launcher; includes the last events if `all` is set.
    pub(super) fn dump(&mut self, question: u32, all: bool) -> Result<(), ChannelError> {
        let (node, agent) = (self.node, std::process::id());
        let processes = self.procs.iter().map(|(&proc, local)| see(proc, local)).collect();
        let mut events = Vec::new();
        if all {
            events = trace::last_events(trace::own(), usize::MAX, |_| format!("node {node}"));
            let most = MOST / self.here.len().max(1);
            let here: Vec<Pe> = self.procs.values().filter_map(|local| local.pe).collect();
            here.into_iter().for_each(|pe| events.extend(self.events_of(pe, most)));
        }
        self.up.send(&Up::Dump(Answer { question, agent, processes, events }), &[])
    }

    /// Returns the last events of a PE here, at most `most`.
    pub(super) fn events_of(&self, pe: Pe, most: usize) -> Vec<Traced> {
        let layout = Layout::new(self.job.heap_len as usize, self.job.n_pes as usize);
        let Ok(mapped) = Mapped::of(&self.part(pe), &layout) else { return Vec::new() };
        trace::last_events(mapped.ring(), most, |incarnation| match incarnation {
            0 => format!("PE {pe}"),
            n => format!("PE {pe} (incarnation {n})"),
        })
    }
}

fn see(proc: ProcId, local: &Local) -> ProcessSeen {
    let pid = local.carrier().pid;
    let calls = local.words().map(|words| {
        let shown = words.waits.entries().iter().filter_map(|entry| entry.read());
        shown.map(|wait| wait.call.to_string()).collect()
    });
    let calls = calls.filter(|_| local.pe.is_some()).unwrap_or_default();
    ProcessSeen { proc, pid, pe: local.pe, stopped: is_stopped(pid), calls }
}
