//! Failures of nodes: observations for the failure detector, and what follows from its decisions.

#![forbid(unsafe_code)]

use raidshmem_core::detector::{DetectorAction, Observation};
use raidshmem_core::membership::MembershipEvent;

use super::Launcher;
use super::detection::HeartbeatPath;
use super::joining::JoinSite;
use super::teardown::WorkerDone;
use crate::handshake::JoinError;

impl Launcher {
    /// Passes an observation about `node` to the failure detector.
    pub(super) fn observe(&mut self, node: u32, observation: Observation) {
        let decisions = self.detection.observe(node, observation);
        self.detect(decisions, HeartbeatPath::Link);
    }

    /// Handles heartbeats that arrived as datagrams.
    pub(super) fn receive_heartbeats(&mut self) {
        while let Some((node, beat)) = self.detection.receive(&mut self.events) {
            let decisions = self.detection.observe(node, Observation::Beat { beat });
            self.detect(decisions, HeartbeatPath::Datagram);
        }
    }

    /// Carries out decisions of the failure detector.
    pub(super) fn detect(&mut self, decisions: Vec<DetectorAction>, path: HeartbeatPath) {
        for decision in decisions {
            let (nodes, events) = (&mut self.nodes, &mut self.events);
            if let Some(lost) = self.detection.carry_out(decision, path, nodes, events) {
                // Its processes are ended before the membership machine learns of it.
                self.nodes.begin_teardown(lost.node, lost.trusted);
                self.tear_down(lost.node);
            }
        }
    }

    /// Runs the timers, after all pending messages were handled.
    pub(super) fn check_clocks(&mut self) {
        let decisions = self.detection.tick();
        self.detect(decisions, HeartbeatPath::Link);
        if !self.machine.has_started() {
            let stall = self.diagnosis.check(self.detection.now(), &self.machine.standing());
            self.report_stall(stall);
        }
        self.nodes.report_late().iter().for_each(|line| self.events.news(line));
    }

    /// Handles the end of the output of a node's supervisor.
    pub(super) fn supervisor_spoke(&mut self, node: u32) {
        if self.nodes.take_last_word(node) {
            self.observe(node, Observation::Dead);
        }
    }

    /// Handles the end of a local agent, or of the command that started a remote one.
    pub(super) fn starter_ended(&mut self, node: u32) {
        if self.nodes.is_leaving(node) {
            return self.tear_down(node);
        }
        match self.nodes.end_starter(node) {
            Some(true) => self.observe(node, Observation::Dead),
            Some(false) => self.observe(node, Observation::Disconnected),
            None => {}
        }
    }

    /// Continues the teardown of a lost node, as far as that does not block.
    fn tear_down(&mut self, node: u32) {
        if let Some(trusted) = self.nodes.end_agent(node) {
            while trusted && let Ok(Some((message, fds))) = self.nodes.receive(node) {
                self.receive(node, message, fds);
            }
            if self.over().is_some() {
                return; // it ended because of a failure that it has reported
            }
            self.nodes.kill_processes(node);
        }
        if let Some((entry, trusted)) = self.nodes.take_ended(node) {
            if let Some(how) = entry.collect().filter(|_| trusted) {
                self.events.news(&JoinError::Killed { node, how }.to_string());
            }
            self.cleanup.finish_lines(node, entry, trusted);
        }
    }

    /// Handles the results of the cleanup.
    pub(super) fn finish_work(&mut self) {
        for done in self.cleanup.results() {
            match done {
                WorkerDone::Lines { node } => {
                    self.diagnosis.forget(node);
                    let site = JoinSite {
                        nodes: &mut self.nodes,
                        cleanup: &mut self.cleanup,
                        events: &mut self.events,
                    };
                    self.joiner.lost(node, site);
                    self.handle(MembershipEvent::NodeLost { node });
                    self.search_without(node);
                }
                WorkerDone::Searched(found) => self.found_set(found),
                WorkerDone::NotJoined => {}
                WorkerDone::Wiped { pe, memory, result: Ok(()) } => {
                    self.handle(MembershipEvent::Wiped { pe, memory });
                }
                WorkerDone::Wiped { pe, result: Err(error), .. } => {
                    let words = format!("PE {pe}: its lost memory could not be wiped: {error}");
                    self.end_with((1, words));
                }
            }
            if self.over().is_some() {
                return;
            }
        }
    }
}
