//! The segments of all PEs, as far as they are mapped here.
//!
//! The memory of a PE lies in the memory file of its node, at a place of its own. The memory of
//! another PE is mapped when it is first used, if this process has the file of its node; else it is
//! far.
//!
//! Invariants: the own segment is mapped as long as the process lives. That of another PE is taken
//! away when the PE is on another node; what was mapped stays mapped, since another thread may be
//! using it. A PE that gets new memory on the same node gets it at the same place.
//!
//! Left out: what is allocated there and what a checkpoint covers ([`super::memory`]), and which
//! ranges may only be read ([`super::guarded`]).

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, compiler_fence, fence};
use std::sync::{Arc, Mutex};

use raidshmem_core::layout::Layout;
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::quantity::Pe;
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::view::{State, View};

use raidshmem_segment::log::Word;
use raidshmem_segment::statics::Statics;
use raidshmem_segment::{OpenParts, Segment};
use raidshmem_sys::memory::Part;
use raidshmem_sys::written::huge;
use raidshmem_sys::{futex, lock};

use super::guarded::{GuardedRanges, MappedSegments};

/// Addresses of segments that were replaced: kept, so that they are no leak.
static REPLACED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Ends the process, and says why.
pub(in crate::pgas) type End = fn(&str) -> !;

/// A PE's segment as mapped here, null if it is not.
#[derive(Debug)]
struct Peer {
    segment: AtomicPtr<Segment>,
    /// The node whose file has it.
    node: AtomicU32,
    /// This process has not that file.
    far: AtomicBool,
}

/// Where the bytes of PEs are.
#[derive(Debug)]
pub struct Segments {
    me: Pe,
    layout: Layout,
    own: &'static Segment,
    /// The own memory.
    part: Part,
    statics: Option<Statics>,
    /// The memory files of nodes whose PEs can be mapped here. Locked while one is.
    files: Mutex<BTreeMap<u32, Arc<OwnedFd>>>,
    peers: Box<[Peer]>,
    /// Where each begins.
    bases: Box<[AtomicPtr<u8>]>,
    /// The job asks for huge pages.
    large: bool,
    /// What is written of stores of peers.
    open: OpenParts,
    /// Ends the process, and says why.
    end: End,
    /// Which ranges of segments may only be read.
    guarded: GuardedRanges,
}

impl Segments {
    /// The segments of the PEs on the nodes `node_of`; `own`, in `part`, is that of PE `me`, on the
    /// first node of which there is a file.
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
            far: AtomicBool::new(!files.contains_key(&node)),
        };
        let peers: Box<[Peer]> = node_of.iter().map(peer).collect();
        peers[me.at()].segment.store(std::ptr::from_ref(own).cast_mut(), Ordering::Relaxed);
        bases[me.at()].store(own.base(), Ordering::Relaxed);
        let (layout, files) = (*own.layout(), Mutex::new(files));
        let guarded = GuardedRanges::default();
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

    /// The executable's statics lie in the own segment from now on.
    pub(in crate::pgas) fn set_statics(&mut self, statics: Option<Statics>) {
        self.statics = statics;
    }

    /// The executable's statics, if they are symmetric.
    pub(in crate::pgas) fn statics(&self) -> Option<&Statics> {
        self.statics.as_ref()
    }

    /// This PE's number.
    #[inline]
    pub fn me(&self) -> Pe {
        self.me
    }

    /// Number of PEs.
    #[inline]
    pub fn n_pes(&self) -> usize {
        self.peers.len()
    }

    /// Where the parts of a segment are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The own segment.
    #[inline]
    pub fn own(&self) -> &Segment {
        self.own
    }

    /// The own memory.
    pub(crate) fn part(&self) -> &Part {
        &self.part
    }

    /// PE `pe`'s segment; None if it is far.
    #[inline]
    pub fn near(&self, pe: Pe) -> Option<&Segment> {
        // SAFETY: null, or set in `new` and `map` to leaked segments, which are never freed.
        match unsafe { self.peers[pe.at()].segment.load(Ordering::Acquire).as_ref() } {
            None if !self.is_far(pe) => self.map(pe),
            near => near,
        }
    }

    /// Where PE `pe`'s segment begins here; null if it is far. Not to be written through.
    #[inline]
    pub(in crate::pgas) fn base(&self, pe: Pe) -> *mut u8 {
        let base = self.bases[pe.at()].load(Ordering::Relaxed);
        match base.is_null() && !self.is_far(pe) {
            true => self.map(pe).map_or(base, Segment::base),
            false => base,
        }
    }

    /// The node that PE `pe` runs on, or ran on when it was lost.
    #[inline]
    pub fn node_of(&self, pe: Pe) -> u32 {
        self.peers[pe.at()].node.load(Ordering::Relaxed)
    }

    /// True if PE `pe` cannot be mapped here.
    #[inline]
    pub fn is_far(&self, pe: Pe) -> bool {
        self.peers[pe.at()].far.load(Ordering::Relaxed)
    }

    /// Offset in the segment of the symmetric bytes `[addr, addr + len)`; None if they are not
    /// symmetric: neither in the heap nor in the executable's statics.
    #[inline]
    pub fn offset_of(&self, addr: usize, len: usize) -> Option<usize> {
        let heap = addr.wrapping_sub(self.own.base() as usize + self.layout.heap);
        if heap < self.layout.heap_len && len <= self.layout.heap_len - heap {
            return Some(self.layout.heap + heap);
        }
        self.statics.as_ref()?.offset_of(addr, len).map(|at| self.layout.statics + at)
    }

    /// True if `[addr, addr + len)` are bytes of the executable that nobody writes, and that every
    /// PE has at the same address.
    pub fn is_constant(&self, addr: usize, len: usize) -> bool {
        self.statics.as_ref().is_some_and(|statics| statics.is_constant(addr, len))
    }

    /// Where this process sees byte `offset` of its own segment.
    #[inline]
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.own.base().wrapping_add(offset)
    }

    /// Where the program sees byte `offset` of its own segment.
    pub(in crate::pgas) fn program_address(&self, offset: usize) -> usize {
        let into = |statics: &&Statics| {
            (self.layout.statics..self.layout.statics + statics.len).contains(&offset)
        };
        match self.statics.as_ref().filter(into) {
            Some(statics) => statics.start + offset - self.layout.statics,
            None => self.own.base().addr() + offset,
        }
    }

    /// Writes own memory that is of nobody else: just allocated, or shown by the barrier to come.
    pub(in crate::pgas) fn write_own(&self, at: usize, bytes: &[u8]) {
        // SAFETY: as said, and only by the thread that holds the heap's lock, or between meetings
        // of a recovery, which one thread of a PE goes through.
        unsafe { self.own.bytes_mut(at, bytes.len()) }.copy_from_slice(bytes);
    }

    /// Fills own memory that no checkpoint holds, in a recovery.
    pub(in crate::pgas) fn fill_own(&self, range: Range<usize>, byte: u8) {
        // SAFETY: as in `write_own`; other PEs read only what the checkpoint covers.
        unsafe { self.own.bytes_mut(range.start, range.len()) }.fill(byte);
    }

    /// Reads bytes of the own memory through its file, as it is now; false if that cannot be.
    pub(crate) fn read_own(&self, at: usize, bytes: &mut [u8]) -> bool {
        self.part.read_at(at, bytes).is_ok()
    }

    /// Writes own memory through its file: the program may only read it.
    pub(crate) fn write_through(&self, at: usize, bytes: &[u8]) {
        self.protected(self.part.write_at(at, bytes));
    }

    /// The statics without what belongs to other libraries, as offsets in the segment.
    pub(in crate::pgas) fn static_ranges(&self) -> Vec<Range<usize>> {
        let Some(statics) = &self.statics else { return Vec::new() };
        let offset = |addr: usize| addr - statics.start + self.layout.statics;
        let (mut ranges, mut from) = (Vec::new(), statics.start);
        for hole in &statics.excluded {
            ranges.push(offset(from)..offset(hole.start));
            from = hole.end;
        }
        ranges.push(offset(from)..offset(statics.start + statics.len));
        ranges
    }

    /// Bytes of the own live data that have no memory yet, and will have when they are read.
    pub(crate) fn absent(&self, coverage: &Coverage) -> u64 {
        let pieces = coverage.pieces(0..coverage.len());
        pieces.map(|piece| self.part.absent(piece.at, piece.len)).sum()
    }

    /// Others show what they are about to do in their logs, and then look at what this PE, or its
    /// node, shows. From here on this PE sees what they have shown, but for those that see in their
    /// look what was shown before this. False if that cannot be: others leave the order of these
    /// steps to a barrier that the kernel refuses to this process.
    pub(crate) fn order_others(&self) -> bool {
        fence(Ordering::SeqCst); // pairs with that of `Local::order`
        futex::global_barrier() || !self.says(|_| true, Word::Light, 1)
    }

    /// True if no PE that lives in `view` may be in the midst of an operation on this one that it
    /// began before the order of [`Segments::order_others`].
    pub(crate) fn is_quiet(&self, view: &View) -> bool {
        let is_alive = |pe: Pe| view.pes[pe.at()].state == State::Alive;
        !self.says(is_alive, Word::Flight, u64::from(self.me.0) + 1)
    }

    /// True if a word of the log of another PE that `is_it` holds `value`.
    fn says(&self, is_it: impl Fn(Pe) -> bool, word: Word, value: u64) -> bool {
        let others = Pe::all(self.n_pes()).filter(|&pe| pe != self.me && is_it(pe));
        let mut logs = others.filter_map(|pe| Some(self.near(pe)?.log(self.n_pes())));
        logs.any(|log| log.get(word) == value)
    }

    /// Wakes PE `pe` if it is mapped here and sleeps until a put brings what it waits for. Called
    /// after every put to a mapped PE.
    #[inline]
    pub fn ring(&self, pe: Pe) {
        let Some(peer) = self.near(pe) else { return };
        let bell = &peer.words().bell;
        // The processor's order is the sleeper's business (`pgas::wait`); this is for the compiler.
        compiler_fence(Ordering::SeqCst);
        if bell.watchers.load(Ordering::Relaxed) != 0 {
            bell.pull();
        }
    }

    /// Wakes PE `pe` if it is mapped here and sleeps. Called after a store to a word of the
    /// library.
    #[inline]
    pub fn wake(&self, pe: Pe) {
        if let Some(peer) = self.near(pe) {
            peer.words().bell.wake();
        }
    }

    // ---- huge pages ---------------------------------------------------------------------------

    /// Asks for huge pages for a part of the own segment that is about to be used, if the job has
    /// them.
    pub fn ask_huge(&self, offset: usize, len: usize) {
        self.ask_huge_near(self.me, offset, len);
    }

    /// The same for a part of the segment of PE `pe`, if that is mapped here.
    pub fn ask_huge_near(&self, pe: Pe, offset: usize, len: usize) {
        let near = self.near(pe).filter(|_| self.large);
        near.into_iter().for_each(|near| near.ask_huge(offset, len));
    }

    /// Bytes of huge pages of the own memory in `spans` (offsets, whole pages).
    pub(crate) fn huge_bytes(&self, spans: &[Range<usize>]) -> usize {
        let at = |offset: usize| self.at(offset) as usize;
        spans.iter().filter_map(|span| huge(at(span.start)..at(span.end))).sum()
    }

    // ---- what may only be read ----------------------------------------------------------------

    /// Those that are mapped here, the own one first.
    fn mapped_segments(&self) -> MappedSegments<'_> {
        let others = Pe::all(self.n_pes()).filter(|&pe| pe != self.me);
        let others = others.filter_map(|pe| Some((pe, self.mapped(pe)?)));
        std::iter::once((self.me, self.own)).chain(others).collect()
    }

    fn protected<T>(&self, result: rustix::io::Result<T>) -> T {
        result.unwrap_or_else(|error| {
            (self.end)(&format!("read-only memory cannot be protected: {error}"))
        })
    }

    /// From now on the program may read these ranges of any segment, and write all others.
    pub(crate) fn guard(&self, ranges: Vec<Range<usize>>) {
        let _files = lock(&self.files); // nobody maps a segment meanwhile
        self.protected(self.guarded.guard(&self.mapped_segments(), ranges));
    }

    /// The library may write its own segment until the next [`Segments::guard`].
    pub(crate) fn open_own(&self) {
        self.protected(self.guarded.open(self.own));
    }

    /// What a process that begins writes to read-only ranges that it takes over is for it alone,
    /// until [`Segments::unshadow`].
    pub(in crate::pgas) fn shadow_inherited(&self, job: u64) {
        if breaks(Mutant::ReadonlyOverwritten) {
            return;
        }
        let held = self.own.header().readonly.held(job).into_iter();
        held.filter(|held| held.state.is_live()).for_each(|held| self.shadow(held.range.range()));
    }

    /// What this process writes to an own range is for it alone, until [`Segments::unshadow`].
    pub(crate) fn shadow(&self, range: Range<usize>) {
        self.protected(self.guarded.shadow(self.own, &self.part, range));
    }

    /// True if a byte of `[at, at + len)` of a segment may only be read.
    #[inline]
    pub(in crate::pgas) fn is_guarded(&self, at: usize, len: usize) -> bool {
        self.guarded.meets(at, len)
    }

    /// Takes from this process, at its end, all but words of the library and the own heap. Memcheck
    /// goes through all that a process may write, and the kernel gives a page for each that it
    /// reads.
    pub(in crate::pgas) fn close(&self) {
        let Ok(_files) = self.files.try_lock() else { return }; // by a thread that maps one
        for (pe, segment) in self.mapped_segments() {
            // SAFETY: the process is at its end, and in no call but in threads that it does not
            // wait for. The scrub reads and writes through the memory's file.
            let _ = unsafe { segment.close(pe == self.me) }; // refused, it takes longer
        }
    }

    /// It is for all again.
    pub(crate) fn unshadow(&self) {
        let shadowed = self.protected(self.guarded.unshadow(self.own, &self.part));
        shadowed.into_iter().for_each(|range| self.ask_huge(range.start, range.len()));
    }

    // ---- what changes -------------------------------------------------------------------------

    /// Maps the segment of PE `pe`; None if it is far. What the system refuses ends the process.
    #[cold]
    fn map(&self, pe: Pe) -> Option<&Segment> {
        let peer = &self.peers[pe.at()];
        let files = lock(&self.files);
        if let Some(segment) = self.mapped(pe) {
            return Some(segment); // by another thread, meanwhile
        }
        let file = files.get(&peer.node.load(Ordering::Relaxed))?;
        let part = Part::new(Arc::clone(file), pe.at() * self.layout.total, self.layout.total);
        let segment = match Segment::peer(&part, self.layout, self.open) {
            Ok(segment) => segment.twice(&part, self.large).leak(),
            Err(error) => (self.end)(&format!("memory of PE {pe} cannot be mapped: {error}")),
        };
        if self.large {
            segment.ask_huge(self.layout.heap, self.layout.heap_len); // who touches it first says
        }
        self.protected(self.guarded.extend((self.me, self.own), (pe, segment)));
        self.bases[pe.at()].store(segment.base(), Ordering::Release);
        peer.segment.store(std::ptr::from_ref(segment).cast_mut(), Ordering::Release);
        Some(segment)
    }

    /// PE `pe`'s segment, if it is mapped here already.
    pub(in crate::pgas) fn mapped(&self, pe: Pe) -> Option<&Segment> {
        // SAFETY: as in `near`.
        unsafe { self.peers[pe.at()].segment.load(Ordering::Acquire).as_ref() }
    }

    /// True if this process has the memory file of `node`.
    pub(in crate::pgas) fn has(&self, node: u32) -> bool {
        lock(&self.files).contains_key(&node)
    }

    /// The memory file of `node`, whose PEs are near from now on.
    pub(in crate::pgas) fn add(&self, node: u32, file: OwnedFd) {
        lock(&self.files).insert(node, Arc::new(file));
        let there = |peer: &&Peer| peer.node.load(Ordering::Relaxed) == node;
        let here = self.peers.iter().filter(there);
        here.for_each(|peer| peer.far.store(false, Ordering::Relaxed));
    }

    /// PE `pe` is on `node` now. If it was on another one, what is mapped of it is the memory of a
    /// dead process.
    pub(in crate::pgas) fn move_to(&self, pe: Pe, node: u32) {
        let (files, peer) = (lock(&self.files), &self.peers[pe.at()]); // nobody maps it meanwhile
        if pe == self.me || peer.node.swap(node, Ordering::Relaxed) == node {
            return;
        }
        peer.far.store(!files.contains_key(&node), Ordering::Relaxed);
        self.replace(pe);
    }

    /// PE `pe` is lost for good: what is mapped of it is of no use any more.
    pub(in crate::pgas) fn take_away(&self, pe: Pe) {
        let _files = lock(&self.files); // nobody maps it meanwhile
        if pe != self.me {
            self.peers[pe.at()].far.store(true, Ordering::Relaxed);
            self.replace(pe);
        }
    }

    fn replace(&self, pe: Pe) {
        self.bases[pe.at()].store(std::ptr::null_mut(), Ordering::Release);
        let replaced = self.peers[pe.at()].segment.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !replaced.is_null() {
            lock(&REPLACED).push(replaced.expose_provenance());
        }
    }
}
