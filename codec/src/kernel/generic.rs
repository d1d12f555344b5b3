//! The loops, written once over [`Vector`] and [`Product`].
//!
//! ```text
//!              at              at + U * N
//! source 0  ...|  a0   a1  ...  |
//! source 1  ...|  b0   b1  ...  |
//!              ...                    accumulated in M x U registers by a Rule
//! row 0     ...|  sum  sum ...  |
//! row M-1   ...|  sum  sum ...  |
//! ```
//!
//! A *step* goes through all sources at one offset: `U` registers of each source are loaded once
//! and added to the sums of all `M` rows. The sums stay in registers until all sources are added
//! and are then written once. So every source byte is read from memory once and every parity byte
//! written once, in one direction. The remainder after the last whole step is done one register at
//! a time, and that after the last whole register in a padded copy.
//!
//! Invariants: nothing outside `sum.range` of any slice is read or written (not even read and
//! written back); a row is read only if `sum.add`. Streamed stores are fenced before returning,
//! unless `sum.more`.
//!
//! Left out: closures and iterator adaptors in the inner parts. The compiler may leave them outside
//! the function that enables the instruction set; hence the loops over indices.
#![forbid(unsafe_code)]
#![allow(clippy::needless_range_loop)]

use std::array;

use super::sum::Sum;
use super::vector::{Product, Vector, Word};
use crate::gf::mul;

/// The rule by which the sums at one offset are computed.
pub(super) trait Rule<const N: usize, const M: usize>: Copy {
    /// The kind of product used.
    type Product: Product<N>;

    fn product(self) -> Self::Product;

    /// Returns the sums of the `U` registers from byte `at` on.
    fn sums<const U: usize>(self, sum: &Sum<'_>, at: usize) -> Sums<N, M, U, Self::Product>;

    /// Processes all whole registers from byte `at` on, if doing them in one go is faster. Returns
    /// the bytes done.
    fn at_once(self, _sum: &Sum<'_>, _outs: &mut [&mut [u8]; M], _at: usize) -> usize {
        0
    }
}

/// The registers of `M` rows.
type Sums<const N: usize, const M: usize, const U: usize, P> = [[Word<N, P>; U]; M];

/// Computes `outs = sums of the sources by the rule` over `sum.range`, added to `outs` if
/// `sum.add`.
#[inline(always)]
pub(super) fn combine<const N: usize, const M: usize, const U: usize, R: Rule<N, M>>(
    rule: R,
    sum: &Sum<'_>,
    mut outs: [&mut [u8]; M],
) {
    let end = sum.range.end;
    let mut at = sum.range.start;
    let head = head(sum, outs[0], N);
    if head > 0 {
        edge::<N, M, _>(rule.product(), sum, &mut outs, at, head);
        at += head;
    }
    at += rule.at_once(sum, &mut outs, at);
    while end - at >= U * N {
        step::<N, M, U, R>(rule, sum, &mut outs, at);
        at += U * N;
    }
    while end - at >= N {
        step::<N, M, 1, R>(rule, sum, &mut outs, at);
        at += N;
    }
    if end > at {
        edge::<N, M, _>(rule.product(), sum, &mut outs, at, end - at);
    }
    if sum.stream && !sum.more {
        rule.product().vector().fence();
    }
}

/// Returns the number of bytes before `out` is aligned to `align`, and so can be streamed.
fn head(sum: &Sum<'_>, out: &[u8], align: usize) -> usize {
    match sum.stream {
        true => out[sum.range.start..].as_ptr().align_offset(align).min(sum.range.len()),
        false => 0,
    }
}

/// Processes the `U` registers from byte `at` on.
#[inline(always)]
fn step<const N: usize, const M: usize, const U: usize, R: Rule<N, M>>(
    rule: R,
    sum: &Sum<'_>,
    outs: &mut [&mut [u8]; M],
    at: usize,
) {
    let vector = rule.product().vector();
    let mut sums = rule.sums::<U>(sum, at);
    if sum.add {
        for row in 0..M {
            let lanes = window::<N, U>(outs[row], at);
            for u in 0..U {
                sums[row][u] = vector.xor(sums[row][u], vector.load(&lanes[u]));
            }
        }
    }
    for row in 0..M {
        put(vector, sum, &sums[row], window_mut(outs[row], at));
    }
}

/// Rows of powers from `FIRST` on, by Horner's rule, last source first.
#[derive(Clone, Copy)]
pub(super) struct Powers<const N: usize, const M: usize, const FIRST: usize, P: Product<N>> {
    product: P,
    /// The error of each row's sum, due to the first source not being taken about the origin.
    off: [Word<N, P>; M],
}

impl<const N: usize, const M: usize, const FIRST: usize, P: Product<N>> Powers<N, M, FIRST, P> {
    #[inline(always)]
    pub(super) fn new(product: P, sum: &Sum<'_>) -> Self {
        let k = sum.sources.len();
        let mut off = [product.vector().zero(); M];
        for row in 0..M {
            if k > 0 {
                let last = sum.coefficients[row * k + k - 1];
                off[row] = product.vector().spread(&[mul(P::ORIGIN, last ^ 1); 16]);
            }
        }
        Powers { product, off }
    }
}

impl<const N: usize, const M: usize, const FIRST: usize, P: Product<N>> Rule<N, M>
    for Powers<N, M, FIRST, P>
{
    type Product = P;

    #[inline(always)]
    fn product(self) -> P {
        self.product
    }

    #[inline(always)]
    fn sums<const U: usize>(self, sum: &Sum<'_>, at: usize) -> Sums<N, M, U, P> {
        let (product, vector) = (self.product, self.product.vector());
        let mut sums = [[vector.zero(); U]; M];
        let Some((last, others)) = sum.sources.split_last() else { return sums };
        let lanes = window::<N, U>(last, at);
        for u in 0..U {
            let word = vector.load(&lanes[u]);
            for row in 0..M {
                sums[row][u] = word;
            }
        }
        let (first, pairs) = others.as_rchunks::<2>();
        for [b, a] in pairs.iter().rev() {
            let (a, b) = (window::<N, U>(a, at), window::<N, U>(b, at));
            for u in 0..U {
                let (a, b) = (vector.load(&a[u]), vector.load(&b[u]));
                for row in 0..M {
                    sums[row][u] = match FIRST + row {
                        0 => vector.xor3(sums[row][u], a, b),
                        n => product.raise(product.raise(sums[row][u], n, a), n, b),
                    };
                }
            }
        }
        if let [source] = first {
            let lanes = window::<N, U>(source, at);
            for u in 0..U {
                let word = vector.load(&lanes[u]);
                for row in 0..M {
                    sums[row][u] = match FIRST + row {
                        0 => vector.xor(sums[row][u], word),
                        n => product.raise(sums[row][u], n, word),
                    };
                }
            }
        }
        for row in 0..M {
            if FIRST + row > 0 && P::ORIGIN != 0 {
                for u in 0..U {
                    sums[row][u] = vector.xor(sums[row][u], self.off[row]);
                }
            }
        }
        sums
    }
}

/// Rows of arbitrary coefficients, by products.
#[derive(Clone, Copy)]
pub(super) struct Any<P>(pub(super) P);

impl<const N: usize, const M: usize, P: Product<N>> Rule<N, M> for Any<P> {
    type Product = P;

    #[inline(always)]
    fn product(self) -> P {
        self.0
    }

    #[inline(always)]
    fn sums<const U: usize>(self, sum: &Sum<'_>, at: usize) -> Sums<N, M, U, P> {
        let mut sums = [[self.0.vector().zero(); U]; M];
        let mut done = 0;
        if P::Vector::TERNARY {
            for pair in sum.sources.as_chunks::<2>().0 {
                add::<N, M, U, 2, P>(self.0, sum, &mut sums, done, [pair[0], pair[1]], at);
                done += 2;
            }
        }
        for source in &sum.sources[done..] {
            add::<N, M, U, 1, P>(self.0, sum, &mut sums, done, [source], at);
            done += 1;
        }
        sums
    }

    #[inline(always)]
    fn at_once(self, sum: &Sum<'_>, outs: &mut [&mut [u8]; M], at: usize) -> usize {
        let [source] = sum.sources else { return 0 };
        single::<N, M, P>(self.0, sum, source, outs, at)
    }
}

/// Processes all whole registers from byte `at` on if there is only one source, as in an update:
/// its factors stay in registers throughout. Returns the bytes done.
#[inline(always)]
fn single<const N: usize, const M: usize, P: Product<N>>(
    product: P,
    sum: &Sum<'_>,
    source: &[u8],
    outs: &mut [&mut [u8]; M],
    at: usize,
) -> usize {
    let vector = product.vector();
    let (lanes, _) = source[at..sum.range.end].as_chunks::<N>();
    let mut factors = [product.factor(0); M];
    for row in 0..M {
        factors[row] = product.factor(sum.coefficients[row]);
    }
    let rows = outs.each_mut().map(|out| &mut out[at..].as_chunks_mut::<N>().0[..lanes.len()]);
    for i in 0..lanes.len() {
        let operand = product.operand(vector.load(&lanes[i]));
        // All rows are loaded before one is stored: rows often start on pages, and a load that
        // follows a store to the same offset of another page waits for it.
        let mut sums = [[vector.zero(); 1]; M];
        for row in 0..M {
            let share = product.product(factors[row], operand);
            let before = if sum.add { vector.load(&rows[row][i]) } else { vector.zero() };
            sums[row][0] = vector.xor(share, before);
        }
        for row in 0..M {
            put(vector, sum, &sums[row], array::from_mut(&mut rows[row][i]));
        }
    }
    lanes.len() * N
}

/// Adds the contributions of sources `first..first + S`, `S` being 1 or 2.
#[inline(always)]
fn add<const N: usize, const M: usize, const U: usize, const S: usize, P: Product<N>>(
    product: P,
    sum: &Sum<'_>,
    sums: &mut Sums<N, M, U, P>,
    first: usize,
    sources: [&[u8]; S],
    at: usize,
) {
    let vector = product.vector();
    let mut factors = [[product.factor(0); S]; M];
    for row in 0..M {
        for s in 0..S {
            factors[row][s] = product.factor(sum.coefficients[row * sum.sources.len() + first + s]);
        }
    }
    let mut lanes = [&[[0; N]; U]; S];
    for s in 0..S {
        lanes[s] = window(sources[s], at);
    }
    for u in 0..U {
        let mut operands = [product.operand(vector.zero()); S];
        for s in 0..S {
            operands[s] = product.operand(vector.load(&lanes[s][u]));
        }
        for row in 0..M {
            let a = product.product(factors[row][0], operands[0]);
            sums[row][u] = if S == 2 {
                let b = product.product(factors[row][S - 1], operands[S - 1]);
                vector.xor3(sums[row][u], a, b)
            } else {
                vector.xor(sums[row][u], a)
            };
        }
    }
}

/// Processes `len < N` bytes from byte `at` on, through a padded copy.
#[inline(always)]
fn edge<const N: usize, const M: usize, P: Product<N>>(
    product: P,
    sum: &Sum<'_>,
    outs: &mut [&mut [u8]; M],
    at: usize,
    len: usize,
) {
    let vector = product.vector();
    let mut pad = [0; N];
    let mut sums = [vector.zero(); M];
    let k = sum.sources.len();
    for (i, source) in sum.sources.iter().enumerate() {
        pad[..len].copy_from_slice(&source[at..at + len]);
        let operand = product.operand(vector.load(&pad));
        for row in 0..M {
            let factor = product.factor(sum.coefficients[row * k + i]);
            sums[row] = vector.xor(sums[row], product.product(factor, operand));
        }
    }
    for row in 0..M {
        vector.store(sums[row], &mut pad);
        finish(sum, &pad[..len], &mut outs[row][at..at + len]);
    }
}

/// Writes the sums of a step.
#[inline(always)]
fn put<const N: usize, const U: usize, V: Vector<N>>(
    vector: V,
    sum: &Sum<'_>,
    from: &[V::Word; U],
    to: &mut [[u8; N]; U],
) {
    for u in 0..U {
        if sum.stream {
            vector.stream(from[u], &mut to[u]);
        } else {
            vector.store(from[u], &mut to[u]);
        }
    }
}

/// Writes the sums of an edge.
#[inline(always)]
fn finish(sum: &Sum<'_>, from: &[u8], to: &mut [u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = if sum.add { *to ^ from } else { *from };
    }
}

/// Returns `U` lanes of `N` bytes from byte `at` on.
#[inline(always)]
fn window<const N: usize, const U: usize>(bytes: &[u8], at: usize) -> &[[u8; N]; U] {
    let (lanes, _) = bytes[at..at + U * N].as_chunks::<N>();
    lanes.first_chunk().expect("U lanes")
}

/// Returns `U` lanes of `N` bytes from byte `at` on.
#[inline(always)]
fn window_mut<const N: usize, const U: usize>(bytes: &mut [u8], at: usize) -> &mut [[u8; N]; U] {
    let (lanes, _) = bytes[at..at + U * N].as_chunks_mut::<N>();
    lanes.first_chunk_mut().expect("U lanes")
}
