//! Waiting for and testing sets of words: all, any, some, each against one value or its own.
//!
//! `status` takes words out of the set (nonzero); null takes none out. An empty set is satisfied at
//! once: `all` is true, `any` gives `SIZE_MAX`, `some` gives 0. As in `wait.rs`, between a death
//! and the restart every word counts as satisfied.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::bits::Bits;
use super::guard::bytes_of;
use super::memory_ops::{In, Out, Sym, Word};
use super::wait::Cmp;
use crate::pgas::{self, World};
use crate::segment::waits::Waiting;

/// What the words are compared with.
#[derive(Clone, Copy)]
enum Than<T> {
    One(T),
    Each(In<T>),
}

/// A set of words of this PE and the condition on them.
struct Set<T> {
    call: &'static str,
    words: Vec<(usize, Word)>,
    cmp: Cmp,
    than: Than<T>,
    world: &'static World,
    /// A death is known: every word counts as satisfied.
    released: Cell<bool>,
}

/// Where `any` starts to look next, so that one busy word does not starve the others.
static NEXT: AtomicUsize = AtomicUsize::new(0);

impl<T: Bits> Set<T> {
    fn new(
        call: &'static str,
        ivars: Sym<T>,
        nelems: usize,
        status: In<c_int>,
        cmp: c_int,
        than: Than<T>,
    ) -> Set<T> {
        bytes_of(call, nelems, size_of::<T>());
        let taken_out = |index| status.addr() != 0 && status.read_at(index) != 0;
        let words: Vec<(usize, Word)> = (0..nelems)
            .filter(|index| !taken_out(*index))
            .map(|index| (index, Word::own(call, "ivars", ivars.element(index))))
            .collect();
        let world = pgas::world();
        world.waits();
        let released = Cell::new(!words.is_empty() && world.interrupted() && world.cut_short());
        Set { call, words, cmp: Cmp::new(call, cmp), than, world, released }
    }

    fn holds(&self, index: usize, word: Word) -> bool {
        let than = match self.than {
            Than::One(value) => value,
            Than::Each(values) => values.read_at(index),
        };
        self.released.get() || self.cmp.holds(T::of(word.load()), than)
    }

    fn all(&self) -> bool {
        self.words.iter().all(|(index, word)| self.holds(*index, *word))
    }

    /// The next satisfied word after the one given last.
    fn any(&self) -> Option<usize> {
        // Relaxed: only a hint where to start.
        let start = NEXT.load(Ordering::Relaxed) % self.words.len().max(1);
        let (before, after) = self.words.split_at(start);
        let found = after.iter().chain(before).find(|(index, word)| self.holds(*index, *word));
        let found = found.map(|(index, _)| *index)?;
        NEXT.store(found + 1, Ordering::Relaxed);
        Some(found)
    }

    fn some(&self, indices: Out<usize>) -> usize {
        let held = self.words.iter().filter(|(index, word)| self.holds(*index, *word));
        held.enumerate().map(|(at, (index, _))| indices.write_at(at, *index)).count()
    }

    /// Waits for `ready`. After a death it is asked once more, and then finds all satisfied.
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

    fn wait_all(&self) {
        self.wait(|set| set.all().then_some(()));
    }

    fn wait_any(&self) -> usize {
        self.wait(|set| set.any()).unwrap_or(usize::MAX)
    }

    fn wait_some(&self, indices: Out<usize>) -> usize {
        self.wait(|set| Some(set.some(indices)).filter(|count| *count > 0)).unwrap_or(0)
    }
}

family! { WAIT_MANY: "Point-to-point synchronisation";
    AMO "shmem_" "_wait_until_all" [generic "shmem_wait_until_all"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_value: T) {
        Set::new(NAME, ivars, nelems, status, cmp, Than::One(cmp_value)).wait_all()
    }
    AMO "shmem_" "_wait_until_any" [generic "shmem_wait_until_any"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_value: T) -> usize {
        Set::new(NAME, ivars, nelems, status, cmp, Than::One(cmp_value)).wait_any()
    }
    AMO "shmem_" "_wait_until_some" [generic "shmem_wait_until_some"]
    (ivars: Sym<T>, nelems: usize, indices: Out<usize>, status: In<c_int>, cmp: c_int,
     cmp_value: T) -> usize {
        Set::new(NAME, ivars, nelems, status, cmp, Than::One(cmp_value)).wait_some(indices)
    }
    AMO "shmem_" "_wait_until_all_vector" [generic "shmem_wait_until_all_vector"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_values: In<T>) {
        Set::new(NAME, ivars, nelems, status, cmp, Than::Each(cmp_values)).wait_all()
    }
    AMO "shmem_" "_wait_until_any_vector" [generic "shmem_wait_until_any_vector"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_values: In<T>) -> usize {
        Set::new(NAME, ivars, nelems, status, cmp, Than::Each(cmp_values)).wait_any()
    }
    AMO "shmem_" "_wait_until_some_vector" [generic "shmem_wait_until_some_vector"]
    (ivars: Sym<T>, nelems: usize, indices: Out<usize>, status: In<c_int>, cmp: c_int,
     cmp_values: In<T>) -> usize {
        Set::new(NAME, ivars, nelems, status, cmp, Than::Each(cmp_values)).wait_some(indices)
    }
    AMO "shmem_" "_test_all" [generic "shmem_test_all"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_value: T) -> c_int {
        c_int::from(Set::new(NAME, ivars, nelems, status, cmp, Than::One(cmp_value)).all())
    }
    AMO "shmem_" "_test_any" [generic "shmem_test_any"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_value: T) -> usize {
        let set = Set::new(NAME, ivars, nelems, status, cmp, Than::One(cmp_value));
        set.any().unwrap_or(usize::MAX)
    }
    AMO "shmem_" "_test_some" [generic "shmem_test_some"]
    (ivars: Sym<T>, nelems: usize, indices: Out<usize>, status: In<c_int>, cmp: c_int,
     cmp_value: T) -> usize {
        Set::new(NAME, ivars, nelems, status, cmp, Than::One(cmp_value)).some(indices)
    }
    AMO "shmem_" "_test_all_vector" [generic "shmem_test_all_vector"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_values: In<T>) -> c_int {
        c_int::from(Set::new(NAME, ivars, nelems, status, cmp, Than::Each(cmp_values)).all())
    }
    AMO "shmem_" "_test_any_vector" [generic "shmem_test_any_vector"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_values: In<T>) -> usize {
        let set = Set::new(NAME, ivars, nelems, status, cmp, Than::Each(cmp_values));
        set.any().unwrap_or(usize::MAX)
    }
    AMO "shmem_" "_test_some_vector" [generic "shmem_test_some_vector"]
    (ivars: Sym<T>, nelems: usize, indices: Out<usize>, status: In<c_int>, cmp: c_int,
     cmp_values: In<T>) -> usize {
        Set::new(NAME, ivars, nelems, status, cmp, Than::Each(cmp_values)).some(indices)
    }
}
