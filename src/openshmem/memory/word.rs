//! Words of symmetric memory that PEs poll and change concurrently.
//!
//! Invariant: a [`Word`] is a `SegmentRange` of 2, 4 or 8 bytes on its natural boundary, and every
//! access to it is atomic.
//!
//! Between a death and the restart (`Membership::faulted`) changes are dropped and return zero.

use raidshmem_core::update::{Change, Update};
use raidshmem_runtime::pgas::stream::Target;
use raidshmem_runtime::pgas::{self, Fault, World};
use raidshmem_segment::update;
use raidshmem_segment::waits::Waiting;

use super::address::{Out, Sym, SymIn};
use super::place::SegmentRange;
use crate::openshmem::bits::Bits;
use crate::openshmem::check::misuse;

/// Rejects an address that is not aligned for atomic access.
#[inline]
fn check_boundary(call: &str, name: &str, addr: usize, bytes: usize) {
    if addr & (bytes - 1) != 0 {
        misuse(call, format_args!("{name} {addr:#x} is not on a boundary of {bytes} bytes"));
    }
}

/// A symmetric word of 2, 4 or 8 bytes on its natural boundary. The value is the proof.
#[derive(Clone, Copy)]
pub struct Word {
    place: SegmentRange,
    bytes: usize,
}

impl Word {
    /// Checks a symmetric argument (`name`) of `call` that is accessed atomically.
    #[inline]
    pub fn new<T: Bits>(call: &'static str, name: &str, on: Sym<T>, pe: impl Into<Target>) -> Word {
        let bytes = size_of::<T>();
        check_boundary(call, name, on.addr(), bytes);
        Word { place: SegmentRange::new(call, name, on, bytes, pe), bytes }
    }

    /// Checks the argument `source`, which is only read.
    #[inline]
    pub fn source<T: Bits>(call: &'static str, source: SymIn<T>, pe: impl Into<Target>) -> Word {
        let bytes = size_of::<T>();
        check_boundary(call, "source", source.addr(), bytes);
        Word { place: SegmentRange::source(call, source, bytes, pe), bytes }
    }

    /// Returns an 8-byte word of the library, hidden from the program.
    pub fn of_library(call: &'static str, offset: usize, pe: i32) -> Word {
        Word { place: SegmentRange::of_library(call, offset, pe), bytes: size_of::<u64>() }
    }

    /// Returns its place.
    #[inline]
    pub fn place(&self) -> SegmentRange {
        self.place
    }

    /// Returns this word at its PE's current location.
    #[inline]
    pub(super) fn now(&self) -> Word {
        Word { place: self.place.now(), ..*self }
    }

    /// Returns its size in bytes: 2, 4 or 8.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Checks a word of this PE.
    #[inline]
    pub fn own<T: Bits>(call: &'static str, name: &str, on: Sym<T>) -> Word {
        Word::new(call, name, on, pgas::world().me().0 as i32)
    }

    /// Returns the narrower word `offset_bytes` further on, for words made of fields.
    pub fn field(self, offset_bytes: usize, bytes: usize) -> Word {
        debug_assert!(offset_bytes.is_multiple_of(bytes) && offset_bytes + bytes <= self.bytes);
        let offset = self.place.offset + offset_bytes;
        Word { place: SegmentRange { offset, ..self.place }, bytes }
    }

    /// Returns the world that it belongs to.
    #[inline]
    pub fn world(&self) -> &'static World {
        self.place.world
    }

    /// Reads with acquire. Pairs with the releases below: earlier writes of the writer are visible.
    #[inline]
    pub fn load(self) -> u64 {
        self.apply(Update::Load, 0)
    }

    /// Overwrites the word and wakes the PE. Pairs with `load` and with the updates.
    #[inline]
    pub fn store(self, value: u64) {
        self.change(Update::Store, value);
    }

    /// Overwrites a word of this PE, also in the faulted state.
    pub fn put_own(self, value: u64) {
        self.apply(Update::Store, value);
    }

    /// Updates the word atomically and wakes the PE, without waiting for completion.
    #[inline(always)] // `how` is a constant of the caller
    pub fn change(self, how: Update, value: u64) {
        let SegmentRange { world, pe, .. } = self.place;
        if world.loss_response().drops_at(pe) {
            return;
        }
        if self.place.is_remote() {
            return self.place.post_remote(self.bytes, how, value);
        }
        self.apply(how, value);
        world.segments.ring(pe);
    }

    /// Like [`Word::update`], but may write the previous value to `before` as late as the stream's
    /// next quiet.
    #[inline]
    pub fn update_later(self, how: Update, value: u64, before: Out<u8>) {
        let SegmentRange { world, pe, .. } = self.place;
        match self.place.is_remote() && !world.members.faulted() && !world.fewer.is_lost(pe) {
            true => self.place.ask_later(self.bytes, (how, value), before),
            false => before.write_word(self.bytes, self.update(how, value)),
        }
    }

    /// Updates the word atomically and wakes the PE; returns its previous value, zero in the
    /// faulted state.
    #[inline(always)] // `how` is a constant of the caller
    pub fn update(self, how: Update, value: u64) -> u64 {
        let SegmentRange { world, pe, .. } = self.place;
        if world.loss_response().drops_at(pe) {
            return 0;
        }
        let before = self.apply(how, value);
        world.segments.ring(pe);
        // The previous value may be a leftover of a lost node.
        world.loss_response().cut_short_at(pe);
        before
    }

    /// Reads the word; zero in the faulted state.
    #[inline]
    pub fn fetch(self) -> u64 {
        let SegmentRange { world, pe, .. } = self.place;
        let value = if world.loss_response().cut_short_at(pe) { 0 } else { self.load() };
        world.loss_response().cut_short_at(pe); // as above
        value
    }

    /// Adds one without waiting for completion, after all earlier puts to the PE.
    pub fn signal(self) {
        self.after_puts().change(Update::Add, 1);
    }

    /// Waits for `count` signals to this word, which is local, and consumes them.
    pub fn wait_for(self, count: u64, waiting: impl FnOnce() -> Waiting) -> Result<(), Fault> {
        let enough = || self.load().cast_signed() >= count.cast_signed();
        self.world().wait_until(waiting, enough)?;
        self.update(Update::Add, count.wrapping_neg());
        Ok(())
    }

    /// Orders earlier puts to this PE before the word's next change, for a thread that sees that
    /// change.
    #[inline]
    pub fn after_puts(self) -> Word {
        if self.place.is_remote() {
            self.place.fence_remote(); // changes of a mapped word are releases
        }
        self
    }

    /// Updates the word atomically and nothing more; returns its previous value.
    #[inline(always)]
    pub(super) fn apply(self, how: Update, value: u64) -> u64 {
        if self.place.is_remote() {
            return self
                .place
                .world
                .transfers()
                .remote_update(self.place.ask(self.bytes, how, value));
        }
        // SAFETY: a `Word` lies in a mapped segment on its natural boundary; segments stay mapped
        // until the process ends, and shared words are accessed as atomics only.
        unsafe { update::apply(self.place.at(), self.bytes, Change { how, operand: value }) }
    }
}
