//! The timed duties of an agent: it drives [`detector::Monitor`], which sends and receives
//! heartbeats, and enforces the time limit for stopped PEs.
//!
//! [`detector::Monitor`]: raidshmem_core::detector::Monitor

#![forbid(unsafe_code)]

use std::time::Duration;

use raidshmem_core::detector::{MachineTime, MonitorAction, News};
use raidshmem_core::message::{Beat, Down, Party, ProcId, Up};
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_sys::process::is_stopped;
use raidshmem_sys::socket::ChannelError;

use super::Agent;
use super::looks::Looks;
use crate::heartbeats::{Datagram, Heartbeats};

impl Agent {
    /// Returns the time until [`Agent::look_at_clock`] is due.
    pub(super) fn left(&self) -> Duration {
        let scripts = self.procs.values().filter_map(|local| local.until);
        let looks = self.heartbeat.looks.as_ref().map(Looks::next);
        let first = scripts.chain(looks).fold(self.heartbeat.monitor.deadline(), MachineTime::min);
        first.saturating_sub(self.heartbeat.clock.now())
    }

    /// Runs due actions, before pending messages are handled. Returns false if the lease has
    /// expired.
    pub(super) fn look_at_clock(&mut self) -> Result<bool, ChannelError> {
        let time = self.heartbeat.clock.now();
        let acts = self.heartbeat.monitor.tick(time);
        if acts.contains(&MonitorAction::Die) {
            return Ok(false);
        }
        self.act(acts)?;
        self.look_for_rdma_liveness(time)?;
        self.look_for_stopped(time)?;
        self.look_for_waits(time)?;
        self.look_at_disk(time)?;
        for local in self.procs.values_mut() {
            if local.until.take_if(|until| *until <= time).is_none() {
                continue;
            }
            if local.channel_lost && local.carrier().is_ending() && !breaks(Mutant::BlamedTooSoon) {
                continue; // the PE is exiting; its exit will be reported
            }
            if let (true, Some(pe)) = (local.channel_lost, local.pe) {
                let line = format!("PE {pe} closed its connection to oshrun: it is killed");
                self.up.send(&Up::Note { line }, &[])?;
            }
            super::kill(local);
        }
        Ok(true)
    }

    /// Handles an order about heartbeats; returns any other order.
    pub(super) fn take_news(&mut self, order: Down) -> Result<Option<Down>, ChannelError> {
        let news = match order {
            Down::Beat(beat) => News::Beat { from: Party::Launcher, beat },
            Down::Ask { node, at } => {
                self.heartbeat.learn(at.map(|at| (node, at)));
                News::Ask { node }
            }
            Down::Watch { successor } => News::Watch { successor: self.heartbeat.learn(successor) },
            Down::Parent { parent } => {
                let parent = self.heartbeat.learn(parent);
                News::Parent { parent: parent.map_or(Party::Launcher, Party::Node) }
            }
            Down::Adopt { node, at, term } => {
                self.heartbeat.learn(Some((node, at)));
                News::Adopt { node, term }
            }
            Down::Release { node, term } => News::Release { node, term },
            other => return Ok(Some(other)),
        };
        self.news(news)?;
        Ok(None)
    }

    /// Handles heartbeats that arrived as datagrams.
    pub(super) fn hear_datagrams(&mut self) -> Result<(), ChannelError> {
        while let Some(datagram) = self.heartbeat.net.as_mut().and_then(Heartbeats::receive) {
            match datagram {
                Datagram::Beat(from @ Party::Node(node), beat, at) => {
                    // Allows an answer before the launcher has sent the sender's address.
                    self.heartbeat.addresses.entry(from).or_insert(at);
                    if !matches!(beat, Beat::Reader(_) | Beat::Counter(_)) {
                        self.news(News::Beat { from, beat })?;
                        continue;
                    }
                    let liveness = self.heartbeat.rdma_liveness.as_mut();
                    if let Some(answer) = liveness.and_then(|liveness| liveness.hear(node, beat)) {
                        self.beat(Party::Node(node), answer)?;
                    }
                }
                Datagram::Beat(from, beat, _) => self.news(News::Beat { from, beat })?,
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

    /// Notifies the launcher, if it is still reachable, that no process is left here.
    pub(super) fn say_gone(&mut self) {
        let _ = self.beat(Party::Launcher, Beat::Gone);
    }

    fn news(&mut self, news: News) -> Result<(), ChannelError> {
        let end = self.heartbeat.monitor.lease().end();
        let acts = self.heartbeat.monitor.handle(self.heartbeat.clock.now(), news);
        if self.heartbeat.monitor.lease().end() > end {
            self.heartbeat.move_deadline();
        }
        self.act(acts)
    }

    fn act(&mut self, acts: Vec<MonitorAction>) -> Result<(), ChannelError> {
        for act in acts {
            match act {
                MonitorAction::Beat { to, beat } => self.beat(to, beat)?,
                MonitorAction::Accuse { node } => {
                    self.up.send(&Up::Accuse { node, silent: true }, &[])?
                }
                MonitorAction::Withdraw { node } => {
                    self.up.send(&Up::Accuse { node, silent: false }, &[])?
                }
                MonitorAction::Opinion { node, alive } => {
                    self.up.send(&Up::Opinion { node, alive }, &[])?;
                }
                MonitorAction::GiveUp { node, term, silent } => {
                    self.up.send(&Up::GiveUp { node, term, silent }, &[])?;
                }
                MonitorAction::Die => {} // handled by `look_at_clock`
            }
        }
        Ok(())
    }

    /// Sends a heartbeat. The launcher gets it both ways: a datagram overtakes retransmissions of
    /// the connection, and the connection works where datagrams are blocked.
    fn beat(&mut self, to: Party, beat: Beat) -> Result<(), ChannelError> {
        if let (Some(net), Some(at)) = (&mut self.heartbeat.net, self.heartbeat.addresses.get(&to))
        {
            net.send(to, *at, beat);
        }
        match (to, beat) {
            (Party::Launcher, Beat::Gone) => self.up.send(&Up::Beat(beat), &[]),
            (Party::Launcher, _) => self.up.send_ahead(&Up::Beat(beat)),
            (Party::Node(_), _) => Ok(()),
        }
    }

    /// Counts an RDMA read that shows the successor alive as its answer to a ping.
    fn look_for_rdma_liveness(&mut self, time: MachineTime) -> Result<(), ChannelError> {
        let successor = self.heartbeat.monitor.successor();
        let Some(liveness) = &mut self.heartbeat.rdma_liveness else { return Ok(()) };
        let (beat, seen) = liveness.look(successor, time);
        let Some(from) = successor.map(Party::Node) else { return Ok(()) };
        if let Some(beat) = beat {
            self.beat(from, beat)?;
        }
        if seen {
            self.news(News::Beat { from, beat: Beat::Pong(time) })?;
        }
        Ok(())
    }

    /// Kills PEs that have been stopped for longer than the limit, if there is one.
    fn look_for_stopped(&mut self, time: MachineTime) -> Result<(), ChannelError> {
        let at_once = breaks(Mutant::StoppedIsDead).then_some(Duration::ZERO);
        let Some(limit) = self.heartbeat.pe_limit.or(at_once) else { return Ok(()) };
        let stopped: Vec<ProcId> = self
            .procs
            .iter()
            .filter(|(_, local)| is_stopped(local.carrier().pid))
            .map(|(&proc, _)| proc)
            .collect();
        self.heartbeat.stopped.retain(|proc, _| stopped.contains(proc));
        for proc in stopped {
            let since = *self.heartbeat.stopped.entry(proc).or_insert(time);
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
