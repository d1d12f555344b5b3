//! The launcher: carries out what [`super::membership`] decides, and prints what people should see.
//!
//! It holds a descriptor of every PE's memory, so that it can take the bytes of a lost node away
//! before anything is rebuilt, and a pidfd of every process, so that a node that is declared lost
//! is dead for certain. Both are gone with it. What loses its parent (the PEs of a killed agent,
//! what a program started) becomes the launcher's child, and is ended and collected by it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::membership::{Action, Event, Membership, Shape};
use crate::control::message::{Down, Job, ProcId, Report, Said, Up};
use crate::placement::substitute::Site;
use crate::settings::{BackupMode, Settings};
use crate::sys::memory;
use crate::sys::process::{self, Process};
use crate::sys::socket::{Channel, ChannelError, Outbox};

/// Hidden first argument that makes `oshrun` an agent.
pub const AGENT_ARGUMENT: &str = "--raidshmem-agent";

/// How long PEs have to say the verdict one of them said.
const LAST_WORDS: Duration = Duration::from_secs(5);

struct Node {
    process: Process,
    channel: Outbox,
}

struct Launcher {
    machine: Membership,
    nodes: BTreeMap<u32, Node>,
    memories: BTreeMap<(u32, u32), OwnedFd>,
    procs: BTreeMap<ProcId, (u32, Process)>,
    report: bool,
    /// What a PE keeps for others in this job's mode.
    kept: &'static str,
    result: Option<i32>,
    signals: Vec<(i32, UnixStream)>,
    last_words: Option<Instant>,
}

/// Why a job could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The control connection failed.
    #[error("{0}")]
    Channel(#[from] ChannelError),
}

/// Runs a job to its end and returns its exit status.
pub fn run(
    shape: &Shape,
    settings: &Settings,
    site: Site,
    heap_len: u64,
    program: &[std::ffi::OsString],
) -> Result<i32, LaunchError> {
    use std::os::unix::ffi::OsStrExt;
    let system = |what| move |error| LaunchError::System { what, error };
    process::adopt_orphans().map_err(system("adopting orphans"))?;
    let mut signals = Vec::new();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let (receiver, sender) = UnixStream::pair().map_err(system("signal pipe"))?;
        signal_hook::low_level::pipe::register(signal, sender).map_err(system("signals"))?;
        signals.push((signal, receiver));
    }
    let job = Job {
        id: job_id().map_err(system("random number of the job"))?,
        n_pes: shape.node_of.len() as u32,
        heap_len,
        node_of: shape.node_of.clone(),
        domains: site.domains.clone(),
    };
    let program: Vec<Vec<u8>> = program.iter().map(|word| word.as_bytes().to_vec()).collect();
    let mut nodes = BTreeMap::new();
    for node in 0..shape.nodes {
        let mut started = start_agent().map_err(system("agent"))?;
        let configure = Down::Configure { job: job.clone(), node, program: program.clone() };
        started.channel.send(&configure, &[])?;
        nodes.insert(node, started);
    }
    let (machine, first) = Membership::new(shape, settings, site);
    let mut launcher = Launcher {
        machine,
        nodes,
        memories: BTreeMap::new(),
        procs: BTreeMap::new(),
        report: settings.report,
        kept: match settings.backup_mode {
            BackupMode::Single | BackupMode::Double => "copies",
            _ => "parity",
        },
        result: None,
        signals,
        last_words: None,
    };
    launcher.act(first);
    let status = launcher.serve();
    launcher.shut_down();
    Ok(status)
}

fn job_id() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes) | 1)
}

fn start_agent() -> std::io::Result<Node> {
    let (mine, theirs) = Channel::pair().map_err(std::io::Error::other)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(AGENT_ARGUMENT).arg(theirs.as_fd().as_raw_fd().to_string());
    let process = Process::start(&mut command, theirs.as_fd(), false)?;
    Ok(Node { process, channel: Outbox::new(mine) })
}

enum Source {
    Signal(i32),
    Channel(u32),
    End(u32),
}

impl Launcher {
    fn serve(&mut self) -> i32 {
        loop {
            if let Some(status) = self.result {
                return status;
            }
            for source in self.wait() {
                match source {
                    Source::Signal(signal) => return signalled(signal),
                    Source::Channel(node) => self.listen(node),
                    Source::End(node) => self.node_gone(node),
                }
            }
            if self.machine.condemned() && self.result.is_none() {
                let end = *self.last_words.get_or_insert_with(|| Instant::now() + LAST_WORDS);
                if Instant::now() >= end {
                    let actions = self.machine.cut_short();
                    self.act(actions);
                }
            }
        }
    }

    fn wait(&self) -> Vec<Source> {
        let (mut fds, mut sources) = (Vec::new(), Vec::new());
        for (signal, receiver) in &self.signals {
            fds.push(PollFd::new(receiver, PollFlags::IN));
            sources.push(Source::Signal(*signal));
        }
        for (&node, entry) in &self.nodes {
            fds.push(PollFd::new(&entry.channel, entry.channel.interest()));
            sources.push(Source::Channel(node));
            fds.push(PollFd::new(&entry.process, PollFlags::IN));
            sources.push(Source::End(node));
        }
        let left = self.last_words.map(|end| end.saturating_duration_since(Instant::now()));
        let limit = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()) + 1,
        });
        let first_verdict = Timespec { tv_sec: 0, tv_nsec: 1 };
        let limit = limit.or(self.machine.condemned().then_some(first_verdict));
        let _ = poll(&mut fds, limit.as_ref());
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        sources.into_iter().zip(ready).filter_map(|(s, ready)| ready.then_some(s)).collect()
    }

    fn listen(&mut self, node: u32) {
        loop {
            let Some(entry) = self.nodes.get_mut(&node) else { return };
            let _ = entry.channel.flush(); // a node that cannot be told is noticed by its end
            match entry.channel.try_receive::<Up>() {
                Ok(Some((message, fds))) => self.heard(node, message, fds),
                Ok(None) => return,
                Err(ChannelError::Closed) => return self.node_gone(node),
                Err(error) => {
                    say(&format!("node {node}: {error}"));
                    return self.node_gone(node);
                }
            }
            if self.result.is_some() {
                return;
            }
        }
    }

    fn heard(&mut self, node: u32, message: Up, mut fds: Vec<OwnedFd>) {
        let event = match message {
            Up::Memory { pe, memory } => {
                let Some(fd) = fds.pop() else { return };
                for other in self.nodes.values_mut() {
                    // A node that cannot be told is noticed by its end.
                    let _ = other.channel.send(&Down::Memory { pe, memory }, &[fd.as_fd()]);
                }
                self.memories.insert((pe, memory), fd);
                Event::MemoryMade { pe, memory }
            }
            Up::Started { proc, pid } => {
                if let Some(fd) = fds.pop() {
                    self.procs.insert(proc, (node, Process::received(pid, fd)));
                }
                return;
            }
            Up::Said { proc, what } => {
                if let Said::Verdict { words, .. } = &what
                    && !self.machine.condemned()
                {
                    say(words);
                }
                Event::Said { proc, what }
            }
            Up::Ended { proc, how } => {
                self.procs.remove(&proc);
                Event::Ended { proc, how }
            }
            Up::Shown { number } => Event::Shown { node, number },
            Up::Failed { what } => {
                say(&what);
                self.result = Some(1);
                return;
            }
        };
        let actions = self.machine.handle(event);
        self.act(actions);
    }

    /// Everything on the node is made certain to be dead before the machine hears of it.
    fn node_gone(&mut self, node: u32) {
        let Some(entry) = self.nodes.get(&node) else { return };
        entry.process.kill();
        entry.process.wait_end(10_000);
        while let Some(entry) = self.nodes.get(&node) {
            match entry.channel.try_receive::<Up>() {
                Ok(Some((message, fds))) => self.heard(node, message, fds),
                _ => break, // what it said before its death is heard
            }
        }
        let here = |(at, _): &(u32, Process)| *at == node;
        for (_, process) in self.procs.values().filter(|proc| here(proc)) {
            process.kill();
        }
        for (_, process) in self.procs.values().filter(|proc| here(proc)) {
            process.wait_end(10_000);
            process.reap(); // it is this process's child since its agent ended
        }
        self.procs.retain(|_, proc| !here(proc));
        if let Some(entry) = self.nodes.remove(&node) {
            entry.process.reap();
        }
        let actions = self.machine.handle(Event::NodeLost { node });
        self.act(actions);
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { node, message } => {
                    if let Some(entry) = self.nodes.get_mut(&node) {
                        let _ = entry.channel.send(&message, &[]);
                    }
                }
                Action::Wipe { pe, memory } => {
                    if let Some(fd) = self.memories.remove(&(pe, memory))
                        && let Err(error) = memory::wipe(&fd)
                    {
                        say(&format!("PE {pe}: its lost memory could not be wiped: {error}"));
                        self.result = Some(1);
                    }
                }
                Action::KillNode { node } => {
                    if let Some(entry) = self.nodes.get(&node) {
                        entry.process.kill();
                    }
                }
                Action::Say(line) => say(&line),
                Action::Tell(report) if self.report || report.is_alarm() => {
                    say(&tell(&report, self.kept))
                }
                Action::Tell(_) => {}
                Action::End { status, words } => {
                    if let Some(words) = words
                        && !self.machine.condemned()
                    {
                        say(&words);
                    }
                    self.result = Some(status);
                }
            }
        }
    }

    fn shut_down(&mut self) {
        for node in self.nodes.values_mut() {
            let _ = node.channel.send(&Down::Shutdown, &[]);
        }
        for node in self.nodes.values() {
            if !node.process.wait_end(5_000) {
                node.process.kill();
            }
        }
        for (_, process) in self.procs.values() {
            process.kill();
            process.wait_end(5_000);
        }
        for node in self.nodes.values() {
            node.process.wait_end(5_000);
            node.process.reap();
        }
        process::end_children();
    }
}

/// The status of a job that was stopped by `signal`, as a shell would show it.
fn signalled(signal: i32) -> i32 {
    say(&format!("stopped by signal {signal}; every PE is killed"));
    128 + signal
}

fn say(line: &str) {
    // One write, so that it does not mix with the lines of PEs.
    let _ = std::io::stderr().write_all(format!("oshrun: {line}\n").as_bytes());
}

fn tell(report: &Report, kept: &str) -> String {
    let ms = |micros: &u64| *micros as f64 / 1000.0;
    let pes = |pes: &[u32]| pes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let mib = |bytes: &u64| *bytes as f64 / f64::from(1 << 20);
    match report {
        Report::Checkpoint { number, bytes, parity_bytes, micros } => format!(
            "checkpoint {number}: {:.1} MiB a PE protected by {:.1} MiB of {kept} in {:.1} ms",
            mib(bytes),
            mib(parity_bytes),
            ms(micros)
        ),
        Report::Adopted { pe, number, bytes, micros } => format!(
            "PE {pe}: memory of the dead process adopted, {:.1} MiB of checkpoint {number} \
             verified in {:.1} ms",
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
