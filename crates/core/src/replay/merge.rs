//! What others did to a substitute becomes its memory, in the order of their times.
//!
//! Bytes follow each other in that order: in a program without races it is that of cause and effect
//! wherever it matters. The order of atomic operations is not that of their times, which were drawn
//! before, but that of what each found ([`super::edges`]); where that is not known yet the word
//! waits for the rest. What nobody has carried out happens last, when nobody reaches the memory of
//! the dead any more; a record says what it found, for whoever waits for that and for the next
//! substitute.
//!
//! Invariant: an operation is applied once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::edges::{Edge, Edges};
use super::log::{Carried, Kind, Located, Logs};
use crate::mutant::Mutant;
use crate::quantity::Pe;
use crate::update::{Change, Update, WordAt};

/// What a substitute has: the logs of all, and its own memory.
pub trait SubstitutePort: Logs {
    /// What a word holds; None if it is none that is changed in one step.
    fn load(&self, word: WordAt) -> Option<u64>;
    /// Writes a word.
    fn store(&mut self, word: WordAt, value: u64);
    /// Writes these bytes of the payload of a record of PE `pe` to offset `to`.
    fn copy(&mut self, to: usize, pe: Pe, found: &Located, bytes: Range<usize>);
    /// Appends a record to the own log that says what the operation of PE `pe` whose record begins
    /// at `from` found.
    fn note_taken(&mut self, pe: Pe, from: usize, old: u64);
}

/// How far a substitute has come with what others did to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Merge {
    me: Pe,
    /// Where the next record of each PE is.
    next: Vec<usize>,
    /// Atomic operations on own words that are not certain yet, and all words that had one.
    edges: Edges,
    changed: BTreeSet<usize>,
    /// What this PE or its predecessor found when it took over an operation, by its record.
    taken: BTreeMap<(Pe, usize), u64>,
}

impl Merge {
    /// Nothing is applied yet to the memory of PE `me` in a job of `n_pes`. The own operations are
    /// left to the replay of the calls; these were taken over before.
    pub fn begin(me: Pe, n_pes: usize, taken: BTreeMap<(Pe, usize), u64>) -> Merge {
        Merge { me, next: vec![0; n_pes], taken, ..Merge::default() }
    }

    /// How far the log of each PE is taken over.
    pub fn taken(&self) -> &[usize] {
        &self.next
    }

    /// True if others change the word at that offset atomically, and may have gone on meanwhile.
    pub fn goes_on(&self, at: usize) -> bool {
        self.changed.contains(&at)
    }

    /// True if it is known of every word what it holds.
    pub fn is_certain(&self) -> bool {
        self.edges.is_certain()
    }

    /// True if nobody may look at these bytes yet.
    pub fn is_pending(&self, bytes: &Range<usize>) -> bool {
        self.edges.is_pending(bytes)
    }

    /// Own bytes are assigned.
    pub fn assigns(&mut self, bytes: &Range<usize>) {
        self.edges.assign(bytes);
    }

    /// Bytes are put to the own memory, as a record with so many bytes says.
    pub fn assigns_blocks(&mut self, found: &Located) {
        if !self.edges.is_certain() {
            blocks(found).for_each(|(to, bytes)| self.edges.assign(&(to..to + bytes.len())));
        }
    }

    /// Applies what others did here before `until`.
    pub fn apply(&mut self, port: &mut impl SubstitutePort, until: u64) {
        self.in_order(port, |merge, port, (pe, found)| {
            found.record.time < until && merge.applies(port, (pe, found))
        });
    }

    /// Applies all, in the end what nobody has carried out. False if that may have happened.
    pub fn apply_all(&mut self, port: &mut impl SubstitutePort) -> bool {
        self.in_order(port, |merge, port, at| merge.applies(port, at));
        let mut known = true;
        self.in_order(port, |merge, port, (pe, found)| {
            known &= match found.record.kind {
                Kind::Atomic => merge.take_over(port, (pe, found)),
                _ => merge.applies(port, (pe, found)),
            };
            known
        });
        known
    }

    /// Hands what others did here to `apply` in the order of their times: of each PE as long as
    /// that says that it was applied.
    fn in_order<P: SubstitutePort>(
        &mut self,
        port: &mut P,
        mut apply: impl FnMut(&mut Merge, &mut P, (Pe, &Located)) -> bool,
    ) {
        let me = self.me;
        let mut others: Vec<Pe> = Pe::all(self.next.len()).filter(|&pe| pe != me).collect();
        loop {
            let mut heads = Vec::new();
            for &pe in &others {
                heads.extend(self.head(port, pe).map(|found| (pe, found)));
            }
            let time = |(pe, found): &(Pe, Located)| match port.breaks(Mutant::MergedByOrigin) {
                true => (0, *pe),
                false => (found.record.time, *pe),
            };
            let Some((pe, found)) = heads.into_iter().min_by_key(time) else { break };
            match apply(self, port, (pe, &found)) {
                true => self.next[pe.at()] = found.next,
                false => others.retain(|&other| other != pe),
            }
        }
    }

    /// The next record of a PE that is of an operation on this one.
    fn head(&mut self, port: &impl Logs, pe: Pe) -> Option<Located> {
        loop {
            let found = port.read(pe, self.next[pe.at()])?;
            let is_operation = matches!(found.record.kind, Kind::Put | Kind::Atomic);
            if is_operation && found.record.target() == self.me {
                return Some(found);
            }
            self.next[pe.at()] = found.next;
        }
    }

    /// Applies what has happened; false if it has not. Bytes are the same however often they are
    /// put. An atomic operation happened if it found something.
    fn applies(&mut self, port: &mut impl SubstitutePort, (pe, found): (Pe, &Located)) -> bool {
        if found.record.kind == Kind::Atomic {
            let old = self.found(port, (pe, found.from));
            old.into_iter().for_each(|old| self.change(port, (pe, found), old));
            return old.is_some();
        }
        self.assigns_blocks(found);
        blocks(found).for_each(|(to, bytes)| port.copy(to, pe, found, bytes));
        true
    }

    /// What the operation of a record in the log of a PE found on this PE; None if it has not
    /// happened.
    fn found(&self, port: &impl Logs, (pe, from): (Pe, usize)) -> Option<u64> {
        let done = || (port.state(pe, from) == Carried::Done).then(|| port.found(pe, from).old);
        self.taken.get(&(pe, from)).copied().or_else(done)
    }

    /// Applies an atomic operation of another PE, or of this one, which found `old`.
    pub fn change(
        &mut self,
        port: &mut impl SubstitutePort,
        (pe, found): (Pe, &Located),
        old: u64,
    ) {
        let compared = port.compared(pe, found.from);
        let Some((word, change)) = found.record.change(compared) else { return };
        let Some(now) = port.load(word) else { return };
        self.changed.insert(word.offset);
        let edge = Edge { old, new: self.leaves(port, change, old, word.bytes) };
        let certain = match port.breaks(Mutant::PendingIgnored) {
            true => Some(edge.new),
            false => self.edges.add(word.offset, edge, now),
        };
        certain.into_iter().for_each(|value| port.store(word, value));
    }

    /// What an operation that found `old` left.
    fn leaves(&self, port: &impl Logs, change: Change, old: u64, bytes: usize) -> u64 {
        match change.how {
            Update::CompareSwap(_) if port.breaks(Mutant::FailedSwapApplied) => change.operand,
            _ => change.of(old, bytes),
        }
    }

    /// Carries out an operation of PE `pe` that has not happened. False if it may have.
    fn take_over(&mut self, port: &mut impl SubstitutePort, (pe, found): (Pe, &Located)) -> bool {
        if port.state(pe, found.from) == Carried::Underway {
            return false;
        }
        let compared = port.compared(pe, found.from);
        let Some((word, _)) = found.record.change(compared) else { return true };
        let old = port.load(word).unwrap_or_default();
        // Recorded before it shows: nobody reaches this PE before it has all.
        if !port.breaks(Mutant::TakenNotNoted) {
            port.note_taken(pe, found.from, old);
        }
        self.taken.insert((pe, found.from), old);
        self.change(port, (pe, found), old);
        true
    }
}

/// Where each block of a put goes, and which bytes of its payload those are.
fn blocks(found: &Located) -> impl Iterator<Item = (usize, Range<usize>)> {
    let record = found.record;
    let (block, step) = ((record.block.0 as usize).max(1), record.block.1 as usize);
    let bytes = record.len as usize;
    (0..bytes.div_ceil(block)).map(move |nth| {
        let from = nth * block;
        (record.at as usize + nth * step, from..bytes.min(from + block))
    })
}
