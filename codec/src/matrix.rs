//! Coefficients of the code, by interpolation.
//!
//! The systematic matrix derived from a Vandermonde matrix `V` is `V * inverse(top of V)`. Row
//! `x` of it maps the values of a polynomial of degree below `k` at the points `0..k` to its
//! value at point `x`: shard `x` *is* the polynomial at `x`. So neither a matrix nor an inversion
//! is needed: the weights that turn the values at any `k` distinct points into the value at
//! another are Lagrange's, and the same function serves for parity rows (points `0..k`) and for
//! rebuilding (points = whichever shards are left).
//!
//! Invariant: the points are distinct, and the weight of every point is non-zero unless `at` is
//! itself one of the points. That is what makes any `k` shards sufficient.
//!
//! Left out: the single-parity code, whose coefficients are all 1 and not of this family.
//! Source: Lagrange interpolation; MacWilliams and Sloane, *The Theory of Error-Correcting
//! Codes*, ch. 10.
#![forbid(unsafe_code)]

use crate::gf::{inv, mul};

/// Weights `w` with `p(at) = sum of w[i] * p(points[i])` for every polynomial `p` over GF(2^8) of
/// degree below `points.len()`. `points` must be distinct. Takes `points.len()` squared steps.
pub(crate) fn weights(points: &[u8], at: u8) -> Vec<u8> {
    points.iter().map(|&point| weight(points, point, at)).collect()
}

/// Value at `at` of the polynomial that is 1 at `point` and 0 at all other `points`.
fn weight(points: &[u8], point: u8, at: u8) -> u8 {
    let others = points.iter().filter(|&&other| other != point);
    let (top, bottom) = others
        .fold((1, 1), |(top, bottom), &other| (mul(top, at ^ other), mul(bottom, point ^ other)));
    mul(top, inv(bottom))
}

#[cfg(test)]
mod tests {
    use super::weights;
    use crate::gf::mul;

    fn value(polynomial: &[u8], at: u8) -> u8 {
        polynomial.iter().rev().fold(0, |sum, &c| mul(sum, at) ^ c)
    }

    #[test]
    fn weights_carry_a_polynomial_over() {
        let polynomial = [7, 0, 201, 19];
        let points = [3, 250, 0, 77];
        let values = points.map(|p| value(&polynomial, p));
        for at in 0..=255 {
            let got = weights(&points, at).iter().zip(values).fold(0, |s, (&w, v)| s ^ mul(w, v));
            assert_eq!(got, value(&polynomial, at), "at {at}");
        }
    }

    #[test]
    fn only_points_have_zero_weights() {
        let points: Vec<u8> = (0..12).collect();
        assert!((12..=255).all(|at| weights(&points, at).iter().all(|&w| w != 0)));
        assert_eq!(weights(&points, 3).iter().filter(|&&w| w != 0).count(), 1);
    }
}
