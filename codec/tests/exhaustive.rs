//! Every code of up to 12 shards, every set of losses, every wanted shard: against a parity
//! computed a byte at a time and, from four parities on, against `reed-solomon-erasure`. Also, two
//! and three parities make up for any two and three losses, for stripes of all lengths.
//!
//! Left out: long shards and odd alignments (`kernels.rs`, `laws.rs`).

mod common;

use common::{combination, masks, product, shards, slices};
use raidshmem_codec::{Error, code::Code, kernel::Kernel};
use rayon::prelude::*;
use reed_solomon_erasure::galois_8::ReedSolomon;

/// Enough for one vector step of the oracle and a tail.
const LEN: usize = 37;

/// Returns every `(k, m)` with `k + m <= 12`.
fn codes() -> Vec<(usize, usize)> {
    (1..12).flat_map(|k| (1..=12 - k).map(move |m| (k, m))).collect()
}

/// Returns the data shards of a stripe followed by the parity that the naive sums give.
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

/// Computes `2^n`, by doubling.
fn power_of_two(n: usize) -> u8 {
    (0..n).fold(1, |power, _| product(power, 2))
}

#[test]
fn up_to_three_parities_are_rows_of_powers() {
    let large = [(255, 1), (17, 3), (62, 2), (61, 3), (254, 2), (253, 3)];
    for (k, m) in codes().into_iter().chain(large).filter(|&(_, m)| m <= 3) {
        let code = Code::new(k, m).unwrap();
        for (row, i) in (0..m).flat_map(|row| (0..k).map(move |i| (row, i))) {
            assert_eq!(code.coefficients(row)[i], power_of_two(i * row), "{k}+{m} row {row}");
        }
    }
}

/// Returns true if some set of losses cannot be recovered, that is, if a minor of the rows is 0.
fn some_minor_is_zero(rows: &[&[u8]]) -> bool {
    let k = rows[0].len();
    let minor = |a: usize, b: usize, i: usize, j: usize| {
        product(rows[a][i], rows[b][j]) ^ product(rows[a][j], rows[b][i])
    };
    let pairs = || (0..rows.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    let by_three = |i: usize, j: usize, l: usize| {
        let [first, second, third] = [(i, j, l), (j, i, l), (l, i, j)]
            .map(|(at, i, j)| product(rows[0][at], minor(1, 2, i, j)));
        first ^ second ^ third
    };
    rows.iter().any(|row| row.contains(&0))
        || (0..k).into_par_iter().any(|j| {
            (0..j).any(|i| {
                pairs().any(|(a, b)| minor(a, b, i, j) == 0)
                    || rows.len() == 3 && (j + 1..k).any(|l| by_three(i, j, l) == 0)
            })
        })
}

#[test]
fn any_two_and_any_three_losses_are_repaired() {
    // All shorter stripes use the first columns of these.
    for (k, m) in [(254, 2), (253, 3)] {
        let code = Code::new(k, m).unwrap();
        let rows: Vec<&[u8]> = (0..m).map(|row| code.coefficients(row)).collect();
        assert!(!some_minor_is_zero(&rows), "{k}+{m}");
    }
    // The check finds a zero minor: 1, x and x^3 are not enough for columns 0, 10 and 21.
    let cubed = [0, 1, 3].map(|n| (0..22).map(|i| power_of_two(n * i)).collect::<Vec<u8>>());
    assert!(some_minor_is_zero(&cubed.each_ref().map(Vec::as_slice)));
}

#[test]
fn from_four_on_parity_is_that_of_the_oracle() {
    let large = [(60, 4), (100, 28), (128, 128), (1, 255)];
    for (k, m) in codes().into_iter().chain(large).filter(|&(_, m)| m >= 4) {
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

/// Checks one set of losses: each wanted shard, from sources that are neither lost nor superfluous.
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

/// Rebuilds all lost shards from one pass over the sources.
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
fn every_loss_within_the_parity_is_repaired_by_every_kernel() {
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
    codes().into_par_iter().filter(|&(_, m)| m >= 4).for_each(|(k, m)| {
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

/// Computes the data of a stripe from the surviving shards, by elimination of all columns, a byte
/// at a time.
fn eliminated(code: &Code, all: &[Vec<u8>], lost: &[bool]) -> Vec<Vec<u8>> {
    let k = code.data();
    let inverse = |a: u8| (1..=255).find(|&b| product(a, b) == 1).expect("a is not 0");
    let scaled = |row: &[u8], by: u8| row.iter().map(|&b| product(b, by)).collect::<Vec<u8>>();
    // Each row: the coefficients of a shard, then its bytes.
    let row = |shard: usize| {
        let unit = |i: usize| u8::from(i == shard);
        let made_of: Vec<u8> = match shard.checked_sub(k) {
            None => (0..k).map(unit).collect(),
            Some(row) => code.coefficients(row).to_vec(),
        };
        [made_of, all[shard].clone()].concat()
    };
    let mut rows: Vec<Vec<u8>> = (0..all.len()).filter(|&s| !lost[s]).map(row).collect();
    for column in 0..k {
        let pivot = (column..rows.len()).find(|&r| rows[r][column] != 0).expect("enough is left");
        rows.swap(column, pivot);
        rows[column] = scaled(&rows[column], inverse(rows[column][column]));
        for other in (0..rows.len()).filter(|&other| other != column) {
            let share = scaled(&rows[column], rows[other][column]);
            rows[other] = common::xor(&rows[other], &share);
        }
    }
    rows[..k].iter().map(|row| row[k..].to_vec()).collect()
}

#[test]
fn elimination_rebuilds_from_our_parity() {
    codes().into_par_iter().filter(|&(_, m)| m <= 3).for_each(|(k, m)| {
        let code = Code::new(k, m).unwrap();
        let all = stripe(&code);
        for mask in masks(k + m, m) {
            assert!(eliminated(&code, &all, &flags(mask, k + m)) == all[..k], "{k}+{m} {mask:b}");
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
