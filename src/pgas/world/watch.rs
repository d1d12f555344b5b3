//! The mappings through which this process writes symmetric memory, under watch page by page.
//!
//! Invariant: all of them are watched or none. The own memory is mapped twice where the statics
//! are; that of a PE near it once. Mappings of memory that was lost count no more. What was not
//! [`Reached`] was not written.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use raidshmem_core::quantity::Pe;
use raidshmem_core::store::track::{Costs, Tracked};
use raidshmem_segment::Segment;
use raidshmem_sys::written::Watch;
use rustix::io::Result;

use super::segments::Segments;

/// Most pieces that mappings are cut into: the kernel has a limit for each process.
const MOST: usize = 4096;

/// What is watched, and what is known of it.
#[derive(Debug, Default)]
pub struct Tracking {
    /// What a look is good for.
    pub tracked: Tracked,
    /// The watch itself; None if it is over.
    pub watched: Option<Watched>,
    /// What it costs to find changes.
    pub costs: Costs,
    /// When the last checkpoint was made; None in the first, and in the first after a recovery.
    pub since: Option<Instant>,
}

/// Bytes `offset..offset + len` of PE `pe`, where they are mapped here.
#[derive(Debug)]
struct Piece {
    pe: Pe,
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
    /// pages only if it `cuts` them. Then live memory is read through other mappings, which keep
    /// them.
    ///
    /// # Errors
    /// The kernel's, or too many spans, or huge pages.
    pub fn new(segments: &Segments, spans: &[Range<usize>], cuts: bool) -> Result<Watched> {
        let mut pieces = Vec::new();
        for pe in Pe::all(segments.n_pes()) {
            let base = segments.base(pe) as usize;
            if base == 0 {
                continue;
            }
            let piece = |span: &Range<usize>| {
                let (offset, len) = (span.start, span.len());
                Piece { pe, offset, at: base + offset, len }
            };
            pieces.extend(spans.iter().map(piece));
        }
        for part in segments.statics().iter().flat_map(|statics| statics.pieces.iter()) {
            let (me, offset) = (segments.me(), segments.offset_of(part.start, part.len()));
            let begin = offset.unwrap_or_default();
            let inside =
                |span: &Range<usize>| span.start.max(begin)..span.end.min(begin + part.len());
            let piece = |span: Range<usize>| {
                let (offset, len) = (span.start, span.len());
                Piece { pe: me, offset, at: part.start + offset - begin, len }
            };
            let there = spans.iter().map(inside).filter(|span| !span.is_empty());
            pieces.extend(there.map(piece));
        }
        if pieces.len() > MOST {
            return Err(rustix::io::Errno::NOMEM);
        }
        let mut watch = Watch::new(cuts)?;
        pieces.iter().try_for_each(|piece| watch.add(piece.at, piece.len))?;
        if watch.has_cut() {
            (0..segments.n_pes())
                .filter_map(|pe| segments.near(Pe::of(pe)))
                .for_each(Segment::read_apart);
        }
        Ok(Watched { watch, pieces })
    }

    /// Shows `each` the offsets of what this process wrote to PE `pe` since it was asked last.
    ///
    /// # Errors
    /// The kernel's: then nothing is known.
    pub fn take(&self, pe: Pe, mut each: impl FnMut(Range<usize>)) -> Result<()> {
        self.pieces.iter().filter(|piece| piece.pe == pe).try_for_each(|piece| {
            let offset = |at: usize| at - piece.at + piece.offset;
            self.watch
                .take(piece.at, piece.len, |pages| each(offset(pages.start)..offset(pages.end)))
        })
    }
}

/// Which PEs' memory this process has used since it was asked last, and since the last checkpoint.
/// Every access of the program to that of another PE goes through calls that say so, or through a
/// pointer that one gave away.
#[derive(Debug)]
pub struct Reached(Box<[AtomicU8]>);

/// It was used.
const USED: u8 = 1;
/// It may be used at any time, by a pointer.
const KEPT: u8 = 2;
/// It was used since the last checkpoint.
const SINCE: u8 = 4;

// Relaxed throughout: it is asked between barriers, where no other thread is in a call.
impl Reached {
    /// None of so many PEs.
    pub fn none(n_pes: usize) -> Reached {
        Reached((0..n_pes).map(|_| AtomicU8::new(0)).collect())
    }

    /// PE `pe` is used.
    #[inline]
    pub fn note(&self, pe: Pe) {
        if self.0[pe.at()].load(Ordering::Relaxed) & (USED | SINCE) != USED | SINCE {
            self.0[pe.at()].fetch_or(USED | SINCE, Ordering::Relaxed);
        }
    }

    /// The program has a pointer to memory of PE `pe`.
    pub fn keep(&self, pe: Pe) {
        self.0[pe.at()].fetch_or(KEPT, Ordering::Relaxed);
    }

    /// True if PE `pe` may have been used since this was asked last.
    pub fn take(&self, pe: Pe) -> bool {
        self.0[pe.at()].fetch_and(!USED, Ordering::Relaxed) & (USED | KEPT) != 0
    }

    /// There is a new checkpoint, or the last one was gone back to.
    pub fn begin(&self) {
        self.0.iter().for_each(|used| _ = used.fetch_and(!SINCE, Ordering::Relaxed));
    }

    /// True if the program has a pointer to memory of PE `pe`.
    pub fn keeps(&self, pe: Pe) -> bool {
        self.0[pe.at()].load(Ordering::Relaxed) & KEPT != 0
    }

    /// True if a PE besides `me` may have been used since the last checkpoint.
    pub fn others(&self, me: Pe) -> bool {
        let used = |used: &AtomicU8| used.load(Ordering::Relaxed) & (SINCE | KEPT) != 0;
        self.0.iter().enumerate().any(|(pe, word)| pe != me.at() && used(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_asked_for_once_and_what_is_kept_always() {
        let reached = Reached::none(3);
        assert!((0..3).all(|pe| !reached.take(Pe::of(pe))));
        reached.note(Pe(1));
        reached.note(Pe(1));
        assert!(reached.take(Pe(1)) && !reached.take(Pe(1)) && !reached.take(Pe(0)));
        reached.keep(Pe(2));
        reached.note(Pe(2));
        assert!(reached.take(Pe(2)) && reached.take(Pe(2)));
        reached.note(Pe(2));
        assert!(reached.take(Pe(2)) && reached.take(Pe(2)));
    }

    #[test]
    fn a_checkpoint_begins_anew_whoever_has_asked() {
        let reached = Reached::none(3);
        assert!(!reached.others(Pe(0)));
        reached.note(Pe(1));
        assert!(reached.take(Pe(1)) && reached.others(Pe(0)) && !reached.others(Pe(1)));
        reached.begin();
        assert!(!reached.others(Pe(0)));
        reached.note(Pe(1));
        assert!(reached.others(Pe(0)) && reached.take(Pe(1)));
        reached.begin();
        reached.keep(Pe(2));
        assert!(reached.others(Pe(0)) && reached.keeps(Pe(2)) && !reached.keeps(Pe(1)));
    }
}
