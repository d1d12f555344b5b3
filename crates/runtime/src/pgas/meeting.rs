//! The meetings of the protocol, in a tree over the PEs of a view.
//!
//! [`raidshmem_core::tree`] decides which PEs meet, and adds up their contributions; this module
//! writes and reads the words. A PE leaves its posts in its own control words for PEs that map it,
//! and writes them into its entry of the mailbox of PEs that do not. So nothing is polled over a
//! network, and a meeting costs a PE a few posts whatever the number of PEs.
//!
//! Invariants: one thread of a PE is in the protocol. A PE enters each meeting of a recovery once
//! per view: a restart that begins again in the view in which the checkpoint was agreed uses the
//! contributions of that time, since the same decision stands.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use raidshmem_core::protocol::brought::Brought;
use raidshmem_core::protocol::{At, meeting};
use raidshmem_core::quantity::Pe;
use raidshmem_core::tree::meeting::{Meeting, MeetingStep};
use raidshmem_core::tree::post::{self, FIRST, MeetingId, WORDS, Way};
use raidshmem_core::tree::{Location, Tree};
use raidshmem_core::view::{State, View};
use raidshmem_fabric::Write;
use raidshmem_segment::mailbox;
use raidshmem_sys::lock;

use super::World;

/// The meetings of the protocol.
#[derive(Clone, Copy)]
pub struct TreeMeetings<'a> {
    pub(super) world: &'a World,
}

impl World {
    /// Returns the meetings of the protocol.
    #[inline]
    pub fn tree_meetings(&self) -> TreeMeetings<'_> {
        TreeMeetings { world: self }
    }
}

impl TreeMeetings<'_> {
    /// Comes to the meeting of state `at` in `view`, with a contribution. This PE's posts elsewhere
    /// have arrived by then.
    pub(crate) fn come(self, view: &View, at: At, own: Brought) {
        let mut meetings = lock(&self.world.meetings);
        let number = meeting(at).unwrap_or_else(|| {
            meetings.checkpoints += 1;
            FIRST + meetings.checkpoints
        });
        let stage = MeetingId { view: view.number, number };
        if meetings.last >= Some(stage) {
            meetings.now = None;
            return;
        }
        let known = meetings.tree.take().filter(|(number, _)| *number == view.number);
        let tree = known.map_or_else(|| self.tree(view), |(_, tree)| tree);
        meetings.now = Some((stage, Meeting::begin(&tree, own)));
        meetings.tree = Some((view.number, tree));
    }

    /// Returns the sum of all contributions to the current meeting; None until all have come. After
    /// that it may be called again.
    pub(crate) fn met(self, at: At) -> Option<Brought> {
        let meetings = &mut *lock(&self.world.meetings);
        let Some((stage, now)) = &mut meetings.now else {
            return meetings.settled.or(Some(Brought::Nothing));
        };
        let (_, tree) = meetings.tree.as_ref().expect("set when it came");
        let limit = self.world.settings.memory_limit;
        let read = |pe: Pe, way: Way| {
            let body = post::open(&self.posted(pe, way), *stage, way)?;
            Some(Brought::read(at, &body, limit))
        };
        while !now.is_over() {
            let MeetingStep::Post(way) = now.advance(tree, read) else { return None };
            self.post(tree, way, &post::seal(*stage, way, &now.sum().body()));
        }
        let all = Some(*now.sum());
        if meeting(at).is_some() {
            meetings.last = Some(*stage);
        }
        if at == At::MeetSettling {
            meetings.settled = all;
        }
        all
    }

    /// Restarts the count of checkpoints, when control words are reset.
    pub(super) fn reset_meetings(self) {
        lock(&self.world.meetings).checkpoints = 0;
    }

    fn tree(self, view: &View) -> Tree {
        let node = |pe: Pe| self.world.comm.homes().node_in(view, pe);
        let place = |(pe, machine): (Pe, u32)| {
            let is_alive = view.pes[pe.at()].state == State::Alive;
            is_alive.then(|| Location { machine, node: node(pe) })
        };
        let machines = self.world.topology().machines_of(view);
        let places: Vec<_> = Pe::all(machines.len()).zip(machines).map(place).collect();
        Tree::of(self.world.me(), &places)
    }

    /// Returns the last post of PE `pe` that has arrived here.
    fn posted(self, pe: Pe, way: Way) -> [u64; WORDS] {
        let words = match self.world.segments.if_mapped(pe) {
            Some(segment) => &segment.words().posts[way as usize].0,
            None => {
                self.world.segments.own().mailbox(pe).post(self.world.comm.known_incarnation(pe))
            }
        };
        // Pairs with the stores of `post`: a reader of a post sees what was written before it.
        std::array::from_fn(|at| words[at].load(Ordering::Acquire))
    }

    /// Posts words to the parent or to the children. The view reports any loss meanwhile.
    fn post(self, tree: &Tree, way: Way, words: &[u64; WORDS]) {
        let to = match way {
            Way::Up => tree.parent.as_slice(),
            Way::Down => tree.children.as_slice(),
        };
        let own = &self.world.segments.own().words().posts[way as usize];
        for (word, value) in own.iter().zip(words) {
            word.store(*value, Ordering::Release);
        }
        let (remote, mapped): (Vec<Pe>, Vec<Pe>) =
            to.iter().partition(|&&pe| self.world.segments.is_remote(pe));
        mapped.into_iter().for_each(|pe| self.world.segments.wake(pe));
        let Some(engine) = self.world.comm.engine().filter(|_| !remote.is_empty()) else { return };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let incarnation = self.world.members.incarnation();
        let entry = self.world.segments.layout().mailbox_of(self.world.me());
        let offset = entry + mailbox::place(incarnation) + mailbox::POST;
        let write = |&pe: &Pe| Write { pe, offset, from: &bytes };
        // A post of an interrupted meeting may still be in progress.
        let _ = engine.fence(&remote);
        let _ = engine.put_and_wake(&remote.iter().map(write).collect::<Vec<_>>());
    }
}
