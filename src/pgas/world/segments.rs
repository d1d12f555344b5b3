//! The segments of all PEs, as far as they are mapped here.
//!
//! Invariants: the own segment is mapped as long as the process lives. That of another PE is
//! replaced when the PE has new memory, and taken away when it moves out of reach; what was mapped
//! stays mapped, since another thread may be using it.
//!
//! Left out: what is allocated there and what a checkpoint covers ([`super::memory`]).

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering, compiler_fence};

use raidshmem_core::layout::Layout;
use raidshmem_core::store::coverage::Coverage;

use crate::segment::Segment;
use crate::segment::statics::Statics;
use crate::sys::lock;
use crate::sys::memory;
use crate::sys::written::huge;

/// Addresses of segments that were replaced: kept, so that they are no leak.
static REPLACED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Number and file of a PE's memory.
pub(in crate::pgas) type File = (u32, OwnedFd);

/// A PE's segment as mapped here, null if it is not; replaced when its memory is a new one.
#[derive(Debug)]
struct Peer {
    segment: AtomicPtr<Segment>,
    memory: AtomicU32,
}

/// Where the bytes of PEs are.
#[derive(Debug)]
pub struct Segments {
    me: usize,
    layout: Layout,
    own: &'static Segment,
    /// The own memory file.
    file: OwnedFd,
    statics: Option<Statics>,
    peers: Box<[Peer]>,
    /// Where each begins.
    bases: Box<[AtomicPtr<u8>]>,
    /// The job asks for huge pages.
    large: bool,
    /// Stores of peers are written, too.
    writable: bool,
}

impl Segments {
    /// Those of `memories`, PE by PE, of which `own` is the one of PE `me`.
    ///
    /// # Errors
    /// What the system says when a segment cannot be mapped.
    pub(in crate::pgas) fn map(
        me: usize,
        own: &'static Segment,
        memories: &[Option<File>],
        (large, writable): (bool, bool),
    ) -> std::io::Result<Segments> {
        let (mut peers, mut bases) = (Vec::new(), Vec::new());
        for (pe, file) in memories.iter().enumerate() {
            let segment = match file {
                Some(_) if pe == me => Some(own),
                Some((_, fd)) => {
                    let peer = Segment::peer(fd.as_fd(), *own.layout(), writable)?;
                    Some(peer.twice(fd.as_fd(), own.is_twice()).leak())
                }
                None => None,
            };
            bases.push(AtomicPtr::new(segment.map_or(std::ptr::null_mut(), Segment::base)));
            let segment = segment.map_or(std::ptr::null(), std::ptr::from_ref).cast_mut();
            let memory = file.as_ref().map_or(0, |(memory, _)| *memory);
            peers.push(Peer { segment: AtomicPtr::new(segment), memory: AtomicU32::new(memory) });
        }
        let (_, file) = memories[me].as_ref().expect("the own memory");
        Ok(Segments {
            me,
            layout: *own.layout(),
            own,
            file: file.try_clone()?,
            statics: None,
            peers: peers.into(),
            bases: bases.into(),
            large,
            writable,
        })
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
    pub fn me(&self) -> usize {
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
    pub fn own(&self) -> &Segment {
        self.own
    }

    /// The own memory file.
    pub(in crate::pgas) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// PE `pe`'s segment, if it is mapped here.
    #[inline]
    pub fn near(&self, pe: usize) -> Option<&Segment> {
        // SAFETY: null, or set in `map` and `replace` to leaked segments, which are never freed.
        unsafe { self.peers[pe].segment.load(Ordering::Acquire).as_ref() }
    }

    /// Where PE `pe`'s segment begins here; null if it is not mapped. Not to be written through.
    #[inline]
    pub(in crate::pgas) fn base(&self, pe: usize) -> *mut u8 {
        self.bases[pe].load(Ordering::Relaxed)
    }

    /// True if PE `pe` is not mapped here.
    #[inline]
    pub fn is_far(&self, pe: usize) -> bool {
        self.base(pe).is_null()
    }

    /// Offset in the segment of the symmetric bytes `[addr, addr + len)`; None if they are not
    /// symmetric: neither in the heap nor in the executable's statics.
    #[inline]
    pub fn offset_of(&self, addr: usize, len: usize) -> Option<usize> {
        let heap = addr.wrapping_sub(self.own.base() as usize + self.layout.heap);
        if heap < self.layout.heap_len && len <= self.layout.heap_len - heap {
            return Some(self.layout.heap + heap);
        }
        let statics = self.statics.as_ref()?;
        let at = addr.wrapping_sub(statics.start);
        (at < statics.len && len <= statics.len - at).then(|| self.layout.statics + at)
    }

    /// Where this process sees byte `offset` of its own segment.
    #[inline]
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.own.base().wrapping_add(offset)
    }

    /// Writes own memory that is of nobody else: just allocated, or shown by the barrier to come.
    pub(in crate::pgas) fn write_own(&self, at: usize, bytes: &[u8]) {
        // SAFETY: as said, and only by the thread that holds the heap's lock, or between meetings
        // of a recovery, which one thread of a PE goes through.
        unsafe { self.own.bytes_mut(at, bytes.len()) }.copy_from_slice(bytes);
    }

    /// Reads bytes of the own memory through its file, as it is now; false if that cannot be.
    pub(crate) fn read_own(&self, at: usize, bytes: &mut [u8]) -> bool {
        memory::read_at(&self.file, at, bytes).is_ok()
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
        pieces.map(|(at, len)| memory::absent(&self.file, at, len)).sum()
    }

    /// Wakes PE `pe` if it is mapped here and sleeps until a put brings what it waits for. Called
    /// after every put to a mapped PE.
    #[inline]
    pub fn ring(&self, pe: usize) {
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
    pub fn wake(&self, pe: usize) {
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
    pub fn ask_huge_near(&self, pe: usize, offset: usize, len: usize) {
        let near = self.near(pe).filter(|_| self.large);
        near.into_iter().for_each(|near| near.ask_huge(offset, len));
    }

    /// Asks for huge pages for the heap of PE `pe`, if the job has them: whoever touches a page
    /// first says what it is.
    fn ask_huge_heap(&self, pe: usize) {
        self.ask_huge_near(pe, self.layout.heap, self.layout.heap_len);
    }

    /// The same for all that are mapped here.
    pub(in crate::pgas) fn ask_huge_heaps(&self) {
        (0..self.n_pes()).for_each(|pe| self.ask_huge_heap(pe));
    }

    /// Bytes of huge pages of the own memory in `spans` (offsets, whole pages).
    pub(crate) fn huge_bytes(&self, spans: &[Range<usize>]) -> usize {
        let at = |offset: usize| self.at(offset) as usize;
        spans.iter().filter_map(|span| huge(at(span.start)..at(span.end))).sum()
    }

    // ---- what changes -------------------------------------------------------------------------

    /// True if memory `memory` of PE `pe` is not mapped here, nor a newer one.
    pub(in crate::pgas) fn lacks(&self, pe: usize, memory: u32) -> bool {
        let peer = &self.peers[pe];
        let unmapped = peer.segment.load(Ordering::Relaxed).is_null();
        pe != self.me && (unmapped || peer.memory.load(Ordering::Relaxed) < memory)
    }

    /// Maps memory `memory` of PE `pe`, if it is lacking.
    ///
    /// # Errors
    /// What the system says when it cannot be mapped.
    pub(in crate::pgas) fn replace(&self, pe: usize, (memory, file): &File) -> std::io::Result<()> {
        if !self.lacks(pe, *memory) {
            return Ok(());
        }
        let segment = Segment::peer(file.as_fd(), self.layout, self.writable)?;
        let segment = segment.twice(file.as_fd(), self.large).leak();
        self.keep(
            self.peers[pe].segment.swap(std::ptr::from_ref(segment).cast_mut(), Ordering::AcqRel),
        );
        self.ask_huge_heap(pe);
        self.bases[pe].store(segment.base(), Ordering::Release);
        self.peers[pe].memory.store(*memory, Ordering::Release);
        Ok(())
    }

    /// PE `pe` is on another node now: what is mapped of it is the memory of a dead process.
    pub(in crate::pgas) fn put_out_of_reach(&self, pe: usize) {
        self.bases[pe].store(std::ptr::null_mut(), Ordering::Release);
        self.keep(self.peers[pe].segment.swap(std::ptr::null_mut(), Ordering::AcqRel));
    }

    fn keep(&self, replaced: *mut Segment) {
        if !replaced.is_null() {
            lock(&REPLACED).push(replaced.expose_provenance());
        }
    }
}
