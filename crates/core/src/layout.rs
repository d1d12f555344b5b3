//! The layout of a PE's segment. Pure arithmetic, equal on every PE of a job.
//!
//! ```text
//! 0          control page: words that other PEs read and write (segment::words)
//! mailbox    posts to the owner from PEs that do not map this memory (segment::mailbox)
//! teams      synchronization words of each team; zeroed in a recovery
//! work       slots for data exchanged within a collective; unused after it
//! trace      the last events of the owner (segment::ring)
//! statics    image of the executable's .data and .bss, mapped over the originals
//! manifest   coverage of a checkpoint and state of the allocator, written at each checkpoint
//! heap       the symmetric heap
//! ---------- visible to peers above, library only below ----------------------------------
//! header     store header: numbers, phases, decision (store::stamp)
//! changes    a bit per tile of the snapshot, set if the tile differs from the last checkpoint
//! written    tiles that this process wrote at the PEs it maps: a word that says whether they are
//!            known, the cost of tracking, then for each PE a bit per tile of its snapshot
//! snapshot 0 local copy, then its tile stamps
//! snapshot 1 a second copy, in a job that keeps two
//! slot 0     parity, then its tile stamps
//! slot 1     parity, then its tile stamps
//! log        operations and results of the owner since the last checkpoint (segment::log)
//! replica    the log of a PE of another node, which writes it
//! readonly 0 parity over read-only ranges (store::readonly), then its stamps
//! readonly 1 such parity in new groups, then its stamps, then those of the ranges themselves
//! copies     copies of such ranges, once the program writes them again
//! ---------- mapped by no peer below -----------------------------------------------------
//! spill 0    tiles of a snapshot, overwritten before they were on disk, and their stamps
//! spill 1    tiles of a slot, likewise
//! ```
//!
//! Every part is reserved at its maximum size. The memory file is sparse, so memory that is never
//! written costs nothing, and nothing moves when the live data grows. Large parts begin at a
//! multiple of a huge page.

use std::ops::Range;

use crate::page::{HUGE, PAGE, page_up};
use crate::quantity::{Pe, TileIndex};

/// Bytes covered by one checksum and stamp.
pub const TILE: usize = 64 * 1024;
/// Bytes of a mailbox entry: two halves, for a PE's even and odd incarnations.
pub const MAILBOX_ENTRY: usize = 1024;
/// Bytes of one tile stamp in the tables after snapshots and slots.
pub const STAMP: usize = 32;
/// Address of its own segment in every PE; chosen far from what the loader and sanitizers use.
pub const BASE: usize = 0x3000_0000_0000;
/// Alignment of [`BASE`], and the largest alignment that heap memory is certain to have.
pub const BASE_ALIGN: usize = 1 << 42;
/// Number of teams that have slots in the work area.
pub const WORK_TEAMS: usize = 64;
/// Words per team, of 8 bytes each.
pub const TEAM_WORDS: usize = 256;
/// Most rounds of a collective, each with a slot of its own.
pub const WORK_ROUNDS: usize = 16;
/// Slots of a team in use at a time; it has twice as many. The last one is that of broadcasts.
const WORK_SLOTS: usize = WORK_ROUNDS + 1;
/// Bytes of a slot.
pub const WORK_SLOT: usize = 16 << 10;
/// Bytes of the work area; pages that a program does not use are never touched.
const WORK: usize = WORK_TEAMS * 2 * WORK_SLOTS * WORK_SLOT;
/// Bytes of the event ring.
pub const TRACE: usize = 64 << 10;
/// Maximum size of an executable's statics, in bytes.
pub const STATICS_MAX: usize = 1 << 30;

/// Offsets of the parts, in bytes from the start of the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The mailbox: an entry for each PE.
    pub mailbox: usize,
    /// The words of all teams.
    pub teams: usize,
    /// The work area of collectives.
    pub work: usize,
    /// The event ring.
    pub trace: usize,
    /// Image of the executable's statics.
    pub statics: usize,
    /// Manifest of the checkpoint.
    pub manifest: usize,
    /// Bytes reserved for the manifest.
    pub manifest_len: usize,
    /// Symmetric heap.
    pub heap: usize,
    /// Its length.
    pub heap_len: usize,
    /// Store header; everything from here on is the library's.
    pub store: usize,
    /// The dirty map of this PE: tiles changed since the last checkpoint.
    pub changes: usize,
    /// The dirty maps of this process's writes to local PEs.
    pub written: usize,
    /// The local copies of the live data: one, or two used in turn.
    pub snapshots: [usize; 2],
    /// The two parity slots.
    pub slots: [usize; 2],
    /// The log: its words, then its records.
    pub log: usize,
    /// Maximum size of the log in bytes.
    pub log_len: usize,
    /// The replica of the log of a PE of another node, equally long.
    pub replica: usize,
    /// The two slots of parity over read-only ranges.
    pub readonly: [usize; 2],
    /// The tile stamps of the ranges themselves.
    pub readonly_stamps: usize,
    /// Copies of ranges that are no longer read-only; one tile longer than a snapshot.
    pub copies: usize,
    /// Spill areas for tiles of a snapshot, and of a slot, that must go to disk. Nothing from the
    /// first of them on is mapped.
    pub spills: [usize; 2],
    /// Maximum bytes of a snapshot or a slot.
    pub region_len: usize,
    /// End of the segment.
    pub total: usize,
}

const _: () = assert!(BASE.is_multiple_of(BASE_ALIGN));

/// Bytes of a cache line; maps that different PEs read start on separate lines.
const LINE: usize = 64;

/// Returns the bytes needed for one bit per tile of a snapshot.
fn set_len(region_len: usize) -> usize {
    (region_len / TILE / 8 + 1).next_multiple_of(LINE)
}

impl TileIndex {
    /// Returns its start in its snapshot or slot, in bytes.
    pub const fn offset(self) -> usize {
        self.at() * TILE
    }

    /// Returns its byte range there.
    pub const fn bytes(self) -> Range<usize> {
        self.offset()..self.after(1).offset()
    }
}

impl Layout {
    /// Computes the layout for symmetric heaps of `heap_len` bytes in a job of `n_pes` PEs.
    pub fn new(heap_len: usize, n_pes: usize) -> Layout {
        let heap_len = page_up(heap_len.max(PAGE));
        let mailbox = PAGE;
        let teams = mailbox + page_up(n_pes * MAILBOX_ENTRY);
        let work = teams + page_up(WORK_TEAMS * TEAM_WORDS * 8);
        let trace = work + WORK;
        let statics = trace + page_up(TRACE);
        let manifest = statics + STATICS_MAX;
        let manifest_len = page_up(heap_len / 32 + (1 << 20));
        let heap = (manifest + manifest_len).next_multiple_of(HUGE);
        let store = (heap + heap_len).next_multiple_of(HUGE);
        let live_max = store - statics;
        // A snapshot is divided into at most 64 chunks, each rounded up to whole tiles.
        let region_len = (live_max.div_ceil(TILE) + 64) * TILE;
        let with_stamps = (region_len + region_len / TILE * STAMP).next_multiple_of(HUGE);
        let changes = store + PAGE;
        let written = changes + set_len(region_len);
        let sets = written + LINE + n_pes * set_len(region_len);
        let regions = sets.next_multiple_of(HUGE);
        let region = |nth: usize| regions + nth * with_stamps;
        let (snapshots, slots) = ([region(0), region(1)], [region(2), region(3)]);
        let (log, log_len) = (region(4), region_len.next_multiple_of(HUGE));
        let replica = log + log_len;
        let readonly = [replica + log_len, replica + log_len + with_stamps];
        let readonly_stamps = readonly[1] + with_stamps;
        let copies = (readonly_stamps + region_len / TILE * STAMP).next_multiple_of(HUGE);
        let spill = (copies + region_len + TILE).next_multiple_of(HUGE);
        let (spills, total) = ([spill, spill + with_stamps], spill + 2 * with_stamps);
        Layout {
            mailbox,
            teams,
            work,
            trace,
            statics,
            manifest,
            manifest_len,
            heap,
            heap_len,
            store,
            changes,
            written,
            snapshots,
            slots,
            log,
            log_len,
            replica,
            readonly,
            readonly_stamps,
            copies,
            spills,
            region_len,
            total,
        }
    }

    /// Returns the offset of PE `pe`'s entry in a mailbox.
    pub fn mailbox_of(&self, pe: Pe) -> usize {
        self.mailbox + pe.at() * MAILBOX_ENTRY
    }

    /// Returns the offset of a team's words.
    pub fn team(&self, team: usize) -> usize {
        assert!(team < WORK_TEAMS, "{team}");
        self.teams + team * TEAM_WORDS * 8
    }

    /// Returns the offset of slot `round` of a team, or of its slot of broadcasts at
    /// [`WORK_ROUNDS`]; the two sets are used in turn.
    pub fn slot(&self, team: usize, set: usize, round: usize) -> usize {
        assert!(team < WORK_TEAMS && set < 2 && round < WORK_SLOTS, "{team}, {set}, {round}");
        self.work + ((2 * team + set) * WORK_SLOTS + round) * WORK_SLOT
    }

    /// Returns the offset of the dirty map of this process's writes to PE `pe`.
    pub fn written_to(&self, pe: Pe) -> usize {
        self.written + LINE + pe.at() * set_len(self.region_len)
    }

    /// Returns the offset of the tile stamps of the region at `region`: a snapshot, a slot, the
    /// parity over read-only ranges, or these ranges themselves or their copies.
    pub fn stamps(&self, region: usize) -> usize {
        match region < self.store || (self.copies..self.spills[0]).contains(&region) {
            true => self.readonly_stamps,
            false => region + self.region_len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_without_overlap_on_page_bounds() {
        for heap in [1, 4096, 65_537, 1 << 20, 3 << 30] {
            let l = Layout::new(heap, 33);
            let ends = [
                (0, PAGE),
                (l.mailbox, 33 * MAILBOX_ENTRY),
                (l.teams, WORK_TEAMS * TEAM_WORDS * 8),
                (l.work, WORK),
                (l.trace, TRACE),
                (l.statics, STATICS_MAX),
                (l.manifest, l.manifest_len),
                (l.heap, l.heap_len),
                (l.store, PAGE),
                (l.changes, l.region_len / TILE / 8 + 1),
                (l.written, LINE),
                (l.written_to(Pe(0)), l.region_len / TILE / 8 + 1),
                (l.written_to(Pe(32)), l.region_len / TILE / 8 + 1),
                (l.snapshots[0], l.region_len),
                (l.snapshots[1], l.region_len),
                (l.slots[0], l.region_len),
                (l.slots[1], l.region_len),
                (l.log, l.log_len),
                (l.replica, l.log_len),
                (l.readonly[0], l.region_len),
                (l.readonly[1], l.region_len),
                (l.readonly_stamps, l.region_len / TILE * STAMP),
                (l.copies, l.region_len + TILE),
                (l.spills[0], l.region_len),
                (l.spills[1], l.region_len),
            ];
            for pair in ends.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{heap}: {pair:?}");
            }
            let last = l.slot(WORK_TEAMS - 1, 1, WORK_ROUNDS);
            assert_eq!((l.slot(0, 0, 0), last + WORK_SLOT), (l.work, l.trace));
            let inner = |at: usize| at > l.changes && at < l.snapshots[0];
            assert!(ends.iter().all(|&(at, _)| at % PAGE == 0 || inner(at) && at % LINE == 0));
            assert!([l.heap, l.store, l.snapshots[0], l.slots[1]].iter().all(|at| at % HUGE == 0));
            let end = |region| l.stamps(region) + l.region_len / TILE * STAMP;
            assert!(end(l.slots[1]) <= l.log && end(l.spills[1]) <= l.total);
            assert!(l.heap_len >= heap && l.region_len >= STATICS_MAX + l.heap_len);
        }
    }
}
