//! Whose turn it is: one thread at a time is inside UCP, and a short put waits for none of them.
//!
//! A thread that puts a word enters if nobody is inside. Else it leaves the word here and goes on:
//! whoever is inside begins the put, when it enters and again when it goes.
//!
//! Invariants: what was left before a thread enters is begun before the thread does anything else.
//! Nothing stays left while nobody is inside: who leaves a put tries to enter after that, and who
//! goes looks for puts after that, and each fences in between. A place is used again only when its
//! put is over, so UCP may read the word until then.
//!
//! Left out: what it takes to begin a put.

#![forbid(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, TryLockError};

use raidshmem_core::quantity::Pe;
use raidshmem_sys::lock;

/// Most bytes of a put that may be left.
pub(super) const SHORT: usize = size_of::<u64>();
/// Puts that may be left, or under way since they were.
pub(super) const PLACES: usize = 64;

/// States of a place: of nobody, of the thread that fills it, of whoever is inside.
const FREE: u8 = 0;
const FILLING: u8 = 1;
const LEFT: u8 = 2;
const BEGUN: u8 = 3;

/// A short put that was left.
#[derive(Debug, Default)]
pub(super) struct LeftPut {
    state: AtomicU8,
    len: AtomicU8,
    pe: AtomicU32,
    offset: AtomicUsize,
    word: AtomicU64,
}

impl LeftPut {
    /// Whom it is for, where it goes, and how many bytes.
    pub fn target(&self) -> (Pe, usize, usize) {
        let offset = self.offset.load(Ordering::Relaxed);
        (Pe(self.pe.load(Ordering::Relaxed)), offset, self.len.load(Ordering::Relaxed).into())
    }

    /// Where its bytes are: they do not change before [`LeftPut::over`].
    pub fn bytes(&self) -> *const u8 {
        self.word.as_ptr().cast_const().cast()
    }

    /// The put is over.
    pub fn over(&self) {
        self.state.store(FREE, Ordering::Release);
    }

    /// Of the caller alone from now on, if it was free.
    fn take(&self) -> bool {
        self.state.compare_exchange(FREE, FILLING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

/// What one thread at a time is inside of.
pub(super) trait Inside: 'static {
    /// Begins a put that was left, and calls [`LeftPut::over`] when it is over.
    fn begin(&mut self, place: &'static LeftPut);
}

/// The turns.
#[derive(Debug)]
pub(super) struct Turns<T> {
    inside: Mutex<T>,
    places: [LeftPut; PLACES],
    /// A put was left since somebody looked.
    any: AtomicBool,
    /// Where the next search for a free place begins.
    next: AtomicUsize,
}

impl<T: Inside> Turns<T> {
    /// Nobody is inside.
    pub fn new(inside: T) -> Turns<T> {
        Turns {
            inside: Mutex::new(inside),
            places: std::array::from_fn(|_| LeftPut::default()),
            any: AtomicBool::new(false),
            next: AtomicUsize::new(0),
        }
    }

    /// Waits for the turn.
    pub fn enter(&'static self) -> Turn<T> {
        self.begin(lock(&self.inside))
    }

    /// The turn, if nobody is inside.
    pub fn try_enter(&'static self) -> Option<Turn<T>> {
        self.free().map(|inside| self.begin(inside))
    }

    /// Leaves a put of at most [`SHORT`] bytes to whoever is inside; false if too many are left.
    pub fn leave(&'static self, pe: Pe, offset: usize, bytes: &[u8]) -> bool {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut places = (0..PLACES).map(|step| &self.places[first.wrapping_add(step) % PLACES]);
        let Some(place) = places.find(|place| place.take()) else { return false };
        let mut word = [0; SHORT];
        word[..bytes.len()].copy_from_slice(bytes);
        place.word.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        place.len.store(bytes.len() as u8, Ordering::Relaxed);
        place.pe.store(pe.0, Ordering::Relaxed);
        place.offset.store(offset, Ordering::Relaxed);
        place.state.store(LEFT, Ordering::Release);
        self.any.store(true, Ordering::Release);
        fence(Ordering::SeqCst); // pairs with that of who goes
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

    fn begin(&'static self, mut inside: MutexGuard<'static, T>) -> Turn<T> {
        self.begin_left(&mut inside);
        Turn { turns: self, inside: Some(inside) }
    }

    fn begin_left(&'static self, inside: &mut T) {
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

/// A turn, which ends with this value.
pub(super) struct Turn<T: Inside> {
    turns: &'static Turns<T>,
    inside: Option<MutexGuard<'static, T>>,
}

impl<T: Inside> Deref for Turn<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inside.as_ref().expect("it is taken at the end only")
    }
}

impl<T: Inside> DerefMut for Turn<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inside.as_mut().expect("it is taken at the end only")
    }
}

impl<T: Inside> Drop for Turn<T> {
    fn drop(&mut self) {
        drop(self.inside.take());
        loop {
            fence(Ordering::SeqCst); // pairs with that of who leaves a put
            if !self.turns.any.load(Ordering::Relaxed) {
                return;
            }
            let Some(mut inside) = self.turns.free() else { return }; // who is there looks, too
            self.turns.begin_left(&mut inside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was begun, and puts that are under way for a while.
    #[derive(Debug, Default)]
    struct Sums {
        left: u64,
        sum: u64,
        under_way: Vec<&'static LeftPut>,
    }

    impl Inside for Sums {
        fn begin(&mut self, place: &'static LeftPut) {
            let (pe, offset, len) = place.target();
            assert_eq!((pe, len), (Pe(offset as u32 + 1), SHORT));
            self.left += 1;
            self.sum += place.word.load(Ordering::Relaxed);
            self.under_way.push(place);
            if self.under_way.len() > 4 {
                self.under_way.drain(..).for_each(LeftPut::over);
            }
        }
    }

    fn leave(turns: &'static Turns<Sums>, value: u64) -> bool {
        let at = value % 7;
        turns.leave(Pe(at as u32 + 1), at as usize, &value.to_ne_bytes())
    }

    #[test]
    fn what_is_left_is_begun_by_who_goes_and_by_who_enters() {
        let turns: &'static Turns<Sums> = Box::leak(Box::new(Turns::new(Sums::default())));
        let turn = turns.enter();
        assert!(turns.try_enter().is_none() && leave(turns, 5));
        assert_eq!(turn.left, 0, "somebody is inside");
        drop(turn);
        assert_eq!(lock(&turns.inside).sum, 5, "who went looked again");
        assert!(leave(turns, 7));
        assert_eq!(lock(&turns.inside).sum, 12, "nobody was inside: who left it began it");
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
