//! A process of the program on this node.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use raidshmem_core::detector::MachineTime;
use raidshmem_core::message::{ProcId, ProcessSeen};
use raidshmem_core::quantity::Pe;
use raidshmem_segment::words::Words;
use raidshmem_sys::futex;
use raidshmem_sys::memory::Mapping;
use raidshmem_sys::process::{Process, is_stopped};
use raidshmem_sys::socket::Outbox;

use super::done::NewProcess;
use crate::output::Sink;

/// Time limit for a script whose PE died, or a PE without a connection, to end.
const SCRIPT: Duration = Duration::from_millis(500);

/// A process that this agent started.
pub(super) struct Local {
    pub process: Process,
    /// The process that sent Hello, if it is not the started one but a script's child.
    pub inner: Option<Process>,
    pub channel: Option<Outbox>,
    /// True if its library is of this build.
    pub same_build: bool,
    /// Parent-death pipe: a process that armed the other end, even a script's child, is killed with
    /// this agent.
    _parent_death: OwnedFd,
    /// True if it was started for its PE number, and bound then; the program may have changed that.
    pub meant: bool,
    /// True if it has left `shmem_finalize`: a script around it may go on.
    pub finalized: bool,
    /// True if it is a PE that closed its connection.
    pub channel_lost: bool,
    /// The time at which a PE without a control channel, or the script of a dead PE, is killed: the
    /// launcher waits for its PE number.
    pub until: Option<MachineTime>,
    pub pe: Option<Pe>,
    /// The destination of its output, if the agent forwards it.
    pub sink: Option<Arc<Sink>>,
    pub control: Option<Mapping>,
}

impl Local {
    /// Takes over a process that was just started.
    pub fn new(process: Process, new: NewProcess) -> Local {
        let NewProcess { meant, channel, sink, parent_death } = new;
        Local {
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
        }
    }

    /// Returns the control words of the PE that it carries.
    pub fn words(&self) -> Option<&Words> {
        // SAFETY: the mapping is a whole page and begins with the segment's control words, which
        // every process touches through atomics only.
        self.control.as_ref().map(|control| unsafe { &*control.base().cast::<Words>() })
    }

    /// Returns the process that is the PE, or will be.
    pub fn carrier(&self) -> &Process {
        self.inner.as_ref().unwrap_or(&self.process)
    }

    /// Makes it the PE `pe` with these control words.
    pub fn assign(&mut self, pe: Pe, control: Option<Mapping>) {
        (self.pe, self.control) = (Some(pe), control);
        self.sink.iter().for_each(|sink| sink.name(pe));
    }

    /// Wakes the PE that it carries, if that sleeps.
    pub fn ring(&self) {
        if let Some(words) = self.words() {
            words.bell.doorbell.fetch_add(1, Ordering::SeqCst);
            futex::wake_all(&words.bell.doorbell);
        }
    }

    /// Orders the PE that it carries to flush its output and exit.
    pub fn abort(&self) {
        if let Some(words) = self.words() {
            words.abort.store(1, Ordering::SeqCst); // pairs with the load of a PE that sleeps on it
            futex::wake_all(&words.abort);
        }
    }

    /// Returns true if it was ordered to exit.
    pub fn is_aborted(&self) -> bool {
        self.words().is_some_and(|words| words.abort.load(Ordering::SeqCst) != 0)
    }

    /// Gives it a short time to end by itself.
    pub fn end_soon(&mut self, now: MachineTime) {
        self.until = Some(now + SCRIPT);
    }

    /// Kills it, and the children of the program.
    pub fn kill(&self) {
        if let Some(inner) = &self.inner {
            inner.kill();
        }
        self.process.kill_group();
    }

    /// Waits for its end; returns true if it has ended.
    pub fn wait_end(&self) -> bool {
        let mut ended = self.process.wait_end(5_000);
        ended &= self.inner.as_ref().is_none_or(|inner| inner.wait_end(5_000));
        self.process.reap();
        ended
    }

    /// Describes it for a diagnosis, with the calls that it waits in.
    pub fn seen(&self, proc: ProcId) -> ProcessSeen {
        let pid = self.carrier().pid;
        let calls = self.words().map(|words| {
            let shown = words.waits.entries().iter().filter_map(|entry| entry.read());
            shown.map(|wait| wait.call.to_string()).collect()
        });
        let calls = calls.filter(|_| self.pe.is_some()).unwrap_or_default();
        ProcessSeen { proc, pid, pe: self.pe, stopped: is_stopped(pid), calls }
    }
}
