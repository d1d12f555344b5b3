//! The lines that the launcher prints for users.
//!
//! A reader may stop for any length of time: a pager, or a terminal paused by the user. While a job
//! runs, a thread therefore writes them ([`Writer`]); the thread that answers heartbeats never
//! blocks on output.

#![forbid(unsafe_code)]

use std::io::{IsTerminal, PipeReader, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use raidshmem_control::link::timespec;
use rustix::event::{PollFd, PollFlags, poll};

use super::live::{self, Frame};
use raidshmem_sys::lock;

/// An order to the writing thread.
#[derive(Debug)]
enum Order {
    Print(String),
    /// Show the current content of [`FRAME`].
    Show,
}

/// The queue to the writing thread, while there is one.
static ORDERS: Mutex<Option<Sender<Order>>> = Mutex::new(None);

/// The newest frame not shown yet; older ones are dropped, so a blocked terminal costs nothing. An
/// inner None removes the view.
static FRAME: Mutex<Option<Option<Frame>>> = Mutex::new(None);

/// True if only errors are printed.
static QUIET: AtomicBool = AtomicBool::new(false);

fn write(text: &str) {
    // There may be no reader left.
    let _ = live::above(|| std::io::stderr().write_all(text.as_bytes()));
}

/// Shows `frame` on the terminal, or removes the view. Does nothing without the writing thread.
pub fn show(frame: Option<Frame>) {
    let is_ordered = lock(&FRAME).replace(frame).is_some();
    if let Some(orders) = lock(&ORDERS).as_ref().filter(|_| !is_ordered) {
        let _ = orders.send(Order::Show); // fails only if the thread has ended
    }
}

fn show_newest() {
    match lock(&FRAME).take() {
        Some(Some(frame)) => live::show(&frame),
        Some(None) => live::end(),
        None => {}
    }
}

/// The meaning of a line, which its colour on a terminal shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// An error; printed even in quiet mode.
    Error,
    /// A loss, the risk of one, or what follows from it.
    Loss,
    /// The end of a recovery, or its cost.
    Recovery,
    /// Anything else.
    Plain,
}

impl Tone {
    /// Returns the name of this program before a line, as it is shown `in_colour` or not.
    fn prefix(self, in_colour: bool) -> String {
        let number = match self {
            Tone::Error => 31,
            Tone::Loss => 33,
            Tone::Recovery => 32,
            Tone::Plain => 36,
        };
        match in_colour {
            true => format!("\x1b[1;{number}moshrun:\x1b[0m"),
            false => "oshrun:".to_owned(),
        }
    }
}

/// Returns true if lines are coloured: on a terminal, unless `NO_COLOR` is set
/// (<https://no-color.org>) or the terminal is dumb.
fn is_coloured() -> bool {
    static COLOURED: OnceLock<bool> = OnceLock::new();
    *COLOURED.get_or_init(|| {
        let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        !forbidden && !dumb && std::io::stderr().is_terminal()
    })
}

/// Prints one line to standard error, in one write, so that it does not mix with PEs' lines.
/// Prints nothing in quiet mode, unless it is an error.
pub fn tell(tone: Tone, line: &str) {
    if tone == Tone::Error || !QUIET.load(Ordering::Relaxed) {
        print(format!("{} {line}\n", tone.prefix(is_coloured())));
    }
}

/// Prints an error.
pub fn say(line: &str) {
    tell(Tone::Error, line);
}

/// Prints a line of no special meaning.
pub fn news(line: &str) {
    tell(Tone::Plain, line);
}

/// Sets whether only errors are printed from now on.
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Prints whole lines to standard error, in one write.
pub fn print(text: String) {
    let unsent = match &*lock(&ORDERS) {
        Some(orders) => orders.send(Order::Print(text)).err().map(|unsent| unsent.0),
        None => Some(Order::Print(text)),
    };
    if let Some(Order::Print(text)) = unsent {
        write(&text);
    }
}

/// The writing thread. While none is running, the thread that prints a line writes it itself.
#[derive(Debug)]
pub struct Writer {
    thread: Option<JoinHandle<()>>,
    /// A pipe that reaches EOF once everything is written.
    over: PipeReader,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// An error from the kernel: too few descriptors or processes.
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

    /// Waits until everything is written, for at most `limit` if given. Returns early if one of
    /// `stops`, which signals make readable, is readable.
    pub fn finish<'a>(mut self, limit: Option<Duration>, stops: impl Iterator<Item = PollFd<'a>>) {
        *lock(&ORDERS) = None;
        if !wait_for_end(&self.over, limit, stops) {
            self.thread = None; // do not join it
        }
    }
}

/// Waits for EOF on a pipe, for at most `limit` if given, or until one of `stops` is readable.
/// Returns true if EOF has come.
pub(super) fn wait_for_end<'a>(
    over: &PipeReader,
    limit: Option<Duration>,
    stops: impl Iterator<Item = PollFd<'a>>,
) -> bool {
    let mut fds: Vec<PollFd> = Vec::new();
    for stop in stops {
        fds.push(stop); // shortens its borrow to that of the pipe
    }
    fds.push(PollFd::new(over, PollFlags::IN));
    let limit = limit.map(timespec);
    while poll(&mut fds, limit.as_ref()).is_err() {} // retry after a signal
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_coloured_line_has_escapes() {
        let all = [Tone::Error, Tone::Loss, Tone::Recovery, Tone::Plain];
        assert_eq!(all.map(|tone| tone.prefix(false)), ["oshrun:"; 4]);
        assert_eq!(Tone::Error.prefix(true), "\x1b[1;31moshrun:\x1b[0m");
    }
}
