//! Hosts that join a running job (`oshrun --add`): the start of their agents, until these take
//! part.
//!
//! ```text
//! starting   its agent is started; on another host it connects, and names its enclosure
//! binding    it is configured and its lease is renewed; its memory file is awaited
//! joined     all nodes have the files of each other: the membership machine learns of it
//! ```
//!
//! Invariants: one host at a time joins; one that fails to join, or is late, leaves nothing behind;
//! the job continues without it; two nodes never have one number.
//!
//! Left out: the choice of the PEs that move there, which the membership machine makes.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use raidshmem_control::is_same_build;
use raidshmem_core::membership::DrainRefusal;
use raidshmem_core::message::Down;
use raidshmem_core::secret::Secret;
use raidshmem_core::settings::Fabric;
use rustix::event::{PollFd, PollFlags};

use super::cleanup::Cleanup;
use super::event_bus::EventBus;
use super::gather::{self, Node};
use super::input;
use super::listener::{Accepted, Listener};
use super::nodes::Nodes;
use crate::cli::hosts::{self, Host};
use crate::cli::ready::Ready;
use crate::cli::starter::{Means, agent_words};
use crate::query;

/// Time limit for the agent of a host to join.
const START: Duration = Duration::from_secs(60);

/// The state of a host that joins.
struct Joining {
    node: u32,
    host: String,
    room: Option<usize>,
    until: Instant,
    /// Its agent, until it is configured.
    starting: Option<Node>,
}

/// The means by which the agents of other hosts are started.
struct OnHosts {
    means: Means,
    oshrun: String,
    launcher: SocketAddr,
    secret: Secret,
    /// The name of the host of each node so far.
    names: BTreeMap<u32, String>,
    /// True if PEs on different hosts can reach each other.
    has_fabric: bool,
    /// True if the user named the failure domains of the hosts.
    has_domains: bool,
}

/// The parts of the launcher that a host which joins concerns.
pub(super) struct JoinSite<'a> {
    pub nodes: &'a mut Nodes,
    pub cleanup: &'a mut Cleanup,
    pub events: &'a mut EventBus,
}

/// Starts the agents of hosts that join.
pub(super) struct Joiner {
    /// The first message to an agent, but for the number of its node.
    first: Down,
    build: &'static str,
    /// None if all nodes are on this machine.
    on_hosts: Option<OnHosts>,
    /// True if the programs read standard input, and if this process writes all output.
    local: (bool, bool),
    next: u32,
    joining: Option<Joining>,
    /// The set that the job has fallen back to, if it has.
    pub begun: Option<Down>,
}

impl Joiner {
    /// Returns the joiner of a job, with the first message to its agents.
    pub fn new(
        ready: &Ready,
        first: Down,
        listener: Option<&Listener>,
        build: &'static str,
    ) -> std::io::Result<Joiner> {
        let on_hosts = match (&ready.cluster, listener) {
            (Some(cluster), Some(listener)) => {
                let own = std::env::current_exe()?;
                let oshrun = cluster.oshrun.as_ref().unwrap_or(&own).to_string_lossy().into_owned();
                Some(OnHosts {
                    means: cluster.means.clone(),
                    oshrun,
                    launcher: listener.address()?,
                    secret: listener.secret().clone(),
                    names: (0..).zip(cluster.names.iter().cloned()).collect(),
                    has_fabric: ready.shape.fabric != Fabric::Shm,
                    has_domains: ready.settings.domains.is_some(),
                })
            }
            _ => None,
        };
        let (local, next) = ((ready.programs.stdin, ready.live), ready.shape.nodes);
        Ok(Joiner { first, build, on_hosts, local, next, joining: None, begun: None })
    }

    /// Returns the reason why that host cannot join, if there is one.
    fn refuses(&self, host: &str, nodes: &Nodes) -> Option<String> {
        if let Some(joining) = &self.joining {
            return Some(format!("{} is joining: wait until it has joined", joining.host));
        }
        let is_there =
            |(node, name): &(&u32, &String)| *name == host && nodes.all.contains_key(node);
        let mut names = self.on_hosts.iter().flat_map(|hosts| &hosts.names);
        if let Some((node, _)) = names.find(is_there) {
            return Some(format!("{host} is in the job already, as node {node}"));
        }
        match &self.on_hosts {
            None if host == "localhost" => None,
            None => Some(format!(
                "{host}: the nodes of this job are on this machine; expected localhost"
            )),
            Some(hosts) if !hosts.has_fabric => {
                Some("--fabric shm: PEs on different hosts cannot reach each other".to_owned())
            }
            Some(hosts) if hosts.has_domains => {
                Some(format!("SHMEM_FT_DOMAINS does not tell the failure domains of {host}"))
            }
            Some(hosts) if hosts.means == Means::Slurm && !is_allocated(host) => {
                Some(format!("{host} is not in the allocation of the job"))
            }
            Some(_) => None,
        }
    }

    /// Starts the agent of a host on request, unless the job is `refused` another node. Returns the
    /// answer.
    pub fn request(
        &mut self,
        host: &str,
        refused: Option<DrainRefusal>,
        (nodes, events): (&Nodes, &mut EventBus),
    ) -> String {
        let Some(host) = hosts::parse(host).ok().and_then(|mut all| all.pop()) else {
            return format!("{}{}: expected HOST[:PES]", query::REFUSED, host.escape_debug());
        };
        let refused = refused.map(|why| why.to_string());
        if let Some(why) = refused.or_else(|| self.refuses(&host.name, nodes)) {
            return format!("{}{why}", query::REFUSED);
        }
        match self.begin(&host) {
            Ok(node) => {
                events.news(&format!("{} is joining as node {node}, as requested", host.name));
                format!("{} is joining as node {node}\n", host.name)
            }
            Err(error) => format!("{}{}: {error}", query::REFUSED, host.name),
        }
    }

    /// Begins to start the agent of a host. Returns the number of its node.
    fn begin(&mut self, host: &Host) -> std::io::Result<u32> {
        let node = self.next;
        let starting = match &self.on_hosts {
            Some(OnHosts { means, oshrun, launcher, secret, .. }) => {
                let words = means.words(&host.name, &agent_words(oshrun, *launcher, node));
                gather::start_one(node, &host.name, &words, secret)?
            }
            None => {
                let input = input::open(self.local.0)?;
                gather::start_here(node, input.as_ref().map(AsFd::as_fd), self.local.1)?
            }
        };
        self.next += 1;
        let until = Instant::now() + START;
        let (host, room) = (host.name.clone(), host.pes);
        self.joining = Some(Joining { node, host, room, until, starting: Some(starting) });
        Ok(node)
    }

    /// Returns the descriptors to poll.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let starting = self.joining.iter().filter_map(|joining| joining.starting.as_ref());
        starting.flat_map(|node| {
            let link = node.link.as_ref().map(|link| PollFd::new(link, link.interest()));
            link.into_iter().chain([PollFd::new(&node.process, PollFlags::IN)])
        })
    }

    /// Returns the time at which a host is late.
    pub fn deadline(&self) -> Option<Instant> {
        self.joining.as_ref().map(|joining| joining.until)
    }

    /// Continues to let a host join. Returns the node whose agent was configured, with the address
    /// of its heartbeat socket if it is on another host.
    pub fn step(
        &mut self,
        listener: Option<&mut Listener>,
        site: JoinSite,
    ) -> Option<(u32, Option<SocketAddr>)> {
        if let Some(listener) = listener {
            for accepted in listener.serve() {
                let node = accepted.hello.node;
                if let Some((accepted, why)) = self.connect(accepted) {
                    listener.reject(accepted, &why.unwrap_or_else(|| site.nodes.rejection(node)));
                }
            }
        }
        match self.ready() {
            Ok(None) => None,
            Ok(Some((node, entry))) => self.configure(node, entry, site),
            Err(why) => {
                self.give_up(&why, site);
                None
            }
        }
    }

    fn configure(
        &mut self,
        node: u32,
        mut entry: Node,
        site: JoinSite,
    ) -> Option<(u32, Option<SocketAddr>)> {
        let first = self.first(node);
        let sent = entry.link.as_mut().map(|link| {
            if let Down::Configure { settings, .. } = &first {
                link.give_up_after(settings.node_timeout * 5 / 4);
            }
            link.send(&first, &[])
        });
        if let Some(Err(error)) = sent {
            site.cleanup.end_agent(entry);
            self.give_up(&error.to_string(), site);
            return None;
        }
        let beats = entry.remote.as_ref().map(|remote| {
            remote.gate.open();
            remote.beats
        });
        site.nodes.add(node, entry);
        Some((node, beats))
    }

    /// Gives up the host that joins.
    fn give_up(&mut self, why: &str, site: JoinSite) {
        let Some(Joining { node, host, starting, .. }) = self.joining.take() else { return };
        match starting {
            Some(entry) => site.cleanup.end_agent(entry),
            None => site.nodes.kill(node),
        }
        site.events.error(&format!("{host} does not join the job: {why}"));
    }

    /// Handles the loss of a node, which may not have joined yet.
    pub fn lost(&mut self, node: u32, site: JoinSite) {
        if self.joining.as_ref().is_some_and(|joining| joining.node == node) {
            self.give_up("its agent ended", site);
        }
    }

    /// Takes the connection of the host that joins. Returns a connection to refuse, with the reason
    /// if it is of that host.
    fn connect(&mut self, mut accepted: Accepted) -> Option<(Accepted, Option<String>)> {
        let node = accepted.hello.node;
        let joining = self.joining.as_mut().filter(|joining| joining.node == node);
        let waits = |entry: &&mut Node| entry.link.is_none();
        let Some(entry) = joining.and_then(|it| it.starting.as_mut()).filter(waits) else {
            return Some((accepted, None));
        };
        if !is_same_build(self.build, &accepted.hello.build) {
            let why = format!("it is of another build: {}", accepted.hello.build.escape_debug());
            return Some((accepted, Some(why)));
        }
        if let Some(remote) = &mut entry.remote {
            remote.beats = SocketAddr::new(accepted.from.ip(), accepted.hello.beats);
        }
        let _ = accepted.link.flush(); // the next read reports any failure
        entry.link = Some(accepted.link);
        None
    }

    /// Returns the agent that can be configured now; or the reason why the host does not join.
    fn ready(&mut self) -> Result<Option<(u32, Node)>, String> {
        let Some(joining) = &mut self.joining else { return Ok(None) };
        if joining.until <= Instant::now() {
            return Err(format!("it did not join within {} s", START.as_secs()));
        }
        let Some(entry) = &mut joining.starting else { return Ok(None) };
        entry.receive_enclosure().map_err(|error| error.to_string())?;
        if !entry.is_here() {
            return match entry.process.reap() {
                Some(how) => Err(entry.last_words().unwrap_or_else(|| how.to_string())),
                None => Ok(None),
            };
        }
        Ok(joining.starting.take().map(|entry| (joining.node, entry)))
    }

    /// Returns the first message to the agent of a node.
    fn first(&self, node: u32) -> Down {
        let mut first = self.first.clone();
        if let Down::Configure { node: of, .. } = &mut first {
            *of = node;
        }
        first
    }

    /// Ends the agent of a host that joins, with the job.
    pub fn end(&mut self) {
        self.joining
            .take()
            .and_then(|joining| joining.starting)
            .into_iter()
            .for_each(gather::end_one);
    }

    /// Takes the host that has joined as `node`.
    pub fn take_joined(&mut self, node: u32) -> Option<(String, Option<usize>)> {
        let joining = self.joining.take_if(|joining| joining.node == node)?;
        if let Some(hosts) = &mut self.on_hosts {
            hosts.names.insert(node, joining.host.clone());
        }
        Some((joining.host, joining.room))
    }
}

/// Returns true if the host is in the Slurm allocation of this process.
fn is_allocated(host: &str) -> bool {
    let found = hosts::of_slurm(|name| std::env::var(name).ok());
    found.is_some_and(|hosts| hosts.is_ok_and(|all| all.iter().any(|one| one.name == host)))
}
