//! One state of the model, small enough for hundreds of millions of them.
//!
//! A state is packed into one word per PE and a shared one. Values that can no longer be read are
//! omitted, so that states that differ only in them become one. Among all numberings of
//! interchangeable PEs, the smallest packing is the representative. The set of seen states keeps 64
//! bits of each (hash compaction): with `n` states, the probability that any two collide, and a
//! state is skipped for that reason, is below `n^2 / 2^65`: 1 in 3,600 for a hundred million.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use super::groups::{GroupNames, VIEWS};
use crate::protocol::{ALL, At, Call, meeting};
use crate::quantity::CheckpointNumber;
use crate::store::inherited::{Rescue, rescue, without_live};
use crate::store::phase::{Phase, Vote};
use crate::store::site::Called;

/// Maximum number of PEs of a model.
pub const MOST: usize = 4;

/// Returns the number of a checkpoint of the model: the one that programs see in three bits, then
/// how often checkpoints were encoded again.
pub fn full(number: u8) -> CheckpointNumber {
    let seen = CheckpointNumber(program(number).into());
    (0..number >> 3).fold(seen, |number, _| number.healed())
}

/// Returns the inverse of [`full`].
pub fn packed(number: CheckpointNumber) -> u8 {
    number.0 as u8 & 7 | (number.healed_times() << 3) as u8
}

/// Returns the number that programs see, and that live memory has.
pub fn program(number: u8) -> u8 {
    number & 7
}

/// Returns the PEs of these bits.
pub fn among(bits: u8) -> impl Iterator<Item = usize> {
    (0..8).filter(move |p| bits >> p & 1 == 1)
}

/// Returns a bit for each of these PEs.
pub fn bits(pes: impl Iterator<Item = usize>) -> u8 {
    pes.fold(0, |all, p| all | 1 << p)
}

/// The content of memory, as far as the protocol depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bytes {
    Void,
    /// Sealed as this checkpoint; true if the bytes really are those of the checkpoint.
    Sealed(u8, bool),
}

impl Bytes {
    pub fn is(self, number: u8) -> bool {
        matches!(self, Bytes::Sealed(n, _) if n == number)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeState {
    pub alive: bool,
    pub node_lost: bool,
    /// True if the PE is in `shmem_finalize`.
    pub finished: bool,
    pub unrecoverable: bool,
    // the process
    pub call: Call,
    pub at: Option<At>,
    pub middle: bool,
    pub number: u8,
    pub agreed: u8,
    pub view: u8,
    pub joined: u8,
    /// The view on its page, or the oldest that may still be there (`Model::lazy`).
    pub shown: u8,
    pub epoch: u8,
    pub good: bool,
    /// True if other PEs are in `shmem_finalize`, in the recovery that this PE is in.
    pub ends: bool,
    /// The checkpoint whose changes it publishes.
    pub shows: u8,
    /// The verdict: low half the lost PEs, high half the unusable ones; 0 for no verdict.
    pub words: u8,
    // its memory
    pub live: Option<u8>,
    pub phase: Option<Phase>,
    pub decided: Option<u8>,
    pub step: (u8, u8),
    /// The second one is used only if checkpoints are made in parts.
    pub snapshots: [Bytes; 2],
    /// Live memory that a substitute keeps until the checkpoint is decided.
    pub shadow: Bytes,
    pub slots: [Bytes; 2],
    pub findings: (bool, bool),
    /// The part of a checkpoint that its background is in, and true in the middle of it.
    pub behind: Option<(At, bool)>,
    /// The call sites that it knows and publishes, if the program has two.
    pub places: Places,
    /// The groups that it knows, if groups change.
    pub groups: GroupNames,
}

/// The first call site of a program with two, before its loop.
pub const BEFORE: u64 = 1;
/// The second call site, at the end of its loop.
pub const INSIDE: u64 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Places {
    /// True if the next call is the first one.
    pub before: bool,
    /// The published call: place, number, and flags for new and late.
    pub call: (u8, u8, bool, bool),
    /// The result after a restart: the reference plus 1, the places of the PEs ahead as bits, and a
    /// flag for being behind.
    pub apart: (u8, u8, bool),
    /// True if it has computed since the restart.
    pub written: bool,
    /// The call published since the restart: view, place, and the value of `written` then.
    pub shown: (u8, u8, bool),
}

impl Places {
    pub fn called(self) -> Called {
        let (site, number, new, late) = self.call;
        let (site, number) = (u64::from(site), CheckpointNumber(number.into()));
        Called { site, number, new, late, varied: false }
    }

    fn pack(self) -> u128 {
        let (site, number, new, late) = self.call;
        let (reference, sites, behind) = self.apart;
        let (view, at, written) = self.shown;
        let parts = [
            (u8::from(self.before), 1),
            (site, 2),
            (number, 3),
            (u8::from(new), 1),
            (u8::from(late), 1),
            (reference, 3),
            (sites, 2),
            (u8::from(behind), 1),
            (u8::from(self.written), 1),
            (view, 3),
            (at, 2),
            (u8::from(written), 1),
        ];
        parts.into_iter().fold(0, |word, (value, bits)| {
            assert!(u32::from(value) >> bits == 0, "{value} does not fit in {bits} bits");
            word << bits | u128::from(value)
        })
    }
}

impl PeState {
    /// Ends the process, and keeps its memory.
    pub fn die(&mut self) {
        (self.alive, self.finished, self.unrecoverable) = (false, false, false);
        (self.call, self.at, self.middle) = (Call::Checkpoint, None, false);
        (self.number, self.agreed, self.view, self.joined) = (0, 0, 0, 0);
        (self.shown, self.epoch, self.good, self.words) = (0, 0, false, 0);
        (self.places, self.groups) = (Places::default(), self.groups.of_memory());
        self.ends = false;
        if self.behind.take().is_some() {
            self.live = None; // its program ran
        }
    }

    /// Wipes the memory. A PE that still reads its findings sees everything lost.
    pub fn wipe(&mut self) {
        self.live = None;
        (self.phase, self.decided, self.step) = (None, None, (0, 0));
        (self.snapshots, self.shadow) = ([Bytes::Void; 2], Bytes::Void);
        self.slots = [Bytes::Void; 2];
        self.groups.slots = [0; 2];
        self.findings = (true, true);
        self.shows = 0;
    }

    /// Starts a new process for this PE, which adopts the memory; its page may still show the view
    /// in which the PE is dead.
    pub fn begin(&mut self, shown: u8) {
        (self.alive, self.node_lost, self.shown) = (true, false, shown);
        let live = |n| Bytes::Sealed(packed(n), self.live == Some(program(packed(n))));
        match rescue(&Vote { phase: self.phase, decided: self.decided.map(full) }) {
            Rescue::Complete(n) => {
                let shadow = self.shadow.is(packed(n));
                self.snapshots[0] = if shadow { self.shadow } else { live(n) };
                self.phase = self.phase.map(without_live);
            }
            Rescue::Keep(n) if !self.shadow.is(packed(n)) => self.shadow = live(n),
            Rescue::Keep(_) | Rescue::Nothing => {}
        }
        self.live = None;
    }

    /// True for a substitute that has not recovered yet.
    pub fn is_new(&self) -> bool {
        self.joined == 0
    }

    /// True if its process died, and its live memory may be needed.
    pub fn may_be_rescued(&self) -> bool {
        let encoded = self.phase.and_then(Phase::encoded).is_some();
        !self.alive && !self.node_lost && encoded
    }

    /// True if it waits for other PEs once it has arrived.
    pub fn waits(&self) -> bool {
        let barrier = [At::BarrierQ, At::BarrierC, At::BarrierA, At::BarrierB, At::BarrierCopied];
        self.at.is_some_and(|at| barrier.contains(&at) || meeting(at).is_some())
    }

    /// True if it knows that its view is outdated.
    pub fn sees_change(&self) -> bool {
        let view =
            if self.at.is_some_and(|at| meeting(at).is_some()) { self.view } else { self.joined };
        self.shown > view
    }

    /// Returns the newest view that the next step must consider; it must also consider all views
    /// from the shown one up to it.
    pub fn newest(&self, current: u8) -> u8 {
        let after = match self.at {
            Some(At::Whole) => current,
            Some(At::MeetSettling) if !self.middle && self.call == Call::Checkpoint => current,
            Some(At::Rebuild | At::Reencode) if self.middle => self.view + 1,
            Some(At::Encode) if self.middle => self.joined + 1,
            Some(At::Enter | At::Follow) => self.joined + 1,
            Some(at) if self.waits() && meeting(at).is_some() => self.view + 1,
            Some(_) if self.waits() => self.joined + 1,
            _ => self.shown,
        };
        after.min(current).max(self.shown)
    }

    fn pack(&self, columns: u128) -> u128 {
        let at = self.at.map_or(ALL.len(), |at| at as usize);
        let (kind, of) = match self.phase {
            None => (0, 0),
            Some(phase) => {
                let word = phase.pack();
                ((word & 15) as u8, packed(CheckpointNumber(word >> 4)))
            }
        };
        let behind: u16 = match self.behind {
            None => 0,
            Some((At::Encode, middle)) => 1 + u16::from(middle),
            Some((At::Publish, _)) => 3,
            Some((At::BarrierA, middle)) => 4 + u16::from(middle),
            Some((_, _)) => 6,
        };
        let bytes = |bytes: Bytes| match bytes {
            Bytes::Void => 0,
            Bytes::Sealed(number, good) => number << 1 | u8::from(good),
        };
        let flags = [
            self.alive,
            self.node_lost,
            self.finished,
            self.unrecoverable,
            self.call == Call::Restart,
            self.call == Call::Finalize,
            self.ends,
            self.middle,
            self.good,
            self.findings.0,
            self.findings.1,
        ];
        let small = [
            (self.number, 5),
            (self.agreed, 5),
            (self.view, 3),
            (self.joined, 3),
            (self.shown, 3),
            (self.epoch, 5),
            (self.words, 8),
            (self.live.unwrap_or(0), 3),
            (kind, 4),
            (of, 5),
            (self.decided.unwrap_or(0), 5),
            (self.step.0, 3),
            (self.step.1, 4),
            (bytes(self.snapshots[0]), 6),
            (bytes(self.shadow), 6),
            (bytes(self.slots[0]), 6),
            (bytes(self.slots[1]), 6),
            (at as u8, 6),
        ];
        // A program with two places makes no checkpoint in parts, so both share their bits.
        let (places, parts) =
            (self.places.pack(), behind << 6 | u16::from(bytes(self.snapshots[1])));
        assert!(places == 0 || parts == 0);
        let columns = columns << 21 | places | u128::from(parts);
        let flags = flags.into_iter().fold(columns, |word, flag| word << 1 | u128::from(flag));
        small.into_iter().fold(flags, |word, (value, bits)| {
            assert!(u32::from(value) >> bits == 0, "{value} does not fit in {bits} bits");
            word << bits | u128::from(value)
        })
    }
}

/// One state of the whole job. Only the first PEs are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobState {
    pub pes: [PeState; MOST],
    /// Bit per PE alive, by view number.
    pub views: [u8; VIEWS],
    /// Number of the newest view.
    pub current: u8,
    pub gate: (u8, u8),
    pub deaths: u8,
    /// PEs lost since redundancy was whole.
    pub since_whole: u8,
    /// The node of each PE by view number, as [`super::groups::NodeOf`], if groups change.
    pub nodes: [u8; VIEWS],
}

impl JobState {
    /// Publishes the next view, as the launcher would.
    pub fn order(&mut self, living: u8) {
        let before = usize::from(self.current);
        self.current += 1;
        self.views[before + 1] = living;
        self.nodes[before + 1] = self.nodes[before];
    }

    /// True if there are numbers for the views in which these PEs are lost, and all are replaced.
    pub fn has_views_for(&self, lost: u8) -> bool {
        let living = self.living_in(self.current) & !lost;
        let gone = self.living_in(1).count_ones() - living.count_ones();
        usize::from(self.current) + 1 + (gone as usize) < VIEWS
    }

    pub fn living_in(&self, view: u8) -> u8 {
        self.views[usize::from(view)]
    }

    /// Returns 64 bits of the state's packing; `symmetries` are the permitted numberings of PEs.
    pub fn fingerprint(&self, pes: usize, symmetries: &[[u8; MOST]]) -> u64 {
        let words = self.words(pes);
        let in_order = |order: &[u8; MOST]| order.map(|p| words[usize::from(p)]);
        let smallest = match (1..=pes).product::<usize>() == symmetries.len() {
            true => sorted(words, pes),
            false => symmetries.iter().map(in_order).min().unwrap_or(words),
        };
        let shared = [self.current, self.gate.0, self.gate.1, self.deaths];
        let shared = shared.into_iter().fold(0, |word, value| word << 8 | u64::from(value));
        let parts = |(word, groups)| [word as u64, (word >> 64) as u64, groups];
        let halves = smallest.into_iter().flat_map(|words: (u128, u64)| parts(words));
        let seed = mix(mix(SEED, shared), u64::from_le_bytes(self.nodes));
        halves.fold(seed, mix)
    }

    fn words(&self, pes: usize) -> [(u128, u64); MOST] {
        let alive = || self.pes[..pes].iter().filter(|pe| pe.alive);
        let oldest = alive().map(|pe| pe.shown).min().unwrap_or(self.current);
        let read =
            |view: u8| (oldest..=self.current).contains(&view) || alive().any(|pe| pe.view == view);
        let mut words = [(0, 0); MOST];
        for (p, word) in words[..pes].iter_mut().enumerate() {
            let view = |column: u128, view: u8| {
                let living = read(view) && self.living_in(view) >> p & 1 == 1;
                column << 1 | u128::from(living)
            };
            let column = (1..=self.current).fold(u128::from(self.since_whole >> p & 1), view);
            *word = (self.pes[p].pack(column), self.pes[p].groups.pack());
        }
        words
    }

    /// Describes the step from this state to `next`, in readable form.
    pub fn step_to(&self, next: &JobState, pes: usize) -> String {
        let step = |p: usize| {
            let (was, is) = (&self.pes[p], &next.pes[p]);
            match (was.alive, is.alive) {
                (true, false) if is.node_lost => return Some(format!("PE {p} lost with its node")),
                (true, false) => return Some(format!("PE {p} dies")),
                (false, true) => return Some(format!("a substitute carries PE {p}")),
                _ if was == is => return None,
                _ if was.shown != is.shown => return Some(format!("PE {p} is shown {}", is.shown)),
                _ => {}
            }
            let at = |pe: &PeState| pe.at.map_or("program".to_string(), |at| format!("{at:?}"));
            let half = if is.middle { " (in it)" } else { "" };
            Some(format!("PE {p} {} -> {}{half}", at(was), at(is)))
        };
        (0..pes).filter_map(step).collect::<Vec<_>>().join(", ")
    }
}

fn sorted(mut words: [(u128, u64); MOST], pes: usize) -> [(u128, u64); MOST] {
    words[..pes].sort_unstable();
    words
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Folds both halves of a full product: every bit of the result depends on every input bit.
fn mix(hash: u64, word: u64) -> u64 {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let first = fold(hash ^ word ^ 0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db);
    fold(first ^ word.rotate_left(32), 0x8ebc_6af0_9c88_c6e3) ^ first
}

/// A hasher that returns a fingerprint unchanged.
#[derive(Default)]
pub struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are hashed")
    }
    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}

/// Fingerprints of the visited states.
pub type Seen = HashSet<u64, BuildHasherDefault<AsIs>>;
