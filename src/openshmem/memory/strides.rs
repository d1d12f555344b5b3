//! Strided transfers: blocks with equally spaced starts, at both ends.
//!
//! Invariant: in [`Strides`], neither a block nor a stride overflows; an extent is checked when it
//! is computed.

use crate::openshmem::check::{bytes_of, misuse};

/// A strided transfer of blocks, with the distance between their starts at each end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strides {
    /// The number of blocks.
    pub blocks: usize,
    /// Bytes per block.
    pub block_bytes: usize,
    /// Bytes between block starts in the destination.
    pub dest_bytes: usize,
    /// Bytes between block starts in the source.
    pub source_bytes: usize,
}

/// The arguments of a strided call, in elements.
#[derive(Clone, Copy)]
pub struct Strided {
    /// Stride of `dest`.
    pub dst: isize,
    /// Stride of `source`.
    pub sst: isize,
    /// Elements in a block.
    pub bsize: usize,
    /// Number of blocks.
    pub nblocks: usize,
    /// Bytes in an element.
    pub element_bytes: usize,
}

impl Strided {
    /// Returns the checked strides in bytes; those of a call that moves nothing are not checked.
    pub fn strides(self, call: &'static str) -> Strides {
        if self.nblocks == 0 || self.bsize == 0 {
            return Strides::NOTHING;
        }
        let block_bytes = bytes_of(call, self.bsize, self.element_bytes);
        let stride = |name: &str, stride: isize| match usize::try_from(stride) {
            Ok(elements) if elements >= self.bsize => bytes_of(call, elements, self.element_bytes),
            _ => misuse(call, format_args!("{name} {stride}: expected {} or more", self.bsize)),
        };
        let (dest_bytes, source_bytes) = (stride("dst", self.dst), stride("sst", self.sst));
        Strides { blocks: self.nblocks, block_bytes, dest_bytes, source_bytes }
    }
}

impl Strides {
    /// A transfer of nothing.
    const NOTHING: Strides = Strides { blocks: 0, block_bytes: 0, dest_bytes: 0, source_bytes: 0 };

    /// Returns a transfer of one block.
    pub const fn one(bytes: usize) -> Strides {
        Strides { blocks: 1, block_bytes: bytes, dest_bytes: bytes, source_bytes: bytes }
    }

    /// Returns the bytes of all blocks.
    pub const fn bytes(&self) -> usize {
        self.blocks * self.block_bytes
    }

    /// Returns the bytes from the first to the last block whose starts are `stride_bytes` apart.
    #[inline]
    pub fn extent(&self, call: &'static str, stride_bytes: usize) -> usize {
        if self.blocks == 1 {
            return self.block_bytes; // without a stride, on the path of every contiguous transfer
        }
        let gaps = bytes_of(call, self.blocks.saturating_sub(1), stride_bytes);
        match gaps.checked_add(self.block_bytes) {
            Some(bytes) if isize::try_from(bytes).is_ok() => bytes,
            _ => misuse(call, "the strided range is larger than any memory"),
        }
    }
}
