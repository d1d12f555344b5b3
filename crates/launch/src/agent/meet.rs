//! The first messages of a process, which show that its library is of this build, and whether it is
//! the started process or a script's child.

#![forbid(unsafe_code)]

use raidshmem_control::is_same_build;
use raidshmem_core::message::{Build, ProcId};
use raidshmem_sys::process::Process;
use raidshmem_sys::socket::ChannelError;

use super::{Agent, SCRIPT};

impl Agent {
    /// Receives a process's first message, the build of its library. Returns true once that is
    /// known to be this build.
    pub(super) fn is_same_build(&mut self, proc: ProcId) -> Result<bool, ChannelError> {
        let Some(local) = self.procs.get_mut(&proc) else { return Ok(false) };
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
                self.fail(format!(
                    "the program uses a libraidshmem of build {other}, and this oshrun is build {}",
                    self.build
                ))?;
                Ok(false)
            }
            Ok(None) => Ok(false),
            Err(_) => Ok(true), // the next receive reports the error
        }
    }

    /// Handles Hello from process `pid`: the started process, or a script's child.
    pub(super) fn meet(&mut self, proc: ProcId, pid: u32) -> Result<(), ChannelError> {
        let Some(local) = self.procs.get_mut(&proc) else { return Ok(()) };
        if pid == local.process.pid {
            return Ok(());
        }
        match Process::open(pid) {
            Ok(inner) => local.inner = Some(inner),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                local.until = Some(self.heartbeat.clock.now() + SCRIPT); // it has already ended
            }
            Err(error) => return self.fail(format!("watching a script's PE: {error}")),
        }
        Ok(())
    }
}
