//! The lines that the launcher prints for people.
//!
//! A reader may stop for any time: a pager, a terminal that was told to wait. So while a job
//! runs a thread writes them ([`Writer`]); the one that answers heartbeats never waits for room.

#![forbid(unsafe_code)]

use std::io::{PipeReader, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use raidshmem_control::link::timespec;
use rustix::event::{PollFd, PollFlags, poll};

use super::live::{self, Frame};
use raidshmem_sys::lock;

/// What the thread does.
#[derive(Debug)]
enum Order {
    Print(String),
    /// Show what [`FRAME`] holds now.
    Show,
}

/// To the thread that writes, while there is one.
static ORDERS: Mutex<Option<Sender<Order>>> = Mutex::new(None);

/// What the view is to show that it does not show yet: the newest only, so that a terminal that
/// waits costs nothing. The inner None takes the view away.
static FRAME: Mutex<Option<Option<Frame>>> = Mutex::new(None);

/// Nothing but errors is printed.
static QUIET: AtomicBool = AtomicBool::new(false);

fn write(text: &str) {
    // There may be no reader any more.
    let _ = live::above(|| std::io::stderr().write_all(text.as_bytes()));
}

/// Shows that in the view on the terminal, or takes the view away. Without the thread nobody does.
pub fn show(frame: Option<Frame>) {
    let is_ordered = lock(&FRAME).replace(frame).is_some();
    if let Some(orders) = lock(&ORDERS).as_ref().filter(|_| !is_ordered) {
        let _ = orders.send(Order::Show); // without its thread
    }
}

fn show_newest() {
    match lock(&FRAME).take() {
        Some(Some(frame)) => live::show(&frame),
        Some(None) => live::end(),
        None => {}
    }
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
    let unsent = match &*lock(&ORDERS) {
        Some(orders) => orders.send(Order::Print(text)).err().map(|unsent| unsent.0),
        None => Some(Order::Print(text)),
    };
    if let Some(Order::Print(text)) = unsent {
        write(&text);
    }
}

/// The thread that writes. Without it, before it and after it, the thread that says something
/// writes it.
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
        let (to, from) = channel::<Order>();
        let body = move || {
            from.iter().for_each(|order| match order {
                Order::Print(text) => write(&text),
                Order::Show => show_newest(),
            });
            live::end();
            drop(end);
        };
        let thread = Some(std::thread::Builder::new().name("lines".into()).spawn(body)?);
        *lock(&ORDERS) = Some(to);
        Ok(Writer { thread, over })
    }

    /// Waits until all is written: at most `limit` if there is one, and not if one of
    /// `stops`, which tell of signals, is readable.
    pub fn finish<'a>(mut self, limit: Option<Duration>, stops: impl Iterator<Item = PollFd<'a>>) {
        *lock(&ORDERS) = None;
        if !wait_for_end(&self.over, limit, stops) {
            self.thread = None; // it is not waited for
        }
    }
}

/// Waits for the end of a pipe: at most `limit` if there is one, and not if one of `stops` is
/// readable. False if it has not come.
pub(super) fn wait_for_end<'a>(
    over: &PipeReader,
    limit: Option<Duration>,
    stops: impl Iterator<Item = PollFd<'a>>,
) -> bool {
    let mut fds: Vec<PollFd> = Vec::new();
    for stop in stops {
        fds.push(stop); // its borrow is shortened to that of the pipe
    }
    fds.push(PollFd::new(over, PollFlags::IN));
    let limit = limit.map(timespec);
    while poll(&mut fds, limit.as_ref()).is_err() {} // a signal, which its descriptor tells
    fds.last().is_some_and(|fd| !fd.revents().is_empty())
}

impl Drop for Writer {
    fn drop(&mut self) {
        *lock(&ORDERS) = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
