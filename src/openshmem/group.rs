//! PEs that act together: the common form of teams and active sets, and their synchronization.
//!
//! A group is `start, start + stride, ..` (`size` PEs) and an array of symmetric words (a team's
//! own, or the `pSync` of the caller). Its PEs meet by dissemination (`pgas::rounds`), each round
//! on a word of its own. If nodes do not share memory, only the leaders of nodes disseminate,
//! between the arrivals of their PEs and their release:
//!
//! ```text
//! words  | round 0 | .. | arrived | released | .. | DONE READY | TREE | SPREAD | .. | MASK COUNT |
//!        | OFFER | RESULT |                             of recursive halving (`exchange.rs`)
//! ```
//!
//! The words of teams lie outside of the symmetric heap (`segment::layout`).
//!
//! Behind these words, a team has words for more *gates*, each with as many rounds as its job
//! needs, then the words of its slots in the work area (two sets, used in turn), the counter of
//! turns, and the words of small broadcasts (`push.rs`). An active set has none of these and takes
//! the paths that need no slots, except one of all PEs, which may take those of the team of all.
//! PEs that reach different gates hang instead of mistaking one meeting for another: the safe API
//! relies on it (`shmem/mod.rs`).
//!
//! A signal adds one and its receiver subtracts one, so a PE that is already in the next meeting
//! does no harm. Invariant: a word of a PE is zero again when the call returns there, except for a
//! signal of the next meeting; so a `pSync` is left as it was found, and the next call may use it.
//!
//! In shrink mode the PEs meet by an agreement of the survivors (`pgas/fewer.rs`), whose record
//! lies in these words; in a `pSync` it is zeroed before the call returns.
//!
//! A death ends every wait. A `pSync` rolls back to the checkpoint with all other memory; the words
//! of teams are zeroed, as at every checkpoint.

use std::cell::RefCell;
use std::rc::Rc;

use raidshmem_core::agree::AgreedBits;
use raidshmem_core::layout::{TEAM_WORDS, WORK_ROUNDS};
use raidshmem_core::message::WaitTarget;
use raidshmem_core::quantity::{Pe, ViewNumber};
use raidshmem_core::rounds::rounds;
use raidshmem_core::schedule::{self, Nodes};
use raidshmem_core::settings::Collectives;
use raidshmem_core::view::PES_MAX;
use raidshmem_runtime::pgas::gathering::MeetingGroup;
use raidshmem_runtime::pgas::{self, Fault};
use raidshmem_segment::waits::Waiting;

use super::check::misuse;
use super::memory::address::Sym;
use super::memory::prelude;
use super::memory::rma;
use super::memory::slots::Slot;
use super::memory::word::Word;
use super::order;
use super::team::{List, StridedPes, Team, index_in, index_of_pe, list_of, members, pe_of};

/// Words in a group's array, and in a `pSync`.
pub const WORDS: usize = 96;
/// The word of free team slots.
pub const MASK_AT: usize = 62;
/// The word of a PE's element count.
pub const COUNT_AT: usize = 63;
/// The leader's word that counts the PEs of its node that finished a part of a collective.
pub const DONE_AT: usize = 30;
/// The word by which the leader tells the PEs of its node that a part is ready.
pub const READY_AT: usize = 31;
/// The words of the steps down a tree of leaders.
pub const TREE_AT: usize = 32;
/// The words of the steps in which leaders spread their blocks.
pub const SPREAD_AT: usize = TREE_AT + STEPS;
/// The words that announce readable data in the rounds of a halving.
pub const OFFER_AT: usize = 64;
/// The words that announce written results of a halving.
pub const RESULT_AT: usize = OFFER_AT + WORK_ROUNDS;
/// Steps of leaders: a view has at most 2^14 nodes.
const STEPS: usize = 14;
/// Words of a gate besides those of its rounds: arrived, released.
const GATE_WORDS: usize = 2;
/// Maximum number of rounds of a meeting.
const ROUNDS: usize = DONE_AT - GATE_WORDS;

/// The inputs that determine a group's nodes: view, start, stride, size, and the leaders.
type NodesKey = (ViewNumber, isize, isize, usize, Option<usize>);

/// Entries in the cache of node placements.
const KNOWN_MOST: usize = 32;

thread_local! {
    static KNOWN: RefCell<Vec<(NodesKey, Option<Rc<Nodes>>)>> = const { RefCell::new(Vec::new()) };
}

const _: () = assert!(SPREAD_AT + STEPS <= MASK_AT && RESULT_AT + WORK_ROUNDS <= WORDS);
const _: () = assert!(schedule::reduction::rounds(PES_MAX) <= WORK_ROUNDS);

/// The gates of a team. The C API uses one for everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPoint {
    /// A collective; uses the first words of the group.
    Collective = 0,
    /// A barrier of the safe API, with all PEs outside of exchanges.
    Barrier,
    /// The beginning of an exchange.
    Open,
    /// The end of an exchange.
    Close,
    /// The split of a team.
    Split,
    /// The end of a team.
    Destroy,
    /// The formation of a team from the survivors of another.
    Shrink,
    /// An agreement of the safe API, with all PEs outside of exchanges.
    Agree,
}

/// Words of a team for small broadcasts.
pub const PUSH_WORDS: usize = 7;

/// The slots of a team that a collective uses in one round.
#[derive(Clone, Copy, Debug)]
pub struct SlotIndex {
    /// Index of the set, 0 or 1.
    pub set: usize,
    /// Round of the collective.
    pub round: usize,
}

/// Gates that lie behind the first words.
const MORE_GATES: usize = SyncPoint::Agree as usize;

/// Returns the rounds of a meeting of all PEs.
fn rounds_of_all() -> usize {
    rounds(0, pgas::world().n_pes()).take(ROUNDS).count()
}

/// Returns the index of the first slot word of a team: the turn, then two sets.
fn slot_words() -> usize {
    WORDS + MORE_GATES * (rounds_of_all() + GATE_WORDS)
}

/// Returns the number of slots in a set.
fn slots() -> usize {
    schedule::reduction::rounds(pgas::world().n_pes())
}

/// Words of a team in the largest job.
const MOST_WORDS: usize =
    WORDS + MORE_GATES * (STEPS + GATE_WORDS) + 1 + 2 * WORK_ROUNDS + PUSH_WORDS;
const _: () = assert!(MOST_WORDS <= TEAM_WORDS);

/// Returns the number that identifies an active set in agreements.
fn number_of_set((start, stride, size): StridedPes) -> u64 {
    1 << 63 | (start as u64) << 40 | (stride as u64) << 20 | size as u64
}

/// The location of a group's words.
#[derive(Clone, Copy)]
enum Words {
    /// A `pSync` of the caller.
    Set(Sym<i64>),
    /// The words of a team, as an offset in the segment.
    Team(usize),
}

/// PEs that act together, seen from one of them.
#[derive(Clone, Copy)]
pub struct Group {
    /// The name of the call, for messages.
    pub call: &'static str,
    /// The PE with index 0.
    pub start: isize,
    /// The distance between consecutive PEs.
    pub stride: isize,
    /// The number of PEs.
    pub size: usize,
    /// The index of this PE.
    pub index: usize,
    words: Words,
    /// The first word of the group's gate.
    first: usize,
    /// The slot of the team; `None` for an active set.
    team: Option<usize>,
    /// The list of PEs in which the group is a progression; `None` for all PEs.
    pub list: List,
    /// Its number in agreements.
    pub number: u64,
}

impl Group {
    /// Returns the group of a team; an invalid handle is a misuse, except after a loss.
    pub fn of_team(call: &'static str, team: Team) -> Group {
        let Some((start, stride, size)) = members(team) else {
            // A loss may have kept the team from being made. No call does anything until all PEs
            // roll back, and then the program makes it again.
            if pgas::world().loss_response().interrupted() {
                return Group::of_team(call, Team::WORLD);
            }
            misuse(call, "the team is SHMEM_TEAM_INVALID or was destroyed");
        };
        let slot = team.0 - 1;
        let words = Words::Team(pgas::world().segments.layout().team(slot));
        let (list, number) = list_of(team);
        let team = Some(slot);
        match index_of_pe(list, (start, stride, size), pgas::world().me()) {
            Some(index) => {
                Group { call, start, stride, size, index, words, first: 0, team, list, number }
            }
            None => misuse(call, "this PE is not in the team"),
        }
    }

    /// Returns the group of an active set, whose PEs exist; `pSync` is symmetric and long enough.
    pub fn of_set(
        call: &'static str,
        (start, stride, size): StridedPes,
        p_sync: Sym<i64>,
    ) -> Group {
        Word::own(call, "pSync", p_sync.element(WORDS - 1));
        let words = Words::Set(p_sync);
        let number = number_of_set((start, stride, size));
        match index_in(start, stride, size, pgas::world().me().at()) {
            Some(index) => {
                let (first, team, list) = (0, None, None);
                Group { call, start, stride, size, index, words, first, team, list, number }
            }
            None => misuse(call, "this PE is not in the active set"),
        }
    }

    /// Returns true if it is the team of all PEs.
    pub fn is_world(&self) -> bool {
        self.team == Some(0)
    }

    /// Returns the PE with an index.
    pub fn pe(&self, index: usize) -> i32 {
        pe_of(self.list, (self.start, self.stride), index) as i32
    }

    /// Returns its PEs as the participants of agreements, in shrink mode.
    pub fn members(&self) -> pgas::Members {
        let offset = match self.words {
            Words::Set(words) => Word::own(self.call, "pSync", words).place().offset(),
            Words::Team(words) => words,
        };
        pgas::Members {
            waiting: self.waiting(),
            team: self.number,
            gate: (self.first.div_ceil(rounds_of_all() + GATE_WORDS)) as u8,
            offset,
            pes: (0..self.size).map(|index| Pe(self.pe(index).cast_unsigned())).collect(),
            index: self.index,
        }
    }

    /// Returns its PEs as those of logged meetings. Members of a team have it in an equal slot, so
    /// slot and members are its number.
    pub fn meeting_group(&self) -> MeetingGroup {
        if self.is_world() {
            return MeetingGroup::World;
        }
        let slot = self.team.map_or(0, |slot| slot as u64 + 1);
        let parts = [slot, self.start as u64, self.stride as u64, self.size as u64];
        let pes = (0..self.size).map(|index| Pe(self.pe(index).cast_unsigned())).collect();
        MeetingGroup::Part { number: prelude::with(parts) | 1, pes }
    }

    /// Agrees on one decision among the survivors, in shrink mode.
    pub fn agree(&self, with: (u64, u64)) -> AgreedBits {
        pgas::world().survivors().agree(&self.members(), with)
    }

    /// Completes this PE's operations and agrees on a decision; returns None outside of shrink
    /// mode.
    pub fn agreed(&self, with: (u64, u64)) -> Option<AgreedBits> {
        let members = || {
            order::complete();
            self.members()
        };
        pgas::world().loss_response().agreed(members, with)
    }

    /// Ends the group: its words may belong to another team once this returns.
    pub fn leave(&self) {
        pgas::world().loss_response().leave_group(|| self.members());
    }

    /// Zeroes the words of an active set after a call, in shrink mode.
    pub fn restore_words(&self) {
        if let Words::Set(_) = self.words {
            pgas::world().survivors().clear_record(&self.members());
        }
    }

    /// Returns a number for a team made by the last agreement: equal on all PEs, and unique.
    pub fn next_number(&self) -> u64 {
        let (count, _) = pgas::world().fewer.next(self.members().row());
        (self.number ^ count << 8).wrapping_mul(0x9e37_79b9_7f4a_7c15) & !(1 << 63) | 1 << 62
    }

    /// Returns an error if a decision shows that a PE of the group is lost.
    pub fn whole(&self, decision: &AgreedBits) -> Result<(), Fault> {
        if decision.lost == 0 { Ok(()) } else { Err(Fault) }
    }

    /// Returns the group of these PEs, meeting at another gate. For teams only.
    pub fn through(self, gate: SyncPoint) -> Group {
        let first = match gate as usize {
            0 => 0,
            more => WORDS + (more - 1) * (rounds_of_all() + GATE_WORDS),
        };
        Group { first, ..self }
    }

    /// Iterates over the indices of all PEs in the order in which this PE deals with them.
    pub fn partners(&self) -> impl Iterator<Item = usize> {
        schedule::partners(self.index, self.size)
    }

    /// Returns a word of the group on one of its PEs.
    pub fn word(&self, at: usize, index: usize) -> Word {
        match self.words {
            Words::Set(words) => Word::new(self.call, "pSync", words.element(at), self.pe(index)),
            Words::Team(words) => Word::of_library(self.call, words + at * 8, self.pe(index)),
        }
    }

    /// Waits for `count` signals to a word of this PE and consumes them.
    pub fn wait_for(&self, at: usize, count: u64) -> Result<(), Fault> {
        self.word(at, self.index).wait_for(count, || self.waiting())
    }

    /// Returns a description of a wait for its PEs to enter the call.
    pub fn waiting(&self) -> Waiting {
        if self.list.is_some() {
            return Waiting::anyone(self.call); // a listed team is no progression of all PEs
        }
        let (start, stride) = (self.start as i32, self.stride as i32);
        let whom = WaitTarget::Members { start, stride, size: self.size as u32 };
        Waiting { call: self.call, whom }
    }

    /// Returns true if it has slots in the work area.
    pub fn has_slots(&self) -> bool {
        self.team.is_some()
    }

    /// Returns the slot set for the next collective that uses slots. All PEs of the group call it.
    pub fn turn(&self) -> usize {
        let word = self.word(slot_words(), self.index);
        let turn = word.load();
        word.store(turn.wrapping_add(1));
        (turn & 1) as usize
    }

    /// Resets the turn, so that a new team begins with equal sets on all its PEs, whichever team
    /// used its words before.
    pub fn begin_turns(&self) {
        self.word(slot_words(), self.index).store(0);
    }

    /// Returns a slot and its word on one of the PEs.
    pub fn slot(&self, SlotIndex { set, round }: SlotIndex, index: usize) -> (Slot, Word) {
        let team = self.team.expect("an active set has no slots, and goes no way that needs them");
        let word = self.word(slot_words() + 1 + set * slots() + round, index);
        (Slot { team, set, round, at: 0 }, word)
    }

    /// Returns one of the [`PUSH_WORDS`] of a team, on one of the PEs.
    pub fn push_word(&self, at: usize, index: usize) -> Word {
        self.word(slot_words() + 1 + 2 * slots() + at, index)
    }

    /// Returns the slot of broadcasts of a set, from byte `at` on.
    pub fn push_slot(&self, set: usize, at: usize) -> Slot {
        let team = self.team.expect("only a team pushes");
        Slot { team, set, round: WORK_ROUNDS, at }
    }

    /// Returns the nodes of the group if its PEs act node by node; `first` leads its own node.
    pub fn nodes(&self, first: Option<usize>) -> Option<Rc<Nodes>> {
        let world = pgas::world();
        if !world.topology().acts_by_nodes() {
            return None;
        }
        let shape = (world.members.joined(), self.start, self.stride, self.size, first);
        KNOWN.with_borrow_mut(|known| {
            if let Some((_, nodes)) = known.iter().find(|(of, _)| *of == shape) {
                return nodes.clone();
            }
            let on = world.topology().nodes_of((0..self.size).map(|index| self.pe(index) as usize));
            let nodes = on.map(|on| schedule::nodes(&on, self.index, first));
            let nodes = nodes.filter(|nodes| nodes.leaders.len() > 1).map(|nodes| {
                let auto = world.settings().collectives == Collectives::Auto;
                let flat = auto && !schedule::pays(&nodes);
                Rc::new(if flat { schedule::each_locally(self.size, self.index) } else { nodes })
            });
            if known.len() == KNOWN_MOST {
                known.clear();
            }
            known.push((shape, nodes.clone()));
            nodes
        })
    }

    /// Returns true if a transfer of `bytes` between `actors` should optimize bandwidth, not
    /// latency.
    pub fn is_long(&self, bytes: usize, actors: usize) -> bool {
        match pgas::world().settings().collectives {
            Collectives::Doubling => false,
            Collectives::Halving => true,
            _ => schedule::is_long(bytes, actors),
        }
    }

    /// Completes this PE's operations and waits until the other PEs arrive.
    pub fn meet(&self) -> Result<(), Fault> {
        self.meet_by(self.nodes(None).as_deref())
    }

    /// Like [`Group::meet`], with known nodes.
    pub fn meet_by(&self, nodes: Option<&Nodes>) -> Result<(), Fault> {
        order::complete();
        if let Some(decision) = self.agreed((u64::MAX, 0)) {
            self.restore_words();
            return self.whole(&decision);
        }
        let released = self.first + rounds_of_all();
        match nodes {
            None => self.meet_rounds(self.index, self.size, |index| index)?,
            Some(nodes) => {
                let arrived = released + 1;
                self.arrive(nodes, arrived)?;
                if nodes.leads(self.index) {
                    let leader = |node: usize| nodes.leaders[node];
                    self.meet_rounds(nodes.own, nodes.leaders.len(), leader)?;
                }
                self.release(nodes, released)?;
            }
        }
        order::complete();
        Ok(())
    }

    /// Synchronizes PE number `own` of `size` with the other PEs.
    fn meet_rounds(
        &self,
        own: usize,
        size: usize,
        index: impl Fn(usize) -> usize,
    ) -> Result<(), Fault> {
        for (round, peers) in rounds(own, size).enumerate() {
            self.word(self.first + round, index(peers.to)).signal();
            self.wait_for(self.first + round, 1)?;
        }
        Ok(())
    }

    /// Waits for the other PEs of the node.
    pub fn meet_node(&self, nodes: &Nodes) -> Result<(), Fault> {
        let released = self.first + rounds_of_all();
        self.arrive(nodes, released + 1)?;
        self.release(nodes, released)
    }

    /// Signals the leader of the node, which waits for all PEs of the node.
    pub fn arrive(&self, nodes: &Nodes, at: usize) -> Result<(), Fault> {
        if nodes.leads(self.index) {
            return self.wait_for(at, nodes.members[nodes.own].len() as u64 - 1);
        }
        self.word(at, nodes.leaders[nodes.own]).signal();
        Ok(())
    }

    /// Releases the PEs of the node: the leader signals each of them.
    pub fn release(&self, nodes: &Nodes, at: usize) -> Result<(), Fault> {
        if !nodes.leads(self.index) {
            return self.wait_for(at, 1);
        }
        let others = nodes.members[nodes.own].iter().filter(|index| **index != self.index);
        others.for_each(|&index| self.word(at, index).signal());
        Ok(())
    }

    /// Publishes a number of this PE to all in the word `at`; returns those of all PEs, by index.
    pub fn all_gather(&self, at: usize, number: u64) -> Result<Vec<u64>, Fault> {
        let own = self.word(at, self.index);
        own.store(number);
        self.meet()?;
        let mut numbers = vec![0u64; self.size];
        let words = (0..self.size).map(|index| self.word(at, index).place());
        rma::fetch_from_places(&mut numbers, words);
        self.meet()?;
        own.store(0);
        Ok(numbers)
    }
}
