//! `oshrun --dump JOB`: what the processes of a job that runs did last, and what they wait in.
//!
//! The launcher of each job listens at a socket that is named by its process id and has no place
//! in a file system. Who connects as the same user (or as root) is sent the text: the processes,
//! then the last events of all of them in the order of time. No process of the job but launcher
//! and agents has a part in it, so that a PE that is stopped can be read like any other.
//!
//! Left out: which events there are ([`crate::trace`]), and how the launcher asks its agents.

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use raidshmem_core::message::Traced;
use rustix::net::sockopt::socket_peercred;
use rustix::process::getuid;

use crate::sys::process;
use crate::trace::time_of_day;

/// How long the launcher of a job may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// How long who asked may take to read.
const READING: Duration = Duration::from_secs(10);
/// Bytes of the stack of the thread that answers.
const STACK: usize = 64 << 10;
/// What the names of sockets begin with.
const NAME: &str = "raidshmem-job-";

fn address(job: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{NAME}{job}"))
}

/// Where this launcher is asked.
#[derive(Debug)]
pub struct Door(UnixListener);

impl Door {
    /// Begins to listen.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open() -> io::Result<Door> {
        let listener = UnixListener::bind_addr(&address(std::process::id())?)?;
        listener.set_nonblocking(true)?;
        Ok(Door(listener))
    }

    /// What to poll.
    pub fn listener(&self) -> &UnixListener {
        &self.0
    }

    /// Somebody who asks and may.
    pub fn asked(&self) -> Option<UnixStream> {
        let (stream, _) = self.0.accept().ok()?;
        let who = socket_peercred(&stream).ok()?.uid;
        (who == getuid() || who.is_root()).then_some(stream)
    }
}

/// Sends `text` to who asked, and does not wait for it.
pub fn answer(mut to: UnixStream, text: String) {
    let body = move || {
        // Who reads no more is nobody's concern.
        let _ = to.set_nonblocking(false).and_then(|()| to.set_write_timeout(Some(READING)));
        let _ = to.write_all(text.as_bytes());
    };
    let _ = process::helper("dump", STACK, body);
}

/// Processes and events as text, the events in the order of time.
pub fn text(processes: &[String], mut events: Vec<Traced>) -> String {
    events.sort_by_key(|event| event.micros);
    let mut text = processes.iter().map(|line| format!("{line}\n")).collect::<String>();
    for Traced { micros, line } in events {
        let _ = writeln!(text, "{} {line}", time_of_day(micros)); // a string takes it
    }
    text
}

/// Why there is nothing to print.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// No such job of this user.
    #[error("--dump {}: no such job; {}", .asked.escape_debug(), jobs_in_words(.there))]
    NoJob {
        /// What was asked for.
        asked: String,
        /// The process ids of the launchers on this machine.
        there: Vec<u32>,
    },
    /// The launcher does not answer.
    #[error("--dump {job}: no answer from oshrun: {error}")]
    NoAnswer {
        /// The job.
        job: u32,
        /// What the kernel said.
        error: io::Error,
    },
}

fn jobs_in_words(there: &[u32]) -> String {
    match there {
        [] => "none runs here".to_owned(),
        jobs => {
            let jobs: Vec<String> = jobs.iter().map(u32::to_string).collect();
            format!("expected the process id of an oshrun: {}", jobs.join(", "))
        }
    }
}

/// The launchers on this machine.
fn jobs() -> Vec<u32> {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let of = |line: &str| line.rsplit_once('@')?.1.strip_prefix(NAME)?.parse().ok();
    let mut jobs: Vec<u32> = sockets.lines().filter_map(of).collect();
    jobs.sort_unstable();
    jobs.dedup();
    jobs
}

/// What the launcher with process id `job` answers.
///
/// # Errors
/// [`DumpError`].
pub fn ask(job: &str) -> Result<String, DumpError> {
    let no_job = || DumpError::NoJob { asked: job.to_owned(), there: jobs() };
    let job: u32 = job.parse().map_err(|_| no_job())?;
    let mut stream = address(job)
        .and_then(|address| UnixStream::connect_addr(&address))
        .map_err(|_| no_job())?;
    let mut text = String::new();
    stream
        .set_read_timeout(Some(ANSWER))
        .and_then(|()| stream.read_to_string(&mut text))
        .map_err(|error| DumpError::NoAnswer { job, error })?;
    if text.is_empty() {
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        return Err(DumpError::NoAnswer { job, error });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_all_are_in_the_order_of_time() {
        let event = |micros, line: &str| Traced { micros, line: line.to_owned() };
        let events = vec![event(3, "PE 0: last"), event(1, "PE 1: first"), event(2, "launcher")];
        let text = text(&["PE 0: process 7".to_owned()], events);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "PE 0: process 7",
                "00:00:00.000001 PE 1: first",
                "00:00:00.000002 launcher",
                "00:00:00.000003 PE 0: last"
            ]
        );
    }
}
