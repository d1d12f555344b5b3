//! The lines that the launcher prints for people.
//!
//! Who reads them may stop for any time: a pager, a terminal that was told to wait. So while a job
//! runs a thread writes them ([`Writer`]); the one that answers heartbeats never waits for room.

#![forbid(unsafe_code)]

use std::io::{PipeReader, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::control::link::timespec;

/// To the thread that writes, while there is one.
static TEXTS: Mutex<Option<Sender<String>>> = Mutex::new(None);

/// Nothing but errors is printed.
static QUIET: AtomicBool = AtomicBool::new(false);

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

/// The same for what is no error: not if only errors are to be printed.
pub fn news(line: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        say(line);
    }
}

/// From now on only errors are printed, or all.
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
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

    /// Waits until all is written: at most `limit` if there is one, and not if one of
    /// `stops`, which tell of signals, is readable.
    pub fn finish<'a>(mut self, limit: Option<Duration>, stops: impl Iterator<Item = PollFd<'a>>) {
        *texts() = None;
        let mut fds: Vec<PollFd> = Vec::new();
        for stop in stops {
            fds.push(stop); // its borrow is shortened to that of the pipe
        }
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
