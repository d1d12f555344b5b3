//! The mappings through which this process writes symmetric memory, under watch page by page.
//!
//! Invariant: all of them are watched or none. The own memory is mapped twice where the statics
//! are; that of a PE near it once. Mappings of memory that was lost count no more.

#![forbid(unsafe_code)]

use std::ops::Range;

use rustix::io::Result;

use super::World;
use crate::store::track::Tracked;
use crate::sys::written::{Watch, has_forked};

/// Most pieces that mappings are cut into: the kernel has a limit for each process.
const MOST: usize = 4096;

/// What is watched, and what is known of it.
#[derive(Debug, Default)]
pub struct Tracking {
    /// What a look is good for.
    pub tracked: Tracked,
    /// The watch itself; None if it is over.
    pub watched: Option<Watched>,
}

/// Bytes `offset..offset + len` of PE `pe`, where they are mapped here.
#[derive(Debug)]
struct Piece {
    pe: usize,
    offset: usize,
    at: usize,
    len: usize,
}

/// Pieces of mappings that are watched.
#[derive(Debug)]
pub struct Watched {
    watch: Watch,
    pieces: Vec<Piece>,
}

impl Watched {
    /// Watches `spans` (offsets in the segment, whole pages) in all mappings of this process; huge
    /// pages only if it `cuts` them.
    ///
    /// # Errors
    /// The kernel's, or too many spans, or huge pages.
    pub fn new(world: &World, spans: &[Range<usize>], cuts: bool) -> Result<Watched> {
        let mut pieces = Vec::new();
        for pe in 0..world.n_pes() {
            let base = world.base(pe) as usize;
            if base == 0 {
                continue;
            }
            let piece = |span: &Range<usize>| {
                let (offset, len) = (span.start, span.len());
                Piece { pe, offset, at: base + offset, len }
            };
            pieces.extend(spans.iter().map(piece));
        }
        if let Some(statics) = &world.statics {
            let (me, begin) = (world.me, world.layout.statics);
            let inside =
                |span: &Range<usize>| span.start.max(begin)..span.end.min(begin + statics.len);
            let piece = |span: Range<usize>| {
                let (offset, len) = (span.start, span.len());
                Piece { pe: me, offset, at: statics.start + offset - begin, len }
            };
            let there = spans.iter().map(inside).filter(|span| !span.is_empty());
            pieces.extend(there.map(piece));
        }
        if pieces.len() > MOST {
            return Err(rustix::io::Errno::NOMEM);
        }
        let mut watch = Watch::new(cuts)?;
        pieces.iter().try_for_each(|piece| watch.add(piece.at, piece.len))?;
        Ok(Watched { watch, pieces })
    }

    /// Shows `each` the offsets of what this process wrote to PE `pe` since it was asked last.
    ///
    /// # Errors
    /// The kernel's: then nothing is known.
    pub fn take(&self, pe: usize, mut each: impl FnMut(Range<usize>)) -> Result<()> {
        self.pieces.iter().filter(|piece| piece.pe == pe).try_for_each(|piece| {
            let offset = |at: usize| at - piece.at + piece.offset;
            self.watch
                .take(piece.at, piece.len, |pages| each(offset(pages.start)..offset(pages.end)))
        })
    }
}

impl World {
    /// True if whatever is written to symmetric memory goes through the page tables of processes
    /// that map it.
    pub(crate) fn sees_writes(&self) -> bool {
        let far = self.far.as_ref();
        !has_forked() && far.is_none_or(|far| far.engine.writes_are_seen())
    }
}
