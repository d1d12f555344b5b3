//! Checksums by every kernel against `crc32fast`: every length up to 4096 bytes, split at every
//! position, at every misalignment; up to memory that must not be touched; and copies, which must
//! leave the surroundings of the destination untouched.
//!
//! Left out: the errors that checksums detect (`src/crc.rs`).

mod common;
#[path = "common/fence.rs"]
mod fence;

use common::noise;
use fence::Fenced;
use raidshmem_codec::crc::Hasher;
use raidshmem_codec::kernel::{Kernel, Made};
use rayon::prelude::*;

const MOST: usize = 4096;
const LINE: usize = 64;
const GUARD: u8 = 0xa5;

/// Returns the checksum of consecutive pieces.
fn sum_of<'a>(kernel: Kernel, pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut hasher = Hasher::with_kernel(kernel);
    pieces.into_iter().for_each(|piece| hasher.update(piece));
    hasher.finish()
}

/// Every byte of an input counts: single bytes, so that no two of them can cancel each other.
#[test]
fn every_byte_of_a_run_counts() {
    for &kernel in Kernel::available() {
        for at in 0..2048 {
            let mut bytes = [0; 2048];
            bytes[at] = 1 << (at % 8);
            assert_eq!(sum_of(kernel, [&bytes[..]]), crc32fast::hash(&bytes), "{kernel} {at}");
        }
    }
}

#[test]
fn every_length_up_to_a_fence() {
    let bytes = noise(1, MOST);
    for &kernel in Kernel::available() {
        (0..MOST + 1).into_par_iter().for_each(|len| {
            let mut fenced = Fenced::new(len.max(1));
            fenced.last_mut(len).copy_from_slice(&bytes[..len]);
            let sum = sum_of(kernel, [fenced.last(len)]);
            assert_eq!(sum, crc32fast::hash(&bytes[..len]), "{kernel} {len}");
        });
    }
}

#[test]
fn every_cut_of_two_and_every_misalignment() {
    let bytes = noise(2, MOST + LINE);
    for &kernel in Kernel::available() {
        (0..LINE).into_par_iter().for_each(|shift| {
            let bytes = &bytes[shift..shift + MOST];
            let expected = crc32fast::hash(bytes);
            for cut in 0..=MOST {
                let (begin, end) = bytes.split_at(cut);
                assert_eq!(sum_of(kernel, [begin, end]), expected, "{kernel} {shift} {cut}");
            }
        });
    }
}

/// Folded, unfolded and empty pieces, in alternation.
#[test]
fn every_order_of_pieces() {
    let bytes = noise(3, 6 * 5000);
    let lengths = [0, 1, 255, 256, 257, 1023, 1024, 1025, 4096, 5000];
    for &kernel in Kernel::available() {
        (0..10_000usize).into_par_iter().for_each(|nth| {
            let mut rest = &bytes[..];
            let mut pieces = Vec::new();
            for digit in 0..4u32 {
                let (piece, after) = rest.split_at(lengths[nth / 10usize.pow(digit) % 10]);
                pieces.push(piece);
                rest = after;
            }
            let all = pieces.concat();
            assert_eq!(sum_of(kernel, pieces), crc32fast::hash(&all), "{kernel} {nth}");
        });
    }
}

fn put(hasher: &mut Hasher, to: &mut [u8], bytes: &[u8]) {
    hasher.put(Made { to, bytes, more: false });
}

/// Copies `len` bytes, preceded by `before` others, to an address `shift` beyond an aligned one,
/// and from an address of any alignment.
fn copies(kernel: Kernel, len: usize, shift: usize, before: usize) {
    let bytes = noise(4, before + len);
    let mut hasher = Hasher::with_kernel(kernel);
    hasher.update(&bytes[..before]);
    let mut buffer = vec![GUARD; len + 4 * LINE];
    let at = buffer.as_ptr().align_offset(LINE) + shift;
    put(&mut hasher, &mut buffer[at..at + len], &bytes[before..]);
    assert_eq!(hasher.finish(), crc32fast::hash(&bytes), "{kernel} {len} {shift} {before}");
    assert!(buffer[at..at + len] == bytes[before..], "{kernel} {len} {shift} {before}");
    let around = buffer[..at].iter().chain(&buffer[at + len..]);
    assert!(around.copied().all(|byte| byte == GUARD), "{kernel} {len} {shift} {before}");
}

#[test]
fn every_length_is_copied_and_summed() {
    for &kernel in Kernel::available() {
        (0..MOST + 1).into_par_iter().for_each(|len| copies(kernel, len, len % 3 * 7, len % 5));
    }
}

#[test]
fn copies_to_and_from_every_misalignment() {
    for &kernel in Kernel::available() {
        (0..LINE).into_par_iter().for_each(|shift| {
            (0..LINE).for_each(|before| copies(kernel, 2345, shift, before));
        });
    }
}

#[test]
fn a_copy_ends_at_a_fence() {
    for &kernel in Kernel::available() {
        for len in (0..2 * LINE).chain([1023, 1024, 1025, 4095, 4096, 4097, 65536]) {
            let bytes = noise(5, len);
            let (mut from, mut to) = (Fenced::new(len.max(1)), Fenced::new(len.max(1)));
            from.last_mut(len).copy_from_slice(&bytes);
            let mut hasher = Hasher::with_kernel(kernel);
            put(&mut hasher, to.last_mut(len), from.last(len));
            assert_eq!(hasher.finish(), crc32fast::hash(&bytes), "{kernel} {len}");
            assert!(to.last(len) == bytes, "{kernel} {len}");
        }
    }
}

#[test]
#[should_panic(expected = "different lengths")]
fn copies_of_different_lengths_panic() {
    put(&mut Hasher::new(), &mut [0; 3], &[0; 4]);
}
