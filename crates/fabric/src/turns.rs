//! Turns inside a network library that admits one thread at a time: a short put waits for no other
//! thread.
//!
//! A thread that puts a word enters if no thread is inside. Otherwise it leaves the word here and
//! continues: the thread inside starts the put, when it enters and again when it exits.
//!
//! Invariants: puts left before a thread enters are started before the thread does anything else.
//! No put stays here while no thread is inside: a thread that leaves a put tries to enter
//! afterwards, a thread that exits looks for puts afterwards, and each fences in between. A place
//! is reused only when its put is over, so the library may read the word until then.
//!
//! Left out: the operation that starts a put.

use std::ops::{Deref, DerefMut};

use raidshmem_core::quantity::Pe;
use raidshmem_sys::lock;

use crate::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use crate::atomic::{Mutex, MutexGuard, TryLockError};

/// Maximum bytes of a delegated put.
pub const SHORT: usize = size_of::<u64>();
/// Maximum number of delegated puts, waiting or under way.
pub const PLACES: usize = 64;

/// States of a place: unowned, owned by the thread that fills it, or by the thread inside.
const FREE: u8 = 0;
const FILLING: u8 = 1;
const LEFT: u8 = 2;
const BEGUN: u8 = 3;

/// A short delegated put.
#[derive(Debug, Default)]
pub struct DelegatedPut {
    state: AtomicU8,
    len: AtomicU8,
    pe: AtomicU32,
    offset: AtomicUsize,
    word: AtomicU64,
}

impl DelegatedPut {
    /// Returns its PE, its offset and its length in bytes.
    pub fn target(&self) -> (Pe, usize, usize) {
        let offset = self.offset.load(Ordering::Relaxed);
        (Pe(self.pe.load(Ordering::Relaxed)), offset, self.len.load(Ordering::Relaxed).into())
    }

    /// Returns its bytes, which do not change before [`DelegatedPut::over`].
    pub fn bytes(&self) -> *const u8 {
        self.word.as_ptr().cast_const().cast()
    }

    /// Returns a copy of its bytes, padded.
    pub fn word(&self) -> [u8; SHORT] {
        self.word.load(Ordering::Relaxed).to_ne_bytes()
    }

    /// Marks the put as over.
    pub fn over(&self) {
        self.state.store(FREE, Ordering::Release);
    }

    /// Claims the place for the caller, if it is free. Returns true on success.
    fn take(&self) -> bool {
        self.state.compare_exchange(FREE, FILLING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

/// The state that only the thread inside may use.
pub trait Inside: 'static {
    /// Starts a delegated put, and calls [`DelegatedPut::over`] when it is over.
    fn begin(&mut self, place: &'static DelegatedPut);
}

/// The turns, and the puts that wait for the thread inside, `N` at most.
#[derive(Debug)]
pub struct Turns<T, const N: usize = PLACES> {
    inside: Mutex<T>,
    places: [DelegatedPut; N],
    /// True if a put was left since a thread last looked.
    any: AtomicBool,
    /// The place at which the next search for a free one begins.
    next: AtomicUsize,
}

impl<T: Inside, const N: usize> Turns<T, N> {
    /// Creates turns with no thread inside.
    pub fn new(inside: T) -> Turns<T, N> {
        Turns {
            inside: Mutex::new(inside),
            places: std::array::from_fn(|_| DelegatedPut::default()),
            any: AtomicBool::new(false),
            next: AtomicUsize::new(0),
        }
    }

    /// Waits for its turn and enters.
    pub fn enter(&'static self) -> Turn<T, N> {
        self.begin(lock(&self.inside))
    }

    /// Enters if no thread is inside.
    pub fn try_enter(&'static self) -> Option<Turn<T, N>> {
        self.free().map(|inside| self.begin(inside))
    }

    /// Leaves a put of at most [`SHORT`] bytes to the thread inside. Returns false if no place is
    /// free.
    pub fn leave(&'static self, pe: Pe, offset: usize, bytes: &[u8]) -> bool {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut places = (0..N).map(|step| &self.places[first.wrapping_add(step) % N]);
        let Some(place) = places.find(|place| place.take()) else { return false };
        let mut word = [0; SHORT];
        word[..bytes.len()].copy_from_slice(bytes);
        place.word.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        place.len.store(bytes.len() as u8, Ordering::Relaxed);
        place.pe.store(pe.0, Ordering::Relaxed);
        place.offset.store(offset, Ordering::Relaxed);
        place.state.store(LEFT, Ordering::Release);
        // An update: the thread inside, which reads the last one, sees the earlier puts, too.
        self.any.swap(true, Ordering::Release);
        fence(Ordering::SeqCst); // pairs with the fence of a thread that exits
        drop(self.try_enter());
        true
    }

    fn free(&'static self) -> Option<MutexGuard<'static, T>> {
        match self.inside.try_lock() {
            Ok(inside) => Some(inside),
            Err(TryLockError::Poisoned(inside)) => Some(inside.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn begin(&'static self, mut inside: MutexGuard<'static, T>) -> Turn<T, N> {
        self.begin_deferred(&mut inside);
        Turn { turns: self, inside: Some(inside) }
    }

    fn begin_deferred(&'static self, inside: &mut T) {
        if !self.any.load(Ordering::Relaxed) || !self.any.swap(false, Ordering::AcqRel) {
            return;
        }
        for place in &self.places {
            if place.state.load(Ordering::Acquire) == LEFT {
                place.state.store(BEGUN, Ordering::Relaxed);
                inside.begin(place);
            }
        }
    }
}

/// A turn, which ends when this value is dropped.
#[derive(Debug)]
pub struct Turn<T: Inside, const N: usize = PLACES> {
    turns: &'static Turns<T, N>,
    inside: Option<MutexGuard<'static, T>>,
}

impl<T: Inside, const N: usize> Deref for Turn<T, N> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inside.as_ref().expect("it is taken at the end only")
    }
}

impl<T: Inside, const N: usize> DerefMut for Turn<T, N> {
    fn deref_mut(&mut self) -> &mut T {
        self.inside.as_mut().expect("it is taken at the end only")
    }
}

impl<T: Inside, const N: usize> Drop for Turn<T, N> {
    fn drop(&mut self) {
        drop(self.inside.take());
        loop {
            fence(Ordering::SeqCst); // pairs with the fence of a thread that leaves a put
            if !self.turns.any.load(Ordering::Relaxed) {
                return;
            }
            let Some(mut inside) = self.turns.free() else { return }; // that thread looks, too
            self.turns.begin_deferred(&mut inside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of the puts that were started, and puts that stay under way for a while.
    #[derive(Debug, Default)]
    struct Sums {
        left: u64,
        sum: u64,
        under_way: Vec<&'static DelegatedPut>,
    }

    impl Inside for Sums {
        fn begin(&mut self, place: &'static DelegatedPut) {
            let (pe, offset, len) = place.target();
            assert_eq!((pe, len), (Pe(offset as u32 + 1), SHORT));
            self.left += 1;
            self.sum += place.word.load(Ordering::Relaxed);
            self.under_way.push(place);
            if self.under_way.len() > 4 {
                self.under_way.drain(..).for_each(DelegatedPut::over);
            }
        }
    }

    fn leave(turns: &'static Turns<Sums>, value: u64) -> bool {
        let at = value % 7;
        turns.leave(Pe(at as u32 + 1), at as usize, &value.to_ne_bytes())
    }

    #[test]
    fn leftover_work_is_begun_by_threads_that_leave_and_enter() {
        let turns: &'static Turns<Sums> = Box::leak(Box::new(Turns::new(Sums::default())));
        let turn = turns.enter();
        assert!(turns.try_enter().is_none() && leave(turns, 5));
        assert_eq!(turn.left, 0, "somebody is inside");
        drop(turn);
        assert_eq!(lock(&turns.inside).sum, 5, "the thread that left looked again");
        assert!(leave(turns, 7));
        assert_eq!(lock(&turns.inside).sum, 12, "no thread was inside: the one that left began it");
        let turn = turns.enter();
        let left = (0..).take_while(|_| leave(turns, 1)).count();
        assert!((PLACES - 4..=PLACES).contains(&left), "{left}: some are under way");
        drop(turn);
        assert!(leave(turns, 1), "there are places again");
        assert_eq!(lock(&turns.inside).sum, 13 + left as u64);
    }

    #[test]
    fn puts_of_many_threads_are_begun_once_each_and_none_stays_left() {
        const THREADS: u64 = 4;
        const PUTS: u64 = 20_000;
        let turns: &'static Turns<Sums> = Box::leak(Box::new(Turns::new(Sums::default())));
        let put = |value: u64| match turns.try_enter() {
            Some(mut turn) => turn.sum += value,
            None if leave(turns, value) => {}
            None => turns.enter().sum += value,
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || (0..PUTS).for_each(|value| put(value * THREADS + thread)));
            }
        });
        let all = THREADS * PUTS;
        assert_eq!(lock(&turns.inside).sum, all * (all - 1) / 2);
    }
}
