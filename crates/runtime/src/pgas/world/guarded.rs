//! Read-only ranges of segments: the same for every PE, in every process that maps them.
//!
//! Invariant: outside of a recovery, a listed range cannot be written through the program's mapping
//! of a segment. Between a loss and the restart it can be, by a new process that adopts such a
//! range and after a call that a loss has cut short. Such writes are private to this process: a
//! restart undoes them, and the range is unchanged for other processes.

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

/// The segments that are mapped here with their PEs, this PE's own first.
pub(super) type MappedSegments<'a> = Vec<(Pe, &'a Segment)>;

/// Read-only ranges: offsets in segments, whole pages.
#[derive(Debug, Default)]
pub(super) struct GuardedRanges {
    /// The ranges.
    ranges: Mutex<Vec<Range<usize>>>,
    /// True if there is a range.
    any: AtomicBool,
    /// Own ranges of which this process has private pages.
    shadowed: Mutex<Vec<Range<usize>>>,
}

impl GuardedRanges {
    /// Makes these ranges of all segments read-only for the program, and all others writable.
    pub fn guard(&self, mapped: &MappedSegments, ranges: Vec<Range<usize>>) -> Result<()> {
        let mut guarded = lock(&self.ranges);
        // Relaxed: a thread that writes there after the barrier of the call sees it.
        self.any.store(!ranges.is_empty(), Ordering::Relaxed);
        let before = std::mem::replace(&mut *guarded, ranges);
        let open = before.iter().filter(|range| !guarded.contains(range));
        for (_, segment) in mapped {
            open.clone().try_for_each(|range| segment.protect(range, true))?;
            guarded.iter().try_for_each(|range| segment.protect(range, false))?;
        }
        if !(before.is_empty() && guarded.is_empty()) {
            set_message(mapped[0], mapped, &guarded, false);
        }
        Ok(())
    }

    /// Applies the ranges to a newly mapped segment other than the own one.
    pub fn extend(&self, own: (Pe, &Segment), new: (Pe, &Segment)) -> Result<()> {
        let guarded = lock(&self.ranges);
        guarded.iter().try_for_each(|range| new.1.protect(range, false))?;
        if !guarded.is_empty() {
            set_message(own, &[new], &guarded, true);
        }
        Ok(())
    }

    /// Returns true if a byte of `[at, at + len)` of a segment is read-only.
    #[inline]
    pub fn meets(&self, at: usize, len: usize) -> bool {
        let meets = |range: &Range<usize>| at < range.end && range.start < at + len;
        self.any.load(Ordering::Relaxed) && lock(&self.ranges).iter().any(meets)
    }

    /// Lets the library write the own segment until the next [`GuardedRanges::guard`].
    pub fn open(&self, own: &Segment) -> Result<()> {
        lock(&self.ranges).iter().try_for_each(|range| own.protect(range, true))
    }

    /// Makes writes to an own range private to this process, until [`GuardedRanges::unshadow`].
    pub fn shadow(&self, own: &Segment, part: &Part, range: Range<usize>) -> Result<()> {
        own.share(part, &range, false)?;
        lock(&self.shadowed).push(range);
        Ok(())
    }

    /// Shares all such ranges again, and returns them.
    pub fn unshadow(&self, own: &Segment, part: &Part) -> Result<Vec<Range<usize>>> {
        let shadowed = std::mem::take(&mut *lock(&self.shadowed));
        shadowed.iter().try_for_each(|range| own.share(part, range, true))?;
        Ok(shadowed)
    }
}

/// Sets the message for a write to one of `segments`; keeps earlier messages if `more`.
fn set_message(
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
