//! The start of a job's agents, on this machine or on other hosts, until all have connected.
//!
//! Invariant: either every node's agent is connected, or an error names the missing host and all
//! started processes have ended.

use std::collections::BTreeMap;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use raidshmem_control::is_same_build;
use raidshmem_control::link::{Link, timespec};
use raidshmem_core::ended::Ended;
use raidshmem_core::placement::Domains;
use raidshmem_core::placement::found::{self, Enclosure};
use raidshmem_core::secret::{SECRET_LEN, Secret};
use raidshmem_sys::process::{self, Process};
use raidshmem_sys::socket::{Channel, ChannelError};
use rustix::event::{PollFd, PollFlags, poll};

use super::error::LaunchError;
use super::input;
use super::listener::{Accepted, Listener, own_address};
use super::signals::Signals;
use crate::cli::prepare::domains_of_file;
use crate::cli::protected::ProtectionTable;
use crate::cli::ready::{Cluster, Ready};
use crate::cli::starter::agent_words;
use crate::handshake::{AGENT_ARGUMENT, ALL_DEAD, SECRET_FD, last_word, random_secret};
use crate::output::{Carriers, HeldOutput, Stream};

/// Time limit for the agents of all hosts to connect.
const START: Duration = Duration::from_secs(60);
/// Time limit for the last output of a started command.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Time limit for agents to end.
const END: Duration = Duration::from_secs(10);

/// A node's agent.
pub struct Node {
    /// The name in messages: `node 2`, or `node 2 (host)`.
    pub name: String,
    /// The agent, or the command that started it on another host.
    pub process: Process,
    /// The connection; None once it is over.
    pub link: Option<Link>,
    /// The additional state of an agent on another host.
    pub remote: Option<RemoteAgent>,
    /// True if the process has ended.
    pub started_over: bool,
    /// True if it is ended on purpose, so that its end needs no message.
    pub ordered: bool,
    /// The threads that forward its output; on this machine only if a view is shown.
    pub carriers: Carriers,
}

/// The launcher's state of an agent on another host.
pub struct RemoteAgent {
    /// Standard input of the command that started it: EOF shows the supervisor that the launcher is
    /// gone.
    _stdin: PipeWriter,
    /// Receives the last word of its supervisor.
    pub gate: HeldOutput,
    /// Readable once the last word has arrived, or can no longer arrive.
    pub word: Option<PipeReader>,
    /// The address of its agent's heartbeat socket.
    pub beats: SocketAddr,
    /// The enclosure that its firmware reports, once received.
    pub enclosure: Option<Enclosure>,
}

impl Node {
    /// Returns true if its agent has sent everything that the start of a job needs.
    pub fn is_here(&self) -> bool {
        let said = self.remote.as_ref().is_none_or(|remote| remote.enclosure.is_some());
        self.link.is_some() && said
    }

    /// Receives its agent's second message, the enclosure.
    pub fn receive_enclosure(&mut self) -> Result<(), ChannelError> {
        let (Some(link), Some(remote)) = (&mut self.link, &mut self.remote) else { return Ok(()) };
        if remote.enclosure.is_some() {
            return Ok(());
        }
        match link.try_receive::<Enclosure>() {
            Ok(said) => remote.enclosure = said.map(|(enclosure, _)| enclosure),
            Err(ChannelError::Closed) => self.link = None, // its starter's end shows the reason
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reaps its process. Returns how it was killed, if only this process can report it: on this
    /// machine, and not on purpose. An agent that ends itself prints its reason.
    pub fn collect(&self) -> Option<Ended> {
        let how = self.process.reap();
        let own = self.remote.is_none() && !self.ordered;
        how.filter(|how| own && matches!(how, Ended::Killed(_)))
    }

    /// Waits for the end of its process until `end`, and kills it then.
    fn end_by(&self, end: Instant) {
        let left = end.saturating_duration_since(Instant::now());
        if !self.process.wait_end(left.as_millis() as i32) {
            self.process.kill();
            self.process.wait_end(1_000);
        }
        self.process.reap();
    }

    /// Returns the last line of a supervisor whose starter has ended.
    pub fn last_words(&mut self) -> Option<String> {
        self.carriers.finish(LAST_WORDS, || false);
        self.remote.as_mut().and_then(|remote| remote.gate.last_line())
    }

    /// Waits for the rest of its programs' output, like [`Carriers::finish`].
    pub fn finish_output(&mut self, limit: Duration, is_patient: impl FnMut() -> bool) {
        self.carriers.finish(limit, is_patient);
    }
}

/// Every node, and the listener if there are other hosts.
pub type GatheredNodes = (BTreeMap<u32, Node>, Option<Listener>);

/// Starts the agents of a job, and forms its groups by the enclosures that its hosts share. Agents
/// on other hosts must be of `build`.
pub fn all(
    ready: &mut Ready,
    signals: &Signals,
    build: &'static str,
) -> Result<GatheredNodes, LaunchError> {
    let system = |what| move |error| LaunchError::System { what, error };
    let Some(hosts) = &ready.cluster else {
        let input = input::open(ready.programs.stdin).map_err(system("standard input"))?;
        let input = input.as_ref().map(AsFd::as_fd);
        return local(ready.shape.nodes, input, ready.live).map_err(system("agent"));
    };
    let gathered = cluster(hosts, signals, build)?;
    ready.protected = protected(ready, &gathered.0)?;
    Ok(gathered)
}

/// Starts `count` agents on this machine, with standard input `stdin` or their parent's. If
/// `carried`, only this process writes their output to its terminal.
fn local(count: u32, stdin: Option<BorrowedFd>, carried: bool) -> std::io::Result<GatheredNodes> {
    let start = |node| Ok((node, start_here(node, stdin, carried)?));
    Ok(((0..count).map(start).collect::<std::io::Result<_>>()?, None))
}

/// Starts the agent of a node on this machine, like [`local`].
pub fn start_here(node: u32, stdin: Option<BorrowedFd>, carried: bool) -> std::io::Result<Node> {
    let (mine, theirs) = Channel::pair().map_err(std::io::Error::other)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(AGENT_ARGUMENT).arg(theirs.as_fd().as_raw_fd().to_string());
    if let Some(stdin) = stdin {
        command.stdin(stdin.try_clone_to_owned()?);
    }
    let mut carriers = Carriers::default();
    if carried {
        carriers.take_terminal(&mut command)?;
    }
    let process = Process::start(&mut command, Some(theirs.as_fd()), false)?;
    let (name, link) = (format!("node {node}"), Some(Link::pair(mine)));
    let (started_over, ordered) = (false, false);
    Ok(Node { name, process, link, remote: None, started_over, ordered, carriers })
}

/// Starts an agent on every host of `cluster`. A signal that arrives meanwhile is an error.
fn cluster(
    cluster: &Cluster,
    signals: &Signals,
    build: &'static str,
) -> Result<GatheredNodes, LaunchError> {
    let mut gathering = Gathering::start(cluster, build)?;
    match gathering.wait(signals) {
        Ok(()) => {
            for remote in gathering.nodes.values().filter_map(|node| node.remote.as_ref()) {
                remote.gate.open();
            }
            Ok((std::mem::take(&mut gathering.nodes), gathering.listener.take()))
        }
        Err(error) => {
            gathering.end();
            Err(error)
        }
    }
}

/// Returns the protection of a job on other hosts, now that their enclosures are known. Failure
/// domains from the user's file take precedence.
fn protected(ready: &Ready, nodes: &BTreeMap<u32, Node>) -> Result<ProtectionTable, LaunchError> {
    let as_they_are: Vec<usize> = (0..nodes.len()).collect();
    match ready.settings.domains {
        Some(_) => Ok(ready.protected.clone()),
        None => protected_on(ready, nodes, &as_they_are),
    }
}

/// Returns the protection of a job if the hosts `host_of` are its nodes.
pub fn protected_on(
    ready: &Ready,
    nodes: &BTreeMap<u32, Node>,
    host_of: &[usize],
) -> Result<ProtectionTable, LaunchError> {
    let Some(cluster) = &ready.cluster else { return Ok(ready.protected.clone()) };
    let names: Vec<String> = host_of.iter().map(|&host| cluster.names[host].clone()).collect();
    let domains = match &ready.settings.domains {
        Some(path) => domains_of_file(path, names).map_err(Box::new)?,
        None => {
            let said =
                |&host: &usize| nodes.get(&(host as u32))?.remote.as_ref()?.enclosure.clone();
            let enclosures: Vec<Enclosure> = host_of.iter().filter_map(said).collect();
            let kinds = found::of_hosts(&names, &enclosures);
            Domains::of_hosts(names).with_kinds(kinds)
        }
    };
    Ok(ProtectionTable::new(&ready.settings, &ready.shape.node_of, domains)?)
}

/// Ends agents that are no longer needed, and everything they started.
pub fn end(nodes: &mut BTreeMap<u32, Node>) {
    for node in nodes.values_mut() {
        node.link = None;
        if let Some(remote) = node.remote.take() {
            drop(remote); // EOF on its input ends the supervisor, and with it the node
        }
    }
    let end = Instant::now() + END;
    nodes.values().for_each(|node| node.end_by(end));
    process::end_children();
}

/// Ends an agent that is not needed, and everything it started.
pub fn end_one(mut node: Node) {
    (node.link, node.remote) = (None, None);
    node.end_by(Instant::now() + END);
}

struct Gathering {
    nodes: BTreeMap<u32, Node>,
    listener: Option<Listener>,
    means: String,
    build: &'static str,
}

impl Gathering {
    fn start(cluster: &Cluster, build: &'static str) -> Result<Gathering, LaunchError> {
        let system = |what| move |error| LaunchError::System { what, error };
        let secret = secret_of_job().map_err(system("random secret of the job"))?;
        let address = match cluster.listen {
            Some(address) => address,
            None => {
                let names = cluster.names.iter().map(String::as_str);
                let ip: IpAddr = own_address(names).ok_or(LaunchError::NoAddress)?;
                SocketAddr::new(ip, 0)
            }
        };
        let listen = |error| LaunchError::Listen { address, error };
        let listener = Listener::open(address, secret.clone()).map_err(listen)?;
        let address = listener.address().map_err(listen)?;
        let own = std::env::current_exe().map_err(system("path of oshrun"))?;
        let oshrun = cluster.oshrun.as_ref().unwrap_or(&own).to_string_lossy().into_owned();
        let means = cluster.means.name().to_owned();
        let nodes = BTreeMap::new();
        let mut gathering = Gathering { nodes, listener: Some(listener), means, build };
        for (node, host) in (0..).zip(&cluster.names) {
            let words = cluster.means.words(host, &agent_words(&oshrun, address, node));
            match start_one(node, host, &words, &secret) {
                Ok(started) => drop(gathering.nodes.insert(node, started)),
                Err(error) => {
                    gathering.end();
                    let (host, means) = (host.clone(), words[0].clone());
                    return Err(LaunchError::Starter { host, means, error });
                }
            }
        }
        Ok(gathering)
    }

    fn end(&mut self) {
        self.listener = None;
        end(&mut self.nodes);
    }

    fn wait(&mut self, signals: &Signals) -> Result<(), LaunchError> {
        let limit = Instant::now() + START;
        while let Some(missing) = self.nodes.values().find(|node| !node.is_here()) {
            let now = Instant::now();
            if now >= limit {
                let (name, limit) = (missing.name.clone(), START.as_secs());
                return Err(LaunchError::Late { name, limit });
            }
            let Some(listener) = &self.listener else { return Ok(()) };
            let until = listener.deadline().map_or(limit, |deadline| deadline.min(limit));
            let mut fds: Vec<PollFd> = listener.fds().collect();
            fds.extend(signals.fds());
            let starters = self.nodes.values().map(|node| &node.process);
            fds.extend(starters.map(|process| PollFd::new(process, PollFlags::IN)));
            let joining = self.nodes.values().filter(|node| !node.is_here());
            let links = joining.filter_map(|node| node.link.as_ref());
            fds.extend(links.map(|link| PollFd::new(link, link.interest())));
            let _ = poll(&mut fds, Some(&timespec(until.saturating_duration_since(now))));
            drop(fds);
            if let Some(signal) = signals.stopped() {
                return Err(LaunchError::Signal(signal));
            }
            let accepted = self.listener.as_mut().map(Listener::serve).unwrap_or_default();
            for one in accepted {
                self.accepted(one)?;
            }
            for node in self.nodes.values_mut() {
                node.receive_enclosure()?;
            }
            self.look_at_starters()?;
        }
        Ok(())
    }

    fn accepted(&mut self, accepted: Accepted) -> Result<(), LaunchError> {
        let Some(listener) = &mut self.listener else { return Ok(()) };
        let node = accepted.hello.node;
        match self.nodes.get_mut(&node) {
            Some(entry) if !is_same_build(self.build, &accepted.hello.build) => {
                let (name, theirs) = (entry.name.clone(), accepted.hello.build.clone());
                let error = LaunchError::Build { name, theirs, ours: self.build };
                let mut link = accepted.link;
                let refused = raidshmem_core::message::Down::Refused { why: error.to_string() };
                let _ = link.send(&refused, &[]);
                link.drain(Duration::from_millis(100));
                return Err(error);
            }
            Some(entry) if entry.link.is_none() => {
                if let Some(remote) = &mut entry.remote {
                    remote.beats = SocketAddr::new(accepted.from.ip(), accepted.hello.beats);
                }
                entry.link = Some(accepted.link);
            }
            Some(_) => listener.reject(accepted, &format!("node {node} is connected already")),
            None => listener.reject(accepted, &format!("the job has no node {node}")),
        }
        Ok(())
    }

    fn look_at_starters(&mut self) -> Result<(), LaunchError> {
        let mut ended = self.nodes.values_mut().filter_map(|n| Some((n.process.reap()?, n)));
        let Some((how, node)) = ended.next() else { return Ok(()) };
        let last = node.last_words();
        let how = match (how, &last) {
            (Ended::Exited(ALL_DEAD), Some(_)) => String::new(), // its own line says it all
            (how, Some(_)) => format!("{} {how}: ", self.means),
            (how, None) => format!("{} {how}", self.means),
        };
        let why = format!("{how}{}", last.unwrap_or_default());
        Err(LaunchError::NoAgent { name: node.name.clone(), why })
    }
}

/// Starts the agent of a node on `host` with these words of a command.
pub fn start_one(
    node: u32,
    host: &str,
    words: &[String],
    secret: &Secret,
) -> std::io::Result<Node> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    let (from, to) = std::io::pipe()?;
    command.stdout(to);
    let mut carriers = Carriers::default();
    carriers.carry(from, Stream::Out)?;
    let (from, to) = std::io::pipe()?;
    command.stderr(to);
    let (gate, word) = HeldOutput::new(last_word(secret, node))?;
    carriers.carry_through(from, gate.clone())?;
    let (from, mut stdin) = std::io::pipe()?;
    command.stdin(from);
    let process = Process::start(&mut command, None, false)?;
    // A process that has already ended is detected by its end. The line fits into the pipe, so the
    // write does not block.
    let _ = stdin.write_all(format!("{}\n", secret.to_hex()).as_bytes());
    let nowhere = SocketAddr::from(([0; 4], 0));
    let word = Some(word);
    let remote = Some(RemoteAgent { _stdin: stdin, gate, word, beats: nowhere, enclosure: None });
    let name = format!("node {node} ({host})");
    let (started_over, ordered) = (false, false);
    Ok(Node { name, process, link: None, remote, started_over, ordered, carriers })
}

/// Returns the secret of the job: that of the step if a task started this launcher, and otherwise a
/// new one.
fn secret_of_job() -> std::io::Result<Secret> {
    let Ok(fd) = std::env::var(SECRET_FD) else { return random_secret() };
    let mut digits = [0; 2 * SECRET_LEN];
    std::fs::File::open(format!("/proc/self/fd/{fd}"))?.read_exact(&mut digits)?;
    let secret = std::str::from_utf8(&digits).ok().and_then(Secret::from_hex);
    secret.ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}
