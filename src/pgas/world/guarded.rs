//! Ranges of segments that the program may only read: the same of every PE, in every process that
//! maps it.
//!
//! Invariant: outside of a recovery what is mapped here and listed cannot be written through the
//! mapping that the program has. Between a loss and the restart it may be: by a process that begins
//! and takes over such a range, and after a call that a loss has cut short. Then what is written is
//! for this process alone: a restart undoes it, and the range stays what it is for the others.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use raidshmem_core::quantity::Pe;
use raidshmem_segment::Segment;
use raidshmem_sys::forbidden::{Forbidden, forbid};
use raidshmem_sys::lock;
use raidshmem_sys::memory::Part;
use rustix::io::Result;

/// Segments that are mapped here, with their PEs: the own one first.
pub(super) type MappedSegments<'a> = Vec<(Pe, &'a Segment)>;

/// Offsets in segments, whole pages.
#[derive(Debug, Default)]
pub(super) struct GuardedRanges {
    /// May only be read.
    ranges: Mutex<Vec<Range<usize>>>,
    /// There is one.
    any: AtomicBool,
    /// The own ones of which this process has pages for itself.
    shadowed: Mutex<Vec<Range<usize>>>,
}

impl GuardedRanges {
    /// From now on the program may read these ranges of any of the segments, and write all others.
    pub fn guard(&self, mapped: &MappedSegments, ranges: Vec<Range<usize>>) -> Result<()> {
        let mut guarded = lock(&self.ranges);
        // Relaxed: who writes there after the barrier of the call sees it.
        self.any.store(!ranges.is_empty(), Ordering::Relaxed);
        let before = std::mem::replace(&mut *guarded, ranges);
        let open = before.iter().filter(|range| !guarded.contains(range));
        for (_, segment) in mapped {
            open.clone().try_for_each(|range| segment.protect(range, true))?;
            guarded.iter().try_for_each(|range| segment.protect(range, false))?;
        }
        if !(before.is_empty() && guarded.is_empty()) {
            tell(mapped[0], mapped, &guarded, false);
        }
        Ok(())
    }

    /// A segment, beside the own one, was mapped just now.
    pub fn extend(&self, own: (Pe, &Segment), new: (Pe, &Segment)) -> Result<()> {
        let guarded = lock(&self.ranges);
        guarded.iter().try_for_each(|range| new.1.protect(range, false))?;
        if !guarded.is_empty() {
            tell(own, &[new], &guarded, true);
        }
        Ok(())
    }

    /// True if a byte of `[at, at + len)` of a segment may only be read.
    #[inline]
    pub fn meets(&self, at: usize, len: usize) -> bool {
        let meets = |range: &Range<usize>| at < range.end && range.start < at + len;
        self.any.load(Ordering::Relaxed) && lock(&self.ranges).iter().any(meets)
    }

    /// The library may write the own segment until the next [`GuardedRanges::guard`].
    pub fn open(&self, own: &Segment) -> Result<()> {
        lock(&self.ranges).iter().try_for_each(|range| own.protect(range, true))
    }

    /// What is written to an own range is for this process alone, until
    /// [`GuardedRanges::unshadow`].
    pub fn shadow(&self, own: &Segment, part: &Part, range: Range<usize>) -> Result<()> {
        own.share(part, &range, false)?;
        lock(&self.shadowed).push(range);
        Ok(())
    }

    /// It is for all again; the ranges.
    pub fn unshadow(&self, own: &Segment, part: &Part) -> Result<Vec<Range<usize>>> {
        let shadowed = std::mem::take(&mut *lock(&self.shadowed));
        shadowed.iter().try_for_each(|range| own.share(part, range, true))?;
        Ok(shadowed)
    }
}

/// A write to one of `segments` has a line from now on, and to those before, if these are `more`.
fn tell(
    (me, own): (Pe, &Segment),
    segments: &[(Pe, &Segment)],
    ranges: &[Range<usize>],
    more: bool,
) {
    let line = |pe: Pe, segment: &Segment, range: &Range<usize>| {
        let [start, at] = [segment, own].map(|segment| segment.base().addr() + range.start);
        let len = range.len();
        let line = format!(
            "raidshmem: PE {me}: a write to memory of PE {pe} that is read-only: {len} bytes at \
             {at:#x} (shmemx_ft_readonly)\n"
        );
        Forbidden { addresses: start..start + len, line }
    };
    let of = |&(pe, segment)| ranges.iter().map(move |range| line(pe, segment, range));
    forbid(segments.iter().flat_map(of).collect(), more);
}
