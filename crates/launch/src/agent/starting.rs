//! The start of a program's process: with a connection, a parent-death pipe and processors, and on
//! another host the folder, the variables and pipes for its output.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use raidshmem_control::CONTROL_FD;
use raidshmem_core::message::{Job, ProcId, ProcessOptions, Stdin, ToPe};
use raidshmem_core::quantity::Pe;
use raidshmem_core::settings::{Fabric, OLD_NAMES, Settings, table};
use raidshmem_engines as engines;
use raidshmem_sys::limits;
use raidshmem_sys::process::{self, Process};
use raidshmem_sys::socket::{Channel, ChannelError, Outbox};

use super::begin::variables;
use super::binder::Binder;
use super::done::{AgentDone, NewProcess, Started};
use super::input::InputPipe;
use super::signals::Missed;
use super::uplink::Uplink;
use crate::output::{Carriers, Marks, Sink};
use crate::worker::Worker;

/// Sets the variables that neither the user nor this process's environment sets.
fn add_defaults<'a>(command: &mut Command, defaults: impl Iterator<Item = (&'a str, &'a str)>) {
    let own: BTreeSet<OsString> = command.get_envs().map(|(name, _)| name.to_owned()).collect();
    let is_set = |name: &str| own.contains(OsStr::new(name)) || std::env::var_os(name).is_some();
    command.envs(defaults.filter(|(name, _)| !is_set(name)));
}

/// Sets the variables of the settings in force, and no other setting.
fn set(command: &mut Command, settings: &Settings) {
    let names = table().iter().map(|setting| setting.name);
    let names = names.chain(OLD_NAMES.iter().map(|&(old, _)| old));
    names.for_each(|name| _ = command.env_remove(name));
    command.envs(settings.to_env());
}

/// The program and its options; starts its processes on a thread for long work.
pub(super) struct Starter {
    program: Vec<OsString>,
    /// The options of programs.
    place: ProcessOptions,
    settings: Settings,
    fabric: Fabric,
    /// True if the job resumes from disk, so that earlier output is kept.
    resumes: bool,
    binder: Arc<Binder>,
    /// The threads that forward the output of programs.
    carriers: Carriers,
    missed: Missed,
}

impl Starter {
    /// Creates the starter of a node's processes.
    pub fn new(
        job: &Job,
        program: Vec<Vec<u8>>,
        place: ProcessOptions,
        settings: Settings,
        binder: Arc<Binder>,
    ) -> Starter {
        Starter {
            program: program.into_iter().map(OsString::from_vec).collect(),
            place,
            settings,
            fabric: job.fabric,
            resumes: job.resume.is_some(),
            binder,
            carriers: Carriers::default(),
            missed: Missed::default(),
        }
    }

    /// Starts a process, which is `pe` if given.
    pub fn start(
        &mut self,
        proc: ProcId,
        pe: Option<Pe>,
        input: &mut InputPipe,
        worker: &mut Worker<AgentDone>,
        up: &mut Uplink,
    ) -> Result<(), ChannelError> {
        let (mine, theirs) = Channel::pair()?;
        mine.name_senders()?;
        let (parent_death, armed) = match process::parent_death_pipe() {
            Ok(ends) => ends,
            Err(error) => return up.fail(format!("a pipe for a PE: {error}")),
        };
        let mut channel = Outbox::new(mine);
        if let Err(error) = channel.send(&ToPe::ParentDeathPipe, &[Arc::new(armed)]) {
            return up.fail(format!("a message to a PE: {error}"));
        }
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]);
        command.stdin(match (self.place.input, input.of(pe)) {
            (Stdin::Agent, _) if pe == Some(Pe(0)) => Stdio::inherit(),
            (_, Ok(Some(pipe))) => pipe.into(),
            (_, Ok(None)) => Stdio::null(),
            (_, Err(error)) => return up.fail(format!("a pipe for standard input: {error}")),
        });
        command.envs(variables(&self.place));
        set(&mut command, &self.settings);
        let path = |bytes: &Vec<u8>| Path::new(OsStr::from_bytes(bytes)).to_owned();
        let folder = self.place.folder.as_ref().map(path);
        folder.iter().for_each(|folder| _ = command.current_dir(folder));
        let sink = match self.carry_output(proc, pe, &mut command) {
            Ok(sink) => sink,
            Err(error) => return up.fail(format!("pipes for the output of a PE: {error}")),
        };
        command.env(CONTROL_FD, theirs.as_fd().as_raw_fd().to_string());
        add_defaults(&mut command, engines::environment(self.fabric));
        let binder = Arc::clone(&self.binder);
        worker.begin(move || {
            let begun = Instant::now();
            let result = binder.start(pe, || start_in(folder.as_deref(), command, theirs.as_fd()));
            let new = NewProcess { meant: pe.is_some(), channel, sink, parent_death };
            AgentDone::Started(Box::new(Started { proc, begun, result, new }))
        });
        Ok(())
    }

    /// Redirects the output of `command` to pipes if it is forwarded. The first processes of a job
    /// have their PEs' numbers.
    fn carry_output(
        &mut self,
        proc: ProcId,
        pe: Option<Pe>,
        command: &mut Command,
    ) -> std::io::Result<Option<Arc<Sink>>> {
        let place = &self.place;
        if !place.carried {
            return Ok(None);
        }
        let marks = Marks { tag: place.tag, stamp: place.stamp };
        let folder = place.output.as_ref().map(|bytes| Path::new(OsStr::from_bytes(bytes)));
        let anew = pe == Some(Pe(proc)) && !self.resumes;
        let sink = Arc::new(Sink::new(marks, pe, folder, anew)?);
        self.carriers.take_output(command, &sink)?;
        Ok(Some(sink))
    }

    /// Keeps output so far: the job begins from disk.
    pub fn keep_output(&mut self) {
        self.resumes = true;
    }

    /// Records a signal for processes whose start is in progress.
    pub fn note_signal(&mut self, signal: i32) {
        self.missed.note(Instant::now(), signal);
    }

    /// Returns the signals that a process missed whose start began at `begun`.
    pub fn missed(&self, begun: Instant) -> impl Iterator<Item = i32> + '_ {
        self.missed.since(begun)
    }

    /// Forgets the signals, once no process is being started.
    pub fn forget_signals(&mut self) {
        self.missed.forget();
    }

    /// Waits for the rest of the programs' output, like [`Carriers::finish`].
    pub fn finish_output(&mut self, limit: Duration, is_patient: impl FnMut() -> bool) {
        self.carriers.finish(limit, is_patient);
    }
}

/// Starts `command` in `folder`, with `kept` left open in it, or returns the reason why it cannot.
fn start_in(
    folder: Option<&Path>,
    mut command: Command,
    kept: BorrowedFd,
) -> Result<Process, String> {
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(format!("{}: no such folder here", folder.display()));
    }
    Process::start(&mut command, Some(kept), true).map_err(|error| {
        let full = error.kind() == std::io::ErrorKind::WouldBlock; // EAGAIN
        let limits = if full { format!("; {}", limits::of_processes()) } else { String::new() };
        let program = Path::new(command.get_program()).display();
        format!("{program}: cannot start: {error}{limits}")
    })
}
