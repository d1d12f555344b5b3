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

use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::quantity::Pe;
use raidshmem_segment::Segment;
use raidshmem_sys::forbidden::{Forbidden, forbid};
use raidshmem_sys::lock;
use raidshmem_sys::memory::Part;
use rustix::io::Result;

/// The segments that are mapped here with their PEs, this PE's own first.
pub(super) type MappedSegments<'a> = Vec<(Pe, &'a Segment)>;

/// A function that ends the process with a reason.
pub(in crate::pgas) type End = fn(&str) -> !;

/// Read-only ranges: offsets in segments, whole pages. If the kernel refuses to protect one, the
/// process ends.
#[derive(Debug)]
pub(crate) struct GuardedRanges {
    /// The own segment and its memory.
    own: &'static Segment,
    part: Part,
    /// The ranges.
    ranges: Mutex<Vec<Range<usize>>>,
    /// True if there is a range.
    any: AtomicBool,
    /// Own ranges of which this process has private pages.
    shadowed: Mutex<Vec<Range<usize>>>,
    end: End,
}

impl GuardedRanges {
    /// Creates the ranges of a process with this segment, which has none yet.
    pub(super) fn new(own: &'static Segment, part: Part, end: End) -> GuardedRanges {
        let (ranges, any, shadowed) = Default::default();
        GuardedRanges { own, part, ranges, any, shadowed, end }
    }

    fn protected<T>(&self, result: Result<T>) -> T {
        result.unwrap_or_else(|error| {
            (self.end)(&format!("read-only memory cannot be protected: {error}"))
        })
    }

    /// Makes these ranges of all segments read-only for the program, and all others writable.
    pub(super) fn guard(&self, mapped: &MappedSegments, ranges: Vec<Range<usize>>) {
        let mut guarded = lock(&self.ranges);
        // Relaxed: a thread that writes there after the barrier of the call sees it.
        self.any.store(!ranges.is_empty(), Ordering::Relaxed);
        let before = std::mem::replace(&mut *guarded, ranges);
        let open = before.iter().filter(|range| !guarded.contains(range));
        for (_, segment) in mapped {
            self.protected(open.clone().try_for_each(|range| segment.protect(range, true)));
            let mut closed = guarded.iter();
            self.protected(closed.try_for_each(|range| segment.protect(range, false)));
        }
        if !(before.is_empty() && guarded.is_empty()) {
            set_message(mapped[0], mapped, &guarded, false);
        }
    }

    /// Applies the ranges to a newly mapped segment other than the own one, of PE `me`.
    pub(super) fn extend(&self, me: Pe, new: (Pe, &Segment)) {
        let guarded = lock(&self.ranges);
        self.protected(guarded.iter().try_for_each(|range| new.1.protect(range, false)));
        if !guarded.is_empty() {
            set_message((me, self.own), &[new], &guarded, true);
        }
    }

    /// Returns true if a byte of `[at, at + len)` of a segment is read-only.
    #[inline]
    pub(in crate::pgas) fn meets(&self, at: usize, len: usize) -> bool {
        let meets = |range: &Range<usize>| at < range.end && range.start < at + len;
        self.any.load(Ordering::Relaxed) && lock(&self.ranges).iter().any(meets)
    }

    /// Lets the library write the own segment until the next [`GuardedRanges::guard`].
    pub(crate) fn open(&self) {
        let ranges = lock(&self.ranges);
        self.protected(ranges.iter().try_for_each(|range| self.own.protect(range, true)));
    }

    /// Writes own memory through its file, because the program may only read it.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        self.protected(self.part.write_at(at, bytes));
    }

    /// Makes writes to an own range private to this process, until [`GuardedRanges::unshadow`].
    pub(crate) fn shadow(&self, range: Range<usize>) {
        self.protected(self.own.share(&self.part, &range, false));
        lock(&self.shadowed).push(range);
    }

    /// Makes writes of a new process to read-only ranges that it adopts private to it, until
    /// [`GuardedRanges::unshadow`].
    pub(in crate::pgas) fn shadow_inherited(&self, job: u64) {
        if breaks(Mutant::ReadonlyOverwritten) {
            return;
        }
        let held = self.own.header().readonly.held(job).into_iter();
        held.filter(|held| held.state.is_live()).for_each(|held| self.shadow(held.range.range()));
    }

    /// Shares all such ranges again, and returns them.
    pub(super) fn unshadow(&self) -> Vec<Range<usize>> {
        let shadowed = std::mem::take(&mut *lock(&self.shadowed));
        let mut all = shadowed.iter();
        self.protected(all.try_for_each(|range| self.own.share(&self.part, range, true)));
        shadowed
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
