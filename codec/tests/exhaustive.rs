//! Every code of up to 12 shards, every set of losses, every wanted shard: against a parity
//! computed a byte at a time and against `reed-solomon-erasure`.
//!
//! Left out: long shards and odd alignments (`kernels.rs`, `laws.rs`).

mod common;

use common::{combination, masks, shards, slices};
use raidshmem_codec::{Error, code::Code, kernel::Kernel};
use rayon::prelude::*;
use reed_solomon_erasure::galois_8::ReedSolomon;

/// Enough for one vector step of the oracle and a tail.
const LEN: usize = 37;

/// Every `(k, m)` with `k + m <= 12`.
fn codes() -> Vec<(usize, usize)> {
    (1..12).flat_map(|k| (1..=12 - k).map(move |m| (k, m))).collect()
}

/// The data shards of a stripe followed by the parity the naive sums give.
fn stripe(code: &Code) -> Vec<Vec<u8>> {
    let mut all = shards(code.data() as u64 * 16 + code.parity() as u64, code.data(), LEN);
    for row in 0..code.parity() {
        let parity = combination(code.coefficients(row), &slices(&all[..code.data()]), LEN);
        all.push(parity);
    }
    all
}

fn flags(mask: u32, n: usize) -> Vec<bool> {
    (0..n).map(|shard| mask >> shard & 1 == 1).collect()
}

fn oracle_parity(data: &[Vec<u8>], parity: usize) -> Vec<Vec<u8>> {
    let mut out = vec![vec![0; data[0].len()]; parity];
    ReedSolomon::new(data.len(), parity).unwrap().encode_sep(data, &mut out).unwrap();
    out
}

#[test]
fn encoding_is_the_naive_sum_on_every_kernel() {
    for (k, m) in codes() {
        for &kernel in Kernel::available() {
            let code = Code::with_kernel(k, m, kernel).unwrap();
            let all = stripe(&code);
            let data = slices(&all[..k]);
            let mut parity = vec![vec![0xee; LEN]; m];
            let mut outs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
            code.encode(&data, &mut outs).unwrap();
            assert_eq!(parity, all[k..], "{k}+{m} {kernel:?}");
            for (row, expected) in all[k..].iter().enumerate() {
                let mut out = vec![0xee; LEN];
                code.encode_row(row, &data, &mut out).unwrap();
                assert_eq!(&out, expected, "{k}+{m} row {row} {kernel:?}");
            }
        }
    }
}

#[test]
fn parity_is_that_of_the_oracle() {
    let large = [(17, 3), (62, 2), (60, 4), (100, 28), (128, 128), (1, 255), (254, 2)];
    for (k, m) in codes().into_iter().chain(large).filter(|&(_, m)| m >= 2) {
        let code = Code::new(k, m).unwrap();
        let all = stripe(&code);
        assert_eq!(oracle_parity(&all[..k], m), all[k..], "{k}+{m}");
    }
}

#[test]
fn single_parity_is_the_xor() {
    for k in [1, 2, 3, 4, 5, 11, 63, 255] {
        let code = Code::new(k, 1).unwrap();
        assert!(code.coefficients(0).iter().all(|&c| c == 1));
        let data = shards(9, k, LEN);
        let mut out = vec![0; LEN];
        code.encode_row(0, &slices(&data), &mut out).unwrap();
        let expected = data.iter().fold(vec![0; LEN], |sum, shard| common::xor(&sum, shard));
        assert_eq!(out, expected, "{k}+1");
    }
}

/// Checks one set of losses: each shard wanted, from no lost and no superfluous source.
fn rebuild(code: &Code, all: &[Vec<u8>], lost: &[bool]) {
    for (want, expected) in all.iter().enumerate() {
        let plan = code.plan(lost, want).unwrap();
        let sources: Vec<&[u8]> = plan.sources().iter().map(|&s| all[s].as_slice()).collect();
        assert!(plan.sources().iter().all(|&s| !lost[s]));
        assert!(plan.sources().is_sorted());
        assert!(plan.coefficients().iter().all(|&c| c != 0));
        assert_eq!(sources.len(), if lost[want] { code.data() } else { 1 });
        let mut out = vec![0xee; LEN];
        plan.apply(&sources, &mut out).unwrap();
        assert_eq!(&out, expected, "lost {lost:?}, want {want}");
    }
}

/// All lost shards from one reading of the sources.
fn rebuild_all(code: &Code, all: &[Vec<u8>], lost: &[bool]) {
    let wants: Vec<usize> = (0..lost.len()).filter(|&shard| lost[shard]).collect();
    let plan = code.plan_all(lost, &wants).unwrap();
    assert_eq!((plan.wants(), plan.sources().len()), (&wants[..], code.data()));
    let sources: Vec<&[u8]> = plan.sources().iter().map(|&s| all[s].as_slice()).collect();
    let mut rebuilt = vec![vec![0xee; LEN]; wants.len()];
    let mut outs: Vec<&mut [u8]> = rebuilt.iter_mut().map(Vec::as_mut_slice).collect();
    plan.apply(&sources, &mut outs).unwrap();
    assert!(wants.iter().zip(&rebuilt).all(|(&want, got)| got == &all[want]), "lost {lost:?}");
}

#[test]
fn every_loss_within_the_parity_is_made_up_for_by_every_kernel() {
    codes().into_par_iter().for_each(|(k, m)| {
        let codes = Kernel::available().iter().map(|&kernel| Code::with_kernel(k, m, kernel));
        let codes: Vec<Code> = codes.collect::<Result<_, _>>().unwrap();
        let all = stripe(&codes[0]);
        for (mask, code) in masks(k + m, m).flat_map(|mask| codes.iter().map(move |c| (mask, c))) {
            rebuild(code, &all, &flags(mask, k + m));
            rebuild_all(code, &all, &flags(mask, k + m));
        }
    });
}

#[test]
fn shards_that_are_left_can_be_asked_for_with_the_lost() {
    for (k, m) in [(4, 1), (1, 1), (4, 3), (1, 4)] {
        let code = Code::new(k, m).unwrap();
        let all = stripe(&code);
        let lost = flags(1, k + m);
        let wants: Vec<usize> = (0..k + m).rev().collect();
        let plan = code.plan_all(&lost, &wants).unwrap();
        let sources: Vec<&[u8]> = plan.sources().iter().map(|&s| all[s].as_slice()).collect();
        let mut got = vec![vec![0xee; LEN]; k + m];
        let mut outs: Vec<&mut [u8]> = got.iter_mut().map(Vec::as_mut_slice).collect();
        plan.apply(&sources, &mut outs).unwrap();
        assert!(got.iter().rev().eq(&all), "{k}+{m}");
    }
}

#[test]
fn the_oracle_rebuilds_from_our_parity() {
    codes().into_par_iter().filter(|&(_, m)| m >= 2).for_each(|(k, m)| {
        let all = stripe(&Code::new(k, m).unwrap());
        let oracle = ReedSolomon::new(k, m).unwrap();
        for mask in masks(k + m, m) {
            let lost = flags(mask, k + m);
            let mut left: Vec<Option<Vec<u8>>> =
                all.iter().zip(&lost).map(|(shard, lost)| (!lost).then(|| shard.clone())).collect();
            oracle.reconstruct(&mut left).unwrap();
            assert!(left.iter().zip(&all).all(|(got, want)| got.as_ref() == Some(want)));
        }
    });
}

#[test]
fn every_loss_beyond_the_parity_is_refused() {
    for (k, m) in codes() {
        let code = Code::new(k, m).unwrap();
        for mask in masks(k + m, k + m).filter(|mask| mask.count_ones() as usize > m) {
            let expected = Error::TooManyLost { lost: mask.count_ones() as usize, parity: m };
            for want in 0..k + m {
                assert_eq!(code.plan(&flags(mask, k + m), want).unwrap_err(), expected);
            }
        }
    }
}
