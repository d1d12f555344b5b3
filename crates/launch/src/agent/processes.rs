//! The processes of the program on this node, which carry PEs or wait as spares: their messages,
//! their ends, and orders to all of them.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use raidshmem_control::is_same_build;
use raidshmem_core::detector::MachineTime;
use raidshmem_core::ended::Ended;
use raidshmem_core::message::{Build, PeMessage, ProcId, ToPe, Up};
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::quantity::Pe;
use raidshmem_sys::process::Process;
use raidshmem_sys::socket::ChannelError;
use rustix::event::{PollFd, PollFlags};
use tracing::info;

use super::done::Started;
use super::local::Local;
use super::source::Source;
use super::uplink::Uplink;

/// Time limit for PEs to flush their output: one may be stopped, or its output have no reader.
const FLUSH: Duration = Duration::from_secs(1);

/// The processes of the program on this node.
pub(super) struct LocalProcesses {
    all: BTreeMap<ProcId, Local>,
    /// Processes that were to be killed before they had been started.
    doomed: BTreeSet<ProcId>,
    /// The build of this oshrun; the programs' library must match it.
    build: &'static str,
}

impl LocalProcesses {
    /// Creates a node without processes.
    pub fn new(build: &'static str) -> LocalProcesses {
        LocalProcesses { all: BTreeMap::new(), doomed: BTreeSet::new(), build }
    }

    /// Returns the processes.
    pub fn all(&self) -> &BTreeMap<ProcId, Local> {
        &self.all
    }

    /// Returns a process.
    pub fn get_mut(&mut self, proc: ProcId) -> Option<&mut Local> {
        self.all.get_mut(&proc)
    }

    /// Returns the PEs of this node.
    pub fn pes(&self) -> impl Iterator<Item = Pe> {
        self.all.values().filter_map(|local| local.pe)
    }

    /// Returns the id of a process that carries a PE.
    pub fn carrier_of_any(&self) -> Option<u32> {
        self.all.values().find(|local| local.pe.is_some()).map(|local| local.carrier().pid)
    }

    /// Returns the descriptors to poll, with their sources.
    pub fn fds(&self) -> impl Iterator<Item = (PollFd<'_>, Source)> {
        self.all.iter().flat_map(|(&proc, local)| {
            let channel = local.channel.as_ref();
            let channel = channel
                .map(|channel| (PollFd::new(channel, channel.interest()), Source::Channel(proc)));
            let ends = [Some(&local.process), local.inner.as_ref()].into_iter().flatten();
            let end = move |process| (PollFd::new(process, PollFlags::IN), Source::End(proc));
            channel.into_iter().chain(ends.map(end))
        })
    }

    /// Adds a process that was just started, and passes it `signals` that it missed.
    pub fn add(
        &mut self,
        started: Started,
        signals: impl Iterator<Item = i32>,
        up: &mut Uplink,
    ) -> Result<(), ChannelError> {
        let Started { proc, result, new, .. } = started;
        let process = match result {
            Ok(process) => process,
            Err(what) => return up.fail(what),
        };
        let pid = process.pid;
        let fds = match up.carries_descriptors() {
            true => vec![process.copy().map_err(|_| ChannelError::Descriptors)?],
            false => Vec::new(),
        };
        let local = Local::new(process, new);
        if local.meant {
            signals.for_each(|signal| local.carrier().signal(signal));
        }
        if self.doomed.remove(&proc) {
            local.kill();
        }
        self.all.insert(proc, local);
        up.send_with(&Up::Started { proc, pid }, &fds)
    }

    /// Sends a message to all PEs. Ignores a PE that has ended, since its pidfd reports that.
    pub fn send_to_all(
        &mut self,
        message: &ToPe,
        fds: &[Arc<OwnedFd>],
    ) -> Result<(), ChannelError> {
        let mut sent = Ok(());
        for local in self.all.values_mut().filter(|local| local.pe.is_some()) {
            if let Some(channel) = &mut local.channel {
                sent = sent.and(channel.send(message, fds));
            }
        }
        sent
    }

    /// Wakes all PEs that sleep.
    pub fn ring(&self) {
        self.all.values().for_each(Local::ring);
    }

    /// Passes a signal to all PEs. Spares do not run the program's code yet: it would end them.
    pub fn signal(&self, signal: i32) {
        let pes = self.all.values().filter(|local| local.meant || local.pe.is_some());
        pes.for_each(|local| local.carrier().signal(signal));
    }

    /// Passes on the messages of a process.
    pub fn listen(
        &mut self,
        proc: ProcId,
        now: MachineTime,
        up: &mut Uplink,
    ) -> Result<(), ChannelError> {
        while self.is_same_build(proc, up)? {
            let Some(local) = self.all.get_mut(&proc) else { return Ok(()) };
            let Some(channel) = &mut local.channel else { return Ok(()) };
            let _ = channel.flush(); // if the process ended, its pidfd reports it
            match channel.try_receive_from::<PeMessage>() {
                Ok(Some((what, sender))) => {
                    local.finalized |= matches!(what, PeMessage::Finalized);
                    if let (PeMessage::Hello, Some(pid)) = (&what, sender) {
                        meet(local, pid, now, up)?;
                    }
                    up.send(&Up::Message { proc, what })?;
                }
                Ok(None) => return Ok(()),
                Err(_) => {
                    // If the process ended, its pidfd reports it. A PE that runs on without a
                    // connection would hang the job.
                    local.channel = None;
                    if local.pe.is_some() && !local.finalized {
                        local.channel_lost = true;
                        local.end_soon(now);
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Receives a process's first message, the build of its library. Returns true once that is
    /// known to be this build.
    fn is_same_build(&mut self, proc: ProcId, up: &mut Uplink) -> Result<bool, ChannelError> {
        let Some(local) = self.all.get_mut(&proc) else { return Ok(false) };
        let Some(channel) = local.channel.as_mut().filter(|_| !local.same_build) else {
            return Ok(true);
        };
        let _ = channel.flush(); // if the process ended, its pidfd reports it
        match channel.try_receive::<Build>() {
            Ok(Some((Build(other), _))) => {
                local.same_build = is_same_build(self.build, &other);
                if local.same_build {
                    return Ok(true);
                }
                let other = if other.is_empty() { "that does not say which" } else { &other };
                up.fail(format!(
                    "the program uses a libraidshmem of build {other}, and this oshrun is build {}",
                    self.build
                ))?;
                Ok(false)
            }
            Ok(None) => Ok(false),
            Err(_) => Ok(true), // the next receive reports the error
        }
    }

    /// Handles the end of a process or of its script. Returns its PE, and how it ended, once
    /// nothing of it is left.
    pub fn reap(&mut self, proc: ProcId, now: MachineTime) -> Option<(Option<Pe>, Ended)> {
        let local = self.all.get_mut(&proc)?;
        if local.inner.as_ref().is_some_and(|inner| inner.wait_end(0)) {
            // The script's end reports the reason.
            (local.inner, local.channel_lost, local.until) = (None, false, None);
            if !local.finalized || breaks(Mutant::ScriptEnded) {
                local.end_soon(now);
            }
        }
        if !local.process.wait_end(0) {
            return None;
        }
        // The program's children must not outlive it. Its process id cannot be reused until it is
        // reaped.
        local.process.kill_group();
        let how = local.process.reap()?;
        info!("process {proc} of {} {how}", Pe::names(local.pe.as_slice()));
        let pe = local.pe;
        self.all.remove(&proc);
        Some((pe, how))
    }

    /// Returns true if the end of a process will be reported, or was.
    pub fn is_ending(&self, proc: ProcId) -> bool {
        let local = self.all.get(&proc);
        local.is_some_and(|local| local.until.is_some() || local.carrier().is_ending())
    }

    /// Returns the next time at which a process is killed.
    pub fn next(&self) -> Option<MachineTime> {
        self.all.values().filter_map(|local| local.until).min()
    }

    /// Kills processes that were to end by now.
    pub fn kill_late(&mut self, now: MachineTime, up: &mut Uplink) -> Result<(), ChannelError> {
        for local in self.all.values_mut() {
            if local.until.take_if(|until| *until <= now).is_none() {
                continue;
            }
            if local.channel_lost && local.carrier().is_ending() && !breaks(Mutant::BlamedTooSoon) {
                continue; // the PE is exiting; its exit will be reported
            }
            if let (true, Some(pe)) = (local.channel_lost, local.pe) {
                up.note(format!("PE {pe} closed its connection to oshrun: it is killed"))?;
            }
            local.kill();
        }
        Ok(())
    }

    /// Kills a process, or has it killed once its start is over.
    pub fn kill(&mut self, proc: ProcId) {
        if let Some(local) = self.all.get(&proc) {
            info!("kills process {proc} of {}", Pe::names(local.pe.as_slice()));
            local.kill();
        } else {
            self.doomed.insert(proc);
        }
    }

    /// Kills all processes.
    pub fn kill_all(&self) {
        self.all.values().for_each(Local::kill);
    }

    /// Waits for the end of all processes. Returns true if all have ended.
    pub fn wait_ends(&self) -> bool {
        self.all.values().filter(|local| !local.wait_end()).count() == 0
    }

    /// Orders every PE to flush its output and exit, before the job ends early.
    pub fn abort(&self) {
        self.all.values().filter(|_| !breaks(Mutant::OutputCutOff)).for_each(Local::abort);
    }

    /// Waits until the PEs that were ordered to exit have ended.
    pub fn wait_for_aborted(&self) {
        let end = Instant::now() + FLUSH;
        for local in self.all.values().filter(|local| local.is_aborted()) {
            let left = end.saturating_duration_since(Instant::now());
            local.carrier().wait_end(left.as_millis() as i32);
        }
    }
}

/// Handles Hello from process `pid`: the started process, or a script's child.
fn meet(
    local: &mut Local,
    pid: u32,
    now: MachineTime,
    up: &mut Uplink,
) -> Result<(), ChannelError> {
    if pid == local.process.pid {
        return Ok(());
    }
    match Process::open(pid) {
        Ok(inner) => local.inner = Some(inner),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
            local.end_soon(now); // it has already ended
        }
        Err(error) => return up.fail(format!("watching a script's PE: {error}")),
    }
    Ok(())
}
