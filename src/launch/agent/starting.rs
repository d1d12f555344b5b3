//! How an agent starts a process of the program: with a connection, a leash, processors, and on
//! another host the folder, the variables and pipes for its output.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Agent, Local};
use crate::control::CONTROL_FD;
use crate::control::message::{ProcId, ToPe, Up};
use crate::fabric;
use crate::sys::process::{self, Process};
use crate::sys::socket::{Channel, ChannelError, Outbox};

/// Sets what neither the user has set nor this process has.
fn add_defaults(command: &mut Command, mut defaults: Vec<(&'static str, &'static str)>) {
    let own: BTreeSet<&OsStr> = command.get_envs().map(|(name, _)| name).collect();
    let is_set = |name: &str| own.contains(OsStr::new(name)) || std::env::var_os(name).is_some();
    defaults.retain(|(name, _)| !is_set(name));
    command.envs(defaults);
}

impl Agent {
    pub(super) fn start(&mut self, proc: ProcId, pe: Option<u32>) -> Result<(), ChannelError> {
        let (mine, theirs) = Channel::pair()?;
        mine.name_senders()?;
        let (held, worn) = match process::leash() {
            Ok(ends) => ends,
            Err(error) => return self.fail(format!("a pipe for a PE: {error}")),
        };
        if let Err(error) = mine.send(&ToPe::Leash, &[worn.as_fd()]) {
            return self.fail(format!("a message to a PE: {error}"));
        }
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]).stdin(Stdio::null());
        if let Some(place) = &self.place {
            let folder = Path::new(OsStr::from_bytes(&place.folder));
            if !folder.is_dir() {
                return self.fail(format!("{}: no such folder here", folder.display()));
            }
            let env = place.env.iter();
            command.envs(env.map(|(n, v)| (OsStr::from_bytes(n), OsStr::from_bytes(v))));
            command.current_dir(folder);
            if let Err(error) = self.carriers.take_output(&mut command) {
                return self.fail(format!("pipes for the output of a PE: {error}"));
            }
        }
        command.env(CONTROL_FD, theirs.as_fd().as_raw_fd().to_string());
        add_defaults(&mut command, fabric::environment(self.job.fabric));
        let start = || Process::start(&mut command, Some(theirs.as_fd()), true);
        match self.binder.start(pe, start) {
            Ok(process) => {
                let started = Up::Started { proc, pid: process.pid };
                let fds = [process.as_fd()];
                let fds = if self.up.carries_descriptors() { &fds[..] } else { &[] };
                self.up.send(&started, fds)?;
                let local = Local {
                    process,
                    inner: None,
                    channel: Some(Outbox::new(mine)),
                    _leash: held,
                    meant: pe.is_some(),
                    finalized: false,
                    deaf: false,
                    until: None,
                    pe: None,
                    control: None,
                };
                self.procs.insert(proc, local);
                Ok(())
            }
            Err(error) => {
                self.fail(format!("{}: cannot start: {error}", self.program[0].to_string_lossy()))
            }
        }
    }
}
