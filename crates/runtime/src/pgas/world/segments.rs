//! The segments of the PEs that this process maps.
//!
//! The memory of a PE lies in the memory file of its node, at an offset of its own. The memory of
//! another PE is mapped at its first use, if this process has the file of its node; otherwise that
//! PE is remote.
//!
//! Invariants: the own segment is mapped as long as the process lives. That of another PE is
//! withdrawn when the PE moves to another node; the old mapping stays, since another thread may be
//! using it. A PE that gets new memory on the same node gets it at the same offset.
//!
//! Left out: allocations and the coverage of checkpoints ([`super::memory`]), and read-only ranges
//! ([`super::guarded`]).

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex};

use raidshmem_core::layout::Layout;
use raidshmem_core::quantity::Pe;
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::view::{State, View};

use raidshmem_segment::log::Word;
use raidshmem_segment::statics::Statics;
use raidshmem_segment::{OpenParts, Segment};
use raidshmem_sys::memory::Part;
use raidshmem_sys::written::huge;
use raidshmem_sys::{futex, lock};

use super::guarded::{End, GuardedRanges, MappedSegments};

/// Addresses of replaced segments, kept so that leak checkers do not report them.
static REPLACED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// A PE's segment as mapped here; null if it is not mapped.
#[derive(Debug)]
struct Peer {
    segment: AtomicPtr<Segment>,
    /// The node whose file holds it.
    node: AtomicU32,
    /// True if this process lacks that file.
    remote: AtomicBool,
}

impl Peer {
    /// Withdraws its mapping, with its base address.
    fn withdraw(&self, base: &AtomicPtr<u8>) {
        base.store(std::ptr::null_mut(), Ordering::Release);
        let replaced = self.segment.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !replaced.is_null() {
            lock(&REPLACED).push(replaced.expose_provenance());
        }
    }
}

/// The mapped memory of PEs.
#[derive(Debug)]
pub struct Segments {
    me: Pe,
    layout: Layout,
    own: &'static Segment,
    /// The own memory.
    part: Part,
    statics: Option<Statics>,
    /// The memory files of nodes whose PEs can be mapped here. Locked during a mapping.
    files: Mutex<BTreeMap<u32, Arc<OwnedFd>>>,
    peers: Box<[Peer]>,
    /// The base address of each segment.
    bases: Box<[AtomicPtr<u8>]>,
    /// True if the job asks for huge pages.
    large: bool,
    /// The parts of peers' stores that this process writes.
    open: OpenParts,
    /// Ends the process with a reason.
    end: End,
    /// Read-only ranges of segments.
    guarded: GuardedRanges,
}

impl Segments {
    /// Returns the segments of the PEs on the nodes `node_of`; `own`, in `part`, is that of PE
    /// `me`, on the first node with a file.
    pub(in crate::pgas) fn new(
        me: Pe,
        (own, part): (&'static Segment, Part),
        files: BTreeMap<u32, Arc<OwnedFd>>,
        node_of: &[u32],
        (large, open): (bool, OpenParts),
        end: End,
    ) -> Segments {
        let null = |_: &u32| AtomicPtr::new(std::ptr::null_mut());
        let bases: Box<[AtomicPtr<u8>]> = node_of.iter().map(null).collect();
        let peer = |&node: &u32| Peer {
            segment: AtomicPtr::new(std::ptr::null_mut()),
            node: AtomicU32::new(node),
            remote: AtomicBool::new(!files.contains_key(&node)),
        };
        let peers: Box<[Peer]> = node_of.iter().map(peer).collect();
        peers[me.at()].segment.store(std::ptr::from_ref(own).cast_mut(), Ordering::Relaxed);
        bases[me.at()].store(own.base(), Ordering::Relaxed);
        let (layout, files) = (*own.layout(), Mutex::new(files));
        let guarded = GuardedRanges::new(own, part.clone(), end);
        Segments {
            me,
            layout,
            own,
            part,
            statics: None,
            files,
            peers,
            bases,
            large,
            open,
            end,
            guarded,
        }
    }

    /// Notes that the executable's statics lie in the own segment.
    pub(in crate::pgas) fn set_statics(&mut self, statics: Option<Statics>) {
        self.statics = statics;
    }

    /// Returns the executable's statics, if they are symmetric.
    pub(in crate::pgas) fn statics(&self) -> Option<&Statics> {
        self.statics.as_ref()
    }

    /// Returns this PE's number.
    #[inline]
    pub fn me(&self) -> Pe {
        self.me
    }

    /// Returns the number of PEs.
    #[inline]
    pub fn n_pes(&self) -> usize {
        self.peers.len()
    }

    /// Returns the layout of a segment.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the own segment.
    #[inline]
    pub fn own(&self) -> &Segment {
        self.own
    }

    /// Returns the own memory.
    pub(crate) fn part(&self) -> &Part {
        &self.part
    }

    /// Returns PE `pe`'s segment; None if it is remote.
    #[inline]
    pub fn if_mapped(&self, pe: Pe) -> Option<&Segment> {
        // SAFETY: null, or set in `new` and `map` to leaked segments, which are never freed.
        match unsafe { self.peers[pe.at()].segment.load(Ordering::Acquire).as_ref() } {
            None if !self.is_remote(pe) => self.map(pe),
            mapped => mapped,
        }
    }

    /// Returns bytes of PE `pe`'s segment, those of this PE's own one if that is not mapped.
    #[inline]
    pub fn bytes_of(&self, pe: Pe, at: usize, len: usize) -> &[u8] {
        self.if_mapped(pe).unwrap_or_else(|| self.own()).bytes(at, len)
    }

    /// Returns the local base address of PE `pe`'s segment; null if it is remote. Read-only.
    #[inline]
    pub(in crate::pgas) fn base(&self, pe: Pe) -> *mut u8 {
        let base = self.bases[pe.at()].load(Ordering::Relaxed);
        match base.is_null() && !self.is_remote(pe) {
            true => self.map(pe).map_or(base, Segment::base),
            false => base,
        }
    }

    /// Returns the node that PE `pe` runs on, or ran on when it was lost.
    #[inline]
    pub fn node_of(&self, pe: Pe) -> u32 {
        self.peers[pe.at()].node.load(Ordering::Relaxed)
    }

    /// Returns true if PE `pe` cannot be mapped here.
    #[inline]
    pub fn is_remote(&self, pe: Pe) -> bool {
        self.peers[pe.at()].remote.load(Ordering::Relaxed)
    }

    /// Returns the segment offset of the symmetric bytes `[addr, addr + len)`; None if they are
    /// neither in the heap nor in the executable's statics.
    #[inline]
    pub fn offset_of(&self, addr: usize, len: usize) -> Option<usize> {
        let heap = addr.wrapping_sub(self.own.base() as usize + self.layout.heap);
        if heap < self.layout.heap_len && len <= self.layout.heap_len - heap {
            return Some(self.layout.heap + heap);
        }
        self.statics.as_ref()?.offset_of(addr, len).map(|at| self.layout.statics + at)
    }

    /// Returns true if `[addr, addr + len)` are constant bytes of the executable, which every PE
    /// has at the same address.
    pub fn is_constant(&self, addr: usize, len: usize) -> bool {
        self.statics.as_ref().is_some_and(|statics| statics.is_constant(addr, len))
    }

    /// Returns the address of byte `offset` of the own segment in this process's main mapping.
    #[inline]
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.own.base().wrapping_add(offset)
    }

    /// Returns the address at which the program sees byte `offset` of its own segment.
    pub(in crate::pgas) fn program_address(&self, offset: usize) -> usize {
        let into = |statics: &&Statics| {
            (self.layout.statics..self.layout.statics + statics.len).contains(&offset)
        };
        match self.statics.as_ref().filter(into) {
            Some(statics) => statics.start + offset - self.layout.statics,
            None => self.own.base().addr() + offset,
        }
    }

    /// Writes own memory that no other PE uses: just allocated, or published by the next barrier.
    pub(in crate::pgas) fn write_own(&self, at: usize, bytes: &[u8]) {
        // SAFETY: as stated, and only by the thread that holds the heap's lock, or between meetings
        // of a recovery, which one thread of a PE goes through.
        unsafe { self.own.bytes_mut(at, bytes.len()) }.copy_from_slice(bytes);
    }

    /// Fills own memory that no checkpoint holds, in a recovery.
    pub(in crate::pgas) fn fill_own(&self, range: Range<usize>, byte: u8) {
        // SAFETY: as in `write_own`; other PEs read only what the checkpoint covers.
        unsafe { self.own.bytes_mut(range.start, range.len()) }.fill(byte);
    }

    /// Reads bytes of the own memory through its file, as they are now; false if that fails.
    pub(crate) fn read_own(&self, at: usize, bytes: &mut [u8]) -> bool {
        self.part.read_at(at, bytes).is_ok()
    }

    /// Returns the number of bytes of the own live data that have no memory until they are read.
    pub(crate) fn absent(&self, coverage: &Coverage) -> u64 {
        let pieces = coverage.pieces(0..coverage.len());
        pieces.map(|piece| self.part.absent(piece.at, piece.len)).sum()
    }

    /// Orders this PE's reads after the published steps of other PEs. A PE first publishes its next
    /// step in its log, and then looks at the state that this PE, or its node, has published. After
    /// this call each such step is visible here, unless the PE's look sees all that was published
    /// before this call. False if that cannot be ensured: some PE relies on a barrier that the
    /// kernel refuses to this process.
    pub(crate) fn order_others(&self) -> bool {
        fence(Ordering::SeqCst); // pairs with the fence of `Local::order`
        futex::global_barrier() || !self.says(|_| true, Word::Light, 1)
    }

    /// Returns true if no PE that lives in `view` may be inside an operation on this PE that it
    /// began before [`Segments::order_others`].
    pub(crate) fn is_quiet(&self, view: &View) -> bool {
        let is_alive = |pe: Pe| view.pes[pe.at()].state == State::Alive;
        !self.says(is_alive, Word::Flight, u64::from(self.me.0) + 1)
    }

    /// Returns true if a word of the log of another PE, selected by `is_it`, holds `value`.
    fn says(&self, is_it: impl Fn(Pe) -> bool, word: Word, value: u64) -> bool {
        let others = Pe::all(self.n_pes()).filter(|&pe| pe != self.me && is_it(pe));
        let mut logs = others.filter_map(|pe| Some(self.if_mapped(pe)?.log(self.n_pes())));
        logs.any(|log| log.get(word) == value)
    }

    /// Wakes PE `pe` if it is mapped here and sleeps until a put changes its words. Called after
    /// every put to a mapped PE.
    #[inline]
    pub fn ring(&self, pe: Pe) {
        if let Some(peer) = self.if_mapped(pe) {
            peer.words().bell.wake_watchers();
        }
    }

    /// Wakes PE `pe` if it is mapped here and sleeps. Called after a store to a word of the
    /// library.
    #[inline]
    pub fn wake(&self, pe: Pe) {
        if let Some(peer) = self.if_mapped(pe) {
            peer.words().bell.wake();
        }
    }

    // ---- huge pages ---------------------------------------------------------------------------

    /// Requests huge pages for a part of the own segment that is about to be used, if the job has
    /// them.
    pub fn ask_huge(&self, offset: usize, len: usize) {
        self.ask_huge_here(self.me, offset, len);
    }

    /// Like [`Self::ask_huge`], for a part of the segment of PE `pe`, if that is mapped here.
    pub fn ask_huge_here(&self, pe: Pe, offset: usize, len: usize) {
        let mapped = self.if_mapped(pe).filter(|_| self.large);
        mapped.into_iter().for_each(|mapped| mapped.ask_huge(offset, len));
    }

    /// Returns the number of bytes in huge pages of the own memory in `spans` (offsets, whole
    /// pages).
    pub(crate) fn huge_bytes(&self, spans: &[Range<usize>]) -> usize {
        let at = |offset: usize| self.at(offset) as usize;
        spans.iter().filter_map(|span| huge(at(span.start)..at(span.end))).sum()
    }

    // ---- read-only ranges ---------------------------------------------------------------------

    /// Returns the read-only ranges.
    #[inline]
    pub(crate) fn guarded(&self) -> &GuardedRanges {
        &self.guarded
    }

    /// Returns the mapped segments, the own one first.
    fn mapped_segments(&self) -> MappedSegments<'_> {
        let others = Pe::all(self.n_pes()).filter(|&pe| pe != self.me);
        let others = others.filter_map(|pe| Some((pe, self.mapped(pe)?)));
        std::iter::once((self.me, self.own)).chain(others).collect()
    }

    /// Makes these ranges of all segments read-only for the program, and all others writable.
    pub(crate) fn guard(&self, ranges: Vec<Range<usize>>) {
        let _files = lock(&self.files); // no thread maps a segment meanwhile
        self.guarded.guard(&self.mapped_segments(), ranges);
    }

    /// Unmaps, at the end of the process, all but words of the library and the own heap. Memcheck
    /// scans all memory that a process may write, and the kernel allocates a page for each that it
    /// reads.
    pub(in crate::pgas) fn close(&self) {
        let Ok(_files) = self.files.try_lock() else { return }; // another thread maps one
        for (pe, segment) in self.mapped_segments() {
            // SAFETY: the process is at its end, and in no call except in threads that it does not
            // wait for. The scrub reads and writes through the memory's file.
            let _ = unsafe { segment.close(pe == self.me) }; // on failure the scan takes longer
        }
    }

    /// Shares all shadowed ranges again.
    pub(crate) fn unshadow(&self) {
        self.guarded
            .unshadow()
            .into_iter()
            .for_each(|range| self.ask_huge(range.start, range.len()));
    }

    // ---- changes of mappings ------------------------------------------------------------------

    /// Maps the segment of PE `pe`; None if it is remote. Ends the process if the kernel refuses.
    #[cold]
    fn map(&self, pe: Pe) -> Option<&Segment> {
        let peer = &self.peers[pe.at()];
        let files = lock(&self.files);
        if let Some(segment) = self.mapped(pe) {
            return Some(segment); // mapped by another thread meanwhile
        }
        let file = files.get(&peer.node.load(Ordering::Relaxed))?;
        let part = Part::new(Arc::clone(file), pe.at() * self.layout.total, self.layout.total);
        let segment = match Segment::peer(&part, self.layout, self.open) {
            Ok(segment) => segment.twice(&part, self.large).leak(),
            Err(error) => (self.end)(&format!("memory of PE {pe} cannot be mapped: {error}")),
        };
        if self.large {
            segment.ask_huge(self.layout.heap, self.layout.heap_len); // the first touch decides
        }
        self.guarded.extend(self.me, (pe, segment));
        self.bases[pe.at()].store(segment.base(), Ordering::Release);
        peer.segment.store(std::ptr::from_ref(segment).cast_mut(), Ordering::Release);
        Some(segment)
    }

    /// Returns PE `pe`'s segment, if it is already mapped here.
    pub(in crate::pgas) fn mapped(&self, pe: Pe) -> Option<&Segment> {
        // SAFETY: as in `mapped`.
        unsafe { self.peers[pe.at()].segment.load(Ordering::Acquire).as_ref() }
    }

    /// Returns true if this process has the memory file of `node`.
    pub(in crate::pgas) fn has(&self, node: u32) -> bool {
        lock(&self.files).contains_key(&node)
    }

    /// Adds the memory file of `node`, whose PEs can be mapped from now on.
    pub(in crate::pgas) fn add(&self, node: u32, file: OwnedFd) {
        lock(&self.files).insert(node, Arc::new(file));
        let there = |peer: &&Peer| peer.node.load(Ordering::Relaxed) == node;
        let here = self.peers.iter().filter(there);
        here.for_each(|peer| peer.remote.store(false, Ordering::Relaxed));
    }

    /// Notes that PE `pe` is on `node`. If it was on another one, the present mapping is of a dead
    /// process's memory, and is replaced.
    pub(in crate::pgas) fn move_to(&self, pe: Pe, node: u32) {
        let (files, peer) = (lock(&self.files), &self.peers[pe.at()]); // no mapping meanwhile
        if pe == self.me || peer.node.swap(node, Ordering::Relaxed) == node {
            return;
        }
        peer.remote.store(!files.contains_key(&node), Ordering::Relaxed);
        peer.withdraw(&self.bases[pe.at()]);
    }

    /// Withdraws the memory of PE `pe`, which is lost for good.
    pub(in crate::pgas) fn take_away(&self, pe: Pe) {
        let _files = lock(&self.files); // no thread maps it meanwhile
        if pe != self.me {
            self.peers[pe.at()].remote.store(true, Ordering::Relaxed);
            self.peers[pe.at()].withdraw(&self.bases[pe.at()]);
        }
    }
}
