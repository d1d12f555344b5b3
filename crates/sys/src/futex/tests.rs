//! The asymmetric fence, between two processors.

use std::sync::atomic::{AtomicBool, AtomicU64};

use super::*;

/// How many numbers are stored, and how far apart what was seen then lies: no common factor.
const NUMBERS: usize = 1 << 22;
const STEP: usize = 4099;

/// A word on a line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Apart(AtomicU64);

/// One side stores and looks all the time, lightly fenced; the other stores, issues the barrier,
/// and looks. Never does each miss what the other stored.
#[test]
fn of_two_that_store_and_look_one_sees_the_other() {
    if !register_barrier() {
        return crate::skip("membarrier", "the kernel has none");
    }
    let [frequent, rare] = [Apart::default(), Apart::default()];
    // What the frequent side saw when it had stored a number, by that number: far apart, so that
    // its processor is slow to store this, and the next number waits behind it.
    let saw: Vec<AtomicU64> = (0..NUMBERS).map(|_| AtomicU64::new(0)).collect();
    let place = |number: usize| &saw[number * STEP % NUMBERS];
    let over = AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..NUMBERS {
                frequent.0.store(number as u64 + 1, Ordering::Relaxed);
                light_fence();
                place(number).store(rare.0.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            over.store(true, Ordering::Release);
        });
        let mut looks = Vec::new();
        while !over.load(Ordering::Acquire) {
            let number = looks.len() as u64 + 1;
            rare.0.store(number, Ordering::Relaxed);
            assert!(expedited_barrier());
            looks.push(frequent.0.load(Ordering::Relaxed) as usize);
        }
        looks
    });
    // The next number was stored after that look, so its look comes later than the rare store.
    let looks = looks.into_iter().zip(1..).filter(|(stored, _)| *stored < NUMBERS);
    let missed = looks.filter(|&(stored, number)| place(stored).load(Ordering::Relaxed) < number);
    assert_eq!(missed.count(), 0, "looks that missed what was stored");
}
