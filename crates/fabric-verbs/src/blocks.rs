//! Blocks: registered memory for the pieces of transfers.
//!
//! Invariant: a block is free, or belongs to one work request or one caller.

#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex};

use raidshmem_sys::lock;

use crate::device::Device;
use crate::objects::{Region, Span};

/// Bytes of a block: a piece of a transfer on its way to or from registered memory.
pub const BLOCK: usize = 64 << 10;
const BLOCKS: usize = 64;
/// Bytes of all blocks.
pub const BLOCKS_LEN: usize = BLOCKS * BLOCK;

/// The blocks of an engine.
#[derive(Debug)]
pub struct Blocks {
    region: Region,
    free: Mutex<Vec<u32>>,
}

impl Blocks {
    /// Registers the blocks.
    pub fn new(device: &Arc<Device>) -> Result<Blocks, String> {
        let region = Region::private(device, BLOCKS_LEN)?;
        Ok(Blocks { region, free: Mutex::new((0..BLOCKS as u32).collect()) })
    }

    /// Takes a free block, if there is one.
    pub fn take(&self) -> Option<u32> {
        lock(&self.free).pop()
    }

    /// Returns unused blocks to the pool.
    pub fn give_back(&self, blocks: &[u32]) {
        if !blocks.is_empty() {
            lock(&self.free).extend(blocks);
        }
    }

    /// Copies bytes to a block.
    pub fn write(&self, block: u32, bytes: &[u8]) {
        self.region.write(block as usize * BLOCK, bytes);
    }

    /// Copies bytes from a block.
    pub fn read(&self, block: u32, into: &mut [u8]) {
        self.region.read(block as usize * BLOCK, into);
    }

    /// Returns the first bytes of a block, for a work request.
    pub fn span(&self, block: u32, len: usize) -> Span {
        self.region.span(block as usize * BLOCK, len)
    }
}
