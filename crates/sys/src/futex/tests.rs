//! The asymmetric fence, between two processors.

use std::sync::atomic::{AtomicBool, AtomicU64};

use super::*;

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
    // What the frequent side saw when it had stored a number, by that number.
    let saw: Vec<AtomicU64> = (0..1 << 22).map(|_| AtomicU64::new(u64::MAX)).collect();
    let over = AtomicBool::new(false);
    let missed = std::thread::scope(|scope| {
        scope.spawn(|| {
            for (at, saw) in saw.iter().enumerate() {
                frequent.0.store(at as u64 + 1, Ordering::Relaxed);
                light_fence();
                saw.store(rare.0.load(Ordering::Relaxed), Ordering::Release);
            }
            over.store(true, Ordering::Release);
        });
        let mut missed = 0;
        for number in 1.. {
            rare.0.store(number, Ordering::Relaxed);
            assert!(expedited_barrier());
            let stored = frequent.0.load(Ordering::Relaxed) as usize;
            // The next number was stored after this look, so its look comes later than the store.
            while let Some(next) = saw.get(stored) {
                match next.load(Ordering::Acquire) {
                    u64::MAX if !over.load(Ordering::Acquire) => std::hint::spin_loop(),
                    seen => {
                        missed += u64::from(seen < number);
                        break;
                    }
                }
            }
            if over.load(Ordering::Acquire) {
                break;
            }
        }
        missed
    });
    assert_eq!(missed, 0, "looks that missed what was stored");
}
