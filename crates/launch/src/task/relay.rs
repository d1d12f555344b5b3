//! The start of an agent through a task of another launcher, which is on the agent's host already.
//!
//! ```text
//! launcher --- starter --- sealed TCP --- first task of the host --- supervisor --- agent --- PEs
//! ```
//!
//! The starter ([`start`]) takes the place of `ssh`: the launcher knows it by its standard streams
//! and its end, and it relays both from the task ([`serve`]). The end of either ends the node.

#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use raidshmem_control::link::{Link, Net};
use raidshmem_control::noise::Side;
use raidshmem_core::ended::Ended;
use raidshmem_core::message::TaskMessage;
use raidshmem_core::secret::Secret;
use raidshmem_sys::process::Process;
use raidshmem_sys::socket::ChannelError;
use raidshmem_sys::tasks;
use rustix::event::{PollFd, PollFlags, poll};

/// Time limit for connecting.
const CONNECT: Duration = Duration::from_secs(20);
/// Time limit for the last message.
const LAST: Duration = Duration::from_secs(5);
/// Time limit in milliseconds for a supervisor to end its node.
const END_MS: i32 = 10_000;
/// Bytes read at once.
const PIECE: usize = 1 << 14;

/// Returns the exit status of a process that ended so, as a shell would.
pub(super) fn status(how: Ended) -> i32 {
    match how {
        Ended::Exited(status) => status,
        Ended::Killed(signal) => 128 + signal,
    }
}

/// Connects to the task that listens at `port` of `host`.
pub(super) fn connect(host: &str, port: u16, secret: &Secret) -> io::Result<Link> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()?.filter(SocketAddr::is_ipv4) {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(Link::Net(Box::new(Net::new(stream, Side::Agent, secret)?))),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Starts a supervisor by `words` through the task that listens at `port` of `host`; relays the
/// standard streams of this process, and returns the exit status of the supervisor. `secret` has
/// been read from standard input, and is passed on.
///
/// # Errors
/// The task cannot be reached, or has gone.
pub fn start(host: &str, port: u16, words: &[String], secret: &Secret) -> io::Result<i32> {
    let mut link = connect(host, port, secret)?;
    let mut send = |message| link.send(&message, &[]).map_err(io::Error::other);
    send(TaskMessage::Start(words.to_vec()))?;
    send(TaskMessage::Input(format!("{}\n", secret.to_hex()).into_bytes()))?;
    let mut input = Some(io::stdin());
    loop {
        let is_full = link.interest().contains(PollFlags::OUT);
        let mut fds = vec![PollFd::new(&link, link.interest())];
        fds.extend(input.iter().filter(|_| !is_full).map(|from| PollFd::new(from, PollFlags::IN)));
        let _ = poll(&mut fds, None);
        let has_input = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        link.flush().map_err(io::Error::other)?;
        while let Some((message, _)) = link.try_receive().map_err(io::Error::other)? {
            match message {
                TaskMessage::Output(bytes) => io::stdout().write_all(&bytes)?,
                TaskMessage::Errors(bytes) => io::stderr().write_all(&bytes)?,
                TaskMessage::Ended(status) => return Ok(status),
                _ => {}
            }
            io::stdout().flush()?;
        }
        if let Some(from) = input.as_mut().filter(|_| has_input) {
            let bytes = piece(from)?;
            input = input.filter(|_| !bytes.is_empty());
            link.send(&TaskMessage::Input(bytes), &[]).map_err(io::Error::other)?;
        }
    }
}

/// Removes the variables that make a program a task.
pub(super) fn forget_step(command: &mut Command) {
    for name in tasks::VARIABLES {
        command.env_remove(name);
    }
}

/// Reads what is there.
fn piece(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; PIECE];
    let len = from.read(&mut bytes)?;
    bytes.truncate(len);
    Ok(bytes)
}

/// A supervisor that this task has started.
struct Supervisor {
    process: Process,
    /// None once it is at its end, which ends the node.
    stdin: Option<io::PipeWriter>,
    /// Its standard output and standard error, until their ends.
    out: [Option<io::PipeReader>; 2],
}

impl Supervisor {
    fn start(words: &[String]) -> io::Result<Supervisor> {
        let (program, words) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(words);
        forget_step(&mut command);
        let (stdin, to) = io::pipe()?;
        let (out, stdout) = io::pipe()?;
        let (errors, stderr) = io::pipe()?;
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        let process = Process::start(&mut command, None, false)?;
        Ok(Supervisor { process, stdin: Some(to), out: [Some(out), Some(errors)] })
    }

    /// Passes on what the launcher sent.
    fn receive(&mut self, link: &mut Link) -> Result<(), ChannelError> {
        link.flush()?;
        while let Some((message, _)) = link.try_receive()? {
            if let TaskMessage::Input(bytes) = message {
                // It may have ended.
                let _ = self.stdin.as_ref().map(|mut stdin| stdin.write_all(&bytes));
                self.stdin = self.stdin.take().filter(|_| !bytes.is_empty());
            }
        }
        Ok(())
    }

    /// Passes on what the supervisor wrote to a stream, which is ready.
    fn send(&mut self, nth: usize, link: &mut Link) -> Result<(), ChannelError> {
        let Some(from) = &mut self.out[nth] else { return Ok(()) };
        let bytes = piece(from).unwrap_or_default();
        if bytes.is_empty() {
            self.out[nth] = None;
            return Ok(());
        }
        link.send(
            &match nth {
                0 => TaskMessage::Output(bytes),
                _ => TaskMessage::Errors(bytes),
            },
            &[],
        )
    }

    /// Relays until the supervisor has ended, and reports its status.
    fn relay(&mut self, link: &mut Link, over: &UnixStream) -> Result<(), ChannelError> {
        loop {
            self.receive(link)?; // first what has arrived with the words
            let is_full = link.interest().contains(PollFlags::OUT);
            let open = |nth: usize| self.out[nth].as_ref().filter(|_| !is_full);
            let readers: Vec<usize> = (0..2).filter(|&nth| open(nth).is_some()).collect();
            let mut fds = vec![
                PollFd::new(&*link, link.interest()),
                PollFd::from_borrowed_fd(over.as_fd(), PollFlags::IN),
            ];
            let sources = readers.iter().filter_map(|&nth| open(nth));
            fds.extend(sources.map(|from| PollFd::new(from, PollFlags::IN)));
            if self.out.iter().all(Option::is_none) {
                fds.push(PollFd::new(&self.process, PollFlags::IN));
            }
            let _ = poll(&mut fds, None);
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            if ready[1] {
                return Err(ChannelError::Closed); // the job is over
            }
            for (&nth, _) in readers.iter().zip(&ready[2..]).filter(|(_, ready)| **ready) {
                self.send(nth, link)?;
            }
            if self.out.iter().all(Option::is_none)
                && let Some(how) = self.process.reap()
            {
                link.send(&TaskMessage::Ended(status(how)), &[])?;
                link.drain(LAST);
                return Ok(());
            }
        }
    }
}

/// Starts a supervisor by `words` for the starter at the other end of `link`, and relays its
/// standard streams until it has ended. Ends it, and with it the node, if the starter has gone, or
/// once `over` is closed at its other end.
pub(super) fn serve(mut link: Link, words: &[String], over: &UnixStream) {
    let mut supervisor = match Supervisor::start(words) {
        Ok(supervisor) => supervisor,
        Err(error) => {
            let name = words.first().map_or("", String::as_str);
            let line = format!("oshrun: {name}: {error}\n").into_bytes();
            let sent = link.send(&TaskMessage::Errors(line), &[]);
            let _ = sent.and_then(|()| link.send(&TaskMessage::Ended(2), &[]));
            return link.drain(LAST);
        }
    };
    if supervisor.relay(&mut link, over).is_err() {
        supervisor.stdin = None;
        supervisor.out = [None, None];
        if !supervisor.process.wait_end(END_MS) {
            supervisor.process.kill();
            supervisor.process.wait_end(END_MS);
        }
        supervisor.process.reap();
    }
}

/// Returns true once the other end of a socket is closed.
pub(super) fn is_closed(fd: BorrowedFd) -> bool {
    let now = raidshmem_control::link::timespec(Duration::ZERO);
    matches!(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&now)), Ok(1))
}
