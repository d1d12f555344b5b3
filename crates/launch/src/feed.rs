//! The events of a job as lines of JSON, written while it runs (`--events`).
//!
//! Invariants: a line is written in one piece; a slow reader delays no other work: a thread writes,
//! and at most [`ROOM`] lines wait for it. Lines beyond that are dropped and counted, and the next
//! line that fits reports the count.

#![forbid(unsafe_code)]

use std::io::{PipeReader, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use raidshmem_report::event::{Event, What};
use raidshmem_sys::process;
use rustix::event::PollFd;

use super::lines::{say, wait_for_end};
use super::readers::OutputFile;

/// The maximum number of lines that wait to be written.
const ROOM: usize = 4096;
/// Stack size of the thread in bytes.
const STACK: usize = 64 << 10;

/// The thread that writes, and the number of lines it was not given.
#[derive(Debug)]
pub struct Feed {
    to: SyncSender<String>,
    left_out: u64,
    /// A pipe that reaches EOF once everything is written.
    over: PipeReader,
}

impl Feed {
    /// Starts the thread.
    ///
    /// # Errors
    /// An error from the kernel: too few descriptors or threads.
    pub fn begin(sink: OutputFile) -> std::io::Result<Feed> {
        let (over, end) = std::io::pipe()?;
        let (to, from) = sync_channel(ROOM);
        process::helper("events", STACK, move || {
            write(sink, &from);
            drop(end);
        })?;
        Ok(Feed { to, left_out: 0, over })
    }

    /// Writes an event, or counts it as dropped if the queue is full.
    pub fn write(&mut self, event: &Event) {
        if self.left_out > 0 {
            let what = What::LeftOut { count: self.left_out };
            if self.send(&Event { time: event.time, what }) {
                self.left_out = 0;
            }
        }
        if self.left_out > 0 || !self.send(event) {
            self.left_out += 1;
        }
    }

    /// Returns false if the queue is full.
    fn send(&self, event: &Event) -> bool {
        let Ok(line) = serde_json::to_string(event) else { return true };
        // If the thread has ended, it has printed why, and there is no reader.
        !matches!(self.to.try_send(line + "\n"), Err(TrySendError::Full(_)))
    }

    /// Waits until everything is written, for at most `limit` if given. Returns early if one of
    /// `stops`, which signals make readable, is readable.
    pub fn finish<'a>(self, limit: Option<Duration>, stops: impl Iterator<Item = PollFd<'a>>) {
        drop(self.to);
        wait_for_end(&self.over, limit, stops);
    }
}

fn write(mut sink: OutputFile, lines: &Receiver<String>) {
    for line in lines {
        if let Err(error) = sink.file.write_all(line.as_bytes()) {
            return say(&format!("{}: {error}; no more events are written", sink.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{BufRead, BufReader, PipeReader, pipe};
    use std::os::fd::OwnedFd;

    use raidshmem_core::message::ProgressReport;

    use super::*;

    fn feed() -> (Feed, PipeReader) {
        let (from, to) = pipe().unwrap();
        let file = File::from(OwnedFd::from(to));
        (Feed::begin(OutputFile { name: "test".to_owned(), file }).unwrap(), from)
    }

    fn note(number: usize) -> Event {
        let what = ProgressReport::Note { line: format!("{number:0100}") }.into();
        Event { time: Duration::from_secs(number as u64), what }
    }

    #[test]
    fn a_late_reader_learns_how_much_it_missed() {
        let (mut feed, from) = feed();
        let count = 3 * ROOM;
        (0..count).for_each(|number| feed.write(&note(number)));
        let missed = feed.left_out;
        assert!(missed > 0, "the pipe and the queue hold less");
        let mut from = BufReader::new(from);
        let mut lines = Vec::new();
        // The reads below drain the queue at some point.
        for number in count.. {
            let mut line = String::new();
            from.read_line(&mut line).unwrap();
            lines.push(serde_json::from_str::<Event>(&line).unwrap());
            feed.write(&note(number));
            if feed.left_out == 0 {
                break;
            }
        }
        drop(feed.to);
        let rest = from.lines().map(|line| serde_json::from_str::<Event>(&line.unwrap()).unwrap());
        lines.extend(rest);
        let told = |what: &What| matches!(what, What::Report(ProgressReport::Note { .. }));
        let notes = lines.iter().filter(|event| told(&event.what)).count() as u64;
        let left_out = lines.iter().map(|event| match event.what {
            What::LeftOut { count } => count,
            _ => 0,
        });
        let last = lines.last().unwrap().time.as_secs() + 1;
        assert_eq!(notes + left_out.sum::<u64>(), last, "each was reported or counted");
    }

    #[test]
    fn without_a_reader_nothing_waits() {
        let (mut feed, from) = feed();
        drop(from);
        (0..3 * ROOM).for_each(|number| feed.write(&note(number)));
        feed.finish(None, std::iter::empty());
    }
}
