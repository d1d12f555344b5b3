//! What the processes of this node did last, and what they wait in: read from memory that this
//! agent holds, without their help.

#![forbid(unsafe_code)]

use std::os::fd::AsFd;

use raidshmem_core::layout::Layout;
use raidshmem_core::message::{Traced, Up};

use super::{Agent, Local};
use crate::segment::Traced as Mapped;
use crate::sys::process::is_stopped;
use crate::sys::socket::ChannelError;
use crate::trace;

/// Events of a node in one answer, of about 100 bytes each.
const MOST: usize = 50_000;

impl Agent {
    /// Answers the launcher.
    pub(super) fn dump(&mut self) -> Result<(), ChannelError> {
        let (node, pid) = (self.node, std::process::id());
        let mut processes = vec![format!("node {node}: agent is process {pid}")];
        processes.extend(self.procs.values().map(|local| describe(node, local)));
        let mut events = trace::told(trace::own(), usize::MAX, |_| format!("node {node}"));
        let most = MOST / self.memories.len().max(1);
        let here: Vec<u32> = self.procs.values().filter_map(|local| local.pe).collect();
        for pe in here {
            events.extend(self.events_of(pe, most));
        }
        self.up.send(&Up::Dump { processes, events }, &[])
    }

    /// The last events of a PE here, at most so many.
    pub(super) fn events_of(&self, pe: u32, most: usize) -> Vec<Traced> {
        let layout = Layout::new(self.job.heap_len as usize, self.job.n_pes as usize);
        let mapped = self.memories.get(&pe).map(|(_, fd)| Mapped::of(fd.as_fd(), &layout));
        let Some(Ok(mapped)) = mapped else { return Vec::new() };
        trace::told(mapped.ring(), most, |incarnation| match incarnation {
            0 => format!("PE {pe}"),
            n => format!("PE {pe} (incarnation {n})"),
        })
    }
}

/// A process in a line.
fn describe(node: u32, local: &Local) -> String {
    let pid = local.carrier().pid;
    let stopped = if is_stopped(pid) { ", stopped" } else { "" };
    let Some(pe) = local.pe else { return format!("node {node}: spare process {pid}{stopped}") };
    let shown = local.words().map(|words| {
        let shown = words.waits.entries().iter().filter_map(|entry| entry.read());
        shown.map(|wait| format!(", waits in {}", wait.call)).collect::<String>()
    });
    format!("PE {pe}: process {pid} of node {node}{stopped}{}", shown.unwrap_or_default())
}
