//! Forwarding of programs' output from other hosts in whole lines, so that lines do not mix.
//!
//! Each stream has a thread, which blocks on the terminal or pipe; the thread that watches
//! processes never does. A slow or paused reader loses nothing.
//!
//! Left out: order between two streams; one machine does not guarantee it either.

#![forbid(unsafe_code)]

use std::io::{IsTerminal, PipeReader, PipeWriter, Read, stderr, stdout};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

mod sink;
mod stream;

pub use sink::{Marks, Sink};
pub use stream::{Stream, is_held_up};

/// The maximum number of bytes buffered of one line before it is split.
const LINE_MAX: usize = 1 << 20;
/// The interval between checks whether blocked lines have been read.
pub const LOOK: Duration = Duration::from_millis(50);

/// A buffer that holds lines until they are known to belong to a program or to a failure. A line
/// that ends with a given word is not forwarded.
#[derive(Debug, Clone)]
pub struct HeldOutput(Arc<Mutex<Held>>);

#[derive(Debug)]
struct Held {
    open: bool,
    bytes: Vec<u8>,
    word: String,
    arrived: bool,
    /// Closed once the word arrives, or when the gate is dropped.
    bell: Option<PipeWriter>,
}

impl HeldOutput {
    /// Creates a closed gate, and a pipe that reaches EOF once `word` arrives or can no longer
    /// arrive.
    pub fn new(word: String) -> std::io::Result<(HeldOutput, PipeReader)> {
        let (ring, bell) = std::io::pipe()?;
        let held = Held { open: false, bytes: Vec::new(), word, arrived: false, bell: Some(bell) };
        Ok((HeldOutput(Arc::new(Mutex::new(held))), ring))
    }

    /// Returns true once a line has ended with the word.
    pub fn has_word(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).arrived
    }

    fn pass(&self, stream: Stream, bytes: &[u8]) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = held.without_word(bytes);
        let bytes = rest.as_deref().unwrap_or(bytes);
        if held.open {
            drop(held); // `has_word` must not wait for a slow reader
            stream.write(bytes);
        } else if held.bytes.len() < LINE_MAX {
            held.bytes.extend_from_slice(bytes);
        }
    }

    /// Forwards the buffered lines, and all later ones, to standard error.
    pub fn open(&self) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.open = true;
        let bytes = std::mem::take(&mut held.bytes);
        if !bytes.is_empty() {
            Stream::Err.write(&bytes);
        }
    }

    /// Returns the last buffered line.
    pub fn last_line(&self) -> Option<String> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&held.bytes).into_owned();
        text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
    }
}

impl Held {
    /// Looks for the word. If a line of `bytes` ends with it, returns the other lines.
    fn without_word(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let word = self.word.as_bytes();
        let is_word = |line: &&[u8]| line.trim_ascii_end().ends_with(word);
        let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
        if self.arrived || !lines.any(|line| is_word(&line)) {
            return None;
        }
        let rest = bytes.split_inclusive(|&byte| byte == b'\n').filter(|line| !is_word(line));
        let rest = rest.collect::<Vec<_>>().concat();
        (self.arrived, self.bell) = (true, None);
        Some(rest)
    }
}

/// The streams being forwarded.
#[derive(Debug, Default)]
pub struct Carriers {
    ends: Vec<Receiver<()>>,
}

impl Carriers {
    /// Forwards `from` to `to` until EOF.
    pub fn carry(&mut self, from: impl Read + Send + 'static, to: Stream) -> std::io::Result<()> {
        self.spawn(from, move |bytes| to.write(bytes))
    }

    /// Forwards `from` to standard error once `gate` is open.
    pub fn carry_through(
        &mut self,
        from: impl Read + Send + 'static,
        gate: HeldOutput,
    ) -> std::io::Result<()> {
        self.spawn(from, move |bytes| gate.pass(Stream::Err, bytes))
    }

    /// Redirects the output of `command` from the terminal to pipes, and forwards it.
    pub fn take_terminal(&mut self, command: &mut Command) -> std::io::Result<()> {
        if stdout().is_terminal() {
            let (from, end) = std::io::pipe()?;
            command.stdout(end);
            self.carry(from, Stream::Out)?;
        }
        if stderr().is_terminal() {
            let (from, end) = std::io::pipe()?;
            command.stderr(end);
            self.carry(from, Stream::Err)?;
        }
        Ok(())
    }

    /// Redirects all output of `command` to pipes, and forwards it.
    pub fn take_output(&mut self, command: &mut Command, to: &Arc<Sink>) -> std::io::Result<()> {
        let (from, end) = std::io::pipe()?;
        command.stdout(end);
        let sink = Arc::clone(to);
        self.spawn(from, move |bytes| sink.write(Stream::Out, bytes))?;
        let (from, end) = std::io::pipe()?;
        command.stderr(end);
        let sink = Arc::clone(to);
        self.spawn(from, move |bytes| sink.write(Stream::Err, bytes))
    }

    fn spawn(
        &mut self,
        from: impl Read + Send + 'static,
        to: impl FnMut(&[u8]) + Send + 'static,
    ) -> std::io::Result<()> {
        let (end, ended) = channel();
        let body = move || {
            lines(from, to);
            drop(end);
        };
        std::thread::Builder::new().name("output".into()).spawn(body)?;
        self.ends.retain(|end| end.try_recv() == Err(TryRecvError::Empty));
        self.ends.push(ended);
        Ok(())
    }

    /// Waits until every stream reaches EOF: at most `limit`, and longer while `is_patient` returns
    /// true.
    pub fn finish(&mut self, limit: Duration, mut is_patient: impl FnMut() -> bool) {
        let end = Instant::now() + limit;
        for ended in self.ends.drain(..) {
            let mut left = end.saturating_duration_since(Instant::now());
            while ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) && is_patient() {
                left = LOOK;
            }
        }
    }
}

/// Passes whole lines to `to`, and the remainder at EOF.
fn lines(mut from: impl Read, mut to: impl FnMut(&[u8])) {
    let (mut held, mut bytes) = (Vec::new(), [0; 1 << 14]);
    loop {
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(got) => held.extend_from_slice(&bytes[..got]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
        let whole = held.iter().rposition(|&byte| byte == b'\n').map(|at| at + 1);
        let whole = whole.or((held.len() > LINE_MAX).then_some(held.len()));
        if let Some(end) = whole {
            to(&held[..end]);
            held.drain(..end);
        }
    }
    if !held.is_empty() {
        to(&held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Portions(Vec<&'static [u8]>);

    impl Read for Portions {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let portion = if self.0.is_empty() { &[][..] } else { self.0.remove(0) };
            into[..portion.len()].copy_from_slice(portion);
            Ok(portion.len())
        }
    }

    #[test]
    fn only_whole_lines_are_handed_on_and_the_rest_at_the_end() {
        let mut got = Vec::new();
        let from = Portions(vec![b"on", b"e\ntw", b"o\nthree\nfo", b"ur"]);
        lines(from, |bytes| got.push(String::from_utf8_lossy(bytes).into_owned()));
        assert_eq!(got, ["one\n", "two\nthree\n", "four"]);
    }

    #[test]
    fn the_last_line_of_buffered_output_is_returned() {
        let (gate, _) = HeldOutput::new("word".into()).unwrap();
        assert_eq!(gate.last_line(), None);
        gate.pass(Stream::Err, b"Warning: new key\nPermission denied (publickey).\r\n\n");
        assert_eq!(gate.last_line().as_deref(), Some("Permission denied (publickey)."));
    }

    #[test]
    fn the_word_is_detected_and_not_forwarded() {
        let (gate, mut ring) = HeldOutput::new("last word".into()).unwrap();
        gate.pass(Stream::Err, b"a last word of it\nlast\nword\n");
        assert!(!gate.has_word());
        gate.pass(Stream::Err, b"one\ncut off in last word\r\nConnection closed.\n");
        assert!(gate.has_word());
        assert_eq!(ring.read(&mut [0]).unwrap(), 0, "the bell rang");
        assert_eq!(gate.last_line().as_deref(), Some("Connection closed."));
        let text = String::from_utf8(gate.0.lock().unwrap().bytes.clone()).unwrap();
        assert_eq!(text, "a last word of it\nlast\nword\none\nConnection closed.\n");
    }
}
