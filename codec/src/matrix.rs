//! Coefficients: of the parity of a code, and of a shard computed from others.
//!
//! With up to three parities the coefficient of column `i` in row `r` is `x_i^r`, where `x_i =
//! 2^i`: the rows `1`, `x` and `x^2` of RAID-6. Every minor of these rows is a product of some
//! `x_i` and `x_i + x_j`, all of them nonzero.
//!
//! Adding the row `x^3` breaks this (columns 0, 10 and 21 are singular with rows 0, 1 and 3). From
//! four parities on, the matrix is the systematic one derived from a Vandermonde matrix `V`, `V *
//! inverse(top of V)`: its row `x` maps the values of a polynomial of degree below `k` at the
//! points `0..k` to its value at point `x`. So its coefficients are Lagrange's.
//!
//! Invariant: no minor of the parity rows is 0. Hence any `k` shards suffice, and [`weights`]
//! eliminates without searching for a pivot.
//!
//! Source: H. P. Anvin, *The mathematics of RAID-6*; MacWilliams and Sloane, *The Theory of
//! Error-Correcting Codes*, ch. 10 and 11.
#![forbid(unsafe_code)]

use crate::gf::{POWERS, inv, mul};

/// Returns the coefficients of `m` rows of parity over `k` shards, row after row. `k + m` is at
/// most 256.
pub(crate) fn parity(k: usize, m: usize) -> Vec<u8> {
    if m <= POWERS.len() {
        return POWERS[..m].iter().flat_map(|row| &row[..k]).copied().collect();
    }
    (k..k + m).flat_map(|at| (0..k).map(move |point| lagrange(k, point as u8, at as u8))).collect()
}

/// Returns the value at `at` of the polynomial that is 1 at `point` and 0 at all others of `0..k`.
fn lagrange(k: usize, point: u8, at: u8) -> u8 {
    let others = (0..k).map(|other| other as u8).filter(|&other| other != point);
    let (top, bottom) = others
        .fold((1, 1), |(top, bottom), other| (mul(top, at ^ other), mul(bottom, point ^ other)));
    mul(top, inv(bottom))
}

/// Returns the coefficients that yield each of the shards `wants` from the `k` shards `from`, which
/// are in ascending order: row after row. No weight is 0, unless the shard is one of `from`.
/// `parity` holds the rows of [`parity`].
pub(crate) fn weights(parity: &[u8], from: &[usize], wants: &[usize]) -> Vec<u8> {
    let k = from.len();
    let shards = k + parity.len() / k;
    // Rows over all shards. The rows of the parities in `from` add up to 0.
    let made_of_data = |shard: usize| {
        let mut row = vec![0; shards];
        match shard.checked_sub(k) {
            None => row[shard] = 1,
            Some(nth) => row[..k].copy_from_slice(&parity[nth * k..][..k]),
        }
        row
    };
    let relation = |&shard: &usize| {
        let mut row = made_of_data(shard);
        row[shard] = 1;
        row
    };
    // The rows of the wanted shards add up to the shard: initially over data only, finally over
    // `from`.
    let relations = from.iter().filter(|&&shard| shard >= k).map(relation);
    let mut rows: Vec<Vec<u8>> = relations.chain(wants.iter().map(|&s| made_of_data(s))).collect();
    let lost: Vec<usize> = (0..k).filter(|shard| from.binary_search(shard).is_err()).collect();
    for (nth, &shard) in lost.iter().enumerate() {
        let (done, rest) = rows.split_at_mut(nth + 1);
        let pivot = &done[nth];
        let inverse = inv(pivot[shard]);
        for row in rest {
            let factor = mul(row[shard], inverse);
            row.iter_mut().zip(pivot).for_each(|(to, &from)| *to ^= mul(factor, from));
        }
    }
    rows[lost.len()..].iter().flat_map(|row| from.iter().map(|&shard| row[shard])).collect()
}
