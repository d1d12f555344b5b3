//! The bytes of a PE that a checkpoint covers, as a linear address space, and the manifest that
//! describes them.
//!
//! The snapshot of a PE is the concatenation of its extents. The first extent is the manifest: the
//! list of the extents and the allocator's state, written into the segment at every checkpoint. So
//! a snapshot describes itself, and a rollback undoes `shmem_malloc` calls since the checkpoint.
//! The manifest also holds a copy of the registered private memory, and the list of excluded
//! ranges, which a substitute could not know otherwise.
//!
//! ```text
//! manifest   magic | bytes | extents | bytes of heap state | bytes of private memory | left out
//!            (offset, length) of extents .. | of ranges left out .. | heap state | private memory
//! left out   the number of excluded ranges in the lower half, of read-only ones in the upper
//! ```
//!
//! Invariants: the coverage is equal on every PE (symmetric allocation, same executable); PEs
//! compare digests before anything is written. The manifest and the heap come first, in whole
//! pages, so that a heap byte has the same page offset in the segment and in the snapshot (unless
//! the program excluded a range before it). Otherwise, with the source slightly behind the
//! destination modulo the page size, the processor would assume that each load of a copy depends on
//! the preceding stores.

use std::ops::Range;

use raidshmem_codec::crc::Hasher;

use super::private::{self, Saved};
use crate::heap::Heap;
use crate::layout::Layout;
use crate::mutant::{Mutant, breaks};
use crate::page::PAGE;

const MAGIC: u64 = 0x4d41_4e49_4645_5354;
const FIXED: usize = 48;
/// Bits of half a word.
const HALF: u32 = 32;

/// The reason why bytes are not a valid manifest, or why a manifest cannot be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ManifestError {
    /// The ranges do not fit into the reserved space.
    #[error("the allocator's state needs {need} bytes, the manifest holds at most {capacity}")]
    TooLong {
        /// Bytes needed.
        need: usize,
        /// Bytes reserved.
        capacity: usize,
    },
    /// Not a manifest.
    #[error("not a manifest: {0}")]
    Malformed(&'static str),
}

/// The contents of a manifest.
#[derive(Debug)]
pub struct Manifest<'a> {
    /// The covered bytes.
    pub coverage: Coverage,
    /// The allocator.
    pub heap: Heap,
    /// Offsets that the program excluded.
    pub excluded: Vec<Range<usize>>,
    /// Offsets of read-only ranges, which are protected separately ([`super::readonly`]).
    pub readonly: Vec<Range<usize>>,
    /// Private memory that the program registered.
    pub private: Vec<Saved<'a>>,
}

/// The covered bytes as a linear address space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// (linear start, offset in the segment, length), in order, without gaps between linear
    /// addresses.
    extents: Vec<(usize, usize, usize)>,
    len: usize,
}

impl Coverage {
    fn new(ranges: impl Iterator<Item = Range<usize>>) -> Coverage {
        let (mut extents, mut len) = (Vec::new(), 0);
        for range in ranges.filter(|range| !range.is_empty()) {
            extents.push((len, range.start, range.len()));
            len += range.len();
        }
        Coverage { extents, len }
    }

    /// Returns the coverage of one range, which needs no manifest.
    pub fn of_range(range: Range<usize>) -> Coverage {
        Coverage::new(std::iter::once(range))
    }

    /// Builds the coverage of `ranges` (offsets in the segment) and of the live blocks in `heap`,
    /// without the `left_out` ranges (excluded, and read-only). Also returns the bytes of its
    /// manifest, which include `private` (encoded regions).
    pub fn build(
        layout: &Layout,
        ranges: &[Range<usize>],
        heap: &Heap,
        left_out: [&[Range<usize>]; 2],
        private: &[u8],
    ) -> Result<(Coverage, Vec<u8>), ManifestError> {
        let state = heap.encode();
        let at = |range: Range<usize>| layout.heap + range.start..layout.heap + range.end;
        let mut all: Vec<Range<usize>> = whole_pages(heap.live()).map(at).collect();
        if !breaks(Mutant::StaticsLeftOut) {
            all.extend_from_slice(ranges);
        }
        let holes = || left_out.into_iter().flatten();
        for hole in holes() {
            all = all.into_iter().flat_map(|range| without(range, hole)).collect();
        }
        all.retain(|range| !range.is_empty());
        let count = all.len() + 1;
        let pairs = (count + holes().count()) * 16;
        let need = (FIXED + pairs + state.len() + private.len()).next_multiple_of(PAGE);
        if need > layout.manifest_len {
            return Err(ManifestError::TooLong { need, capacity: layout.manifest_len });
        }
        let own = std::iter::once(layout.manifest..layout.manifest + need);
        let coverage = Coverage::new(own.chain(all));
        let mut bytes = Vec::with_capacity(need);
        let [excluded, readonly] = left_out.map(<[_]>::len);
        let lengths = [need, count, state.len(), private.len(), excluded | readonly << HALF];
        let extents = coverage.extents.iter().map(|&(_, at, len)| [at, len]);
        let holes = holes().map(|hole| [hole.start, hole.len()]);
        bytes.extend_from_slice(&MAGIC.to_le_bytes());
        for word in lengths.into_iter().chain(extents.chain(holes).flatten()) {
            bytes.extend_from_slice(&(word as u64).to_le_bytes());
        }
        bytes.extend_from_slice(&state);
        bytes.extend_from_slice(private);
        bytes.resize(need, 0);
        Ok((coverage, bytes))
    }

    /// Returns the length of the manifest at the start of a snapshot, as its first tile states it;
    /// at most all of `bytes`.
    pub fn manifest_len(bytes: &[u8]) -> usize {
        let word = bytes.get(8..16).map(|at| at.try_into().expect("eight bytes"));
        word.map_or(bytes.len(), |word| bytes.len().min(u64::from_le_bytes(word) as usize))
    }

    /// Reads a manifest from the start of a snapshot.
    pub fn parse<'a>(layout: &Layout, bytes: &'a [u8]) -> Result<Manifest<'a>, ManifestError> {
        let bad = |what| ManifestError::Malformed(what);
        let word = |index: usize| -> Result<usize, ManifestError> {
            let at = bytes.get(index * 8..index * 8 + 8).ok_or(bad("cut short"))?;
            let word = u64::from_le_bytes(at.try_into().expect("eight bytes"));
            usize::try_from(word).map_err(|_| bad("a number too large"))
        };
        if word(0)? as u64 != MAGIC {
            return Err(bad("unknown header"));
        }
        let (need, count, state_len) = (word(1)?, word(2)?, word(3)?);
        let (private_len, left_out) = (word(4)?, word(5)?);
        let (excluded, readonly) = (left_out & ((1 << HALF) - 1), left_out >> HALF);
        let excluded_end = count.checked_add(excluded).ok_or(bad("too many extents"))?;
        let pairs = excluded_end.checked_add(readonly).ok_or(bad("too many extents"))?;
        let state_at = pairs
            .checked_mul(16)
            .and_then(|len| len.checked_add(FIXED))
            .ok_or(bad("too many extents"))?;
        let state_end = state_at.checked_add(state_len).ok_or(bad("too long a heap state"))?;
        let end = state_end.checked_add(private_len).ok_or(bad("too much private memory"))?;
        let fits = end <= need && need <= layout.manifest_len && need <= bytes.len();
        if !fits && !breaks(Mutant::LengthsBelieved) {
            return Err(bad("lengths that do not fit"));
        }
        let pair = |index: usize| -> Result<Range<usize>, ManifestError> {
            let (at, len) = (word(FIXED / 8 + index * 2)?, word(FIXED / 8 + index * 2 + 1)?);
            let end =
                at.checked_add(len).filter(|&end| at >= layout.statics && end <= layout.store);
            Ok(at..end.ok_or(bad("an extent outside the visible segment"))?)
        };
        let ranges = (0..count).map(pair).collect::<Result<Vec<_>, _>>()?;
        let excluded = (count..excluded_end).map(pair).collect::<Result<Vec<_>, _>>()?;
        let readonly = (excluded_end..pairs).map(pair).collect::<Result<Vec<_>, _>>()?;
        let heap = Heap::decode(&bytes[state_at..state_end]).map_err(|_| bad("heap state"))?;
        if ranges.first() != Some(&(layout.manifest..layout.manifest + need)) {
            return Err(bad("its first extent is not itself"));
        }
        let private = private::decode(&bytes[state_end..end]).ok_or(bad("private memory"))?;
        let coverage = Coverage::new(ranges.into_iter());
        Ok(Manifest { coverage, heap, excluded, readonly, private })
    }

    /// Returns the number of covered bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if nothing is covered.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a digest of the extents; equal coverages have equal digests. The lower half is the
    /// number of pages of the manifest, so that error messages can distinguish symmetric from
    /// private memory.
    pub fn digest(&self) -> u64 {
        let mut hasher = Hasher::new();
        for &(_, at, len) in self.extents.iter().skip(1) {
            hasher.update(&(at as u64).to_le_bytes());
            hasher.update(&(len as u64).to_le_bytes());
        }
        let manifest = self.extents.first().map_or(0, |&(_, _, len)| len / PAGE);
        u64::from(hasher.finish()) << 32 | manifest as u64 & 0xffff_ffff
    }

    /// Returns the bytes of the manifest of a coverage with this digest.
    pub fn manifest_of(digest: u64) -> u64 {
        (digest & 0xffff_ffff) * PAGE as u64
    }

    /// Returns the coverage sorted by offset in the segment.
    pub fn places(&self) -> LinePlaces {
        let by_offset = |&(start, at, len): &(usize, usize, usize)| (at, start, len);
        let mut extents: Vec<_> = self.extents.iter().map(by_offset).collect();
        extents.sort_unstable();
        LinePlaces { extents }
    }

    /// Returns the pieces of the segment that make up `range` of the linear addresses, up to their
    /// end.
    pub fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = Piece> + '_ {
        let first = self.extents.partition_point(|&(start, _, len)| start + len <= range.start);
        self.extents[first..].iter().map_while(move |&(start, at, len)| {
            let (from, to) = (range.start.max(start), range.end.min(start + len));
            (from < to).then(|| Piece { at: at + from - start, len: to - from })
        })
    }
}

/// A piece of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Offset in the segment.
    pub at: usize,
    /// Length in bytes.
    pub len: usize,
}

impl Piece {
    /// Returns its offsets.
    pub fn range(self) -> Range<usize> {
        self.at..self.at + self.len
    }
}

/// A map from segment offsets to linear addresses.
#[derive(Debug)]
pub struct LinePlaces {
    /// (offset in the segment, linear start, length), by offset.
    extents: Vec<(usize, usize, usize)>,
}

impl LinePlaces {
    /// Returns the linear ranges that lie in `range` of the segment.
    pub fn of(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let first = self.extents.partition_point(|&(at, _, len)| at + len <= range.start);
        let inside = self.extents[first..].iter().take_while(move |&&(at, ..)| at < range.end);
        inside.map(move |&(at, start, len)| {
            let (from, to) = (range.start.max(at), range.end.min(at + len));
            start + from - at..start + to - at
        })
    }

    /// Returns the covered offsets, in order, extended to whole units of `page` bytes. Ranges less
    /// than `gap` bytes apart are merged.
    pub fn spans(&self, page: usize, gap: usize) -> Vec<Range<usize>> {
        let mut spans: Vec<Range<usize>> = Vec::new();
        for &(at, _, len) in &self.extents {
            let (from, to) = (at / page * page, (at + len).next_multiple_of(page));
            match spans.last_mut() {
                Some(last) if from < last.end + gap => last.end = last.end.max(to),
                _ => spans.push(from..to),
            }
        }
        spans
    }
}

/// Extends sorted `ranges` to whole pages, and merges them.
fn whole_pages(ranges: Vec<Range<usize>>) -> impl Iterator<Item = Range<usize>> {
    let mut pages: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        let (start, end) = (range.start / PAGE * PAGE, range.end.next_multiple_of(PAGE));
        match pages.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => pages.push(start..end),
        }
    }
    pages.into_iter()
}

/// Returns `range` without `hole`: zero, one or two pieces.
pub fn without(range: Range<usize>, hole: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let before = range.start..range.end.min(hole.start).max(range.start);
    let after = range.start.max(hole.end).min(range.end)..range.end;
    [before, after].into_iter().filter(|piece| !piece.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIVATE: Saved = Saved { name: "name", contents: b"private" };

    fn encoded() -> Vec<u8> {
        private::encode([PRIVATE].into_iter())
    }

    fn sample() -> (Layout, Coverage, Vec<u8>, Heap) {
        let layout = Layout::new(256 * PAGE, 4);
        let mut heap = Heap::new(layout.heap_len);
        heap.alloc(100, 64).unwrap();
        let gap = heap.alloc(16 * PAGE, 64).unwrap();
        heap.alloc(PAGE + 900, PAGE).unwrap();
        heap.free(gap).unwrap();
        let ranges =
            [layout.statics..layout.statics + 40, layout.statics + 100..layout.statics + 160];
        let (coverage, bytes) =
            Coverage::build(&layout, &ranges, &heap, [&[], &[]], &encoded()).unwrap();
        (layout, coverage, bytes, heap)
    }

    #[test]
    fn a_manifest_reads_back_and_begins_its_own_line() {
        let (layout, coverage, bytes, heap) = sample();
        let again = Coverage::parse(&layout, &bytes).unwrap();
        assert_eq!((&again.coverage, again.heap.digest()), (&coverage, heap.digest()));
        assert_eq!((again.private, again.excluded), (vec![PRIVATE], vec![]));
        assert_eq!(
            coverage.pieces(0..8).collect::<Vec<_>>(),
            [Piece { at: layout.manifest, len: 8 }]
        );
        assert_eq!(coverage.extents.len(), 5, "{:?}", coverage.extents);
    }

    #[test]
    fn pieces_of_every_range_are_the_bytes_one_by_one() {
        let (_, coverage, ..) = sample();
        let all: Vec<usize> = coverage.pieces(0..coverage.len()).flat_map(Piece::range).collect();
        assert_eq!(all.len(), coverage.len());
        for from in (0..coverage.len() + 10).step_by(PAGE / 683 + 2) {
            for len in [0, 1, 63, 64, 500, 100_000] {
                let got: Vec<usize> =
                    coverage.pieces(from..from + len).flat_map(Piece::range).collect();
                let end = (from + len).min(all.len());
                assert_eq!(got, all[from.min(end)..end]);
            }
        }
    }

    #[test]
    fn places_are_pieces_the_other_way_round() {
        let (layout, coverage, ..) = sample();
        let places = coverage.places();
        let line: Vec<usize> = coverage.pieces(0..coverage.len()).flat_map(Piece::range).collect();
        for from in (layout.statics..layout.statics + 200).chain(layout.heap..layout.heap + 9000) {
            for len in [1, 40, 4096] {
                let got: Vec<usize> = places.of(from..from + len).flatten().collect();
                let inside = |&at: &usize| (from..from + len).contains(&line[at]);
                let mut wanted: Vec<usize> = if from % 97 == 0 || len == 1 && from % 13 == 0 {
                    (0..line.len()).filter(inside).collect()
                } else {
                    continue;
                };
                wanted.sort_by_key(|&at| line[at]);
                assert_eq!(got, wanted, "{from} {len}");
            }
        }
        for gap in [0, 4096, 1 << 30] {
            let spans = places.spans(4096, gap);
            assert!(line.iter().all(|at| spans.iter().any(|span| span.contains(at))));
            assert!(spans.windows(2).all(|two| two[0].end + gap <= two[1].start));
            assert!(spans.iter().all(|span| span.start % 4096 == 0 && span.end % 4096 == 0));
        }
        assert_eq!(places.spans(4096, 1 << 40).len(), 1);
    }

    #[test]
    fn an_excluded_range_is_cut_out() {
        let layout = Layout::new(1 << 20, 4);
        let mut heap = Heap::new(layout.heap_len);
        heap.alloc(PAGE, 64).unwrap();
        let hole = layout.heap + 100..layout.heap + 300;
        let holes = [hole];
        let none: [Range<usize>; 0] = [];
        let (coverage, bytes) = Coverage::build(&layout, &[], &heap, [&holes, &[]], &[]).unwrap();
        let manifest = Coverage::parse(&layout, &bytes).unwrap();
        assert_eq!((&manifest.excluded[..], &manifest.readonly[..]), (&holes[..], &none[..]));
        let (cut, bytes) = Coverage::build(&layout, &[], &heap, [&[], &holes], &[]).unwrap();
        let manifest = Coverage::parse(&layout, &bytes).unwrap();
        assert_eq!((&manifest.excluded[..], &manifest.readonly[..]), (&none[..], &holes[..]));
        assert_eq!(cut, coverage);
        let pieces: Vec<_> = coverage.pieces(0..coverage.len()).skip(1).map(Piece::range).collect();
        let at = layout.heap;
        assert_eq!(pieces, [at..at + 100, at + 300..at + PAGE]);
        let all = layout.heap..layout.heap + PAGE;
        let (coverage, _) = Coverage::build(&layout, &[], &heap, [&[all], &[]], &[]).unwrap();
        assert_eq!(coverage.extents.len(), 1);
    }

    #[test]
    fn an_empty_range_does_not_count() {
        let layout = Layout::new(1 << 20, 4);
        let (heap, at) = (Heap::new(layout.heap_len), layout.statics);
        let ranges = [at..at, at + 8..at + 24, at + 24..at + 24];
        let (coverage, bytes) = Coverage::build(&layout, &ranges, &heap, [&[], &[]], &[]).unwrap();
        assert_eq!(coverage.extents.len(), 2);
        assert_eq!(Coverage::parse(&layout, &bytes).unwrap().coverage, coverage);
    }

    #[test]
    fn heap_bytes_keep_their_page_offset_in_the_linear_space() {
        let (layout, coverage, ..) = sample();
        let heap = layout.heap..layout.heap + layout.heap_len;
        let mut seen = 0;
        for from in (0..coverage.len()).step_by(61) {
            let at = coverage.pieces(from..from + 1).next().unwrap().at;
            if heap.contains(&at) {
                assert_eq!(at % PAGE, from % PAGE);
                seen += 61;
            }
        }
        assert!(seen > 5000, "{seen}");
    }

    #[test]
    fn garbage_is_refused_and_never_panics() {
        let (layout, _, bytes, _) = sample();
        for cut in 0..bytes.len() {
            let _ = Coverage::parse(&layout, &bytes[..cut]);
        }
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let refused = Coverage::parse(&layout, &bytes).is_err();
            assert!(refused || bit >= FIXED * 8, "bit {bit}");
        }
    }
}
