//! Segments: the memory a PE shows to others, and the library's store behind it.
//!
//! A [`Segment`] is a mapping of one PE's memory, the own one at the fixed address
//! [`layout::BASE`] or a peer's wherever the kernel put it. This module turns offsets into memory
//! and is, with `words` and `statics`, the only place that does.
//!
//! Invariants: offsets are checked against the layout before they become addresses. Control words
//! and the store header are touched through atomics only. The store is written by its owner alone,
//! but for tiles of a second snapshot, each of which has one writer (`checkpoint::copy`), and words
//! of its agent (`aside`).
//! Bulk bytes of a peer may change under a reader only where the protocol is broken; what is read
//! from a store is checksummed before it is believed.
//!
//! Left out: who waits for which word, and when a PE may touch whose memory (the protocol, and the
//! crate `raidshmem`). The items are public for the programs and tests of the workspace alone, and
//! change at will.
//!
//! Layers, each importing only from those above it or to the left of it:
//!
//! ```text
//! update                                     a word that changes in one step
//! waits  words                               the control page, and the waits shown on it
//! aside  header  mailbox  ring  log          the store's first page, mail, last events, the log
//! statics                                    static variables of the executable
//! ```

// Modules explain themselves by what is private to them.
#![allow(rustdoc::private_intra_doc_links)]

pub mod aside;
pub mod header;
pub mod log;
pub mod mailbox;
pub mod ring;
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
use raidshmem_sys::memory::{self, Mapping, Part};

use header::Header;
use log::Log;
use mailbox::MailboxEntry;
use ring::Ring;
use update::{Change, WordAt};
use words::Words;

/// Smallest heap, in bytes, that has huge pages: its last one may be all but empty.
const MANY: usize = 16 * HUGE;

/// Addresses that are tried for the own memory.
const PLACES: usize = 8;

/// True if heaps of `heap_len` bytes, and what checkpoints keep of them, are to have huge pages.
pub fn is_large(heap_len: usize, pages: Pages) -> bool {
    pages == Pages::Auto && heap_len >= MANY
}

/// What this process writes of the stores of others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenParts {
    /// The snapshots.
    pub snapshots: bool,
    /// The replica of a log.
    pub replica: bool,
}

/// One PE's memory as this process sees it: the visible part, and somewhere else in the address
/// space the store, so that a program that runs past its heap does not run into its backup.
///
/// Where pages are huge the visible part can be mapped a second time, for the library to read live
/// memory while the first mapping is watched and has small pages ([`Segment::read_apart`]). Nothing
/// can be written through it.
#[derive(Debug)]
pub struct Segment {
    visible: Mapping,
    reading: Option<Mapping>,
    apart: AtomicBool,
    store: Mapping,
    layout: Layout,
}

impl Segment {
    /// Maps the own memory, at [`layout::BASE`] if that is free: then `at_base` is true. Else
    /// at an address that is a multiple of as much, where one of a few is free.
    pub fn own(part: &Part, layout: Layout) -> rustix::io::Result<(Segment, bool)> {
        let map = |at| part.map(0, layout.store, at, true);
        let mut places = (0..PLACES).map(|nth| layout::BASE + nth * layout::BASE_ALIGN);
        let visible = match places.find_map(|at| map(Some(at)).ok()) {
            Some(visible) => visible,
            None => map(None)?,
        };
        let at_base = visible.base().addr() == layout::BASE;
        let store = part.map(layout.store, layout.asides[0] - layout.store, None, true)?;
        Ok((Segment::of(visible, store, layout), at_base))
    }

    /// Maps a peer's memory; its store can only be read, but for what is `open`.
    pub fn peer(part: &Part, layout: Layout, open: OpenParts) -> rustix::io::Result<Segment> {
        let visible = part.map(0, layout.store, None, true)?;
        let store = part.map(layout.store, layout.asides[0] - layout.store, None, false)?;
        let snapshots = (open.snapshots, layout.snapshots[0], layout.slots[0]);
        let replica = (open.replica, layout.replica, layout.readonly);
        for (_, begin, end) in [snapshots, replica].into_iter().filter(|(is_open, ..)| *is_open) {
            store.open(begin - layout.store, end - begin)?;
        }
        Ok(Segment::of(visible, store, layout))
    }

    fn of(visible: Mapping, store: Mapping, layout: Layout) -> Segment {
        Segment { visible, reading: None, apart: AtomicBool::new(false), store, layout }
    }

    /// Maps the visible part once more if it `is_large`, read-only. This takes addresses,
    /// and no memory. Refused, there is no such mapping.
    pub fn twice(mut self, part: &Part, is_large: bool) -> Segment {
        let map = || part.map(0, self.layout.store, None, false).ok();
        self.reading = is_large.then(map).flatten();
        self
    }

    /// Address of the first visible byte here.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.visible.base()
    }

    /// The control words.
    #[inline]
    pub fn words(&self) -> &Words {
        // SAFETY: the first page of a segment holds the words, which every process touches through
        // atomics only; the mapping lives as long as self and is page-aligned.
        unsafe { &*self.visible.base().cast() }
    }

    /// The last events of the owner.
    pub fn trace(&self) -> Ring<'_> {
        let at = self.at(self.layout.trace, TRACE);
        // SAFETY: inside the visible part (`at`), at the beginning of a page; the library alone
        // uses these bytes, as atomics, and the mapping lives as long as self.
        Ring::of(unsafe { std::slice::from_raw_parts(at.cast::<AtomicU64>(), TRACE / 8) })
    }

    /// The log of the owner, in a job of `n_pes` PEs. A peer's is only read.
    #[inline]
    pub fn log(&self, n_pes: usize) -> Log<'_> {
        self.log_at(self.layout.log, n_pes)
    }

    /// The replica of a log that the owner keeps for a PE of another node, which alone writes it.
    #[inline]
    pub fn replica(&self, n_pes: usize) -> Log<'_> {
        self.log_at(self.layout.replica, n_pes)
    }

    #[inline]
    fn log_at(&self, base: usize, n_pes: usize) -> Log<'_> {
        let len = self.layout.log_len;
        let at = self.at(base, len).cast::<AtomicU64>();
        // SAFETY: inside the store (`at`), at the beginning of a page, and the mapping lives as
        // long as self. Heads, and what atomic operations bring and find, are touched as atomics
        // only; other bytes of a payload are written before the tail shows their record, and are
        // not written again while it does.
        Log::of(unsafe { std::slice::from_raw_parts(at, len / 8) }, n_pes, base)
    }

    /// The store header.
    #[inline]
    pub fn header(&self) -> &Header {
        // SAFETY: the first page of the store holds the header, all of it atomics, page-aligned.
        // A peer's is only read.
        unsafe { &*self.store.base().cast() }
    }

    /// Entry of PE `pe` of the mailbox.
    #[inline]
    pub fn mailbox(&self, pe: Pe) -> &MailboxEntry {
        let entry = self.layout.mailbox_of(pe);
        let at = self.at(entry, MAILBOX_ENTRY);
        assert!(entry + MAILBOX_ENTRY <= self.layout.teams, "an entry of PE {pe}");
        // SAFETY: inside the mailbox (asserted), on a boundary of an entry's size since the mailbox
        // begins at a page; all of it atomics.
        unsafe { &*at.cast() }
    }

    /// What the owner found in its store, read where its words are.
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

    /// Changes a word for a peer that asked for it; what was there. None if there is no such word
    /// in the visible part.
    pub fn update(&self, word: WordAt, change: Change) -> Option<u64> {
        let WordAt { offset, bytes } = word;
        let word = matches!(bytes, 2 | 4 | 8) && offset.is_multiple_of(bytes);
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.layout.store);
        // SAFETY: a word of the visible part on its boundary (checked); peers that map it and the
        // program itself access words that are updated atomically as atomics only.
        let apply = || unsafe { update::apply(self.at(offset, bytes), bytes, change) };
        (word && inside).then(apply)
    }

    /// Where the parts of the segment are.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The two mappings as (offset, address, length): the visible part, then the store.
    pub fn parts(&self) -> [(usize, *mut u8, usize); 2] {
        let part = |offset, map: &Mapping| (offset, map.base(), map.len());
        [part(0, &self.visible), part(self.layout.store, &self.store)]
    }

    /// `len` bytes at `offset`.
    #[inline]
    pub fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: inside a mapping (`at`). Nobody writes these bytes while they are read: live
        // memory is read between the barriers of a checkpoint or recovery, when no program runs,
        // and store bytes are written by their owner in other phases only (module invariants).
        unsafe { std::slice::from_raw_parts(self.at(offset, len), len) }
    }

    /// `len` bytes at `offset` of the visible part, to be read by the library while the program
    /// stands still.
    #[inline]
    pub fn live(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: as in `bytes`: the second mapping is one of the same bytes.
        unsafe { std::slice::from_raw_parts(self.live_at(offset, len), len) }
    }

    /// From here on [`Segment::live`] reads through the second mapping, if there is one.
    pub fn read_apart(&self) {
        self.apart.store(true, Ordering::Relaxed); // either mapping shows the same bytes
    }

    /// True if the visible part is mapped twice.
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

    /// `len` bytes at `offset`, to be written. Only the owner writes its store, or the one PE that
    /// a tile of its second snapshot is left to; live memory is written by the library only
    /// between the barriers of a recovery.
    ///
    /// # Safety
    /// While the slice lives nobody else reads or writes these bytes: no other slice of this
    /// segment, no other thread, no other process.
    #[inline]
    #[allow(clippy::mut_from_ref)] // shared between processes: `&mut self` would promise too much
    pub unsafe fn bytes_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        // SAFETY: inside a mapping (`at`), and of nobody else (the caller's promise).
        unsafe { std::slice::from_raw_parts_mut(self.at(offset, len), len) }
    }

    /// Address of `len` bytes at `offset`, which must lie in one of the two parts.
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

    /// Lets whole pages of the visible part be written, or not.
    ///
    /// # Errors
    /// What the kernel says: it has no room for so many mappings.
    pub fn protect(&self, range: &Range<usize>, writable: bool) -> rustix::io::Result<()> {
        self.visible.protect(range.start, range.len(), writable)
    }

    /// Takes from this process what is neither a word of the library nor, of its `own` memory, the
    /// heap: zeroes are there.
    ///
    /// # Errors
    /// As above.
    ///
    /// # Safety
    /// Nobody uses these bytes any more: the process is at its end.
    pub unsafe fn close(&self, own: bool) -> rustix::io::Result<()> {
        let Layout { statics, heap, store, snapshots, asides, .. } = self.layout;
        let end = if own { heap } else { store };
        // SAFETY: the caller's promise.
        unsafe {
            self.visible.blank(statics, end - statics)?;
            self.store.blank(snapshots[0] - store, asides[0] - snapshots[0])
        }
    }

    /// From here on what this process writes to whole pages of the own visible part, which is in
    /// `part`, is for it alone; or, `shared`, for all again.
    ///
    /// # Errors
    /// As above.
    pub fn share(&self, part: &Part, range: &Range<usize>, shared: bool) -> rustix::io::Result<()> {
        let (from, len) = (range.start, range.len());
        assert!(range.end <= self.layout.store, "{range:?} is not visible");
        // SAFETY: the program is in a call of the library, which uses none of these bytes.
        unsafe { self.visible.map_again((part, from), from, len, shared) }
    }

    /// Makes the pages of `[offset, offset + len)` present here ahead of their use, in one call
    /// instead of a fault for each. A failure is no error: the faults come then.
    pub fn populate(&self, offset: usize, len: usize) {
        populate(self.at(offset, len) as usize, len);
    }

    /// The same for what [`Segment::live`] will read.
    pub fn populate_live(&self, offset: usize, len: usize) {
        populate(self.live_at(offset, len) as usize, len);
    }

    /// Asks for huge pages for `[offset, offset + len)`, as far as they lie in it whole: nothing
    /// beyond it is taken. Such pages come when they are first touched, in every process that maps
    /// them.
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

/// The ring of events in the memory of a PE, for its agent.
#[derive(Debug)]
pub struct Traced(Mapping);

impl Traced {
    /// Maps it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn of(part: &Part, layout: &Layout) -> rustix::io::Result<Traced> {
        part.map(layout.trace, TRACE, None, true).map(Traced)
    }

    /// The ring.
    pub fn ring(&self) -> Ring<'_> {
        // SAFETY: the whole mapping, page-aligned; every process touches it through atomics only.
        let words =
            unsafe { std::slice::from_raw_parts(self.0.base().cast::<AtomicU64>(), TRACE / 8) };
        Ring::of(words)
    }
}

/// The store header of a PE, for its agent: the first page of the store.
#[derive(Debug)]
pub struct Headed(Mapping);

impl Headed {
    /// Maps it. The agent writes nothing there but what it [wants](aside::Aside::want).
    ///
    /// # Errors
    /// What the kernel says.
    pub fn of(part: &Part, layout: &Layout) -> rustix::io::Result<Headed> {
        part.map(layout.store, PAGE, None, true).map(Headed)
    }

    /// The header.
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

    /// What the kernel allows at an address: `rw-s`, `r--s`.
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
            let last =
                [layout.slots[0], layout.log, layout.replica - 1, layout.readonly, layout.copies];
            for at in rest.into_iter().chain(last) {
                assert_eq!(allowed(at), "r--s", "{at}");
            }
            for at in [layout.replica, layout.readonly - 1] {
                assert_eq!(allowed(at), if replica { "rw-s" } else { "r--s" }, "{at}");
            }
            assert_eq!(allowed(layout.heap), "rw-s");
        }
    }
}
