//! Replay of other PEs' operations on the memory of a substitute, in the order of their times.
//!
//! For puts, this order agrees with cause and effect in a program without data races. Atomic
//! operations draw their times before they take effect, so their order follows from the value that
//! each found ([`super::edges`]); a word whose order is still unknown waits for the missing
//! operations. Operations that were only logged are executed last, when no PE reaches the memory of
//! the dead PE any more. A record keeps the value that each found, for its origin and for the next
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

/// The access of a substitute to all logs and to its own memory.
pub trait SubstitutePort: Logs {
    /// Returns the value of a word; None if the word cannot be accessed atomically.
    fn load(&self, word: WordAt) -> Option<u64>;
    /// Writes a word.
    fn store(&mut self, word: WordAt, value: u64);
    /// Writes these bytes of the payload of a record of PE `pe` to offset `to`.
    fn copy(&mut self, to: usize, pe: Pe, found: &Located, bytes: Range<usize>);
    /// Appends a record to the own log with the value found by the operation of PE `pe` whose
    /// record begins at `from`.
    fn note_taken(&mut self, pe: Pe, from: usize, old: u64);
}

/// The progress of a substitute through other PEs' operations on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Merge {
    me: Pe,
    /// Cursor of the next record of each PE.
    next: Vec<usize>,
    /// Atomic operations on own words that are still uncertain, and all words that had one.
    edges: Edges,
    changed: BTreeSet<usize>,
    /// The values found by operations that this PE or its predecessor took over, by record.
    taken: BTreeMap<(Pe, usize), u64>,
}

impl Merge {
    /// Begins with the memory of PE `me` at the checkpoint, in a job of `n_pes`. The replay of the
    /// calls executes the own operations; the predecessor took over those in `taken`.
    pub fn begin(me: Pe, n_pes: usize, taken: BTreeMap<(Pe, usize), u64>) -> Merge {
        Merge { me, next: vec![0; n_pes], taken, ..Merge::default() }
    }

    /// Returns the cursor up to which the log of each PE is taken over.
    pub fn taken(&self) -> &[usize] {
        &self.next
    }

    /// Returns true if other PEs change the word at this offset atomically, and may have changed it
    /// since.
    pub fn may_have_changed(&self, at: usize) -> bool {
        self.changed.contains(&at)
    }

    /// Returns true if the value of every word is known.
    pub fn is_certain(&self) -> bool {
        self.edges.is_certain()
    }

    /// Returns true if any of these bytes must not be read yet.
    pub fn is_pending(&self, bytes: &Range<usize>) -> bool {
        self.edges.is_pending(bytes)
    }

    /// Notes an assignment of own bytes.
    pub fn assigns(&mut self, bytes: &Range<usize>) {
        self.edges.assign(bytes);
    }

    /// Notes the assignment of own bytes by the put of this record.
    pub fn assigns_blocks(&mut self, found: &Located) {
        if !self.edges.is_certain() {
            blocks(found).for_each(|(to, bytes)| self.edges.assign(&(to..to + bytes.len())));
        }
    }

    /// Applies the operations of other PEs on this one before `until`.
    pub fn apply(&mut self, port: &mut impl SubstitutePort, until: u64) {
        self.in_order(port, |merge, port, (pe, found)| {
            found.record.time < until && merge.applies(port, (pe, found))
        });
    }

    /// Applies all operations, those that were only logged last. Returns false if one of these may
    /// have happened.
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

    /// Passes the operations of other PEs to `apply` in the order of their times. Stops reading the
    /// log of a PE when `apply` returns false.
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

    /// Returns the next record in the log of a PE of an operation on this PE.
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

    /// Applies an operation that has happened; else returns false. A put can be repeated, so it is
    /// always applied. An atomic operation has happened if its old value is known.
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

    /// Returns the value that a logged operation found on this PE; None if it has not happened.
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

    /// Returns the value that an operation leaves after it found `old`.
    fn leaves(&self, port: &impl Logs, change: Change, old: u64, bytes: usize) -> u64 {
        match change.how {
            Update::CompareSwap(_) if port.breaks(Mutant::FailedSwapApplied) => change.operand,
            _ => change.of(old, bytes),
        }
    }

    /// Executes an operation of PE `pe` that has not happened. Returns false if it may have.
    fn take_over(&mut self, port: &mut impl SubstitutePort, (pe, found): (Pe, &Located)) -> bool {
        if port.state(pe, found.from) == Carried::Underway {
            return false;
        }
        let compared = port.compared(pe, found.from);
        let Some((word, _)) = found.record.change(compared) else { return true };
        let old = port.load(word).unwrap_or_default();
        // Recorded before it is visible: no PE reaches this one until all is applied.
        if !port.breaks(Mutant::TakenNotNoted) {
            port.note_taken(pe, found.from, old);
        }
        self.taken.insert((pe, found.from), old);
        self.change(port, (pe, found), old);
        true
    }
}

/// Returns the destination of each block of a put, and its range in the payload.
fn blocks(found: &Located) -> impl Iterator<Item = (usize, Range<usize>)> {
    let record = found.record;
    let (block, step) = ((record.block.0 as usize).max(1), record.block.1 as usize);
    let bytes = record.len as usize;
    (0..bytes.div_ceil(block)).map(move |nth| {
        let from = nth * block;
        (record.at as usize + nth * step, from..bytes.min(from + block))
    })
}
