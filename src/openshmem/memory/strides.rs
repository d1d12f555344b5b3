//! Strided transfers: blocks whose starts are equally far apart, at both ends.
//!
//! Invariant: of [`Strides`], neither a block nor a stride overflows; an extent is checked when it
//! is asked for.

use crate::openshmem::check::{bytes_of, misuse};

/// A strided transfer: `blocks` blocks of `block` bytes, their starts this many bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strides {
    /// How many blocks.
    pub blocks: usize,
    /// Bytes in each.
    pub block_bytes: usize,
    /// From start to start where it is written.
    pub dest_bytes: usize,
    /// From start to start where it is read.
    pub source_bytes: usize,
}

/// What a call says about a strided transfer, in elements.
#[derive(Clone, Copy)]
pub struct Strided {
    /// Stride of `dest`.
    pub dst: isize,
    /// Stride of `source`.
    pub sst: isize,
    /// Elements in a block.
    pub bsize: usize,
    /// Blocks.
    pub nblocks: usize,
    /// Bytes in an element.
    pub element_bytes: usize,
}

impl Strided {
    /// The strides in bytes, checked; `None` when nothing is to be moved.
    pub fn strides(self, call: &'static str) -> Option<Strides> {
        if self.nblocks == 0 || self.bsize == 0 {
            return None;
        }
        let block_bytes = bytes_of(call, self.bsize, self.element_bytes);
        let stride = |name: &str, stride: isize| match usize::try_from(stride) {
            Ok(elements) if elements >= self.bsize => bytes_of(call, elements, self.element_bytes),
            _ => misuse(call, format_args!("{name} {stride}: expected {} or more", self.bsize)),
        };
        let (dest_bytes, source_bytes) = (stride("dst", self.dst), stride("sst", self.sst));
        Some(Strides { blocks: self.nblocks, block_bytes, dest_bytes, source_bytes })
    }
}

impl Strides {
    /// Moves nothing.
    pub const NOTHING: Strides =
        Strides { blocks: 0, block_bytes: 0, dest_bytes: 0, source_bytes: 0 };

    /// One block.
    pub const fn one(bytes: usize) -> Strides {
        Strides { blocks: 1, block_bytes: bytes, dest_bytes: bytes, source_bytes: bytes }
    }

    /// Bytes of all blocks.
    pub const fn bytes(&self) -> usize {
        self.blocks * self.block_bytes
    }

    /// First byte to last byte when the blocks start `stride_bytes` apart.
    pub fn extent(&self, call: &'static str, stride_bytes: usize) -> usize {
        let gaps = bytes_of(call, self.blocks.saturating_sub(1), stride_bytes);
        match gaps.checked_add(self.block_bytes) {
            Some(bytes) if isize::try_from(bytes).is_ok() => bytes,
            _ => misuse(call, "the strided range is larger than any memory"),
        }
    }
}
