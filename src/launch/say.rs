//! The lines that the launcher prints for people.
//!
//! Who reads them may stop for any time: a pager, a terminal that was told to wait. So while a job
//! runs a thread writes them ([`Writer`]); the one that answers heartbeats never waits for room.

#![forbid(unsafe_code)]

use std::io::{PipeReader, Write};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::launcher::Signals;
use crate::control::link::timespec;
use crate::control::message::{Found, Report};

/// To the thread that writes, while there is one.
static TEXTS: Mutex<Option<Sender<String>>> = Mutex::new(None);

fn texts() -> MutexGuard<'static, Option<Sender<String>>> {
    TEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes()); // nobody may be reading any more
}

/// One line on standard error, in one write, so that it does not mix with the lines of PEs.
pub fn say(line: &str) {
    print(format!("oshrun: {line}\n"));
}

/// Whole lines on standard error, in one write.
pub fn print(text: String) {
    let unsent = match &*texts() {
        Some(texts) => texts.send(text).err().map(|unsent| unsent.0),
        None => Some(text),
    };
    if let Some(text) = unsent {
        write(&text);
    }
}

/// The thread that writes. Without it, before it and after it, who says something writes it.
#[derive(Debug)]
pub struct Writer {
    thread: Option<JoinHandle<()>>,
    /// At its end once all is written.
    over: PipeReader,
}

impl Writer {
    /// Begins.
    ///
    /// # Errors
    /// What the kernel says: too few descriptors or processes.
    pub fn begin() -> std::io::Result<Writer> {
        let (over, end) = std::io::pipe()?;
        let (to, from) = channel::<String>();
        let body = move || {
            from.iter().for_each(|text| write(&text));
            drop(end);
        };
        let thread = Some(std::thread::Builder::new().name("lines".into()).spawn(body)?);
        *texts() = Some(to);
        Ok(Writer { thread, over })
    }

    /// Waits until all is written: at most `limit` if there is one, and not if a signal comes.
    pub fn finish(mut self, limit: Option<Duration>, signals: &Signals) {
        *texts() = None;
        let mut fds: Vec<PollFd> = signals.fds().collect();
        fds.push(PollFd::new(&self.over, PollFlags::IN));
        let limit = limit.map(timespec);
        while poll(&mut fds, limit.as_ref()).is_err() {} // a signal, which its descriptor tells
        let written = fds.last().is_some_and(|fd| !fd.revents().is_empty());
        if !written {
            self.thread = None; // it is not waited for
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        *texts() = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The status of a job that was stopped by `signal`, as a shell would show it.
pub fn signalled(signal: i32) -> i32 {
    say(&format!("stopped by signal {signal}; every PE is killed"));
    128 + signal
}

/// What changed, as the end of a line.
fn changed(found: &Found) -> String {
    let Found { changed, of, by_pages } = found;
    let by = if *by_pages { "pages" } else { "digests" };
    format!("; {changed} of {of} blocks changed, by {by}")
}

/// A report as a line. `kept` is what a PE keeps for others in this job's mode.
pub fn tell(report: &Report, kept: &str) -> String {
    let ms = |micros: &u64| *micros as f64 / 1000.0;
    let pes = |pes: &[u32]| pes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let mib = |bytes: &u64| *bytes as f64 / f64::from(1 << 20);
    match report {
        Report::Checkpoint { number, bytes, parity_bytes, micros, found } => format!(
            "checkpoint {number}: {:.1} MiB a PE protected by {:.1} MiB of {kept} in {:.1} ms{}",
            mib(bytes),
            mib(parity_bytes),
            ms(micros),
            found.as_ref().map(changed).unwrap_or_default()
        ),
        Report::Adopted { pe, number, bytes, micros } => format!(
            "PE {pe}: memory of the dead process adopted, with {:.1} MiB of checkpoint {number}, \
             after {:.1} ms",
            mib(bytes),
            ms(micros)
        ),
        Report::Rebuilt { pe, number, bytes, from, micros } => format!(
            "PE {pe}: {:.1} MiB of checkpoint {number} rebuilt from PEs {} in {:.1} ms",
            mib(bytes),
            pes(from),
            ms(micros)
        ),
        Report::Resumed { number, micros } => {
            format!("all PEs resume from checkpoint {number} after {:.1} ms", ms(micros))
        }
        Report::Alone { pe, number, micros } => format!(
            "PE {pe} goes on alone from checkpoint {number} after {:.1} ms: the others are in \
             shmem_finalize",
            ms(micros)
        ),
        Report::Memory { pe, bytes } => format!("PE {pe}: {:.1} MiB of memory", mib(bytes)),
        Report::Damaged { pe, number, part, from } => {
            let found = format!("PE {pe}: damage in its {part} of checkpoint {number}");
            match from.as_deref() {
                Some([]) => format!("{found}, repaired"),
                Some(from) => format!("{found}, repaired from PEs {}", pes(from)),
                None => format!(
                    "{found}, not repaired: it counts as lost until checkpoint {}",
                    number + 1
                ),
            }
        }
        Report::Scrubbed { pe, counts } => format!(
            "PE {pe}: {:.1} MiB of its checkpoints looked over, {} damaged, {} repaired",
            mib(&counts.bytes),
            counts.damaged,
            counts.repaired
        ),
        Report::Note(line) => line.clone(),
    }
}
