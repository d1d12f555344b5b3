//! The unsafe core of the C layer: here, and for words in `word.rs`, an address becomes an access.
//!
//! A pointer crosses the boundary as a *claim*: [`In`] and [`Out`] for a buffer of the caller,
//! [`Sym`] and [`SymIn`] for an object that every PE has. A claim is made by a C call and by
//! nothing else (no constructor, private fields), so to hold one is to be inside a call whose
//! caller owes what the specification asks of the argument. What the library can check itself it
//! checks: a symmetric claim becomes a [`Place`], that is a PE that exists and a range inside its
//! segment, before anything is read or written there.
//!
//! Invariants: a `Place` lies inside the segment of `pe`. Peers may write the same bytes at the
//! same time: words are therefore accessed as atomics; longer ranges are copied as the caller's own
//! code would copy them, and the specification makes it the caller's duty not to race on them.
//!
//! Between a death and the restart (`World::faulted`) writes are dropped and reads give zeroes.

mod elements;
mod place;
mod slots;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::bits::Zero;
use super::guard::{self, Strides, misuse};
pub use super::word::Word;
use crate::fabric::Read;
use crate::pgas::stream::Target;
use crate::pgas::{self, World};
pub use crate::segment::update::Update;
pub use elements::{get_elements, put_elements};
pub use place::Place;
pub use slots::{Slot, leave, pick};

/// Blocks of a strided get that are on their way at a time.
const READS: usize = 64;

macro_rules! claims {
    ($($(#[$doc:meta])* $name:ident($pointer:ty);)*) => {
        $($(#[$doc])*
        #[repr(transparent)]
        pub struct $name<T>($pointer);

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<T> {}

        impl<T> $name<T> {
            /// The same claim, in bytes.
            #[inline]
            pub fn erase(self) -> $name<u8> {
                $name(self.0.cast())
            }

            /// The address, for checks and messages.
            #[inline]
            pub fn addr(self) -> usize {
                self.0.addr()
            }
        })*
    };
}

claims! {
    /// A buffer of the caller that may be read.
    In(*const T);
    /// A buffer of the caller that may be written.
    Out(*mut T);
    /// A symmetric object: the caller's own address of it.
    Sym(*mut T);
    /// A symmetric object that is only read.
    SymIn(*const T);
}

impl<T> Out<T> {
    /// A place of the safe API, which keeps it borrowed until the operation is over.
    #[inline]
    pub fn at(place: &mut T) -> Out<T> {
        Out(place)
    }

    /// Writes one value; a null pointer is left alone.
    #[inline]
    pub fn write(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, and the caller of the C function owes a writable object here.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Writes `values` one after another; a null pointer is left alone.
    pub fn write_slice(self, values: &[T])
    where
        T: Copy,
    {
        if !self.0.is_null() {
            // SAFETY: not null, and the caller owes room for what the call says it writes.
            unsafe { values.as_ptr().copy_to(self.0, values.len()) };
        }
    }

    /// The pointer itself, for calls that keep it.
    pub fn pointer(self) -> *mut u8 {
        self.0.cast()
    }

    /// The same buffer, read.
    pub fn as_in(self) -> In<T> {
        In(self.0)
    }

    /// Writes element `index`, which the call promised to be in range.
    pub fn write_at(self, index: usize, value: T) {
        // SAFETY: the caller owes room for all elements of the call, of which `index` is one.
        unsafe { self.0.add(index).write_unaligned(value) };
    }
}

impl<T: Copy> In<T> {
    /// Reads element `index`, which the call promised to be in range.
    #[inline]
    pub fn read_at(self, index: usize) -> T {
        // SAFETY: the caller owes all elements of the call, of which `index` is one.
        unsafe { self.0.add(index).read_unaligned() }
    }
}

impl In<c_char> {
    /// The C text that begins here, with what is not printable escaped.
    pub fn text(self) -> String {
        // SAFETY: the caller owes a text that ends with a zero.
        unsafe { CStr::from_ptr(self.0) }.to_bytes().escape_ascii().to_string()
    }
}

impl<T> Sym<T> {
    /// Element `index` of an array; checked, as every claim, when it becomes a `Place`.
    #[inline]
    pub fn element(self, index: usize) -> Self {
        Sym(self.0.wrapping_add(index))
    }

    /// A symmetric object of the library; harmless whatever the address, as it is checked like all.
    pub fn at(addr: usize) -> Sym<T> {
        Sym(std::ptr::with_exposed_provenance_mut(addr))
    }

    /// The caller's own copy of it, as a buffer.
    #[inline]
    pub fn as_out(self) -> Out<T> {
        Out(self.0)
    }

    /// The pointer itself, for the allocator, which looks it up before it uses it.
    pub fn pointer(self) -> *mut u8 {
        self.0.cast()
    }
}

impl<T> SymIn<T> {
    /// A symmetric object of the library; harmless whatever the address, as it is checked like all.
    pub fn at(addr: usize) -> SymIn<T> {
        SymIn(std::ptr::with_exposed_provenance(addr))
    }

    /// The caller's own copy of it, as a buffer.
    #[inline]
    pub fn as_in(self) -> In<T> {
        In(self.0)
    }

    /// Element `index` of an array; checked, as every claim, when it becomes a `Place`.
    #[inline]
    pub fn element(self, index: usize) -> Self {
        SymIn(self.0.wrapping_add(index))
    }

    /// The same object for calls that share their code with writing ones.
    #[inline]
    pub fn as_sym(self) -> Sym<T> {
        Sym(self.0.cast_mut())
    }
}

/// A caller's buffer is null although bytes are to be moved.
#[inline]
fn check_buffer(call: &'static str, name: &str, addr: usize, world: &World) {
    if addr == 0 && world.checks() {
        misuse(call, format_args!("{name} is NULL"));
    }
}

/// The C library's routine, which moves bytes whatever others do to them meanwhile.
const MOVE: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void = libc::memmove;

/// Copies `bytes` to `to`; both ends may overlap.
///
/// Words on their boundary are stored whole, because a peer may be polling them.
///
/// # Safety
///
/// - `from` is readable and `to` writable for `bytes` bytes;
/// - nothing in this process holds a reference to either range.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the same contract.
    if !unsafe { copy_word(from, to, bytes) } {
        // SAFETY: by the contract; this allows overlap. The compiler must not see what is called:
        // it would believe that nobody else writes there, and with the safe API peers may.
        unsafe { std::hint::black_box(MOVE)(to.cast(), from.cast(), bytes) };
    }
}

/// Copies a word of 1, 2, 4 or 8 bytes whole; false if it is none, or not on its boundary.
///
/// # Safety
///
/// That of [`copy`].
#[inline(always)]
unsafe fn copy_word(from: *const u8, to: *mut u8, bytes: usize) -> bool {
    macro_rules! word {
        ($atomic:ty) => {{
            // SAFETY: readable by the contract, aligned by the match; a word is only ever
            // accessed as an atomic while it is shared.
            let value = unsafe { <$atomic>::from_ptr(from.cast_mut().cast()) };
            let value = value.load(Ordering::Relaxed);
            // SAFETY: writable by the contract, aligned by the match.
            let target = unsafe { <$atomic>::from_ptr(to.cast()) };
            // Relaxed: puts are ordered by fence and quiet (`order.rs`), not by themselves.
            target.store(value, Ordering::Relaxed);
            true
        }};
    }
    let aligned = |to_bytes: usize| (from.addr() | to.addr()) & (to_bytes - 1) == 0;
    match bytes {
        1 => word!(AtomicU8),
        2 if aligned(2) => word!(AtomicU16),
        4 if aligned(4) => word!(AtomicU32),
        8 if aligned(8) => word!(AtomicU64),
        _ => false,
    }
}

/// Copies a caller's buffer to a PE.
#[inline]
pub fn put(call: &'static str, dest: Sym<u8>, source: In<u8>, bytes: usize, pe: impl Into<Target>) {
    let pe = pe.into();
    if bytes == 0 {
        guard::pe(call, pgas::world_for(call), pe.pe);
        return;
    }
    let place = Place::new(call, "dest", dest, bytes, pe);
    check_buffer(call, "source", source.addr(), place.world);
    put_to(place, source, bytes);
}

/// Copies a buffer of `bytes`, which the place holds too.
#[inline]
fn put_to(place: Place, source: In<u8>, bytes: usize) {
    if place.world.cut_short_at(place.pe) {
        return;
    }
    if place.is_far() {
        // SAFETY: the caller owes `bytes` readable bytes at `source` that do not change meanwhile.
        return unsafe { place.put_far(place.offset, source.0, bytes) };
    }
    // SAFETY: `place` holds `bytes` bytes of a mapped segment; the caller owes as many at `source`.
    unsafe { copy(source.0, place.at(), bytes) };
    place.world.ring(place.pe);
}

/// Copies from a PE to a caller's buffer.
#[inline]
pub fn get(
    call: &'static str,
    dest: Out<u8>,
    source: SymIn<u8>,
    bytes: usize,
    pe: impl Into<Target>,
) {
    let pe = pe.into();
    if bytes == 0 {
        guard::pe(call, pgas::world_for(call), pe.pe);
        return;
    }
    let place = Place::new(call, "source", source.as_sym(), bytes, pe);
    check_buffer(call, "dest", dest.addr(), place.world);
    get_from(place, dest, bytes);
}

/// Copies to a buffer of `bytes`, which the place holds too.
#[inline]
fn get_from(place: Place, dest: Out<u8>, bytes: usize) {
    if place.world.cut_short_at(place.pe) {
        // SAFETY: the caller owes `bytes` writable bytes at `dest`.
        unsafe { dest.0.write_bytes(0, bytes) };
        return;
    }
    if place.is_far() && place.later {
        let (id, pe, offset) = (place.stream, place.pe, place.offset);
        // SAFETY: the caller owes `bytes` writable bytes that nobody uses before the next quiet.
        return unsafe { place.world.later_get(id, pe, offset, dest.0, bytes) };
    }
    if place.is_far() {
        // SAFETY: the caller owes `bytes` writable bytes at `dest` that nobody uses meanwhile.
        let into = unsafe { std::slice::from_raw_parts_mut(dest.0, bytes) };
        return place.world.far_get(place.pe, place.offset, into);
    }
    // SAFETY: `place` holds `bytes` bytes of a mapped segment; the caller owes as many at `dest`.
    unsafe { copy(place.at(), dest.0, bytes) };
    place.world.cut_short_at(place.pe); // it may be what is left of a lost node
}

/// Stores one value on a PE.
#[inline]
pub fn put_value<T: Copy>(call: &'static str, dest: Sym<T>, value: T, pe: impl Into<Target>) {
    put_elements(call, dest, In(&raw const value), 1, pe);
}

/// Reads one value from a PE.
#[inline]
pub fn get_value<T: Copy + Zero>(call: &'static str, source: SymIn<T>, pe: impl Into<Target>) -> T {
    let mut value = T::zero();
    get_elements(call, Out(&raw mut value), source, 1, pe);
    value
}

/// Reads elements of a PE. For later: the caller keeps `into` from everybody until then.
pub fn fetch<T: Copy + Zero>(
    call: &'static str,
    into: &mut [T],
    source: SymIn<T>,
    pe: impl Into<Target>,
) {
    let bytes = size_of_val(into);
    get(call, Out(into.as_mut_ptr()).erase(), source.erase(), bytes, pe);
}

/// Reads the elements of several PEs, `into.len() / pes.len()` of each; those that are not mapped
/// at a time.
pub fn fetch_from_each<T: Copy + Zero>(
    call: &'static str,
    into: &mut [T],
    source: SymIn<T>,
    pes: &[c_int],
) {
    let bytes = into.len() / pes.len() * size_of::<T>();
    let place = |&pe| Place::new(call, "source", source.as_sym().erase(), bytes, pe);
    fetch_from_places(into, pes.iter().map(place));
}

/// Reads elements of as many places, which hold an equal part of them each.
pub fn fetch_from_places<T: Copy + Zero>(
    into: &mut [T],
    places: impl ExactSizeIterator<Item = Place>,
) {
    let each = into.len() / places.len().max(1);
    let bytes = each * size_of::<T>();
    let mut reads = Vec::new();
    for (part, place) in into.chunks_exact_mut(each.max(1)).zip(places) {
        let at = part.as_mut_ptr().cast();
        if !place.is_far() || place.world.faulted() {
            get_from(place, Out(at), bytes);
            continue;
        }
        // SAFETY: the bytes of `part`, which is borrowed as long; an element may have any bytes
        // that an equal element of a peer has.
        let into = unsafe { std::slice::from_raw_parts_mut(at, bytes) };
        reads.push(Read { pe: place.pe, offset: place.offset, into });
    }
    if !reads.is_empty() {
        pgas::world().pull(&mut reads);
    }
}

/// Stores elements on a PE. For later: the caller keeps `from` as it is until then.
pub fn send<T: Copy + Zero>(call: &'static str, dest: Sym<T>, from: &[T], pe: impl Into<Target>) {
    put(call, dest.erase(), In(from.as_ptr()).erase(), size_of_val(from), pe);
}

/// Copies blocks of a caller's buffer to a PE.
pub fn put_blocks(
    call: &'static str,
    dest: Sym<u8>,
    source: In<u8>,
    by: Strides,
    pe: impl Into<Target>,
) {
    let place = Place::new(call, "dest", dest, by.extent(call, by.dest_bytes), pe);
    by.extent(call, by.source_bytes);
    if place.world.cut_short_at(place.pe) {
        return;
    }
    check_buffer(call, "source", source.addr(), place.world);
    for block in 0..by.blocks {
        // SAFETY: the caller owes every block of the shape, and its extent does not overflow.
        let from = unsafe { source.0.add(block * by.source_bytes) };
        if place.is_far() {
            let offset = place.offset + block * by.dest_bytes;
            // SAFETY: one block of the caller's.
            unsafe { place.put_far(offset, from, by.block_bytes) };
            continue;
        }
        // SAFETY: inside the extent that `place` was checked for.
        let to = unsafe { place.at().add(block * by.dest_bytes) };
        // SAFETY: as above; one block lies within each extent.
        unsafe { copy(from, to, by.block_bytes) };
    }
    place.world.ring(place.pe);
}

/// Copies blocks from a PE to a caller's buffer.
pub fn get_blocks(
    call: &'static str,
    dest: Out<u8>,
    source: SymIn<u8>,
    by: Strides,
    pe: impl Into<Target>,
) {
    let extent = by.extent(call, by.source_bytes);
    let place = Place::new(call, "source", source.as_sym(), extent, pe);
    by.extent(call, by.dest_bytes);
    check_buffer(call, "dest", dest.addr(), place.world);
    let faulted = place.world.cut_short_at(place.pe);
    if place.is_far() && !faulted {
        return get_blocks_far(place, dest, by);
    }
    for block in 0..by.blocks {
        let from = place.at().wrapping_add(block * by.source_bytes);
        // SAFETY: the caller owes every block of the shape, and its extent does not overflow.
        let to = unsafe { dest.0.add(block * by.dest_bytes) };
        if faulted {
            // SAFETY: one block at `to` is the caller's to be written.
            unsafe { to.write_bytes(0, by.block_bytes) };
        } else {
            // SAFETY: as above; one block lies within each extent.
            unsafe { copy(from, to, by.block_bytes) };
        }
    }
    place.world.cut_short_at(place.pe); // it may be what is left of a lost node
}

/// Copies blocks from a PE that is not mapped, many at a time.
fn get_blocks_far(place: Place, dest: Out<u8>, by: Strides) {
    for first in (0..by.blocks).step_by(READS) {
        let read = |block: usize| {
            // SAFETY: the caller owes every block of the shape, and its extent does not overflow.
            let to = unsafe { dest.0.add(block * by.dest_bytes) };
            // SAFETY: one writable block; blocks do not overlap, since strides are no shorter.
            let into = unsafe { std::slice::from_raw_parts_mut(to, by.block_bytes) };
            Read { pe: place.pe, offset: place.offset + block * by.source_bytes, into }
        };
        let mut reads: Vec<Read> = (first..by.blocks.min(first + READS)).map(read).collect();
        place.world.pull(&mut reads);
    }
}

/// Fills symmetric memory of this PE with zeroes.
pub fn zero(call: &'static str, own: *mut u8, bytes: usize) {
    let place = Place::new(call, "block", Sym(own), bytes, pgas::world().me() as c_int);
    // SAFETY: the place is `bytes` bytes of this PE's own segment, just allocated by this call.
    unsafe { place.at().write_bytes(0, bytes) };
}
