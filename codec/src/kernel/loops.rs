//! The loops of [`super::generic`], compiled for one instruction set.

/// Implements [`super::sum::Loops`] for a proof type: the generic loops compiled for `$features`,
/// with registers of `$width` bytes and products of `$product`. The lists give the registers per
/// source and step: for arbitrary coefficients, with one to four rows; for rows of powers, with
/// `1`, `x` and `x^2` each alone, the first two together, and all three. The values were measured;
/// factors that do not fit in registers come from the L1 cache.
macro_rules! loops {
    ($kernel:ident, $features:literal, $width:literal, |$self:ident| $product:expr,
     [$a:literal, $ab:literal, $abc:literal, $abcd:literal],
     [$p:literal, $q:literal, $r:literal, $pq:literal, $pqr:literal]) => {
        impl super::sum::Loops for $kernel {
            fn combine(self, sum: &super::sum::Sum<'_>, outs: &mut [&mut [u8]]) {
                #[target_feature(enable = $features)]
                fn run($self: $kernel, sum: &super::sum::Sum<'_>, outs: &mut [&mut [u8]]) {
                    use super::generic::{Any, combine};
                    let any = Any($product);
                    match outs {
                        [] => {}
                        [a] => combine::<$width, 1, $a, _>(any, sum, [a]),
                        [a, b] => combine::<$width, 2, $ab, _>(any, sum, [a, b]),
                        [a, b, c] => combine::<$width, 3, $abc, _>(any, sum, [a, b, c]),
                        [a, b, c, d] => combine::<$width, 4, $abcd, _>(any, sum, [a, b, c, d]),
                        _ => unreachable!("more than {} rows in one pass", super::sum::ROWS),
                    }
                }
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { run(self, sum, outs) }
            }

            fn powers(self, sum: &super::sum::Sum<'_>, first: usize, outs: &mut [&mut [u8]]) {
                #[target_feature(enable = $features)]
                fn run(
                    $self: $kernel,
                    sum: &super::sum::Sum<'_>,
                    first: usize,
                    outs: &mut [&mut [u8]],
                ) {
                    use super::generic::{Powers, combine};
                    macro_rules! powers {
                        ($first:literal, $step:literal, $outs:expr) => {
                            combine::<$width, _, $step, _>(
                                Powers::<$width, _, $first, _>::new($product, sum),
                                sum,
                                $outs,
                            )
                        };
                    }
                    match (first, outs) {
                        (0, [p]) => powers!(0, $p, [p]),
                        (1, [q]) => powers!(1, $q, [q]),
                        (2, [r]) => powers!(2, $r, [r]),
                        (0, [p, q]) => powers!(0, $pq, [p, q]),
                        (0, [p, q, r]) => powers!(0, $pqr, [p, q, r]),
                        _ => unreachable!("no loop for these powers"),
                    }
                }
                // SAFETY: there is a value of this type, so this CPU has the features.
                unsafe { run(self, sum, first, outs) }
            }
        }
    };
}
pub(super) use loops;
