//! Computing, updating and inverting the parity of one stripe.
//!
//! A stripe has `k` data shards, numbered `0..k`, and `m` parity shards, numbered `k..k + m`;
//! parity *row* `r` is shard `k + r`. All shards of a stripe have one length, any length.
//!
//! With `m <= 3` row `r` is the sum of `2^(i * r) * data[i]` over GF(2^8): row 0 is the XOR of the
//! data (with `k == 1`, a copy), rows 0 and 1 are P and Q of RAID-6. With `m >= 4` it is the
//! systematic Reed-Solomon code whose shard `x` is the value at `x` of the polynomial through the
//! data at `0..k`; the bytes equal those of `reed_solomon_erasure::galois_8`, and row 0 need *not*
//! be the XOR.
//!
//! Invariants: a byte of parity depends on the bytes at the same offset only, so any range of a
//! stripe can be coded by itself, and parity is linear: see [`Code::update`]. Any `k` shards
//! determine the rest. Shapes are checked before the first output byte is written.
//!
//! Left out: detecting that a shard is wrong. A wrong source silently gives wrong output. Sources
//! for the codes: H. P. Anvin, *The mathematics of RAID-6*; J. S. Plank, *A Tutorial on
//! Reed-Solomon Coding for Fault-Tolerance in RAID-like Systems* (with its 2003 correction).
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::error::Error;
use crate::kernel::{Kernel, Made};
use crate::matrix;

/// Maximum number of shards in a stripe: the number of elements of the field.
pub const MAX_SHARDS: usize = 256;

/// A code of `k` data and `m` parity shards. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Code {
    data: usize,
    parity: usize,
    /// Row-major, `data` coefficients per row.
    coefficients: Arc<[u8]>,
    kernel: Kernel,
}

impl Code {
    /// Creates the code of `data` data and `parity` parity shards, on the [chosen](Kernel::chosen)
    /// kernel.
    ///
    /// # Errors
    /// [`Error::Kernel`] if that kernel is not available, [`Error::TooFewData`] and
    /// [`Error::TooFewParities`] if a count is 0, [`Error::TooManyShards`] if together they exceed
    /// [`MAX_SHARDS`].
    pub fn new(data: usize, parity: usize) -> Result<Code, Error> {
        Code::with_kernel(data, parity, Kernel::chosen()?)
    }

    /// Like [`Code::new`], on the given kernel. The kernel does not affect any result.
    ///
    /// # Errors
    /// As [`Code::new`], except [`Error::Kernel`].
    pub fn with_kernel(data: usize, parity: usize, kernel: Kernel) -> Result<Code, Error> {
        if data == 0 {
            return Err(Error::TooFewData { expected: 1, got: data });
        }
        if parity == 0 {
            return Err(Error::TooFewParities { expected: 1, got: parity });
        }
        let shards = data.saturating_add(parity);
        if shards > MAX_SHARDS {
            return Err(Error::TooManyShards { expected: MAX_SHARDS, got: shards });
        }
        Ok(Code { data, parity, coefficients: matrix::parity(data, parity).into(), kernel })
    }

    /// Returns the number of data shards, `k`.
    pub fn data(&self) -> usize {
        self.data
    }

    /// Returns the number of parity shards, `m`: the most losses that a stripe survives.
    pub fn parity(&self) -> usize {
        self.parity
    }

    /// Returns the `k` coefficients of parity row `row`: `parity[row] = sum of c[i] * data[i]`. No
    /// coefficient is 0.
    ///
    /// # Panics
    /// If `row >= m`.
    pub fn coefficients(&self, row: usize) -> &[u8] {
        assert!(row < self.parity, "parity row {row} of {}", self.parity);
        &self.coefficients[row * self.data..][..self.data]
    }

    /// Overwrites `parity` with parity row `row` of the `k` data shards `sources`.
    ///
    /// # Errors
    /// [`Error::Index`] for a row past the last, [`Error::Shards`] unless there are `k` sources,
    /// [`Error::Length`] unless each is as long as `parity`.
    pub fn encode_row(
        &self,
        row: usize,
        sources: &[&[u8]],
        parity: &mut [u8],
    ) -> Result<(), Error> {
        in_range(row, self.parity)?;
        shapes(sources, self.data, parity.len())?;
        self.kernel.combine(self.coefficients(row), sources, &mut [parity]);
        Ok(())
    }

    /// Like [`Code::encode_row`], piece by piece. `put` receives each piece of the parity in turn,
    /// while it is in the L1 cache, and writes it to its destination: see [`Kernel::put`], and
    /// [`crate::crc::Hasher::put`], which also computes a checksum.
    ///
    /// # Errors
    /// As [`Code::encode_row`].
    pub fn encode_row_by_pieces(
        &self,
        row: usize,
        sources: &[&[u8]],
        parity: &mut [u8],
        put: impl FnMut(Made<'_>),
    ) -> Result<(), Error> {
        in_range(row, self.parity)?;
        shapes(sources, self.data, parity.len())?;
        self.kernel.combine_by_pieces(self.coefficients(row), sources, parity, put);
        Ok(())
    }

    /// Overwrites all `m` parity shards with the parity of the `k` data shards `sources`, reading
    /// the sources from memory once.
    ///
    /// # Errors
    /// [`Error::Shards`] unless there are `k` sources and `m` parities, [`Error::Length`] unless
    /// each is as long as the first parity.
    pub fn encode(&self, sources: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), Error> {
        count(parity.len(), self.parity)?;
        let len = parity[0].len();
        shapes(sources, self.data, len)?;
        parity.iter().try_for_each(|shard| same_length(shard.len(), len))?;
        self.kernel.combine(&self.coefficients, sources, parity);
        Ok(())
    }

    /// Updates a range of parity row `row` after a change of the same range of data shard `column`,
    /// whose old bytes XOR new bytes are `delta`: `parity ^= c * delta`. Deltas may be applied in
    /// any order; applying one twice undoes it.
    ///
    /// # Errors
    /// [`Error::Index`] for a row or column past the last, [`Error::Length`] unless `delta` is as
    /// long as `parity`.
    pub fn update(
        &self,
        row: usize,
        column: usize,
        delta: &[u8],
        parity: &mut [u8],
    ) -> Result<(), Error> {
        in_range(row, self.parity)?;
        in_range(column, self.data)?;
        same_length(delta.len(), parity.len())?;
        self.kernel.mul_add(parity, delta, self.coefficients(row)[column]);
        Ok(())
    }

    /// Overwrites `parity` with row `row`, like [`Code::encode_row_by_pieces`], but computes it
    /// from the row's previous contents `old` and the data shards that have changed since. Each
    /// shard appears once in `changes`, as its number, its old bytes and its new bytes.
    ///
    /// # Errors
    /// [`Error::Index`] for a row or shard past the last, [`Error::Length`] unless `old` and all of
    /// `changes` are as long as `parity`.
    pub fn update_row_by_pieces(
        &self,
        row: usize,
        old: &[u8],
        changes: &[(usize, &[u8], &[u8])],
        parity: &mut [u8],
        put: impl FnMut(Made<'_>),
    ) -> Result<(), Error> {
        in_range(row, self.parity)?;
        same_length(old.len(), parity.len())?;
        let (mut factors, mut sources) = (vec![1], vec![old]);
        for &(column, was, is) in changes {
            in_range(column, self.data)?;
            same_length(was.len(), parity.len())?;
            same_length(is.len(), parity.len())?;
            factors.extend([self.coefficients(row)[column]; 2]);
            sources.extend([was, is]);
        }
        self.kernel.combine_by_pieces(&factors, &sources, parity, put);
        Ok(())
    }

    /// Like [`Code::update`] for all `m` parity shards at once, reading `delta` once.
    ///
    /// The runtime only updates the rows that one PE holds; this is for a caller that holds all
    /// rows, and is benchmarked against ISA-L.
    ///
    /// # Errors
    /// [`Error::Index`] for a column past the last, [`Error::Shards`] unless there are `m`
    /// parities, [`Error::Length`] unless `delta` and all parities are as long as the first parity.
    pub fn update_all(
        &self,
        column: usize,
        delta: &[u8],
        parity: &mut [&mut [u8]],
    ) -> Result<(), Error> {
        in_range(column, self.data)?;
        count(parity.len(), self.parity)?;
        let len = parity[0].len();
        same_length(delta.len(), len)?;
        parity.iter().try_for_each(|shard| same_length(shard.len(), len))?;
        let mut factors = [0; MAX_SHARDS];
        for (row, factor) in factors[..self.parity].iter_mut().enumerate() {
            *factor = self.coefficients(row)[column];
        }
        self.kernel.combine_add(&factors[..self.parity], &[delta], parity);
        Ok(())
    }

    /// Plans the rebuild of shard `want` from the shards not flagged in `lost` (one flag per shard,
    /// `k + m` in all). A shard that is not lost is simply read. Otherwise the plan reads `k`
    /// shards, data before parity, lowest numbers first. Takes about `m` squared times `k` field
    /// products.
    ///
    /// # Errors
    /// [`Error::Shards`] unless there are `k + m` flags, [`Error::Index`] for a `want` past the
    /// last shard, [`Error::TooManyLost`] if more than `m` shards are lost, whichever is wanted.
    pub fn plan(&self, lost: &[bool], want: usize) -> Result<DecodePlan, Error> {
        self.check_losses(lost, want)?;
        if !lost[want] {
            return Ok(DecodePlan {
                sources: vec![want],
                coefficients: vec![1],
                kernel: self.kernel,
            });
        }
        let sources = self.survivors(lost);
        let coefficients = matrix::weights(&self.coefficients, &sources, &[want]);
        Ok(DecodePlan { sources, coefficients, kernel: self.kernel })
    }

    /// Plans the rebuild of all the shards `wants` at once from the shards not flagged in `lost`.
    /// The plan reads `k` shards, data before parity, lowest numbers first, regardless of `wants`.
    /// For a single shard, or one that is not lost, [`Code::plan`] never reads more and may read
    /// less.
    ///
    /// In the runtime each PE rebuilds its own shard; this is for a caller that rebuilds several,
    /// and is benchmarked against ISA-L.
    ///
    /// # Errors
    /// As [`Code::plan`].
    pub fn plan_all(&self, lost: &[bool], wants: &[usize]) -> Result<JointDecodePlan, Error> {
        wants.iter().try_for_each(|&want| self.check_losses(lost, want))?;
        let sources = self.survivors(lost);
        let coefficients = matrix::weights(&self.coefficients, &sources, wants);
        Ok(JointDecodePlan { sources, wants: wants.to_vec(), coefficients, kernel: self.kernel })
    }

    fn check_losses(&self, lost: &[bool], want: usize) -> Result<(), Error> {
        let shards = self.data + self.parity;
        count(lost.len(), shards)?;
        in_range(want, shards)?;
        let gone = lost.iter().filter(|&&lost| lost).count();
        if gone > self.parity {
            return Err(Error::TooManyLost { lost: gone, parity: self.parity });
        }
        Ok(())
    }

    /// Returns the `k` lowest numbers of surviving shards.
    fn survivors(&self, lost: &[bool]) -> Vec<usize> {
        (0..lost.len()).filter(|&shard| !lost[shard]).take(self.data).collect()
    }
}

/// The surviving shards to read, and their coefficients, to rebuild one shard of a stripe. Made by
/// [`Code::plan`]; valid for every stripe and every range with the same losses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodePlan {
    sources: Vec<usize>,
    coefficients: Vec<u8>,
    kernel: Kernel,
}

impl DecodePlan {
    /// Returns the numbers of the shards to read, ascending: no lost shard, and no superfluous one.
    pub fn sources(&self) -> &[usize] {
        &self.sources
    }

    /// Returns the coefficient of each source, in the order of [`DecodePlan::sources`]; no
    /// coefficient is 0.
    pub fn coefficients(&self) -> &[u8] {
        &self.coefficients
    }

    /// Overwrites `out` with the wanted shard (or the same range of it), given the shards listed
    /// by [`DecodePlan::sources`] in that order.
    ///
    /// # Errors
    /// [`Error::Shards`] unless there are as many sources as listed, [`Error::Length`] unless each
    /// is as long as `out`.
    pub fn apply(&self, sources: &[&[u8]], out: &mut [u8]) -> Result<(), Error> {
        shapes(sources, self.sources.len(), out.len())?;
        self.kernel.combine(&self.coefficients, sources, &mut [out]);
        Ok(())
    }

    /// Like [`DecodePlan::apply`], piece by piece, for callers that compute checksums. `see`
    /// receives each piece of each source, with its position in [`DecodePlan::sources`], before it
    /// is used; `look` receives each piece of the shard. Both see the bytes while they are in the
    /// L1 cache. The pieces of each source, and of the shard, come in order.
    ///
    /// # Errors
    /// As [`DecodePlan::apply`].
    pub fn apply_shown(
        &self,
        sources: &[&[u8]],
        out: &mut [u8],
        see: impl FnMut(usize, &[u8]),
        look: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        shapes(sources, self.sources.len(), out.len())?;
        self.kernel.combine_seen(&self.coefficients, sources, out, see, look);
        Ok(())
    }

    /// Adds the contribution of one source to `out`, for sources that arrive one by one. Starting
    /// from zeros and adding each position of `0..sources().len()` once, in any order, gives the
    /// result of [`DecodePlan::apply`].
    ///
    /// # Errors
    /// [`Error::Index`] for a position past the last, [`Error::Length`] unless `source` is as long
    /// as `out`.
    pub fn add(&self, position: usize, source: &[u8], out: &mut [u8]) -> Result<(), Error> {
        in_range(position, self.sources.len())?;
        same_length(source.len(), out.len())?;
        self.kernel.mul_add(out, source, self.coefficients[position]);
        Ok(())
    }
}

/// Like [`DecodePlan`], for several shards of a stripe at once: the sources are read once for all
/// of them. Made by [`Code::plan_all`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JointDecodePlan {
    sources: Vec<usize>,
    wants: Vec<usize>,
    /// One row per wanted shard.
    coefficients: Vec<u8>,
    kernel: Kernel,
}

impl JointDecodePlan {
    /// Returns the numbers of the shards to read, ascending, no lost one among them.
    pub fn sources(&self) -> &[usize] {
        &self.sources
    }

    /// Returns the numbers of the shards to rebuild, in the order requested.
    pub fn wants(&self) -> &[usize] {
        &self.wants
    }

    /// Returns the coefficients of each wanted shard, one per source, row after row.
    pub fn coefficients(&self) -> &[u8] {
        &self.coefficients
    }

    /// Overwrites `outs` with the wanted shards (or the same range of each), given the shards
    /// listed by [`JointDecodePlan::sources`] in that order.
    ///
    /// # Errors
    /// [`Error::Shards`] unless there are as many sources and outputs as listed,
    /// [`Error::Length`] unless each is as long as the first output.
    pub fn apply(&self, sources: &[&[u8]], outs: &mut [&mut [u8]]) -> Result<(), Error> {
        count(outs.len(), self.wants.len())?;
        let Some(len) = outs.first().map(|out| out.len()) else { return Ok(()) };
        shapes(sources, self.sources.len(), len)?;
        outs.iter().try_for_each(|out| same_length(out.len(), len))?;
        self.kernel.combine(&self.coefficients, sources, outs);
        Ok(())
    }
}

fn shapes(sources: &[&[u8]], expected: usize, len: usize) -> Result<(), Error> {
    count(sources.len(), expected)?;
    sources.iter().try_for_each(|source| same_length(source.len(), len))
}

fn count(got: usize, expected: usize) -> Result<(), Error> {
    if got == expected { Ok(()) } else { Err(Error::Shards { expected, got }) }
}

fn same_length(got: usize, expected: usize) -> Result<(), Error> {
    if got == expected { Ok(()) } else { Err(Error::Length { expected, got }) }
}

fn in_range(got: usize, expected: usize) -> Result<(), Error> {
    if got < expected { Ok(()) } else { Err(Error::Index { expected, got }) }
}
