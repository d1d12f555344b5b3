//! Places: locations of symmetric arguments on PEs, and access to those that are not mapped.
//!
//! Invariant: a place lies inside the segment of its PE, which exists; or it is a constant of the
//! program, which every PE has at the same address with the same bytes. A constant is read locally,
//! whichever PE is named, and never written.

use raidshmem_core::quantity::Pe;
use raidshmem_core::update::{Change, Update, WordAt};
use raidshmem_fabric::AmoRequest;
use raidshmem_runtime::pgas::stream::{Id, Target};
use raidshmem_runtime::pgas::{self, World};

use super::address::{Out, Sym, SymIn};
use crate::openshmem::check::{self, misuse};

/// A range inside the segment of a PE that exists. The value is the proof.
#[derive(Clone, Copy)]
pub struct SegmentRange {
    pub(super) world: &'static World,
    pub(super) pe: Pe,
    /// The local address of the segment; null if it is not mapped.
    pub(super) base: *mut u8,
    pub(super) offset: usize,
    /// The stream that completes operations on the range.
    pub(super) stream: Id,
    /// True if operations may complete after their call returns.
    pub(super) later: bool,
    /// True if the range is a constant: `base` is its local address.
    pub(super) constant: bool,
}

impl SegmentRange {
    /// Checks a symmetric argument (`name`) of `call`.
    #[inline]
    pub fn new<T>(
        call: &'static str,
        name: &str,
        on: Sym<T>,
        bytes: usize,
        pe: impl Into<Target>,
    ) -> SegmentRange {
        let world = pgas::world_for(call);
        match world.segments.offset_of(on.addr(), bytes) {
            Some(offset) => SegmentRange::inside(call, world, offset, pe.into()),
            None => no_target(call, name, on.addr(), bytes, pe.into()),
        }
    }

    /// Checks the symmetric argument `source` of `call`, which is only read and may be a constant.
    #[inline]
    pub fn source<T>(
        call: &'static str,
        source: SymIn<T>,
        bytes: usize,
        pe: impl Into<Target>,
    ) -> SegmentRange {
        let world = pgas::world_for(call);
        match world.segments.offset_of(source.addr(), bytes) {
            Some(offset) => SegmentRange::inside(call, world, offset, pe.into()),
            None => SegmentRange::constant(call, world, (source.addr(), bytes), pe.into()),
        }
    }

    #[inline]
    fn inside(
        call: &'static str,
        world: &'static World,
        offset: usize,
        Target { pe, stream, later }: Target,
    ) -> SegmentRange {
        let pe = check::pe(call, world, pe);
        SegmentRange { world, pe, base: world.reach(pe), offset, stream, later, constant: false }
    }

    #[cold]
    fn constant(
        call: &'static str,
        world: &'static World,
        (addr, bytes): (usize, usize),
        Target { pe, stream, later }: Target,
    ) -> SegmentRange {
        let pe = check::pe(call, world, pe);
        if !world.segments.is_constant(addr, bytes) {
            not_symmetric(call, "source", addr, bytes);
        }
        let base = std::ptr::with_exposed_provenance_mut(addr);
        SegmentRange { world, pe, base, offset: 0, stream, later, constant: true }
    }

    /// Returns a place in the library's own part of the segments, which the program cannot name.
    /// The offset is one of `segment::layout`.
    pub(super) fn of_library(call: &'static str, offset: usize, pe: i32) -> SegmentRange {
        let world = pgas::world_for(call);
        SegmentRange::inside(call, world, offset, Target::from(pe))
    }

    /// Returns the address in this process, for `shmem_ptr`, or null. The program may keep it.
    pub fn pointer(&self) -> *mut u8 {
        if !self.world.loss_response().may_hold_pointer_to(self.pe) {
            return std::ptr::null_mut();
        }
        self.world.reached.keep(self.pe);
        if self.is_remote() { self.base } else { self.at() }
    }

    /// Returns the offset in the segment.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns true if the range is not mapped and only an engine reaches it.
    #[inline]
    pub(super) fn is_remote(&self) -> bool {
        self.base.is_null()
    }

    /// Copies the caller's bytes to `offset` of a remote PE.
    ///
    /// # Safety
    /// `[from, from + bytes)` is readable and does not change until this returns or, if the
    /// operation may complete later, until the stream's next quiet.
    pub(super) unsafe fn put_remote(&self, offset: usize, from: *const u8, bytes: usize) {
        if self.later {
            // SAFETY: this function has the same contract.
            return unsafe {
                self.world.transfers().later_put(self.stream, self.pe, offset, from, bytes)
            };
        }
        // SAFETY: the caller's promise.
        let from = unsafe { std::slice::from_raw_parts(from, bytes) };
        self.world.transfers().remote_put(self.stream, self.pe, offset, from);
    }

    /// Returns an update request for the word of `bytes` bytes at this place.
    pub(super) fn ask(&self, bytes: usize, how: Update, operand: u64) -> AmoRequest {
        let word = WordAt { offset: self.offset, bytes };
        AmoRequest { pe: self.pe, word, change: Change { how, operand } }
    }

    /// Begins an update on a remote PE without waiting for it.
    pub(super) fn post_remote(&self, bytes: usize, how: Update, operand: u64) {
        self.world.transfers().remote_post(self.stream, self.ask(bytes, how, operand));
    }

    /// Begins an update on a remote PE; its previous value is written to `before`, which the caller
    /// leaves untouched until the stream's next quiet.
    pub(super) fn ask_later(&self, bytes: usize, (how, operand): (Update, u64), before: Out<u8>) {
        let ask = self.ask(bytes, how, operand);
        // SAFETY: the caller guarantees space for the word until then; a null pointer is not
        // written.
        unsafe { self.world.transfers().later_update(self.stream, ask, before.0) };
    }

    /// Orders the stream's earlier puts to this remote PE before later operations.
    pub(super) fn fence_remote(&self) {
        self.world.transfers().fence_at(self.stream, self.pe);
    }

    /// Returns this range at its PE's current location: the loss of a node moves it.
    #[inline]
    pub(super) fn now(&self) -> SegmentRange {
        let base = if self.constant { self.base } else { self.world.reach(self.pe) };
        SegmentRange { base, ..*self }
    }

    /// Returns the address of a local place.
    #[inline]
    pub(super) fn at(&self) -> *mut u8 {
        self.base.wrapping_add(self.offset)
    }
}

/// Rejects a destination, with the reason why it cannot be written.
#[cold]
#[inline(never)]
fn no_target(call: &'static str, name: &str, addr: usize, bytes: usize, on: Target) -> ! {
    let world = pgas::world();
    check::pe(call, world, on.pe);
    if world.segments.is_constant(addr, bytes) {
        misuse(
            call,
            format_args!(
                "{name} {addr:#x} ({bytes} bytes) is constant (expected memory that the program \
                 may write)"
            ),
        );
    }
    not_symmetric(call, name, addr, bytes)
}

#[cold]
#[inline(never)]
fn not_symmetric(call: &str, name: &str, addr: usize, bytes: usize) -> ! {
    misuse(
        call,
        format_args!(
            "{name} {addr:#x} ({bytes} bytes) is not symmetric (expected shmem_malloc memory \
             and global or static variables of the program)"
        ),
    )
}
