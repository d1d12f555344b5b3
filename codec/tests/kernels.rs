//! Every kernel against the definition of its operation: every length from 0 to four lanes, every
//! misalignment of destination and source within a lane, bytes around the destination untouched.
//! Then sums of several rows, all ending at memory that must not be touched, up to lengths of
//! several steps. Kernels that this machine cannot run are listed.
//!
//! Left out: lengths of several blocks, and results written past the caches (`laws.rs`).

mod common;
#[path = "common/fence.rs"]
mod fence;

use std::io::Write;

use common::{combination, noise, product, xor};
use fence::Fenced;
use raidshmem_codec::kernel::Kernel;
use rayon::prelude::*;

const LANE: usize = 64;
const MOST: usize = 4 * LANE;
const SOURCES: usize = 6;
const GUARD: u8 = 0xa5;

/// A buffer for any length at any misalignment, with guard bytes around it.
#[repr(align(64))]
#[derive(Clone)]
struct Scratch([u8; MOST + 2 * LANE]);

impl Scratch {
    /// Returns a buffer with `bytes` at offset `shift` from a 64-byte boundary.
    fn with(bytes: &[u8], shift: usize) -> Scratch {
        let mut buffer = Scratch([GUARD; MOST + 2 * LANE]);
        buffer.0[shift..shift + bytes.len()].copy_from_slice(bytes);
        buffer
    }
}

/// One destination, and its bytes before the call.
struct Target<'a> {
    shift: usize,
    before: &'a [u8],
}

impl Target<'_> {
    /// Runs `operation` on a fresh destination and checks all bytes of the buffer.
    fn check(&self, expected: &[u8], operation: impl FnOnce(&mut [u8])) {
        let mut buffer = Scratch::with(self.before, self.shift);
        operation(&mut buffer.0[self.shift..self.shift + self.before.len()]);
        let wanted = Scratch::with(expected, self.shift);
        assert!(buffer.0 == wanted.0, "{} bytes at {}", expected.len(), self.shift);
    }
}

/// Returns the factors tried with length `len`: the special ones and one that varies.
fn factors(len: usize) -> [u8; 4] {
    [0, 1, 2, (len * 37 + 3) as u8]
}

fn every_misalignment(kernel: Kernel, len: usize) {
    let before = noise(1, len);
    let data: Vec<Vec<u8>> = (0..SOURCES as u64).map(|i| noise(i + 2, len)).collect();
    let buffers: Vec<Vec<Scratch>> =
        data.iter().map(|d| (0..LANE).map(|shift| Scratch::with(d, shift)).collect()).collect();
    let slices = common::slices(&data);
    let sums: Vec<Vec<u8>> =
        (0..=SOURCES).map(|n| combination(&vec![1; n], &slices[..n], len)).collect();
    let products = factors(len).map(|f| (f, combination(&[f], &slices[..1], len)));

    for (to, from) in (0..LANE).flat_map(|to| (0..LANE).map(move |from| (to, from))) {
        let target = Target { shift: to, before: &before };
        let source = |i: usize| {
            let shift = (from + 7 * i) % LANE;
            &buffers[i][shift].0[shift..shift + len]
        };
        let sources: [&[u8]; SOURCES] = std::array::from_fn(source);
        target.check(&xor(&before, &data[0]), |dst| kernel.xor_into(dst, sources[0]));
        for (n, sum) in sums.iter().enumerate() {
            target.check(sum, |dst| kernel.xor_of(dst, &sources[..n]));
        }
        for (factor, product) in &products {
            target.check(product, |dst| kernel.combine(&[*factor], &sources[..1], &mut [dst]));
            let added = xor(&before, product);
            target.check(&added, |dst| kernel.mul_add(dst, sources[0], *factor));
        }
    }
}

#[test]
fn every_length_and_misalignment() {
    for &kernel in Kernel::available() {
        // The reference is slow and indifferent to alignment: every ninth length suffices for it.
        let step = if kernel == Kernel::NAIVE { 9 } else { 1 };
        (0..MOST + 1).into_par_iter().step_by(step).for_each(|len| every_misalignment(kernel, len));
    }
}

/// Returns coefficients that include 0 and 1, alone and among others.
fn matrix(rows: usize, k: usize) -> Vec<u8> {
    (0..rows * k).map(|at| (at * 73 % 255) as u8 + u8::from(at % 5 == 1)).collect()
}

/// Returns the coefficients of `rows` rows of powers, `x_i^first` and so on with `x_i = 2^i`.
fn powers(first: usize, rows: usize, k: usize) -> Vec<u8> {
    let power = |n: usize| (0..n).fold(1, |power, _| product(power, 2));
    (first..first + rows).flat_map(|row| (0..k).map(move |i| power(row * i))).collect()
}

/// Checks all sums of up to `SOURCES + 3` sources and up to 6 rows, which no kernel does in one
/// pass, for arbitrary coefficients and for powers.
fn every_sum(len: usize) {
    let data: Vec<Vec<u8>> = (0..SOURCES as u64 + 3).map(|i| noise(i + 9, len)).collect();
    let fenced: Vec<Fenced> = data
        .iter()
        .map(|bytes| {
            let mut fenced = Fenced::new(len);
            fenced.last_mut(len).copy_from_slice(bytes);
            fenced
        })
        .collect();
    let sources: Vec<&[u8]> = fenced.iter().map(|fenced| fenced.last(len)).collect();
    let mut results: Vec<Fenced> = (0..6).map(|_| Fenced::new(len + LANE)).collect();
    let matrices = |k| {
        let any = (1..=6).map(move |rows| (k, rows, matrix(rows, k)));
        let known = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 1), (1, 2), (2, 1), (3, 1)];
        any.chain(known.map(|(first, rows)| (k, rows, powers(first, rows, k))))
    };
    for (k, rows, matrix) in (0..=sources.len()).flat_map(matrices) {
        let sources = &sources[..k];
        let sums: Vec<Vec<u8>> =
            (0..rows).map(|r| combination(&matrix[r * k..][..k], sources, len)).collect();
        for &kernel in Kernel::available() {
            let results = &mut results[..rows];
            results.iter_mut().for_each(|result| result.last_mut(len + LANE).fill(GUARD));
            let mut run = |add: bool| {
                let mut outs: Vec<&mut [u8]> =
                    results.iter_mut().map(|r| r.last_mut(len)).collect();
                match add {
                    false => kernel.combine(&matrix, sources, &mut outs),
                    true => kernel.combine_add(&matrix, sources, &mut outs),
                }
            };
            run(false);
            run(true);
            run(true);
            for (result, sum) in results.iter().zip(&sums) {
                assert!(result.last(len) == sum, "{kernel} {k} sources, {rows} rows, {len} bytes");
                assert!(result.last(len + LANE)[..LANE] == [GUARD; LANE]);
            }
        }
    }
}

#[test]
fn every_sum_up_to_a_fence() {
    let steps = (1..=4).flat_map(|n| [512 * n - 1, 512 * n, 512 * n + 1, 512 * n + 333]);
    let lengths: Vec<usize> = (0..MOST + 1).chain(steps).collect();
    lengths.into_par_iter().for_each(every_sum);
}

#[test]
fn kernels_not_run_are_named() {
    for name in Kernel::NAMES {
        let run = Kernel::available().iter().any(|kernel| kernel.name() == name);
        assert_eq!(run, Kernel::named(name).is_some());
        // Not `eprintln`, whose output the test harness captures.
        let line = format!("kernel {name}: {}\n", if run { "RUN" } else { "NOT RUN" });
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    assert!(Kernel::named("naive").is_some() && Kernel::named("wide").is_some());
    assert!(Kernel::named("abacus").is_none());
}

#[test]
fn every_product() {
    let bytes: Vec<u8> = (0..=255).collect();
    for &kernel in Kernel::available() {
        for factor in 0..=255 {
            let expected: Vec<u8> = bytes.iter().map(|&b| product(factor, b)).collect();
            let mut out = vec![GUARD; 256];
            kernel.combine(&[factor], &[&bytes], &mut [&mut out]);
            assert_eq!(out, expected, "{kernel:?} {factor}");
            kernel.mul_add(&mut out, &bytes, factor);
            assert_eq!(out, [0; 256], "{kernel:?} {factor}");
        }
    }
}

#[test]
fn the_best_kernel_is_available() {
    assert!(Kernel::available().contains(&Kernel::best()));
}

#[test]
#[should_panic(expected = "different lengths")]
fn different_lengths_panic() {
    Kernel::best().xor_of(&mut [0; 3], &[&[1; 3], &[2; 4]]);
}

#[test]
#[should_panic(expected = "different lengths")]
fn rows_of_different_lengths_panic() {
    Kernel::best().combine(&[], &[], &mut [&mut [0; 3], &mut [0; 4]]);
}

#[test]
#[should_panic(expected = "no shape")]
fn a_coefficient_too_few_panics() {
    Kernel::best().combine(&[1, 2, 3], &[&[1], &[2]], &mut [&mut [0], &mut [0]]);
}
