//! Queries of a running job: a process connects, sends one word that names its question, and
//! receives a text.
//!
//! The launcher of each job listens at an abstract socket named by its process id. Only processes
//! of the same user (or root) are answered. Only launcher and agents take part, so that a stopped
//! PE can be shown like any other.
//!
//! Invariant: the launcher never waits for a caller. A caller that sends nothing is dropped after a
//! second; if there are too many, the oldest is dropped.
//!
//! Left out: the answers ([`super::dump`], and the status in the launcher).

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt::socket_peercred;
use rustix::process::getuid;

use raidshmem_sys::process;

/// Time limit for the launcher's answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Time limit for a caller to read the answer.
const READING: Duration = Duration::from_secs(10);
/// Time limit for a caller to send its question.
const ASKING: Duration = Duration::from_secs(1);
/// The maximum number of connections that have not sent their question yet.
const CALLERS: usize = 16;
/// Stack size in bytes of the thread that answers.
const STACK: usize = 64 << 10;
/// The prefix of the sockets' names.
const NAME: &str = "raidshmem-job-";
/// The beginning of the line of a request to drain a node; its number follows.
const DRAIN: &str = "--drain ";
/// The beginning of the line of a request that a host joins; the host follows.
const ADD: &str = "--add ";
/// The length in bytes that no host with a number of PEs has.
const HOST_LEN: usize = 300;
/// The number of digits that no node number has.
const NODE_DIGITS: usize = 7;
/// The maximum length of a job's command line in a list of jobs, in characters.
const SHOWN: usize = 60;
/// The beginning of an answer that refuses a request; the reason follows.
pub const REFUSED: &str = "refused: ";
/// The answer of a job that cannot write a checkpoint before it stops.
pub const NO_STORE: &str = "SHMEM_FT_STORE is not set";

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerForm {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// A question to a running job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// The last events of its processes, and the calls they wait in.
    Dump,
    /// Its status.
    Status(AnswerForm),
    /// A request to stop with its next checkpoint on disk.
    Stop,
    /// A request to move the PEs of a node to other places, after its next checkpoint.
    Drain {
        /// The node.
        node: u32,
    },
    /// A request that a host joins the job.
    Add {
        /// The host, with the number of its PEs, as `--hosts` names it.
        host: String,
    },
}

impl Asked {
    /// The questions without an argument.
    const PLAIN: [Asked; 4] = [
        Asked::Dump,
        Asked::Status(AnswerForm::Text),
        Asked::Status(AnswerForm::Json),
        Asked::Stop,
    ];

    /// Returns the command-line option that asks this.
    pub const fn option(&self) -> &'static str {
        match self {
            Asked::Dump => "--dump",
            Asked::Status(_) => "--status",
            Asked::Stop => "--stop",
            Asked::Drain { .. } => "--drain",
            Asked::Add { .. } => "--add",
        }
    }

    /// Returns the line sent to ask this, without its end.
    fn line(&self) -> String {
        match self {
            Asked::Status(AnswerForm::Json) => "--status=json".to_owned(),
            Asked::Drain { node } => format!("{DRAIN}{node}"),
            Asked::Add { host } => format!("{ADD}{host}"),
            plain => plain.option().to_owned(),
        }
    }

    /// Parses a whole line.
    fn parse(line: &[u8]) -> Option<Asked> {
        let plain = Asked::PLAIN.into_iter().find(|asked| asked.line().as_bytes() == line);
        let drain = || Some(Asked::Drain { node: digits_of_drain(line)?.parse().ok()? });
        let add =
            || Some(Asked::Add { host: host_of_add(line).filter(|it| !it.is_empty())?.into() });
        plain.or_else(drain).or_else(add)
    }

    /// Returns true if a line may begin so.
    fn is_begun(bytes: &[u8]) -> bool {
        let plain = Asked::PLAIN.iter().map(Asked::line);
        let mut lines = plain.chain([DRAIN, ADD].map(str::to_owned));
        lines.any(|line| line.as_bytes().starts_with(bytes))
            || digits_of_drain(bytes).is_some()
            || host_of_add(bytes).is_some()
    }
}

/// Returns the digits so far of the node in a request to drain it.
fn digits_of_drain(line: &[u8]) -> Option<&str> {
    let digits = str::from_utf8(line.strip_prefix(DRAIN.as_bytes())?).ok()?;
    let is_number = digits.len() < NODE_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(digits)
}

/// Returns the bytes so far of the host in a request that it joins.
fn host_of_add(line: &[u8]) -> Option<&str> {
    let host = str::from_utf8(line.strip_prefix(ADD.as_bytes())?).ok()?;
    let is_host = host.len() < HOST_LEN && host.bytes().all(|byte| byte.is_ascii_graphic());
    is_host.then_some(host)
}

/// Parses the bytes a caller has sent so far: None if more are needed, an error if they match no
/// question.
fn request(bytes: &[u8]) -> Option<Result<Asked, ()>> {
    match bytes.strip_suffix(b"\n") {
        Some(line) => Some(Asked::parse(line).ok_or(())),
        None => (!Asked::is_begun(bytes)).then_some(Err(())),
    }
}

fn address(job: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{NAME}{job}"))
}

/// A caller that has not sent its question yet.
#[derive(Debug)]
struct Caller {
    stream: UnixStream,
    bytes: Vec<u8>,
    until: Instant,
}

impl Caller {
    /// Reads and parses pending bytes; returns None if more are needed.
    fn receive(&mut self, now: Instant) -> Option<Result<Asked, ()>> {
        let mut bytes = [0; 32];
        match self.stream.read(&mut bytes) {
            Ok(0) => Some(Err(())),
            Ok(got) => {
                self.bytes.extend_from_slice(&bytes[..got]);
                request(&self.bytes)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                (self.until <= now).then_some(Err(()))
            }
            Err(_) => Some(Err(())),
        }
    }
}

/// The socket at which this launcher receives queries.
#[derive(Debug)]
pub struct QuerySocket {
    listener: UnixListener,
    callers: VecDeque<Caller>,
}

impl QuerySocket {
    /// Starts to listen.
    ///
    /// # Errors
    /// An error from the kernel.
    pub fn open() -> io::Result<QuerySocket> {
        let listener = UnixListener::bind_addr(&address(std::process::id())?)?;
        listener.set_nonblocking(true)?;
        Ok(QuerySocket { listener, callers: VecDeque::new() })
    }

    /// Returns the descriptors to poll.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let callers = self.callers.iter().map(|caller| PollFd::new(&caller.stream, PollFlags::IN));
        std::iter::once(PollFd::new(&self.listener, PollFlags::IN)).chain(callers)
    }

    /// Returns the time at which the launcher drops the next silent caller.
    pub fn deadline(&self) -> Option<Instant> {
        self.callers.iter().map(|caller| caller.until).min()
    }

    /// Accepts connections and returns the permitted callers that have sent their question.
    pub fn asked(&mut self, now: Instant) -> Vec<(UnixStream, Asked)> {
        while let Ok((stream, _)) = self.listener.accept() {
            let who = socket_peercred(&stream).map(|who| who.uid);
            let may = who.is_ok_and(|who| who == getuid() || who.is_root());
            if may && stream.set_nonblocking(true).is_ok() {
                self.callers.truncate(CALLERS - 1);
                let caller = Caller { stream, bytes: Vec::new(), until: now + ASKING };
                self.callers.push_front(caller);
            }
        }
        let mut asked = Vec::new();
        for mut caller in std::mem::take(&mut self.callers) {
            match caller.receive(now) {
                None => self.callers.push_back(caller),
                Some(Ok(what)) => asked.push((caller.stream, what)),
                Some(Err(())) => {}
            }
        }
        asked
    }
}

/// Sends `text` to the caller from a thread of its own, without waiting for it.
pub fn answer(mut to: UnixStream, text: String) {
    let body = move || {
        // A caller that has left is not an error.
        let _ = to.set_nonblocking(false).and_then(|()| to.set_write_timeout(Some(READING)));
        let _ = to.write_all(text.as_bytes());
    };
    let _ = process::helper("answer", STACK, body);
}

/// A reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No such job.
    #[error("{} {}: no such job; {}", .what.option(), .asked.escape_debug(), expected(.there))]
    NoJob {
        /// The question.
        what: Asked,
        /// The job as the user named it.
        asked: String,
        /// The jobs of this user on this machine.
        there: Vec<Running>,
    },
    /// No job was named, and not exactly one is running.
    #[error("{}: which job? {}", .what.option(), expected(.there))]
    WhichJob {
        /// The question.
        what: Asked,
        /// The jobs of this user on this machine.
        there: Vec<Running>,
    },
    /// The job writes no checkpoints to disk.
    #[error("{} {job}: this job has no SHMEM_FT_STORE; kill -TERM {job} ends it", .what.option())]
    NoStore {
        /// The question.
        what: Asked,
        /// The job.
        job: u32,
    },
    /// The job refuses the request.
    #[error("{} {job}: {why}", .what.option())]
    Refused {
        /// The question.
        what: Asked,
        /// The job.
        job: u32,
        /// The reason.
        why: String,
    },
    /// The launcher does not answer.
    #[error("{} {job}: no answer from oshrun: {error}", .what.option())]
    NoAnswer {
        /// The question.
        what: Asked,
        /// The job.
        job: u32,
        /// The kernel's error.
        error: io::Error,
    },
}

/// A job of this user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Process id of its launcher.
    job: u32,
    /// The words of its command line after the first.
    words: String,
}

fn expected(there: &[Running]) -> String {
    if there.is_empty() {
        return "no job of this user runs here".to_owned();
    }
    let each = there.iter().map(|Running { job, words }| {
        let cut: String = words.chars().take(SHOWN).collect();
        let rest = if cut.len() < words.len() { "..." } else { "" };
        format!("{job} ({}{rest})", cut.escape_debug())
    });
    let each: Vec<String> = each.collect();
    format!("expected the process id of an oshrun: {}", each.join(", "))
}

/// Lists the jobs of this user on this machine.
fn jobs() -> Vec<Running> {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let of = |line: &str| line.rsplit_once('@')?.1.strip_prefix(NAME)?.parse().ok();
    let mut jobs: Vec<u32> = sockets.lines().filter_map(of).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let own = |job: &u32| {
        let meta = std::fs::metadata(format!("/proc/{job}"));
        meta.is_ok_and(|meta| meta.uid() == getuid().as_raw())
    };
    let running = |job| {
        let words = std::fs::read(format!("/proc/{job}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let words = words.trim_end().split_once(' ').map(|(_, words)| words.to_owned());
        Running { job, words: words.unwrap_or_default() }
    };
    jobs.into_iter().filter(own).map(running).collect()
}

/// Returns the job named by `asked`, or the only one if `asked` is empty.
fn meant(what: &Asked, asked: &str, jobs: impl FnOnce() -> Vec<Running>) -> Result<u32, AskError> {
    if !asked.is_empty() {
        let asked = asked.to_owned();
        let what = what.clone();
        return asked.parse().map_err(|_| AskError::NoJob { what, asked, there: jobs() });
    }
    let there = jobs();
    match there.as_slice() {
        [one] => Ok(one.job),
        _ => Err(AskError::WhichJob { what: what.clone(), there }),
    }
}

/// Asks the launcher with process id `asked`, or that of the only job, and returns its answer.
///
/// # Errors
/// [`AskError`].
pub fn ask(what: Asked, asked: &str) -> Result<String, AskError> {
    let job = meant(&what, asked, jobs)?;
    let no_job = |_| AskError::NoJob { what: what.clone(), asked: job.to_string(), there: jobs() };
    let connected = address(job).and_then(|address| UnixStream::connect_addr(&address));
    let mut stream = connected.map_err(no_job)?;
    let mut text = String::new();
    stream
        .set_read_timeout(Some(ANSWER))
        .and_then(|()| stream.write_all(format!("{}\n", what.line()).as_bytes()))
        .and_then(|()| stream.read_to_string(&mut text))
        .map_err(|error| AskError::NoAnswer { what: what.clone(), job, error })?;
    if text.is_empty() {
        let error = io::Error::from(ErrorKind::PermissionDenied);
        return Err(AskError::NoAnswer { what, job, error });
    }
    if let Some(why) = text.strip_prefix(REFUSED) {
        return Err(AskError::Refused { what, job, why: why.to_owned() });
    }
    if text == NO_STORE { Err(AskError::NoStore { what, job }) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_word_is_waited_for_while_it_may_match() {
        for begun in ["", "-", "--", "--sta", "--status=js", "--dump", "--drain 1", "--add n7"] {
            assert_eq!(request(begun.as_bytes()), None, "{begun}");
        }
        assert_eq!(request(b"--status\n"), Some(Ok(Asked::Status(AnswerForm::Text))));
        assert_eq!(request(b"--status=json\n"), Some(Ok(Asked::Status(AnswerForm::Json))));
        assert_eq!(request(b"--dump\n"), Some(Ok(Asked::Dump)));
        assert_eq!(request(b"--stop\n"), Some(Ok(Asked::Stop)));
        assert_eq!(request(b"--drain 10\n"), Some(Ok(Asked::Drain { node: 10 })));
        let add = |host: &str| Some(Ok(Asked::Add { host: host.to_owned() }));
        assert_eq!(request(b"--add n7:2\n"), add("n7:2"));
        for none in ["--add \n", "--add a b", &format!("--add {}", "x".repeat(300))] {
            assert_eq!(request(none.as_bytes()), Some(Err(())), "{none}");
        }
        for none in ["--drain \n", "--drain x", "--drain -1\n", "--drain 1 2", "--drain 1\n1"] {
            assert_eq!(request(none.as_bytes()), Some(Err(())), "{none}");
        }
        for none in ["\n", "x", "--dump\nx", "--stats", "GET / HTTP/1.1"] {
            assert_eq!(request(none.as_bytes()), Some(Err(())), "{none}");
        }
    }

    #[test]
    fn the_only_job_need_not_be_named() {
        let running = |job, words: &str| Running { job, words: words.to_owned() };
        let job = |asked, jobs: &[Running]| {
            meant(&Asked::Status(AnswerForm::Text), asked, || jobs.to_vec())
                .map_err(|error| error.to_string())
        };
        let (one, two) = (running(7, "-n 2 ./a"), running(9, &"x".repeat(99)));
        assert_eq!(job("", std::slice::from_ref(&one)), Ok(7));
        assert_eq!(job("12", &[]), Ok(12), "the job itself rejects the query");
        let none = "--status: which job? no job of this user runs here";
        assert_eq!(job("", &[]), Err(none.to_owned()));
        let which = "--status: which job? expected the process id of an oshrun: 7 (-n 2 \
                     ./a), 9 (xxx";
        let line = job("", &[one.clone(), two]).unwrap_err();
        assert!(line.starts_with(which) && line.ends_with("x...)"), "{line}");
        let line = job("x\n", &[one]).unwrap_err();
        assert_eq!(
            line,
            "--status x\\n: no such job; expected the process id of an oshrun: 7 (-n 2 ./a)"
        );
    }
}
