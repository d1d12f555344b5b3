//! Bytes and words that other processes may access at the same time.
//!
//! Inside an exchange nothing keeps two PEs from writing the same element, in safe code. Such a
//! race must give unexpected *values*, not undefined behaviour. So every access here is atomic:
//! words on their boundary as words, longer ranges byte by byte. For those the portable loop is of
//! relaxed atomic words; on x86-64 it is one `rep movsb`, which the compiler sees as the same thing
//! (bytes moved by somebody it knows nothing of) and the processor does at the speed of `memcpy`.
//!
//! What remains outside Rust's rules: one PE using an element as a word while another one uses it
//! as bytes or as another word (mixed sizes). The language has no word for it; all processors that
//! we build for give one of the bytes stored.
//!
//! Unsafe code: accesses through pointers into mapped segments.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Copies `bytes` bytes, of which others may read or write any meanwhile.
///
/// # Safety
/// - `from` is readable and `to` writable for `bytes` bytes, and both are initialised memory;
/// - the ranges do not overlap;
/// - no reference of this process to memory that others write is live.
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    macro_rules! word {
        ($atomic:ty) => {{
            // SAFETY: readable by the contract, aligned by the match.
            let value = unsafe { <$atomic>::from_ptr(from.cast_mut().cast()) };
            // Relaxed, here and below: transfers are ordered by fences, atomics and gates.
            let value = value.load(Ordering::Relaxed);
            // SAFETY: writable by the contract, aligned by the match.
            let target = unsafe { <$atomic>::from_ptr(to.cast()) };
            target.store(value, Ordering::Relaxed)
        }};
    }
    let aligned = |to_bytes: usize| (from.addr() | to.addr()) & (to_bytes - 1) == 0;
    match bytes {
        1 => word!(AtomicU8),
        2 if aligned(2) => word!(AtomicU16),
        4 if aligned(4) => word!(AtomicU32),
        8 if aligned(8) => word!(AtomicU64),
        // SAFETY: the same contract.
        _ => unsafe { copy_range(from, to, bytes) },
    }
}

/// As [`copy`], for any length.
///
/// # Safety
/// As [`copy`].
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy_range(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: reads and writes exactly the two ranges of the contract; the direction flag is clear
    // at every function's entry (System V ABI), and nothing but the three registers changes.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") bytes => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        )
    }
}

/// As [`copy`], for any length.
///
/// # Safety
/// As [`copy`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_range(from: *const u8, to: *mut u8, bytes: usize) {
    let words = if (from.addr() ^ to.addr()) % 8 == 0 { bytes } else { 0 };
    let mut done = 0;
    while done < bytes {
        let (from, to) = (from.wrapping_add(done), to.wrapping_add(done));
        let step = if from.addr() % 8 == 0 && words.saturating_sub(done) >= 8 { 8 } else { 1 };
        // SAFETY: a byte, or a word on its boundary, inside the ranges of the contract.
        unsafe { copy(from, to, step) };
        done += step;
    }
}

/// What an atomic operation does with a word.
#[derive(Clone, Copy)]
pub(super) enum Update {
    Load,
    Store,
    Swap,
    Add,
    And,
    Or,
    Xor,
    /// Stores the operand if the word holds this.
    CompareSwap(u64),
}

/// Applies `how` with `operand` to the word of `bytes` (4 or 8) bytes at `at`; what was there.
///
/// Loads acquire, stores release, updates do both: they pair with each other on any PE, and what
/// was put before a release is seen after the acquire.
///
/// # Safety
/// `at` lies in a mapped segment, on a boundary of `bytes` bytes.
#[inline]
pub(super) unsafe fn update(at: *mut u8, bytes: usize, how: Update, operand: u64) -> u64 {
    macro_rules! apply {
        ($atomic:ty, $int:ty) => {{
            // SAFETY: mapped and aligned by the contract; inside an exchange, the only place where
            // this is called from, shared memory is accessed by atomics only.
            let word = unsafe { <$atomic>::from_ptr(at.cast()) };
            let operand = operand as $int;
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
        4 => apply!(AtomicU32, u32),
        _ => apply!(AtomicU64, u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_alignment_is_copied_and_no_byte_more() {
        let source: Vec<u8> = (0..200).map(|i| i as u8 | 1).collect();
        for from in 0..9 {
            for to in 0..9 {
                for len in (0..70).chain([128, 150]) {
                    let mut target = vec![0u8; 200];
                    // SAFETY: both ranges are inside their vectors.
                    unsafe { copy(source.as_ptr().add(from), target.as_mut_ptr().add(to), len) };
                    assert_eq!(target[to..to + len], source[from..from + len]);
                    assert!(target[..to].iter().chain(&target[to + len..]).all(|&b| b == 0));
                }
            }
        }
    }

    #[test]
    fn updates_give_what_was_there() {
        let mut word = 10u64;
        let at = (&raw mut word).cast::<u8>();
        // SAFETY: an aligned local.
        let apply = |bytes, how, operand| unsafe { update(at, bytes, how, operand) };
        assert_eq!(apply(8, Update::Add, u64::MAX), 10);
        assert_eq!(apply(8, Update::CompareSwap(8), 1), 9);
        assert_eq!(apply(8, Update::CompareSwap(9), 0x1_0000_000c), 9);
        assert_eq!(apply(4, Update::And, 4), 0xc);
        assert_eq!(apply(4, Update::Or, 3), 4);
        assert_eq!(apply(4, Update::Xor, 1), 7);
        assert_eq!(apply(4, Update::Swap, 2), 6);
        apply(4, Update::Store, 5);
        assert_eq!(apply(8, Update::Load, 0), 0x1_0000_0005);
    }
}
