//! The asymmetric fence between two processors.

use std::sync::atomic::{AtomicBool, AtomicU64};

use super::*;

/// Count of recorded numbers, and the distance between their slots: no common factor.
const NUMBERS: u64 = 1 << 20;
const STEP: u64 = 4099;
/// Checks by the rare side. With a mere fence instead of its barrier nearly all of them miss.
const LOOKS: u64 = 100;

/// A word on a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Apart(AtomicU64);

/// One side stores and loads all the time, lightly fenced; the other stores, issues the barrier,
/// and loads. The two never both miss the other's store.
#[test]
fn of_two_that_store_and_look_one_sees_the_other() {
    if !has_global_barrier() {
        return crate::skip("membarrier", "the kernel has none");
    }
    let [frequent, rare] = [Apart::default(), Apart::default()];
    // The value that the frequent side loaded after storing each number, by number; far apart, so
    // that its processor is slow to store it, and the next number waits behind it.
    let saw: Vec<AtomicU64> = (0..NUMBERS).map(|_| AtomicU64::new(0)).collect();
    let place = |number: u64| &saw[(number * STEP % NUMBERS) as usize];
    let over = AtomicBool::new(false);
    let missed = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in (1..).take_while(|_| !over.load(Ordering::Relaxed)) {
                frequent.0.store(number, Ordering::Relaxed);
                light_fence();
                place(number).store(rare.0.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        });
        let misses = |look: &u64| {
            rare.0.store(*look, Ordering::Relaxed);
            if !global_barrier() {
                return true;
            }
            // The next number is stored after this load, so its load comes later than our store.
            let next = frequent.0.load(Ordering::Relaxed) + 1;
            while frequent.0.load(Ordering::Acquire) <= next {
                std::hint::spin_loop();
            }
            place(next).load(Ordering::Relaxed) < *look
        };
        let missed = (1..=LOOKS).filter(misses).count();
        over.store(true, Ordering::Relaxed);
        missed
    });
    assert_eq!(missed, 0, "looks that missed what was stored");
}
