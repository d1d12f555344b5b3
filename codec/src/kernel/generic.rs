//! The loops, written once over [`Vector`] and [`Product`].
//!
//! ```text
//!              at              at + U * N
//! source 0  ...|  a0   a1  ...  |     x factor(row, 0)
//! source 1  ...|  b0   b1  ...  |     x factor(row, 1)
//!              ...                    summed in M x U registers
//! row 0     ...|  sum  sum ...  |
//! row M-1   ...|  sum  sum ...  |
//! ```
//!
//! A *step* goes through all sources at one place: `U` registers of each source are loaded once
//! and added to the sums of all `M` rows, which stay in registers until the sources are through
//! and are then written once. So memory sees every source byte read once and every parity byte
//! written once, in one direction. What is left after the last whole step is done a register at a
//! time, and what is left after the last whole register in a padded copy.
//!
//! Invariants: nothing outside `sum.range` of any slice is read or written (not even read and
//! written back); a row is read only if `sum.add`. Streamed stores are fenced before returning,
//! unless there is more to come.
//!
//! Left out: closures and iterator adaptors in the inner parts, which the compiler may leave
//! outside the function that has the instruction set; hence the loops over indices.
#![forbid(unsafe_code)]
#![allow(clippy::needless_range_loop)]

use std::array;

use super::Sum;
use super::vector::{Product, Vector, Word};

/// `outs = coefficients * sources` over `sum.range`, plus what `outs` held if `sum.add`.
#[inline(always)]
pub(super) fn combine<const N: usize, const M: usize, const U: usize, P: Product<N>>(
    product: P,
    sum: &Sum<'_>,
    mut outs: [&mut [u8]; M],
) {
    let end = sum.range.end;
    let mut at = sum.range.start;
    let head = head(sum, outs[0], N);
    if head > 0 {
        edge::<N, M, P>(product, sum, &mut outs, at, head);
        at += head;
    }
    if let [source] = sum.sources {
        at += single::<N, M, P>(product, sum, source, &mut outs, at);
    }
    while end - at >= U * N {
        step::<N, M, U, P>(product, sum, &mut outs, at);
        at += U * N;
    }
    while end - at >= N {
        step::<N, M, 1, P>(product, sum, &mut outs, at);
        at += N;
    }
    if end > at {
        edge::<N, M, P>(product, sum, &mut outs, at, end - at);
    }
    if sum.stream && !sum.more {
        product.vector().fence();
    }
}

/// Bytes to do before `out` is aligned to `align`, so that it can be streamed.
fn head(sum: &Sum<'_>, out: &[u8], align: usize) -> usize {
    match sum.stream {
        true => out[sum.range.start..].as_ptr().align_offset(align).min(sum.range.len()),
        false => 0,
    }
}

/// The `U` registers from byte `at` on.
#[inline(always)]
fn step<const N: usize, const M: usize, const U: usize, P: Product<N>>(
    product: P,
    sum: &Sum<'_>,
    outs: &mut [&mut [u8]; M],
    at: usize,
) {
    let vector = product.vector();
    let mut sums = [[vector.zero(); U]; M];
    if sum.add {
        for row in 0..M {
            copy::<N, U, _>(vector, &mut sums[row], outs[row], at);
        }
    }
    let mut done = 0;
    if P::Vector::TERNARY {
        for pair in sum.sources.as_chunks::<2>().0 {
            add::<N, M, U, 2, P>(product, sum, &mut sums, done, [pair[0], pair[1]], at);
            done += 2;
        }
    }
    for source in &sum.sources[done..] {
        add::<N, M, U, 1, P>(product, sum, &mut sums, done, [source], at);
        done += 1;
    }
    for row in 0..M {
        put::<N, U, _>(vector, sum, &sums[row], window_mut(outs[row], at));
    }
}

/// All whole registers from byte `at` on if there is one source only, as in an update: its factors
/// stay in registers from beginning to end. Returns the bytes done.
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
        // All are loaded before one is stored: rows often start on pages, and a load behind a
        // store to the same place of another page waits for it.
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

/// Adds the shares of the `S` sources from number `first` on, `S` being 1 or 2.
#[inline(always)]
fn add<const N: usize, const M: usize, const U: usize, const S: usize, P: Product<N>>(
    product: P,
    sum: &Sum<'_>,
    sums: &mut [[Word<N, P>; U]; M],
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

/// `len < N` bytes from byte `at` on, through a padded copy.
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

/// `out = XOR of the sources` over `sum.range`, plus what `out` held if `sum.add`.
#[inline(always)]
pub(super) fn xor<const N: usize, const U: usize, V: Vector<N>>(
    vector: V,
    sum: &Sum<'_>,
    out: &mut [u8],
) {
    let end = sum.range.end;
    let mut at = sum.range.start;
    let head = head(sum, out, N);
    if head > 0 {
        xor_edge::<N, V>(vector, sum, out, at, head);
        at += head;
    }
    while end - at >= U * N {
        xor_step::<N, U, V>(vector, sum, out, at);
        at += U * N;
    }
    while end - at >= N {
        xor_step::<N, 1, V>(vector, sum, out, at);
        at += N;
    }
    if end > at {
        xor_edge::<N, V>(vector, sum, out, at, end - at);
    }
    if sum.stream && !sum.more {
        vector.fence();
    }
}

/// The `U` registers from byte `at` on.
#[inline(always)]
fn xor_step<const N: usize, const U: usize, V: Vector<N>>(
    vector: V,
    sum: &Sum<'_>,
    out: &mut [u8],
    at: usize,
) {
    let mut sums = [vector.zero(); U];
    let mut rest = sum.sources;
    if sum.add {
        copy::<N, U, V>(vector, &mut sums, out, at);
    } else if let [first, others @ ..] = rest {
        copy::<N, U, V>(vector, &mut sums, first, at);
        rest = others;
    }
    let (pairs, last) = rest.as_chunks::<2>();
    for [a, b] in pairs {
        let (a, b) = (window::<N, U>(a, at), window::<N, U>(b, at));
        for u in 0..U {
            sums[u] = vector.xor3(sums[u], vector.load(&a[u]), vector.load(&b[u]));
        }
    }
    if let [source] = last {
        let lanes = window::<N, U>(source, at);
        for u in 0..U {
            sums[u] = vector.xor(sums[u], vector.load(&lanes[u]));
        }
    }
    put(vector, sum, &sums, window_mut::<N, U>(out, at));
}

/// The `U` registers from byte `at` on, as they are.
#[inline(always)]
fn copy<const N: usize, const U: usize, V: Vector<N>>(
    vector: V,
    to: &mut [V::Word; U],
    from: &[u8],
    at: usize,
) {
    let lanes = window::<N, U>(from, at);
    for u in 0..U {
        to[u] = vector.load(&lanes[u]);
    }
}

/// `len < N` bytes from byte `at` on, through a padded copy.
#[inline(always)]
fn xor_edge<const N: usize, V: Vector<N>>(
    vector: V,
    sum: &Sum<'_>,
    out: &mut [u8],
    at: usize,
    len: usize,
) {
    let mut pad = [0; N];
    let mut all = vector.zero();
    for source in sum.sources {
        pad[..len].copy_from_slice(&source[at..at + len]);
        all = vector.xor(all, vector.load(&pad));
    }
    vector.store(all, &mut pad);
    finish(sum, &pad[..len], &mut out[at..at + len]);
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

/// `U` lanes of `N` bytes from byte `at` on.
#[inline(always)]
fn window<const N: usize, const U: usize>(bytes: &[u8], at: usize) -> &[[u8; N]; U] {
    let (lanes, _) = bytes[at..at + U * N].as_chunks::<N>();
    lanes.first_chunk().expect("U lanes")
}

/// `U` lanes of `N` bytes from byte `at` on.
#[inline(always)]
fn window_mut<const N: usize, const U: usize>(bytes: &mut [u8], at: usize) -> &mut [[u8; N]; U] {
    let (lanes, _) = bytes[at..at + U * N].as_chunks_mut::<N>();
    lanes.first_chunk_mut().expect("U lanes")
}
