//! The symmetric heap's allocator: offsets in, offsets out, no memory of its own.
//!
//! Every PE makes the same calls in the same order (OpenSHMEM 1.5, section 9.3), so every PE gets
//! the same offsets without communication. The state is small and is saved in symmetric memory with
//! every checkpoint; after a rollback a substitute allocates exactly as the other PEs do (which the
//! thesis could not: it forbade allocation between checkpoints).
//!
//! ```text
//! 0        64                 192       256                      len
//! | block A | block B          | free    | block C | free ....... |
//!   offsets and block lengths are multiples of GRANULE; a block's size is the requested size
//! ```
//!
//! Invariants:
//! - blocks do not overlap, do not touch `len`, and `used` is the sum of their rounded lengths;
//! - the free ranges are exactly the gaps between blocks, never two in a row (coalesced), and
//!   `free_at` and `free_by_len` hold the same ranges;
//! - hence the whole state follows from `len` and the set of (offset, size): two heaps with the
//!   same blocks are equal, whatever calls produced them, and behave equally from then on.
//!
//! Best fit, lowest offset among equals. Every operation is O(log n), except for alignments above
//! [`GRANULE`], which may have to try every free range that is long enough.
//!
//! Left out: the mapping of memory, locking, and the check that PEs agree (which [`Heap::digest`]
//! is for).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use thiserror::Error;

mod image;
#[cfg(test)]
mod tests;

/// The granularity of offsets and lengths of blocks, in bytes: one cache line, so that no two
/// blocks share one.
pub const GRANULE: usize = 64;

/// The length in bytes below which a gap between two allocated ranges is treated as live: copying
/// it is cheaper than starting another range.
pub const SWALLOWED_GAP: usize = 4096;

/// An invalid call, or an invalid stored heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeapError {
    /// The offset lies in free memory: it was freed already, or never allocated.
    #[error("offset {offset:#x} of the symmetric heap is free already")]
    AlreadyFree {
        /// The offset, in bytes from the start of the heap.
        offset: usize,
    },
    /// The offset lies in an allocated block but is not its start.
    #[error("offset {offset:#x} of the symmetric heap lies inside the block at {block:#x}")]
    InsideBlock {
        /// The offset, in bytes from the start of the heap.
        offset: usize,
        /// Start of the block that it lies in.
        block: usize,
    },
    /// The offset is not in the heap, or no block can start there.
    #[error("offset {offset:#x} is outside the symmetric heap ({len:#x} bytes)")]
    Unknown {
        /// The offset, in bytes from the start of the heap.
        offset: usize,
        /// Length of the heap in bytes.
        len: usize,
    },
    /// A block cannot be resized to 0 bytes; free it instead.
    #[error("the block at offset {offset:#x} cannot be resized to 0 bytes")]
    ZeroSize {
        /// Start of the block.
        offset: usize,
    },
    /// The stored heap has a different number of bytes than it states.
    #[error("a stored heap has {found} bytes where {expected} are needed")]
    Length {
        /// Bytes needed.
        expected: usize,
        /// Bytes found.
        found: usize,
    },
    /// The bytes are not a stored heap, or have an unknown format.
    #[error("no stored heap: it begins with {found:#018x}")]
    Magic {
        /// The first eight bytes as a little-endian number.
        found: u64,
    },
    /// A stored block is empty, misplaced, overlaps the one before it or reaches past the end.
    #[error("stored heap: block {index} of size {size:#x} at offset {offset:#x} cannot be there")]
    BadBlock {
        /// Index of the block, counted from 0.
        index: usize,
        /// Its stored offset.
        offset: u64,
        /// Its stored size.
        size: u64,
    },
    /// The heap's length is not a multiple of [`GRANULE`] or does not fit this machine.
    #[error("stored heap: its length {len:#x} is impossible")]
    BadLen {
        /// The stored length in bytes.
        len: u64,
    },
    /// The blocks are valid but not those that were stored.
    #[error("stored heap: digest {found:#018x}, but {expected:#018x} was stored")]
    BadDigest {
        /// The digest stored.
        expected: u64,
        /// The digest of what was read.
        found: u64,
    },
}

/// The state of a symmetric heap of a fixed length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heap {
    len: usize,
    /// Offset of each allocated block, and its requested size.
    blocks: BTreeMap<usize, usize>,
    /// Offset of each free range, and its length.
    free_at: BTreeMap<usize, usize>,
    /// The free ranges as (length, offset), for best fit.
    free_by_len: BTreeSet<(usize, usize)>,
    used: usize,
    digest: u64,
}

impl Heap {
    /// Creates an empty heap of `len` bytes, rounded down to [`GRANULE`].
    pub fn new(len: usize) -> Heap {
        let len = len - len % GRANULE;
        let mut heap = Heap {
            len,
            blocks: BTreeMap::new(),
            free_at: BTreeMap::new(),
            free_by_len: BTreeSet::new(),
            used: 0,
            digest: mix(len, usize::MAX),
        };
        heap.release(0..len);
        heap
    }

    /// Allocates `size` bytes at a multiple of `align` and returns the offset.
    ///
    /// `None` if there is no space, or if `size` is 0 or `align` is not a power of two, for which
    /// `shmem_malloc` and `shmem_align` return a null pointer (OpenSHMEM 1.5, section 9.3.1).
    pub fn alloc(&mut self, size: usize, align: usize) -> Option<usize> {
        self.alloc_from(0, size, align)
    }

    /// Like [`Heap::alloc`], but aligns the address rather than the offset, in a heap whose first
    /// byte has the address `origin`, a multiple of [`GRANULE`].
    pub fn alloc_from(&mut self, origin: usize, size: usize, align: usize) -> Option<usize> {
        if size == 0 || !align.is_power_of_two() {
            return None;
        }
        let need = round_up(size)?;
        let (range, start) = self.best_fit(origin, need, align.max(GRANULE))?;
        self.take(&range);
        self.release(range.start..start);
        self.release(start + need..range.end);
        self.insert_block(start, size);
        Some(start)
    }

    /// Frees the block that starts at `offset` and returns its requested size.
    ///
    /// # Errors
    /// `AlreadyFree`, `InsideBlock` or `Unknown`; the heap is then unchanged.
    pub fn free(&mut self, offset: usize) -> Result<usize, HeapError> {
        let size = self.find(offset)?;
        self.remove_block(offset, size);
        self.release_coalesced(offset..offset + block_len(size));
        Ok(size)
    }

    /// Makes the block at `offset` `size` bytes long without moving it. `Ok(false)` if there is not
    /// enough space after it; the heap is then unchanged and the caller moves the block.
    ///
    /// # Errors
    /// As [`Heap::free`], and `ZeroSize`; the heap is then unchanged.
    pub fn resize(&mut self, offset: usize, size: usize) -> Result<bool, HeapError> {
        let old_size = self.find(offset)?;
        if size == 0 {
            return Err(HeapError::ZeroSize { offset });
        }
        let Some(new_len) = round_up(size) else { return Ok(false) };
        let old_end = offset + block_len(old_size);
        let free_end = old_end + self.free_at.get(&old_end).copied().unwrap_or(0);
        if new_len > free_end - offset {
            return Ok(false);
        }
        self.remove_block(offset, old_size);
        self.take(&(old_end..free_end));
        self.release(offset + new_len..free_end);
        self.insert_block(offset, size);
        Ok(true)
    }

    /// Returns the requested size in bytes of the block at `offset`; `None` if no block starts
    /// there.
    pub fn size_of(&self, offset: usize) -> Option<usize> {
        self.blocks.get(&offset).copied()
    }

    /// Returns the block that `offset` lies in, as the requested range (without rounding).
    pub fn block_at(&self, offset: usize) -> Option<Range<usize>> {
        let (&start, &size) = self.blocks.range(..=offset).next_back()?;
        (offset < start + size).then(|| start..start + size)
    }

    /// Returns the bytes allocated, each block rounded up to [`GRANULE`].
    pub fn used(&self) -> usize {
        self.used
    }

    /// Returns the length of the heap in bytes.
    pub fn capacity(&self) -> usize {
        self.len
    }

    /// Returns the number of allocated blocks.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the allocated ranges, sorted and merged across gaps shorter than [`SWALLOWED_GAP`].
    /// O(n).
    pub fn live(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (&start, &size) in &self.blocks {
            let end = start + block_len(size);
            match ranges.last_mut() {
                Some(last) if start - last.end < SWALLOWED_GAP => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// Returns a digest that is equal on PEs whose heaps are equal, and differs otherwise but for
    /// one chance in 2^64. It is kept up to date, so reading it costs nothing.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns the free range to use for `need` rounded bytes, and the offset in it that is aligned
    /// in a heap that begins at `origin`.
    fn best_fit(&self, origin: usize, need: usize, align: usize) -> Option<(Range<usize>, usize)> {
        self.free_by_len.range((need, 0)..).find_map(|&(len, at)| {
            let start = origin.checked_add(at)?.checked_next_multiple_of(align)? - origin;
            let fits = start.checked_add(need)? <= at + len;
            fits.then_some((at..at + len, start))
        })
    }

    /// Returns the size of the block at `offset`, or why the offset is invalid.
    fn find(&self, offset: usize) -> Result<usize, HeapError> {
        if let Some(size) = self.size_of(offset) {
            return Ok(size);
        }
        Err(match self.blocks.range(..offset).next_back() {
            Some((&block, &size)) if offset < block + block_len(size) => {
                HeapError::InsideBlock { offset, block }
            }
            _ if offset < self.len && offset.is_multiple_of(GRANULE) => {
                HeapError::AlreadyFree { offset }
            }
            _ => HeapError::Unknown { offset, len: self.len },
        })
    }

    fn insert_block(&mut self, offset: usize, size: usize) {
        self.blocks.insert(offset, size);
        self.used += block_len(size);
        self.digest = self.digest.wrapping_add(mix(offset, size));
    }

    fn remove_block(&mut self, offset: usize, size: usize) {
        self.blocks.remove(&offset);
        self.used -= block_len(size);
        self.digest = self.digest.wrapping_sub(mix(offset, size));
    }

    /// Removes a whole free range; does nothing if it is empty.
    fn take(&mut self, range: &Range<usize>) {
        if !range.is_empty() {
            self.free_at.remove(&range.start);
            self.free_by_len.remove(&(range.len(), range.start));
        }
    }

    /// Adds a free range that has no free neighbour; does nothing if it is empty.
    fn release(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.free_at.insert(range.start, range.len());
            self.free_by_len.insert((range.len(), range.start));
        }
    }

    /// Adds a free range and merges it with free neighbours on both sides.
    fn release_coalesced(&mut self, mut range: Range<usize>) {
        if let Some((&start, &len)) = self.free_at.range(..range.start).next_back()
            && start + len == range.start
        {
            self.take(&(start..start + len));
            range.start = start;
        }
        if let Some(&len) = self.free_at.get(&range.end) {
            let end = range.end + len;
            self.take(&(range.end..end));
            range.end = end;
        }
        self.release(range);
    }
}

/// Rounds `size` up to [`GRANULE`]; `None` on overflow.
fn round_up(size: usize) -> Option<usize> {
    size.checked_next_multiple_of(GRANULE)
}

/// Returns the length of a block whose size passed [`round_up`] when it was allocated.
fn block_len(size: usize) -> usize {
    size.next_multiple_of(GRANULE)
}

/// Spreads a block's offset and size over 64 bits (finalizer of SplitMix64, twice), so that sums of
/// these numbers distinguish sets of blocks. Must never change: it is stored in checkpoints.
fn mix(offset: usize, size: usize) -> u64 {
    let scramble = |mut x: u64| {
        x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    scramble(scramble(offset as u64) ^ size as u64)
}
