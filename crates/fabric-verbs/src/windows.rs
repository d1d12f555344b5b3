//! Windows: the pieces of a segment that are registered with the device, each on first use.
//!
//! Registering pins pages, and most of a segment is never touched: the space for statics is a
//! thousand times what programs use, and the store grows with the live data. So each part of a
//! segment is cut into windows, each half as large as all before it. As a result, at most about 1.5
//! times the memory used from a part's start is pinned, and a part of any size has few windows.
//!
//! Also here: splitting a transfer at the bounds of windows and blocks.

#![forbid(unsafe_code)]

use std::ops::Range;

use raidshmem_core::layout::Layout;

use crate::wire::RemoteAddress;

/// Bytes of the first window of a part.
const FIRST: usize = 1 << 20;

/// The windows of every segment of a job: they are identical on all PEs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windows {
    starts: Vec<usize>,
    end: usize,
    store: usize,
}

impl Windows {
    /// Returns the windows of segments with this layout.
    pub fn new(layout: &Layout) -> Windows {
        let l = layout;
        let mut parts = vec![0, l.work, l.statics, l.manifest, l.heap, l.store];
        // Stamps follow the space for the largest region: they are used from their own start.
        let regions = [l.snapshots, l.slots].concat().into_iter();
        parts.extend(regions.flat_map(|at| [at, l.stamps(at)]));
        parts.push(l.spills[0]);
        let mut starts = Vec::new();
        for bounds in parts.windows(2) {
            let mut at = bounds[0];
            while at < bounds[1] {
                starts.push(at);
                at += ((at - bounds[0]) / 2 / FIRST * FIRST).max(FIRST);
            }
        }
        Windows { starts, end: l.spills[0], store: l.store }
    }

    /// Returns the number of windows.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// Returns the bytes of window `at`.
    pub fn range(&self, at: usize) -> Range<usize> {
        let end = self.starts.get(at + 1).copied().unwrap_or(self.end);
        self.starts[at]..end
    }

    /// Returns the remote address of byte `offset` of a window, which begins at `base`.
    pub fn remote(
        &self,
        window: usize,
        (base, key): RemoteAddress,
        offset: usize,
    ) -> RemoteAddress {
        (base + (offset - self.range(window).start) as u64, key)
    }

    /// Returns true if peers may write it; the store is read-only.
    pub fn is_visible(&self, at: usize) -> bool {
        self.starts[at] < self.store
    }

    /// Returns the pieces of `[offset, offset + len)`, each in one window and of at most `most`
    /// bytes.
    pub fn pieces(&self, offset: usize, len: usize, most: usize) -> impl Iterator<Item = Piece> {
        let (end, mut from) = (offset + len, offset);
        std::iter::from_fn(move || {
            if from >= end {
                return None;
            }
            let window = self.starts.partition_point(|&start| start <= from) - 1;
            let to = end.min(from.saturating_add(most)).min(self.range(window).end);
            let piece = Piece { window, offset: from, at: from - offset, len: to - from };
            from = to;
            Some(piece)
        })
    }
}

/// A part of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The window that contains it.
    pub window: usize,
    /// The offset in the segment.
    pub offset: usize,
    /// The offset in the transfer.
    pub at: usize,
    /// Its bytes.
    pub len: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_follow_each_other_and_keep_to_one_part() {
        for heap in [1, 16 << 20, 3 << 30] {
            let layout = Layout::new(heap, 9);
            let windows = Windows::new(&layout);
            assert!(windows.count() < 200);
            let mut end = 0;
            for at in 0..windows.count() {
                let range = windows.range(at);
                assert_eq!((range.start, range.is_empty()), (end, false));
                assert_eq!(windows.is_visible(at), range.end <= layout.store);
                end = range.end;
            }
            assert_eq!(end, layout.spills[0]);
        }
    }

    #[test]
    fn little_more_is_pinned_than_used() {
        let layout = Layout::new(1 << 30, 4);
        let windows = Windows::new(&layout);
        let heap = [1, FIRST, 5 * FIRST, 300 << 20].map(|used| (layout.heap, used));
        let store = [(layout.snapshots[1], 64 << 20), (layout.stamps(layout.slots[1]), 1)];
        for (part, used) in heap.into_iter().chain(store) {
            let touched = windows.pieces(part, used, usize::MAX);
            let pinned: usize = touched.map(|piece| windows.range(piece.window).len()).sum();
            assert!(pinned <= used + used / 2 + FIRST, "{pinned} for {used} from {part}");
        }
    }

    #[test]
    fn pieces_cover_the_transfer_and_fit() {
        let layout = Layout::new(16 << 20, 4);
        let windows = Windows::new(&layout);
        for (offset, len) in [(0, 0), (4000, 1), (layout.heap - 10, 5 << 20), (0, layout.spills[0])]
        {
            let mut done = 0;
            for piece in windows.pieces(offset, len, 64 << 10) {
                assert_eq!((piece.at, piece.offset), (done, offset + done));
                assert!(piece.len > 0 && piece.len <= 64 << 10);
                let window = windows.range(piece.window);
                assert!(window.start <= piece.offset && piece.offset + piece.len <= window.end);
                done += piece.len;
            }
            assert_eq!(done, len);
        }
    }
}
