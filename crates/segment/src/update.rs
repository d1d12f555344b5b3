//! Atomic updates of a word of 2, 4 or 8 bytes.
//!
//! A PE that maps the word updates it directly; for other PEs the owner's processor does. Only this
//! way are all updates atomic with respect to each other.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use raidshmem_core::update::{Change, Update};

/// Applies `change` to the word of `bytes` (2, 4 or 8) bytes at `at`; returns its previous value.
///
/// # Safety
/// `at` lies in a mapped segment, aligned to `bytes`, and all concurrent accesses to it are atomic.
#[inline(always)] // the update is a constant of the caller
pub unsafe fn apply(at: *mut u8, bytes: usize, change: Change) -> u64 {
    let Change { how, operand } = change;
    macro_rules! apply {
        ($atomic:ty, $int:ty) => {{
            // SAFETY: the contract of this function.
            let word = unsafe { <$atomic>::from_ptr(at.cast()) };
            let operand = operand as $int;
            // Pairs with each other, on any PE: data written before a release is visible after the
            // acquire.
            let before = match how {
                Update::Load => word.load(Ordering::Acquire),
                Update::Store => {
                    word.store(operand, Ordering::Release);
                    0
                }
                Update::Swap => word.swap(operand, Ordering::AcqRel),
                Update::Add => word.fetch_add(operand, Ordering::AcqRel),
                Update::And => word.fetch_and(operand, Ordering::AcqRel),
                Update::Or => word.fetch_or(operand, Ordering::AcqRel),
                Update::Xor => word.fetch_xor(operand, Ordering::AcqRel),
                Update::CompareSwap(expected) => {
                    let (ok, failed) = (Ordering::AcqRel, Ordering::Acquire);
                    match word.compare_exchange(expected as $int, operand, ok, failed) {
                        Ok(before) | Err(before) => before,
                    }
                }
            };
            u64::from(before)
        }};
    }
    match bytes {
        2 => apply!(AtomicU16, u16),
        4 => apply!(AtomicU32, u32),
        _ => apply!(AtomicU64, u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_of_every_width_give_what_was_there() {
        for bytes in [2usize, 4, 8] {
            let mut word = 10u64;
            let at = (&raw mut word).cast::<u8>();
            // SAFETY: an aligned local.
            let apply = |how, operand| unsafe { apply(at, bytes, Change { how, operand }) };
            assert_eq!(apply(Update::Add, u64::MAX), 10);
            assert_eq!(apply(Update::CompareSwap(8), 1), 9);
            assert_eq!(apply(Update::CompareSwap(9), 12), 9);
            assert_eq!(apply(Update::And, 4), 12);
            assert_eq!(apply(Update::Or, 3), 4);
            assert_eq!(apply(Update::Xor, 1), 7);
            assert_eq!(apply(Update::Swap, 2), 6);
            apply(Update::Store, 5);
            assert_eq!(apply(Update::Load, 0), 5);
        }
    }

    #[test]
    fn the_value_after_a_change_is_computed() {
        let hows = (0..8).filter_map(|code| Update::of_code(code, u64::MAX - 6));
        for (how, bytes) in hows.flat_map(|how| [2usize, 4, 8].map(|bytes| (how, bytes))) {
            assert_eq!(Update::of_code(how.code().0, how.code().1), Some(how));
            for (first, operand) in [(3, 9), (u64::MAX - 6, 1), (1 << 15, u64::MAX), (0, 0)] {
                let (mut word, change) = (first, Change { how, operand });
                let at = (&raw mut word).cast::<u8>();
                // SAFETY: an aligned local.
                let (old, new) = unsafe {
                    let load = Change { how: Update::Load, operand: 0 };
                    let old = apply(at, bytes, load);
                    apply(at, bytes, change);
                    (old, apply(at, bytes, load))
                };
                assert_eq!(
                    change.of(old, bytes),
                    new,
                    "{how:?}, {bytes}, {first:#x}, {operand:#x}"
                );
            }
        }
        assert_eq!(Update::of_code(8, 0), None);
    }
}
