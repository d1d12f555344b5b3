//! A server for metrics (`--metrics`), with the part of HTTP that it needs.
//!
//! Invariants: no stranger can delay the job or other readers: each connection has a thread and
//! [`PATIENCE`] of time, and at most [`CALLERS`] are served at once; further ones are closed. At
//! most about [`LONGEST`] bytes of a request are read.
//!
//! Left out: request bodies, and persistent connections.

#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use raidshmem_sys::process;

use super::readers::Endpoint;

/// Time limit for a request, and for its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum number of connections served at once.
const CALLERS: usize = 16;
/// The maximum length of a request in bytes.
const LONGEST: usize = 8 << 10;
/// Stack size of a thread in bytes.
const STACK: usize = 128 << 10;
/// The content type of OpenMetrics.
const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A function that returns the metrics as text.
pub type Text = Arc<dyn Fn() -> String + Send + Sync>;

/// A connection of either kind.
trait Caller: Read + Write + Send + 'static {
    /// Limits the time of each read and each write.
    fn limit(&self, time: Duration) -> io::Result<()>;
}

impl Caller for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

impl Caller for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

/// Answers every request at this endpoint with `text`, until this process ends.
///
/// # Errors
/// An error from the kernel: too few descriptors or threads.
pub fn begin(at: &Endpoint, text: Text) -> io::Result<()> {
    match at {
        Endpoint::Port(listener) => {
            let listener = listener.try_clone()?;
            serve(move || listener.accept().map(|(stream, _)| stream), text)
        }
        Endpoint::Socket(listener, _) => {
            let listener = listener.try_clone()?;
            serve(move || listener.accept().map(|(stream, _)| stream), text)
        }
    }
}

fn serve<C: Caller>(
    accept: impl Fn() -> io::Result<C> + Send + 'static,
    text: Text,
) -> io::Result<()> {
    let served = Arc::new(AtomicUsize::new(0));
    process::helper("metrics", STACK, move || {
        loop {
            let Ok(caller) = accept() else {
                // The process may be out of descriptors, for example: try again later.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            if served.load(Ordering::Relaxed) >= CALLERS {
                continue;
            }
            served.fetch_add(1, Ordering::Relaxed);
            let (text, done) = (Arc::clone(&text), Arc::clone(&served));
            let begun = process::helper("metrics", STACK, move || {
                let _ = answer(caller, &text); // the caller may have left
                done.fetch_sub(1, Ordering::Relaxed);
            });
            if begun.is_err() {
                served.fetch_sub(1, Ordering::Relaxed);
            }
        }
    })
}

fn answer(mut caller: impl Caller, text: &Text) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let mut request = Vec::new();
    let mut bytes = [0; 1024];
    while !is_whole(&request) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() > LONGEST {
            return Ok(());
        }
        caller.limit(left)?;
        match caller.read(&mut bytes)? {
            0 => return Ok(()),
            got => request.extend_from_slice(&bytes[..got]),
        }
    }
    caller.limit(PATIENCE)?;
    caller.write_all(response(&request, text).as_bytes())
}

/// Returns true if the request contains its empty line.
fn is_whole(request: &[u8]) -> bool {
    let ends = |end: &[u8]| request.windows(end.len()).any(|window| window == end);
    ends(b"\r\n\r\n") || ends(b"\n\n")
}

fn response(request: &[u8], text: &Text) -> String {
    let line = request.split(|byte| b"\r\n".contains(byte)).next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => ("200 OK", TYPE, text()),
        ("GET" | "HEAD", _) => {
            ("404 Not Found", "text/plain", "expected the path /metrics\n".to_owned())
        }
        _ => ("405 Method Not Allowed", "text/plain", "expected GET\n".to_owned()),
    };
    let length = body.len();
    let body = if method == "HEAD" { "" } else { &body };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(request: &str) -> String {
        let text: Text = Arc::new(|| "metrics\n".to_owned());
        response(request.as_bytes(), &text)
    }

    #[test]
    fn metrics_have_one_path() {
        let found = to("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(found.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"));
        assert!(found.ends_with("Content-Length: 8\r\nConnection: close\r\n\r\nmetrics\n"));
        assert!(to("GET /metrics?name=a HTTP/1.0\n\n").contains(" 200 "));
        assert!(to("HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(to("GET / HTTP/1.1\r\n\r\n").contains(" 404 "));
        assert!(to("POST /metrics HTTP/1.1\r\n\r\n").contains(" 405 "));
        assert!(to("\u{1}\r\n\r\n").contains(" 405 "));
    }

    #[test]
    fn a_request_ends_with_an_empty_line() {
        assert!(is_whole(b"GET / HTTP/1.1\r\n\r\n") && is_whole(b"GET /\n\n"));
        assert!(!is_whole(b"") && !is_whole(b"GET / HTTP/1.1\r\nHost: a\r\n"));
    }
}
