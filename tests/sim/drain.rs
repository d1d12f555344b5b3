//! Planned losses: nodes are drained, nodes join and take PEs, and the PEs wait for that after a
//! checkpoint, by the library's machine.
//!
//! Checked: when a node, or a PE that moves, is killed for it, no PE has computed on; if the
//! launcher says that no PE repeats anything, all have resumed from that checkpoint.

use raidshmem_core::ended::Ended;
use raidshmem_core::membership::MembershipEvent;
use raidshmem_core::message::PeMessage;
use raidshmem_core::placement::Domains;
use raidshmem_core::placement::balance::{PlacesNow, movers};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::view::MoveRequest;

use super::job::{Job, What};
use super::pe::{Proc, Then};
use super::runtime::Node;

/// The number of times that a request is made again if it is not accepted.
const TRIES: u32 = 50;

/// A request of the user.
#[derive(Debug, Clone, Copy)]
pub struct PlannedMove {
    pub time: u64,
    /// True if a node joins, false if one is drained.
    pub joins: bool,
    pub tries: u32,
}

impl Job {
    /// Makes a planned request, or makes it later if it cannot be met now.
    pub fn ask_to_move(&mut self, index: usize) {
        let PlannedMove { joins, tries, .. } = self.plan.moves[index];
        let may = self.moving.is_none() && self.saved > CheckpointNumber(0) && !self.over;
        let met = may && if joins { self.add_node() } else { self.drain_node() };
        if !met && tries < TRIES {
            self.plan.moves[index].tries += 1;
            let later = self.now + self.delay(10 * self.plan.message);
            self.at(later, What::Move(index));
        }
    }

    fn add_node(&mut self) -> bool {
        if !self.lost.is_empty() || !self.suspects.is_empty() {
            return false;
        }
        let node = self.nodes.len() as u32;
        self.note(|| format!("-- node {node} joins"));
        self.nodes.push(Node::new(self.views[0].view.clone()));
        self.deliver(MembershipEvent::Joined { node, room: None });
        true
    }

    fn drain_node(&mut self) -> bool {
        let alive = |node: &u32| self.nodes[*node as usize].alive;
        let alive: Vec<u32> = (0..self.nodes.len() as u32).filter(alive).collect();
        let node = self.plan.chance.pick(&alive);
        let here = self.carried_on(node);
        if alive.len() <= 2 || here.is_empty() || !self.may_lose(&here) {
            return false;
        }
        self.note(|| format!("-- node {node} is to be drained, with PEs {here:?}"));
        self.deliver(MembershipEvent::Drain { node });
        self.moving.is_some()
    }

    /// Returns PEs that may be lost at any moment because they move.
    pub fn about_to_move(&self) -> Vec<usize> {
        match self.moving {
            None => Vec::new(),
            Some(MoveRequest { node, joins: false, .. }) => self.carried_on(node),
            Some(MoveRequest { node, .. }) => {
                let on = |nodes: &mut dyn Iterator<Item = u32>| -> Vec<usize> {
                    nodes.map(|node| node as usize).collect()
                };
                let node_of = on(&mut self.views[self.views.len() - 1].view.nodes());
                let first = on(&mut self.plan.node_of.iter().copied());
                let groups = self.groups_in_use().pop().expect("of some checkpoint");
                let site = &groups.job_layout(&Domains::default());
                let places = PlacesNow { site, first: &first, node_of: &node_of };
                movers(places, node as usize, usize::MAX).into_iter().map(Pe::at).collect()
            }
        }
    }

    /// Loses PEs because they move. The launcher may not know yet of a loss before, and the two may
    /// be more than the parity covers: then nothing is promised.
    fn lose_moving(&mut self, pes: &[usize]) {
        self.ending.overlaps |= !self.bears(pes);
        self.lose(pes);
    }

    /// Kills a node that is drained, on the launcher's order.
    pub fn kill_drained(&mut self, node: u32) {
        let here = self.carried_on(node);
        self.note(|| format!("launcher: node {node} is killed, with PEs {here:?}"));
        self.check_that_all_wait();
        self.moving = None;
        self.lose_moving(&here);
        self.node_dies(node);
    }

    /// Kills a process whose PE moves, on the launcher's order. False if it does not.
    pub fn kill_moving(&mut self, proc: u32) -> bool {
        let p = &self.procs[proc as usize];
        let (pe, moves) = (p.me(), p.waits.is_some_and(|request| request.joins));
        if !moves || self.moving.is_none() || self.suspects.contains_key(&pe) {
            return false;
        }
        self.check_that_all_wait();
        self.lose_moving(&[pe]);
        self.process_dies(proc, Ended::Killed(9));
        true
    }

    /// Fails if a PE has computed since the checkpoint after which PEs move. One that knows of a
    /// loss does not.
    fn check_that_all_wait(&mut self) {
        let carriers = self.carrier.iter().flatten();
        let living = carriers.map(|&proc| &self.procs[proc as usize]).filter(|p| p.alive);
        let goes_on = |p: &&Proc| p.waits.is_none() && !self.faulted(p) && !self.is_finishing(p);
        if let Some(p) = living.into_iter().find(goes_on) {
            self.broken_promise = Some(format!("PE {} computes while PEs are moved", p.me()));
        }
    }

    /// Checks and counts a drain, or a move to a node that has joined.
    pub fn moved(&mut self, joins: bool, checkpoint: CheckpointNumber, repeats: bool) {
        // The reporter may not have made its last step yet.
        let view = self.views[self.views.len() - 1].view.number;
        let from = self.resumed.get(&view).copied();
        if !repeats && from.is_some_and(|from| from.program() != checkpoint.program()) {
            let words = format!("PEs moved after {checkpoint}, and resume from {from:?}");
            self.broken_promise = Some(words);
        }
        let count = if joins { &mut self.ending.joined } else { &mut self.ending.drained };
        *count += 1;
    }

    /// Lets a process wait after its checkpoint if PEs move then.
    pub fn begin_wait(&mut self, p: &mut Proc) {
        let carries = |node: u32| self.shown(p).nodes().any(|at| at == node);
        p.waits = p.agreed_move.filter(|request| request.joins || carries(request.node));
        p.reported = false;
        if p.waits.is_some() {
            (0..self.procs.len()).for_each(|proc| self.wake(proc as u32)); // a barrier
        }
    }

    /// Waits until PEs have moved; None if none moves.
    pub fn wait_for_move(&mut self, p: &mut Proc) -> Option<Then> {
        let request = p.waits?;
        if self.faulted(p) {
            p.waits = None;
            (p.number, p.view) = (p.agreed.next(), self.shown(p).clone());
            return Some(self.call(p)); // it reports the loss
        }
        if self.nodes[p.node as usize].moves_over >= request.serial {
            p.waits = None;
            return None;
        }
        let has_it = |pe: usize| {
            let other = self.carrier[pe].map(|proc| &self.procs[proc as usize]);
            let is_made = |other: &Proc| other.driver.is_none() && other.agreed >= p.agreed;
            other.is_some_and(|other| other.me.is_none() || is_made(other))
        };
        if !p.reported && (0..self.pes()).all(has_it) && (request.joins || request.node == p.node) {
            p.reported = true;
            let (view, checkpoint) = (p.joined, p.agreed);
            self.say(p, PeMessage::Drained { request, view, checkpoint });
        }
        Some(Then::Sleep)
    }
}
