//! PEs that act together: the one shape under teams and active sets, and how they meet.
//!
//! A group is `start, start + stride, ..` (`size` PEs) and an array of symmetric words (a team's
//! own, or the `pSync` of the caller). They meet by dissemination (`pgas::rounds`), each round on
//! a word of its own. Where nodes do not share memory, the leaders of nodes do so, between the
//! arrivals of their PEs and their release:
//!
//! ```text
//! words  | round 0 | .. | arrived | released | .. | DONE READY | TREE | SPREAD | .. | MASK COUNT |
//!        | OFFER | RESULT |                                    of a halving (`exchange.rs`)
//! ```
//!
//! The words of teams lie outside of the symmetric heap (`segment::layout`).
//!
//! A team has words for more *gates* behind these, with as many rounds as its job needs, and then
//! the words of its slots in the work area, two sets that are used in turns, and the counter of
//! turns. An active set has none of that: what would need slots goes the way that needs none. PEs
//! that come to different gates wait for each other for ever instead of taking one meeting for
//! another: the safe API rests on it (`shmem/mod.rs`).
//!
//! A signal adds one and its receiver takes one away, so a PE that is already in the next meeting
//! does no harm. Invariant: a word of a PE is zero again when the call returns there, except for a
//! signal of the next meeting; so a `pSync` is left as it was found, and the next call may use it.
//!
//! In a job that goes on with fewer they meet by an agreement of those that live (`pgas/fewer.rs`),
//! whose record lies in these words; in a `pSync` it is zeroed before the call returns.
//!
//! A death ends every wait. A `pSync` goes back to the checkpoint with the rest of the memory; the
//! words of teams are zeroed, as they are at every checkpoint.

use std::cell::RefCell;
use std::rc::Rc;

use raidshmem_core::agree::AgreedBits;
use raidshmem_core::layout::{TEAM_WORDS, WORK_ROUNDS};
use raidshmem_core::message::Whom;
use raidshmem_core::quantity::{Pe, ViewNumber};
use raidshmem_core::rounds::rounds;
use raidshmem_core::schedule::{self, Nodes};
use raidshmem_core::settings::Collectives;
use raidshmem_core::view::PES_MAX;
use raidshmem_segment::waits::Waiting;

use super::check::misuse;
use super::memory::address::Sym;
use super::memory::rma;
use super::memory::slots::Slot;
use super::memory::word::Word;
use super::order;
use super::team::{List, StridedPes, Team, index_in, index_of_pe, list_of, members, pe_of};
use crate::pgas::{self, Fault};

/// Words of a group's array; a `pSync` has as many.
pub const WORDS: usize = 96;
/// The word for free team slots.
pub const MASK_AT: usize = 62;
/// The word for a PE's number of elements.
pub const COUNT_AT: usize = 63;
/// The word for PEs of a node that are done with a part of a collective, on their leader.
pub const DONE_AT: usize = 30;
/// The word for the leader's word that a part is ready for the PEs of its node.
pub const READY_AT: usize = 31;
/// The words for the steps down a tree of leaders.
pub const TREE_AT: usize = 32;
/// The words for the steps in which leaders spread what each of them has.
pub const SPREAD_AT: usize = TREE_AT + STEPS;
/// The words for what may be read in a round of a halving.
pub const OFFER_AT: usize = 64;
/// The words for what was written of its result.
pub const RESULT_AT: usize = OFFER_AT + WORK_ROUNDS;
/// Steps of leaders: a view has at most 2^14 nodes.
const STEPS: usize = 14;
/// Words of a gate besides those of the rounds: arrived, released.
const GATE_WORDS: usize = 2;
/// Rounds of a meeting at most.
const ROUNDS: usize = DONE_AT - GATE_WORDS;

/// What the nodes of a group depend on: the view, start, stride, size, and the leaders.
type NodesKey = (ViewNumber, isize, isize, usize, Option<usize>);

/// Nodes that are kept, so that a collective does not work them out again.
const KNOWN_MOST: usize = 32;

thread_local! {
    static KNOWN: RefCell<Vec<(NodesKey, Option<Rc<Nodes>>)>> = const { RefCell::new(Vec::new()) };
}

const _: () = assert!(SPREAD_AT + STEPS <= MASK_AT && RESULT_AT + WORK_ROUNDS <= WORDS);
const _: () = assert!(schedule::reduction::rounds(PES_MAX) <= WORK_ROUNDS);

/// What PEs of a team come together for. The C API has one meeting for everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPoint {
    /// A collective: between the words of all.
    Collective = 0,
    /// The safe API, all outside of exchanges: a barrier.
    Barrier,
    /// An exchange begins.
    Open,
    /// An exchange ends.
    Close,
    /// A team is split.
    Split,
    /// A team ends.
    Destroy,
    /// Those that live of a team become one.
    Shrink,
    /// The safe API, all outside of exchanges: an agreement.
    Agree,
}

/// Which slots of a team are in use: the set of a collective, and its round.
#[derive(Clone, Copy, Debug)]
pub struct SlotIndex {
    /// Which of the two sets.
    pub set: usize,
    /// Round of the collective.
    pub round: usize,
}

/// Gates that lie behind the first words.
const MORE_GATES: usize = SyncPoint::Agree as usize;

/// Rounds of a meeting of all PEs.
fn rounds_of_all() -> usize {
    rounds(0, pgas::world().n_pes()).take(ROUNDS).count()
}

/// The words of a team's slots: the turn, then two sets.
fn slot_words() -> usize {
    WORDS + MORE_GATES * (rounds_of_all() + GATE_WORDS)
}

/// Slots in each of them.
fn slots() -> usize {
    schedule::reduction::rounds(pgas::world().n_pes())
}

/// Words of a team in the largest job.
const MOST_WORDS: usize = WORDS + MORE_GATES * (STEPS + GATE_WORDS) + 1 + 2 * WORK_ROUNDS;
const _: () = assert!(MOST_WORDS <= TEAM_WORDS);

/// The number of an active set in agreements.
fn number_of_set((start, stride, size): StridedPes) -> u64 {
    1 << 63 | (start as u64) << 40 | (stride as u64) << 20 | size as u64
}

/// Where the words of a group are.
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
    /// The call, for messages.
    pub call: &'static str,
    /// The PE with index 0.
    pub start: isize,
    /// From one PE to the next.
    pub stride: isize,
    /// How many.
    pub size: usize,
    /// Which of them this PE is.
    pub index: usize,
    words: Words,
    /// The first word of the gate that it meets at.
    first: usize,
    /// Which team it is; `None` for an active set.
    team: Option<usize>,
    /// The list of which its PEs are a progression; `None`: of all.
    pub list: List,
    /// Its number in agreements.
    pub number: u64,
}

impl Group {
    /// The group of a team; a handle that is none is a misuse.
    pub fn of_team(call: &'static str, team: Team) -> Group {
        let Some((start, stride, size)) = members(team) else {
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

    /// The group of an active set, whose PEs exist; `pSync` is symmetric and long enough.
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

    /// True if it is the team of all PEs.
    pub fn is_world(&self) -> bool {
        self.team == Some(0)
    }

    /// The PE with an index.
    pub fn pe(&self, index: usize) -> i32 {
        pe_of(self.list, (self.start, self.stride), index) as i32
    }

    /// Its PEs as those who come to agreements, in a job that goes on with fewer.
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

    /// The PEs that live come to one decision, in such a job.
    pub fn agree(&self, with: (u64, u64)) -> AgreedBits {
        pgas::world().agree(&self.members(), with)
    }

    /// Completes what this PE did, and comes to a decision; None where they meet otherwise.
    pub fn agreed(&self, with: (u64, u64)) -> Option<AgreedBits> {
        let members = || {
            order::complete();
            self.members()
        };
        pgas::world().agreed(members, with)
    }

    /// It ends: its words are another team's when this returns, if it is one.
    pub fn leave(&self) {
        pgas::world().leave_group(|| self.members());
    }

    /// A call is over in such a job: the words of an active set are zero again.
    pub fn restore_words(&self) {
        if let Words::Set(_) = self.words {
            pgas::world().clear_record(&self.members());
        }
    }

    /// A number for a team that its last agreement makes: the same on all, and no other's.
    pub fn next_number(&self) -> u64 {
        let (count, _) = pgas::world().fewer.next(self.members().row());
        (self.number ^ count << 8).wrapping_mul(0x9e37_79b9_7f4a_7c15) & !(1 << 63) | 1 << 62
    }

    /// What a call says after a decision: an error if a PE of the group is lost.
    pub fn whole(&self, decision: &AgreedBits) -> Result<(), Fault> {
        if decision.lost == 0 { Ok(()) } else { Err(Fault) }
    }

    /// The same PEs, meeting at another gate. For teams only.
    pub fn through(self, gate: SyncPoint) -> Group {
        let first = match gate as usize {
            0 => 0,
            more => WORDS + (more - 1) * (rounds_of_all() + GATE_WORDS),
        };
        Group { first, ..self }
    }

    /// Indices of all PEs in the order in which this one deals with them.
    pub fn partners(&self) -> impl Iterator<Item = usize> {
        schedule::partners(self.index, self.size)
    }

    /// A word of the group on one of its PEs.
    pub fn word(&self, at: usize, index: usize) -> Word {
        match self.words {
            Words::Set(words) => Word::new(self.call, "pSync", words.element(at), self.pe(index)),
            Words::Team(words) => Word::of_library(self.call, words + at * 8, self.pe(index)),
        }
    }

    /// Waits for signals to a word of this PE and takes `count` of them away.
    pub fn wait_for(&self, at: usize, count: u64) -> Result<(), Fault> {
        self.word(at, self.index).wait_for(count, || self.waiting())
    }

    /// A wait for its PEs to come to the call.
    pub fn waiting(&self) -> Waiting {
        if self.list.is_some() {
            return Waiting::anyone(self.call); // they are no progression
        }
        let (start, stride) = (self.start as i32, self.stride as i32);
        let whom = Whom::Members { start, stride, size: self.size as u32 };
        Waiting { call: self.call, whom }
    }

    /// True if it has slots in the work area.
    pub fn has_slots(&self) -> bool {
        self.team.is_some()
    }

    /// The set of slots for the next collective that uses them. All PEs of the group call it.
    pub fn turn(&self) -> usize {
        let word = self.word(slot_words(), self.index);
        let turn = word.load();
        word.store(turn.wrapping_add(1));
        (turn & 1) as usize
    }

    /// A new team begins with the same set on all its PEs, whichever team had its words before.
    pub fn begin_turns(&self) {
        self.word(slot_words(), self.index).store(0);
    }

    /// A slot, and its word on one of the PEs.
    pub fn slot(&self, SlotIndex { set, round }: SlotIndex, index: usize) -> (Slot, Word) {
        let team = self.team.expect("an active set has no slots, and goes no way that needs them");
        let word = self.word(slot_words() + 1 + set * slots() + round, index);
        (Slot { team, set, round }, word)
    }

    /// The nodes of the group, if its PEs are to act node by node; `first` leads its own.
    pub fn nodes(&self, first: Option<usize>) -> Option<Rc<Nodes>> {
        let world = pgas::world();
        if !world.acts_by_nodes() {
            return None;
        }
        let shape = (world.members.joined(), self.start, self.stride, self.size, first);
        KNOWN.with_borrow_mut(|known| {
            if let Some((_, nodes)) = known.iter().find(|(of, _)| *of == shape) {
                return nodes.clone();
            }
            let on = world.nodes_of((0..self.size).map(|index| self.pe(index) as usize));
            let nodes = on.map(|on| schedule::nodes(&on, self.index, first));
            let nodes = nodes.filter(|nodes| nodes.leaders.len() > 1).map(|nodes| {
                let auto = world.settings().collectives == Collectives::Auto;
                let flat = auto && !schedule::pays(&nodes);
                Rc::new(if flat { schedule::each_alone(self.size, self.index) } else { nodes })
            });
            if known.len() == KNOWN_MOST {
                known.clear();
            }
            known.push((shape, nodes.clone()));
            nodes
        })
    }

    /// Whether so many bytes, between so many actors, are passed on by bandwidth.
    pub fn is_long(&self, bytes: usize, actors: usize) -> bool {
        match pgas::world().settings().collectives {
            Collectives::Doubling => false,
            Collectives::Halving => true,
            _ => schedule::is_long(bytes, actors),
        }
    }

    /// Completes what this PE did and waits for the others to come here.
    pub fn meet(&self) -> Result<(), Fault> {
        self.meet_by(self.nodes(None).as_deref())
    }

    /// The same where the nodes are known.
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

    /// Number `own` of `size` PEs meets the others.
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

    /// Tells the leader of the node, which waits for all of it.
    pub fn arrive(&self, nodes: &Nodes, at: usize) -> Result<(), Fault> {
        if nodes.leads(self.index) {
            return self.wait_for(at, nodes.members[nodes.own].len() as u64 - 1);
        }
        self.word(at, nodes.leaders[nodes.own]).signal();
        Ok(())
    }

    /// The leader signals all of its node, which wait for it.
    pub fn release(&self, nodes: &Nodes, at: usize) -> Result<(), Fault> {
        if !nodes.leads(self.index) {
            return self.wait_for(at, 1);
        }
        let others = nodes.members[nodes.own].iter().filter(|index| **index != self.index);
        others.for_each(|&index| self.word(at, index).signal());
        Ok(())
    }

    /// Gives every PE a number of this one, in the word `at`, and returns those of all, by index.
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
