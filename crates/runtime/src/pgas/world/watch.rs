//! Write tracking, page by page, of the mappings through which this process writes symmetric
//! memory.
//!
//! Invariant: all of these mappings are watched, or none. The own memory is mapped twice where the
//! statics are; that of another mapped PE once. Mappings of lost memory no longer count. Memory of
//! a PE that is not among the [`TouchedPes`] was not written.

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

/// The most pieces of mappings; the kernel limits their number per process.
const MOST: usize = 4096;

/// The state of write tracking.
#[derive(Debug, Default)]
pub struct Tracking {
    /// The validity of the watch.
    pub tracked: Tracked,
    /// The watch itself; None once it has ended.
    pub watched: Option<Watched>,
    /// The costs of finding changes.
    pub costs: Costs,
    /// The time of the last checkpoint; None in the first, and in the first after a recovery.
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

/// Pieces of mappings under watch.
#[derive(Debug)]
pub struct Watched {
    watch: Watch,
    pieces: Vec<Piece>,
}

impl Watched {
    /// Watches `spans` (offsets in the segment, whole pages) in all mappings of this process; huge
    /// pages only if it `cuts` them. Then live memory is read through other mappings, which keep
    /// huge pages.
    ///
    /// # Errors
    /// Those of the kernel, or too many spans, or huge pages.
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
                .filter_map(|pe| segments.if_mapped(Pe::of(pe)))
                .for_each(Segment::read_apart);
        }
        Ok(Watched { watch, pieces })
    }

    /// Calls `each` with the offsets that this process wrote on PE `pe` since the last call.
    ///
    /// # Errors
    /// Those of the kernel: then nothing is known.
    pub fn take(&self, pe: Pe, mut each: impl FnMut(Range<usize>)) -> Result<()> {
        self.pieces.iter().filter(|piece| piece.pe == pe).try_for_each(|piece| {
            let offset = |at: usize| at - piece.at + piece.offset;
            self.watch
                .take(piece.at, piece.len, |pages| each(offset(pages.start)..offset(pages.end)))
        })
    }
}

/// The PEs whose memory this process has used since the last query, and since the last checkpoint.
/// The program accesses another PE only through calls that record it, or through a pointer that
/// such a call returned.
#[derive(Debug)]
pub struct TouchedPes(Box<[AtomicU8]>);

/// Flag: the memory was used.
const USED: u8 = 1;
/// Flag: the memory may be used at any time, through a pointer.
const KEPT: u8 = 2;
/// Flag: the memory was used since the last checkpoint.
const SINCE: u8 = 4;
/// Flag: the memory was used before the copy of a checkpoint that does not protect yet.
const BEFORE: u8 = 8;

// Relaxed throughout: it is queried between barriers, where no other thread is in a call.
impl TouchedPes {
    /// Returns the state with the memory of none of `n_pes` PEs used.
    pub fn none(n_pes: usize) -> TouchedPes {
        TouchedPes((0..n_pes).map(|_| AtomicU8::new(0)).collect())
    }

    /// Notes a use of PE `pe`'s memory.
    #[inline]
    pub fn note(&self, pe: Pe) {
        if self.0[pe.at()].load(Ordering::Relaxed) & (USED | SINCE) != USED | SINCE {
            self.0[pe.at()].fetch_or(USED | SINCE, Ordering::Relaxed);
        }
    }

    /// Notes that the program has a pointer to memory of PE `pe`.
    pub fn keep(&self, pe: Pe) {
        self.0[pe.at()].fetch_or(KEPT, Ordering::Relaxed);
    }

    /// Returns true if PE `pe` may have been used since the last call of this function.
    pub fn take(&self, pe: Pe) -> bool {
        self.0[pe.at()].fetch_and(!USED, Ordering::Relaxed) & (USED | KEPT) != 0
    }

    /// Starts over after a checkpoint, or after a rollback to the last one.
    pub fn begin(&self) {
        self.0.iter().for_each(|used| _ = used.fetch_and(!(SINCE | BEFORE), Ordering::Relaxed));
    }

    /// Tells apart the uses before the copy of a checkpoint from those after it.
    pub fn copied(&self) {
        let since = |used: &&AtomicU8| used.load(Ordering::Relaxed) & SINCE != 0;
        self.0.iter().filter(since).for_each(|used| {
            used.fetch_or(BEFORE, Ordering::Relaxed);
            used.fetch_and(!SINCE, Ordering::Relaxed);
        });
    }

    /// Forgets the uses before that copy: its checkpoint protects now.
    pub fn protected(&self) {
        self.0.iter().for_each(|used| _ = used.fetch_and(!BEFORE, Ordering::Relaxed));
    }

    /// Returns true if the program has a pointer to memory of PE `pe`.
    pub fn keeps(&self, pe: Pe) -> bool {
        self.0[pe.at()].load(Ordering::Relaxed) & KEPT != 0
    }

    /// Returns true if a PE besides `me` may have been used since the last checkpoint.
    pub fn others(&self, me: Pe) -> bool {
        let flags = SINCE | BEFORE | KEPT;
        let used = |used: &AtomicU8| used.load(Ordering::Relaxed) & flags != 0;
        self.0.iter().enumerate().any(|(pe, word)| pe != me.at() && used(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_pes_are_queried_once_and_kept_ones_always() {
        let reached = TouchedPes::none(3);
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
    fn uses_before_a_copy_count_until_it_protects_and_those_after_it_stay() {
        let reached = TouchedPes::none(3);
        reached.note(Pe(1));
        reached.copied();
        assert!(reached.others(Pe(0)));
        reached.protected();
        assert!(!reached.others(Pe(0)));
        reached.note(Pe(1));
        reached.copied();
        reached.note(Pe(2));
        reached.protected();
        assert!(reached.others(Pe(0)) && reached.others(Pe(1)) && !reached.others(Pe(2)));
        reached.copied();
        reached.begin();
        assert!(!reached.others(Pe(0)));
    }

    #[test]
    fn a_checkpoint_resets_every_query() {
        let reached = TouchedPes::none(3);
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
