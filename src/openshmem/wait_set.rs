//! Waiting for and testing sets of local words: all, any, some, each against a value.
//!
//! An empty set is satisfied at once. As in `wait.rs`, between a death and the restart every word
//! counts as satisfied.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use raidshmem_runtime::pgas::{self, World};
use raidshmem_segment::waits::Waiting;

use super::bits::Bits;
use super::check::bytes_of;
use super::memory::address::Sym;
use super::memory::word::Word;
use super::memory::{logged, prelude};
use super::wait::Cmp;

type ToIndices<R> = fn(R) -> Vec<usize>;
type OfIndices<R> = fn(Vec<usize>) -> R;

/// Conversions between a result and a list of indices: an optional index, or a list.
const ONE: (ToIndices<Option<usize>>, OfIndices<Option<usize>>) =
    (|one| one.into_iter().collect(), |found| found.first().copied());
const ALL: (ToIndices<Vec<usize>>, OfIndices<Vec<usize>>) = (|found| found, |found| found);

/// A word of a set: its index in the caller's array, and the bits to compare it with.
struct Element {
    index: usize,
    word: Word,
    than: u64,
}

/// A set of words of this PE and their condition. Only its constructor depends on the type of the
/// words, so that what waits for them is compiled once.
pub struct WaitSet {
    call: &'static str,
    words: Vec<Element>,
    cmp: Cmp,
    holds: fn(Cmp, u64, u64) -> bool,
    world: &'static World,
    /// True if a death is known: every word counts as satisfied.
    released: Cell<bool>,
}

/// The word at which `any` starts to look next, so that one busy word does not starve the others.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Compares bits as values of one type.
fn holds<T: Bits>(cmp: Cmp, word: u64, than: u64) -> bool {
    cmp.holds(T::of(word), T::of(than))
}

impl WaitSet {
    /// Selects the words of an array that are not `taken_out`; each is compared with what `than`
    /// returns for its index.
    pub fn new<T: Bits>(
        call: &'static str,
        (ivars, nelems): (Sym<T>, usize),
        taken_out: &dyn Fn(usize) -> bool,
        cmp: Cmp,
        than: &dyn Fn(usize) -> T,
    ) -> WaitSet {
        bytes_of(call, nelems, size_of::<T>());
        let element = |index| Element {
            index,
            word: Word::own(call, "ivars", ivars.element(index)),
            than: than(index).bits(),
        };
        let words: Vec<Element> =
            (0..nelems).filter(|index| !taken_out(*index)).map(element).collect();
        let world = pgas::world();
        world.call_sites().waits();
        let released = Cell::new(
            !words.is_empty()
                && world.loss_response().interrupted()
                && world.loss_response().ends_tests(),
        );
        WaitSet { call, words, cmp, holds: holds::<T>, world, released }
    }

    fn holds(&self, of: &Element) -> bool {
        self.released.get() || (self.holds)(self.cmp, of.word.load(), of.than)
    }

    /// Returns what `find` finds; logs it as indices, empty if no word satisfies.
    fn answer<R>(
        &self,
        find: impl FnOnce() -> R,
        (show, read): (impl Fn(R) -> Vec<usize>, impl Fn(Vec<usize>) -> R),
    ) -> R {
        if self.words.is_empty() {
            return find();
        }
        if self.world.in_prelude() {
            let words: Vec<Word> = self.words.iter().map(|of| of.word).collect();
            let look = || show(self.logged(find, (&show, &read))).into_iter().map(|at| at as u64);
            let found = prelude::looks(self.call, self.with(), &words, || look().collect());
            return read(found.into_iter().map(|at| at as usize).collect());
        }
        self.logged(find, (&show, &read))
    }

    /// Like [`WaitSet::answer`], but ignores recorded results.
    fn logged<R>(
        &self,
        find: impl FnOnce() -> R,
        (show, read): (&impl Fn(R) -> Vec<usize>, &impl Fn(Vec<usize>) -> R),
    ) -> R {
        logged::indices(self.world, self.call, || self.with(), find, (show, read))
    }

    /// Returns a hash of the arguments, by which a replay identifies the call.
    fn with(&self) -> u64 {
        let mix = |with: u64, more: u64| with.wrapping_mul(0x100_0001).wrapping_add(more);
        let of = |with, of: &Element| mix(mix(with, of.word.place().offset() as u64), of.than);
        self.words.iter().fold(self.cmp as u64, of)
    }

    fn find_all(&self) -> bool {
        self.words.iter().all(|of| self.holds(of))
    }

    fn find_any(&self) -> Option<usize> {
        // Relaxed: only a hint for where to start.
        let start = NEXT.load(Ordering::Relaxed) % self.words.len().max(1);
        let (before, after) = self.words.split_at(start);
        let found = after.iter().chain(before).find(|of| self.holds(of))?.index;
        NEXT.store(found + 1, Ordering::Relaxed);
        Some(found)
    }

    fn find_some(&self) -> Vec<usize> {
        let held = self.words.iter().filter(|of| self.holds(of));
        held.map(|of| of.index).collect()
    }

    /// Returns true if every word satisfies.
    pub fn all(&self) -> bool {
        let yes = |yes: bool| if yes { vec![0] } else { Vec::new() };
        self.answer(|| self.find_all(), (yes, |found: Vec<usize>| !found.is_empty()))
    }

    /// Returns the next satisfied word after the one returned last.
    pub fn any(&self) -> Option<usize> {
        self.answer(|| self.find_any(), ONE)
    }

    /// Passes the satisfied words to `give`, and counts them.
    pub fn some(&self, give: &dyn Fn(usize, usize)) -> usize {
        self.give(self.answer(|| self.find_some(), ALL), give)
    }

    fn give(&self, found: Vec<usize>, give: &dyn Fn(usize, usize)) -> usize {
        found.iter().enumerate().for_each(|(at, &index)| give(at, index));
        found.len()
    }

    /// Waits for `ready`. After a death calls it once more, which then finds all satisfied.
    fn wait<R>(&self, mut ready: impl FnMut(&Self) -> Option<R>) -> Option<R> {
        if self.words.is_empty() {
            return None;
        }
        let mut found = ready(self);
        if found.is_none() {
            let waited = self.world.wait_until(
                || Waiting::anyone(self.call),
                || {
                    found = ready(self);
                    found.is_some()
                },
            );
            if waited.is_err() && found.is_none() {
                self.released.set(true);
                found = ready(self);
            }
        }
        found
    }

    /// Waits until every word satisfies.
    pub fn wait_all(&self) {
        let nothing = (|()| Vec::new(), |_| ());
        let wait = || {
            self.wait(|set| set.find_all().then_some(()));
        };
        self.answer(wait, nothing);
    }

    /// Waits for one that satisfies; returns None for an empty set.
    pub fn wait_any(&self) -> Option<usize> {
        self.answer(|| self.wait(|set| set.find_any()), ONE)
    }

    /// Waits until some satisfy, and passes them to `give` as [`WaitSet::some`] does.
    pub fn wait_some(&self, give: &dyn Fn(usize, usize)) -> usize {
        let found = |set: &Self| Some(set.find_some()).filter(|found| !found.is_empty());
        let wait = || self.wait(found).unwrap_or_default();
        self.give(self.answer(wait, ALL), give)
    }
}
