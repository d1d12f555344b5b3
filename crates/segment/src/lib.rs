//! Segments: the memory that a PE shares, and the library's store behind it.
//!
//! A [`Segment`] maps one PE's memory: the local one at the fixed address [`layout::BASE`], or a
//! peer's at an address chosen by the kernel. This module turns offsets into memory and is, with
//! `words` and `statics`, the only place that does.
//!
//! Invariants: offsets are checked against the layout before they become addresses. Control words
//! and the store header are accessed through atomics only. The store is written by its owner only,
//! except for tiles of a second snapshot, each of which has one writer (`checkpoint::copy`), and
//! words of its agent (`spill`). Bulk bytes of a peer may change under a reader only if the
//! protocol is violated; data read from a store is trusted only after its checksum is verified.
//!
//! Left out: waiting for words, and the rules for when a PE may access another's memory (the
//! protocol, and the crate `raidshmem`). The items are public only for the programs and tests of
//! the workspace, and may change at any time.
//!
//! Layers, each importing only from those above it or to the left of it:
//!
//! ```text
//! atomic  update                             the atomics; atomic operations on a word
//! bell                                       sleeping, and waking who sleeps
//! waits  words                               waits of threads; the control page
//! spill  header  mailbox  ring  log          spilled tiles, store header, mail, last events, log
//! statics                                    static variables of the executable
//! bytes                                      access to bytes on behalf of peers
//! ```

// Modules link to their private items.
#![allow(rustdoc::private_intra_doc_links)]

mod atomic;
pub mod bell;
pub mod bytes;
pub mod header;
pub mod log;
pub mod mailbox;
pub mod ring;
pub mod spill;
pub mod statics;
pub mod update;
pub mod waits;
pub mod words;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use raidshmem_core::layout::MAILBOX_ENTRY;
use raidshmem_core::layout::{self, Layout, TRACE};
use raidshmem_core::page::{HUGE, PAGE, page_up};
use raidshmem_core::quantity::Pe;
use raidshmem_core::settings::Pages;
use raidshmem_core::status::PeerStatus;
use raidshmem_core::update::{Change, WordAt};
use raidshmem_sys::memory::{self, Mapping, Part};

use header::Header;
use log::Log;
use mailbox::MailboxEntry;
use ring::Ring;
use words::Words;

/// Smallest heap that gets huge pages, in bytes: its last huge page may be almost empty.
const MANY: usize = 16 * HUGE;

/// Addresses to try for the local memory.
const PLACES: usize = 8;

/// Returns true if heaps of `heap_len` bytes, and their checkpoints, should have huge pages.
pub fn is_large(heap_len: usize, pages: Pages) -> bool {
    pages == Pages::Auto && heap_len >= MANY
}

/// The parts of other PEs' stores that this process writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenParts {
    /// True for the snapshots.
    pub snapshots: bool,
    /// True for the replica of a log.
    pub replica: bool,
}

/// One PE's memory as mapped in this process: the visible part, and the store at an unrelated
/// address, so that a program that overruns its heap does not overwrite its backup.
///
/// With huge pages the visible part can be mapped a second time, read-only. Through it the library
/// reads live memory while the first mapping is write-tracked and has small pages
/// ([`Segment::read_apart`]).
#[derive(Debug)]
pub struct Segment {
    visible: Mapping,
    reading: Option<Mapping>,
    apart: AtomicBool,
    store: Mapping,
    layout: Layout,
}

impl Segment {
    /// Maps the local memory at [`layout::BASE`] if that is free; `at_base` is then true. Otherwise
    /// tries a few multiples of [`layout::BASE_ALIGN`] above it, then any address.
    pub fn own(part: &Part, layout: Layout) -> rustix::io::Result<(Segment, bool)> {
        let map = |at| part.map(0, layout.store, at, true);
        let mut places = (0..PLACES).map(|nth| layout::BASE + nth * layout::BASE_ALIGN);
        let visible = match places.find_map(|at| map(Some(at)).ok()) {
            Some(visible) => visible,
            None => map(None)?,
        };
        let at_base = visible.base().addr() == layout::BASE;
        let store = part.map(layout.store, layout.spills[0] - layout.store, None, true)?;
        Ok((Segment::of(visible, store, layout), at_base))
    }

    /// Maps a peer's memory; its store is read-only, except for the parts that are `open`.
    pub fn peer(part: &Part, layout: Layout, open: OpenParts) -> rustix::io::Result<Segment> {
        let visible = part.map(0, layout.store, None, true)?;
        let store = part.map(layout.store, layout.spills[0] - layout.store, None, false)?;
        let snapshots = (open.snapshots, layout.snapshots[0], layout.slots[0]);
        let replica = (open.replica, layout.replica, layout.readonly[0]);
        for (_, begin, end) in [snapshots, replica].into_iter().filter(|(is_open, ..)| *is_open) {
            store.open(begin - layout.store, end - begin)?;
        }
        Ok(Segment::of(visible, store, layout))
    }

    fn of(visible: Mapping, store: Mapping, layout: Layout) -> Segment {
        Segment { visible, reading: None, apart: AtomicBool::new(false), store, layout }
    }

    /// Maps the visible part a second time, read-only, if it `is_large`. This takes address space,
    /// not memory. If the kernel refuses, there is no second mapping.
    pub fn twice(mut self, part: &Part, is_large: bool) -> Segment {
        let map = || part.map(0, self.layout.store, None, false).ok();
        self.reading = is_large.then(map).flatten();
        self
    }

    /// Returns the local address of the first visible byte.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.visible.base()
    }

    /// Returns the control words.
    #[inline]
    pub fn words(&self) -> &Words {
        // SAFETY: the first page of a segment holds the words, which every process accesses through
        // atomics only; the mapping lives as long as self and is page-aligned.
        unsafe { &*self.visible.base().cast() }
    }

    /// Returns the last events of the owner.
    pub fn trace(&self) -> Ring<'_> {
        let at = self.at(self.layout.trace, TRACE);
        // SAFETY: inside the visible part (`at`), at the beginning of a page; only the library uses
        // these bytes, as atomics, and the mapping lives as long as self.
        Ring::of(unsafe { std::slice::from_raw_parts(at.cast::<AtomicU64>(), TRACE / 8) })
    }

    /// Returns the log of the owner, in a job of `n_pes` PEs. A peer's is only read.
    #[inline]
    pub fn log(&self, n_pes: usize) -> Log<'_> {
        self.log_at(self.layout.log, n_pes)
    }

    /// Returns the replica that the owner keeps of the log of a PE of another node, which is its
    /// only writer.
    #[inline]
    pub fn replica(&self, n_pes: usize) -> Log<'_> {
        self.log_at(self.layout.replica, n_pes)
    }

    /// Returns the owner's mirror of the log of PE `pe`, which is not mapped here. The mirrors take
    /// the place of the replica, which needs mapped PEs.
    #[inline]
    pub fn mirror(&self, pe: Pe, n_pes: usize) -> Log<'_> {
        let len = self.layout.log_len / n_pes / PAGE * PAGE;
        self.log_in(self.layout.replica + pe.at() * len, len, n_pes)
    }

    #[inline]
    fn log_at(&self, base: usize, n_pes: usize) -> Log<'_> {
        self.log_in(base, self.layout.log_len, n_pes)
    }

    #[inline]
    fn log_in(&self, base: usize, len: usize, n_pes: usize) -> Log<'_> {
        let at = self.at(base, len).cast::<AtomicU64>();
        // SAFETY: inside the store (`at`), at the beginning of a page, and the mapping lives as
        // long as self. Heads, and the operands and results of atomic operations, are accessed as
        // atomics only; other bytes of a payload are written before the tail publishes their
        // record, and are not written again while it does.
        Log::of(unsafe { std::slice::from_raw_parts(at, len / 8) }, n_pes, base)
    }

    /// Returns the store header.
    #[inline]
    pub fn header(&self) -> &Header {
        // SAFETY: the first page of the store holds the header, all of it atomics, page-aligned. A
        // peer's is only read.
        unsafe { &*self.store.base().cast() }
    }

    /// Returns the mailbox entry of PE `pe`.
    #[inline]
    pub fn mailbox(&self, pe: Pe) -> &MailboxEntry {
        let entry = self.layout.mailbox_of(pe);
        let at = self.at(entry, MAILBOX_ENTRY);
        assert!(entry + MAILBOX_ENTRY <= self.layout.teams, "an entry of PE {pe}");
        // SAFETY: inside the mailbox (asserted), aligned to an entry's size since the mailbox
        // begins at a page; all of it atomics.
        unsafe { &*at.cast() }
    }

    /// Returns the owner's findings about its store, read from its words.
    pub fn status(&self) -> PeerStatus {
        let findings = &self.words().findings;
        let load = |word: &AtomicU64| word.load(Ordering::SeqCst);
        PeerStatus {
            bad_snapshot: load(&findings.snapshot),
            bad_parity: load(&findings.parity),
            found_len: load(&findings.len),
            found_empty: load(&findings.empty),
        }
    }

    /// Changes a word on behalf of a peer; returns its previous value. None if the visible part has
    /// no such word.
    pub fn update(&self, word: WordAt, change: Change) -> Option<u64> {
        let WordAt { offset, bytes } = word;
        let word = matches!(bytes, 2 | 4 | 8) && offset.is_multiple_of(bytes);
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.layout.store);
        // SAFETY: an aligned word of the visible part (checked); peers that map it and the program
        // itself access atomically updated words as atomics only.
        let apply = || unsafe { update::apply(self.at(offset, bytes), bytes, change) };
        (word && inside).then(apply)
    }

    /// Returns words of the visible part that are accessed as atomics only; None if it has no such
    /// words.
    pub fn atomics<const N: usize>(&self, offset: usize) -> Option<&[AtomicU64; N]> {
        let inside = offset.checked_add(N * 8).is_some_and(|end| end <= self.layout.store);
        // SAFETY: aligned words of the visible part (checked), as in `update`.
        let words = || unsafe { &*self.at(offset, N * 8).cast() };
        (inside && offset.is_multiple_of(8)).then(words)
    }

    /// Like `atomics`, for a number of words that is not known before.
    fn words_in(&self, offset: usize, count: usize) -> Option<&[AtomicU64]> {
        let end = offset.checked_add(count.checked_mul(8)?)?;
        let inside = offset.is_multiple_of(8) && end <= self.layout.store;
        let at = || self.at(offset, count * 8).cast::<AtomicU64>();
        // SAFETY: aligned words of the visible part (checked), as in `update`.
        inside.then(|| unsafe { std::slice::from_raw_parts(at(), count) })
    }

    /// Returns the layout of the segment.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the two mappings as (offset, address, length): the visible part, then the store.
    pub fn parts(&self) -> [(usize, *mut u8, usize); 2] {
        let part = |offset, map: &Mapping| (offset, map.base(), map.len());
        [part(0, &self.visible), part(self.layout.store, &self.store)]
    }

    /// Returns `len` bytes at `offset`.
    #[inline]
    pub fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: inside a mapping (`at`). These bytes do not change while they are read: live
        // memory is read between the barriers of a checkpoint or recovery, when no program runs,
        // and store bytes are written by their owner in other phases only (module invariants).
        unsafe { std::slice::from_raw_parts(self.at(offset, len), len) }
    }

    /// Returns `len` bytes at `offset` of the visible part, which the library may read while the
    /// program is stopped.
    #[inline]
    pub fn live(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: as in `bytes`: the second mapping shows those bytes too.
        unsafe { std::slice::from_raw_parts(self.live_at(offset, len), len) }
    }

    /// Makes [`Segment::live`] read through the second mapping from now on, if there is one.
    pub fn read_apart(&self) {
        self.apart.store(true, Ordering::Relaxed); // either mapping shows the same bytes
    }

    /// Returns true if the visible part is mapped twice.
    pub fn is_twice(&self) -> bool {
        self.reading.is_some()
    }

    #[inline]
    fn live_at(&self, offset: usize, len: usize) -> *mut u8 {
        let apart = self.reading.as_ref().filter(|_| self.apart.load(Ordering::Relaxed));
        let Some(reading) = apart else { return self.at(offset, len) };
        let inside = offset.checked_add(len).is_some_and(|end| end <= reading.len());
        assert!(inside, "visible bytes {offset}+{len} of {}", reading.len());
        reading.base().wrapping_add(offset)
    }

    /// Returns `len` writable bytes at `offset`. A store is written by its owner, or by the one PE
    /// that is assigned a tile of its second snapshot; live memory is written by the library only
    /// between the barriers of a recovery.
    ///
    /// # Safety
    /// While the slice lives these bytes are not accessed otherwise: by no other slice of this
    /// segment, no other thread, no other process.
    #[inline]
    #[allow(clippy::mut_from_ref)] // shared between processes: `&mut self` would promise too much
    pub unsafe fn bytes_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        // SAFETY: inside a mapping (`at`), and accessed by no one else (the caller's promise).
        unsafe { std::slice::from_raw_parts_mut(self.at(offset, len), len) }
    }

    /// Returns the address of `len` bytes at `offset`, which must lie in one of the two parts.
    #[inline]
    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        let (map, from) = match offset.checked_sub(self.layout.store) {
            Some(from) => (&self.store, from),
            None => (&self.visible, offset),
        };
        let inside = from.checked_add(len).is_some_and(|end| end <= map.len());
        assert!(inside, "bytes {offset}+{len} of a segment of {}", self.layout.total);
        map.base().wrapping_add(from)
    }

    /// Makes whole pages of the visible part writable or read-only.
    ///
    /// # Errors
    /// The kernel's error: the process has too many mappings.
    pub fn protect(&self, range: &Range<usize>, writable: bool) -> rustix::io::Result<()> {
        self.visible.protect(range.start, range.len(), writable)
    }

    /// Replaces memory of this process by zeroes: all except words of the library and, if it is its
    /// `own` memory, the heap.
    ///
    /// # Errors
    /// As above.
    ///
    /// # Safety
    /// These bytes are no longer used: the process is about to end.
    pub unsafe fn close(&self, own: bool) -> rustix::io::Result<()> {
        let Layout { statics, heap, store, snapshots, spills, .. } = self.layout;
        let end = if own { heap } else { store };
        // SAFETY: the caller's promise.
        unsafe {
            self.visible.blank(statics, end - statics)?;
            self.store.blank(snapshots[0] - store, spills[0] - snapshots[0])
        }
    }

    /// Makes whole pages of the local visible part, which is in `part`, private to this process
    /// from now on, or `shared` again.
    ///
    /// # Errors
    /// As above.
    pub fn share(&self, part: &Part, range: &Range<usize>, shared: bool) -> rustix::io::Result<()> {
        let (from, len) = (range.start, range.len());
        assert!(range.end <= self.layout.store, "{range:?} is not visible");
        // SAFETY: the program is in a call of the library, which uses none of these bytes.
        unsafe { self.visible.map_again((part, from), from, len, shared) }
    }

    /// Prefaults the pages of `[offset, offset + len)` in one call, instead of one fault each. A
    /// failure is not an error: the pages are then faulted in on use.
    pub fn populate(&self, offset: usize, len: usize) {
        populate(self.at(offset, len) as usize, len);
    }

    /// Prefaults the pages that [`Segment::live`] will read.
    pub fn populate_live(&self, offset: usize, len: usize) {
        populate(self.live_at(offset, len) as usize, len);
    }

    /// Asks for huge pages for `[offset, offset + len)`, for those that lie wholly inside. They are
    /// allocated on first touch, in every process that maps them.
    pub fn ask_huge(&self, offset: usize, len: usize) {
        memory::ask_huge(self.at(offset, len) as usize, page_up(len));
        if let Some(reading) = self.reading.as_ref().filter(|_| offset < self.layout.store) {
            memory::ask_huge(reading.base() as usize + offset, page_up(len));
        }
    }

    /// Keeps the mapping for the rest of the process: pointers into it may still be in use.
    pub fn leak(self) -> &'static Segment {
        Box::leak(Box::new(self))
    }
}

/// The ring of events in the memory of a PE, mapped by its agent.
#[derive(Debug)]
pub struct Traced(Mapping);

impl Traced {
    /// Maps the ring.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn of(part: &Part, layout: &Layout) -> rustix::io::Result<Traced> {
        part.map(layout.trace, TRACE, None, true).map(Traced)
    }

    /// Returns the ring.
    pub fn ring(&self) -> Ring<'_> {
        // SAFETY: the whole mapping, page-aligned; every process accesses it through atomics only.
        let words =
            unsafe { std::slice::from_raw_parts(self.0.base().cast::<AtomicU64>(), TRACE / 8) };
        Ring::of(words)
    }
}

/// The store header of a PE, the first page of the store, mapped by its agent.
#[derive(Debug)]
pub struct Headed(Mapping);

impl Headed {
    /// Maps the header. The agent writes there only the checkpoint that it
    /// [wants](spill::Spill::want).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn of(part: &Part, layout: &Layout) -> rustix::io::Result<Headed> {
        part.map(layout.store, PAGE, None, true).map(Headed)
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        // SAFETY: the whole mapping is the page of the header, page-aligned and writable, all of it
        // atomics; it lives as long as self.
        unsafe { &*self.0.base().cast() }
    }
}

fn populate(start: usize, len: usize) {
    let page = memory::page_size();
    let first = start / page * page;
    memory::populate(first, (start + len - first).next_multiple_of(page));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Returns the permissions of the mapping at an address: `rw-s`, `r--s`.
    fn allowed(at: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
        let line = maps.lines().find(|line| {
            let (start, end) = line.split(' ').next().and_then(|at| at.split_once('-')).unwrap();
            (number(start)..number(end)).contains(&at)
        });
        line.and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned()
    }

    #[test]
    fn of_a_peer_s_store_only_what_is_open_can_be_written() {
        let layout = Layout::new(1 << 20, 2);
        let file = memory::create("peer", layout.total).unwrap();
        let part = Part::new(Arc::new(file), 0, layout.total);
        for (open, replica) in [(false, false), (true, false), (false, true)] {
            let parts = OpenParts { snapshots: open, replica };
            let peer = Segment::peer(&part, layout, parts).unwrap();
            let allowed = |offset: usize| allowed(peer.at(offset, 1) as usize);
            let [first, second] = layout.snapshots;
            let last = layout.stamps(second) + layout.region_len / layout::TILE * layout::STAMP;
            for at in [first, second, last - 1] {
                assert_eq!(allowed(at), if open { "rw-s" } else { "r--s" }, "{at}");
            }
            let rest = [layout.store, layout.changes, layout.written, first - 1];
            let last = [
                layout.slots[0],
                layout.log,
                layout.replica - 1,
                layout.readonly[0],
                layout.copies,
            ];
            for at in rest.into_iter().chain(last) {
                assert_eq!(allowed(at), "r--s", "{at}");
            }
            for at in [layout.replica, layout.readonly[0] - 1] {
                assert_eq!(allowed(at), if replica { "rw-s" } else { "r--s" }, "{at}");
            }
            assert_eq!(allowed(layout.heap), "rw-s");
        }
    }
}
