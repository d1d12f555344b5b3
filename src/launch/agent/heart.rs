//! The agent's shell of [`detector::Watch`]: sends and hears heartbeats, and looks after PEs that
//! are stopped.
//!
//! [`detector::Watch`]: crate::launch::detector::Watch

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::Agent;
use super::waits::Looks;
use crate::control::message::{Beat, Down, Job, Party, ProcId, Pulse, Up};
use crate::fabric::{self, Signs};
use crate::launch::detector::{Act, News, Time, Timing, Watch};
use crate::launch::pulse::{Datagram, Heartbeats};
use crate::sys::process::{Clock, Deadline, is_stopped};
use crate::sys::socket::ChannelError;

/// The watch and its ways to others.
pub struct Heart {
    watch: Watch,
    /// Of the lease and of all that the agent waits for. A launcher on another host does not sleep
    /// when this one does.
    pub clock: Clock,
    /// Between hosts.
    pub net: Option<Heartbeats>,
    /// What is seen of the successor without its help.
    signs: Option<Box<dyn Signs>>,
    /// Where others hear heartbeats.
    addresses: BTreeMap<Party, SocketAddr>,
    /// Ends this agent, and with it its PEs, when it cannot itself: it may be stopped.
    deadline: Option<Deadline>,
    limit: Duration,
    pe_limit: Option<Duration>,
    /// PEs that are stopped, and since when.
    stopped: BTreeMap<ProcId, Time>,
    /// What PEs wait in.
    pub looks: Option<Looks>,
}

/// What ties an agent on another host to the job.
pub struct Ties {
    pub net: Heartbeats,
    pub launcher: SocketAddr,
}

impl Heart {
    /// Of node `node`.
    pub fn new(node: u32, job: &Job, pulse: &Pulse, ties: Option<Ties>) -> Heart {
        let timing = Timing { period: pulse.period, limit: pulse.limit };
        let clock = if ties.is_some() { Clock::Always } else { Clock::Awake };
        let (mut addresses, mut net, mut signs) = (BTreeMap::new(), None, None);
        if let Some(ties) = ties {
            addresses.insert(Party::Launcher, ties.launcher);
            net = Some(ties.net);
            signs = fabric::signs(job.fabric, job.device.as_ref(), pulse.period);
        }
        let deadline = Deadline::new(clock).ok(); // without one it still looks at its clock
        let watch = Watch::new(node, timing, clock.now());
        let (limit, pe_limit, stopped) = (pulse.limit, pulse.pe_limit, BTreeMap::new());
        let looks = Looks::new(pulse.stall, clock.now());
        let heart = Heart {
            watch,
            clock,
            net,
            signs,
            addresses,
            deadline,
            limit,
            pe_limit,
            stopped,
            looks,
        };
        heart.move_deadline();
        heart
    }

    /// A little after the end of the lease, so that an agent that can end itself does.
    fn move_deadline(&self) {
        if let Some(deadline) = &self.deadline {
            deadline.set(Some(self.watch.lease().end() + self.limit / 5));
        }
    }

    /// Every PE has ended: what is left to do may take its time.
    pub fn rest(&self) {
        if let Some(deadline) = &self.deadline {
            deadline.set(None);
        }
    }
}

impl Agent {
    /// How long until the clock must be looked at.
    pub(super) fn left(&self) -> Duration {
        let scripts = self.procs.values().filter_map(|local| local.until);
        let looks = self.heart.looks.as_ref().map(Looks::next);
        let first = scripts.chain(looks).fold(self.heart.watch.deadline(), Time::min);
        first.saturating_sub(self.heart.clock.now())
    }

    /// Looks at the clock, before anything that has arrived is looked at. False when the lease is
    /// over.
    pub(super) fn look_at_clock(&mut self) -> Result<bool, ChannelError> {
        let time = self.heart.clock.now();
        let acts = self.heart.watch.tick(time);
        if acts.contains(&Act::Die) {
            return Ok(false);
        }
        self.act(acts)?;
        self.look_for_signs(time)?;
        self.look_for_stopped(time)?;
        self.look_for_waits(time)?;
        for local in self.procs.values_mut() {
            if local.until.take_if(|until| *until <= time).is_none() {
                continue;
            }
            if local.deaf && local.carrier().is_ending() {
                continue; // that is why: its end will be told, and how
            }
            if let (true, Some(pe)) = (local.deaf, local.pe) {
                let line = format!("PE {pe} closed its connection to oshrun: it is killed");
                self.up.send(&Up::Note { line }, &[])?;
            }
            super::kill(local);
        }
        Ok(true)
    }

    /// Orders that are about heartbeats; gives back any other.
    pub(super) fn take_news(&mut self, order: Down) -> Result<Option<Down>, ChannelError> {
        let news = match order {
            Down::Beat(beat) => News::Beat { from: Party::Launcher, beat },
            Down::Ask { node } => News::Ask { node },
            Down::Ring { nodes } => {
                let known = nodes.iter().map(|&(node, at)| (Party::Node(node), at));
                self.heart.addresses.extend(known);
                News::Ring { nodes: nodes.into_iter().map(|(node, _)| node).collect() }
            }
            other => return Ok(Some(other)),
        };
        self.news(news)?;
        Ok(None)
    }

    /// Heartbeats that came as datagrams.
    pub(super) fn hear_datagrams(&mut self) -> Result<(), ChannelError> {
        while let Some(datagram) = self.heart.net.as_mut().and_then(Heartbeats::receive) {
            match datagram {
                Datagram::Beat(Party::Node(node), beat @ (Beat::Reader(_) | Beat::Counter(_))) => {
                    let signs = self.heart.signs.as_mut();
                    if let Some(answer) = signs.and_then(|signs| signs.hear(node, beat)) {
                        self.beat(Party::Node(node), answer)?;
                    }
                }
                Datagram::Beat(from, beat) => self.news(News::Beat { from, beat })?,
                Datagram::Foreign(from) => {
                    let line = format!(
                        "node {}: a heartbeat from {from} was refused: not of this job",
                        self.node
                    );
                    self.up.send(&Up::Note { line }, &[])?;
                }
            }
        }
        Ok(())
    }

    /// Tells the launcher that nothing runs here any more, in case it still hears.
    pub(super) fn say_gone(&mut self) {
        let _ = self.beat(Party::Launcher, Beat::Gone);
    }

    fn news(&mut self, news: News) -> Result<(), ChannelError> {
        let end = self.heart.watch.lease().end();
        let acts = self.heart.watch.handle(self.heart.clock.now(), news);
        if self.heart.watch.lease().end() > end {
            self.heart.move_deadline();
        }
        self.act(acts)
    }

    fn act(&mut self, acts: Vec<Act>) -> Result<(), ChannelError> {
        for act in acts {
            match act {
                Act::Beat { to, beat } => self.beat(to, beat)?,
                Act::Accuse { node } => self.up.send(&Up::Accuse { node, silent: true }, &[])?,
                Act::Withdraw { node } => self.up.send(&Up::Accuse { node, silent: false }, &[])?,
                Act::Opinion { node, alive } => {
                    self.up.send(&Up::Opinion { node, alive }, &[])?;
                }
                Act::Die => {} // seen before it comes here
            }
        }
        Ok(())
    }

    /// To the launcher both ways: a datagram overtakes what a connection is still repeating, and
    /// the connection goes where datagrams may not.
    fn beat(&mut self, to: Party, beat: Beat) -> Result<(), ChannelError> {
        if let (Some(net), Some(at)) = (&mut self.heart.net, self.heart.addresses.get(&to)) {
            net.send(to, *at, beat);
        }
        match to {
            Party::Launcher => self.up.send(&Up::Beat(beat), &[]),
            Party::Node(_) => Ok(()),
        }
    }

    /// A sign of the successor is as good as its answer to a ping.
    fn look_for_signs(&mut self, time: Time) -> Result<(), ChannelError> {
        let successor = self.heart.watch.successor();
        let Some(signs) = &mut self.heart.signs else { return Ok(()) };
        let (beat, seen) = signs.look(successor, time);
        let Some(from) = successor.map(Party::Node) else { return Ok(()) };
        if let Some(beat) = beat {
            self.beat(from, beat)?;
        }
        if seen {
            self.news(News::Beat { from, beat: Beat::Pong(time) })?;
        }
        Ok(())
    }

    /// Kills PEs that have been stopped for too long, if there is a limit.
    fn look_for_stopped(&mut self, time: Time) -> Result<(), ChannelError> {
        let Some(limit) = self.heart.pe_limit else { return Ok(()) };
        let stopped: Vec<ProcId> = self
            .procs
            .iter()
            .filter(|(_, local)| is_stopped(local.carrier().pid))
            .map(|(&proc, _)| proc)
            .collect();
        self.heart.stopped.retain(|proc, _| stopped.contains(proc));
        for proc in stopped {
            let since = *self.heart.stopped.entry(proc).or_insert(time);
            let (true, Some(local)) = (time - since >= limit, self.procs.get(&proc)) else {
                continue;
            };
            super::kill(local);
            let who = local.pe.map_or("a process".to_owned(), |pe| format!("PE {pe}"));
            let line = format!(
                "{who} was stopped for longer than SHMEM_FT_PE_TIMEOUT={}: it is killed",
                limit.as_secs_f64()
            );
            self.up.send(&Up::Note { line }, &[])?;
        }
        Ok(())
    }
}
