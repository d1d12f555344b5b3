//! Words of symmetric memory that PEs poll and change at the same time.
//!
//! Invariant: a [`Word`] is a `SegmentRange` of 2, 4 or 8 bytes on its natural boundary, and every
//! access to it is atomic.
//!
//! Between a death and the restart (`World::faulted`) changes are dropped and give zero.

use raidshmem_core::update::{Change, Update};
use raidshmem_segment::update;
use raidshmem_segment::waits::Waiting;

use super::address::{Out, Sym, SymIn};
use super::place::SegmentRange;
use crate::openshmem::bits::Bits;
use crate::openshmem::check::misuse;
use crate::pgas::stream::Target;
use crate::pgas::{self, Fault, World};

/// Refuses an address that an atomic access cannot have.
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

    /// A word of the library, of 8 bytes, out of the program's sight.
    pub fn of_library(call: &'static str, offset: usize, pe: i32) -> Word {
        Word { place: SegmentRange::of_library(call, offset, pe), bytes: size_of::<u64>() }
    }

    /// Where it is.
    #[inline]
    pub fn place(&self) -> SegmentRange {
        self.place
    }

    /// The same, where its PE is now.
    #[inline]
    pub(super) fn now(&self) -> Word {
        Word { place: self.place.now(), ..*self }
    }

    /// Its bytes: 2, 4 or 8.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The word of this PE.
    #[inline]
    pub fn own<T: Bits>(call: &'static str, name: &str, on: Sym<T>) -> Word {
        Word::new(call, name, on, pgas::world().me().0 as i32)
    }

    /// The word `bytes` further on, narrower: for words that are made of fields.
    pub fn field(self, offset_bytes: usize, bytes: usize) -> Word {
        debug_assert!(offset_bytes.is_multiple_of(bytes) && offset_bytes + bytes <= self.bytes);
        let offset = self.place.offset + offset_bytes;
        Word { place: SegmentRange { offset, ..self.place }, bytes }
    }

    /// The world it lies in.
    #[inline]
    pub fn world(&self) -> &'static World {
        self.place.world
    }

    /// Reads. Pairs with the releases below: what the writer did before is seen.
    #[inline]
    pub fn load(self) -> u64 {
        self.apply(Update::Load, 0)
    }

    /// Overwrites and wakes the PE. Pairs with `load` and with the updates.
    #[inline]
    pub fn store(self, value: u64) {
        self.change(Update::Store, value);
    }

    /// Overwrites a word of this PE, also in the faulted state.
    pub fn put_own(self, value: u64) {
        self.apply(Update::Store, value);
    }

    /// Updates in one step and wakes the PE, without waiting for it.
    #[inline]
    pub fn change(self, how: Update, value: u64) {
        let SegmentRange { world, pe, .. } = self.place;
        if world.drops_at(pe) {
            return;
        }
        if self.place.is_far() {
            return self.place.post_far(self.bytes, how, value);
        }
        self.apply(how, value);
        world.segments.ring(pe);
    }

    /// As [`Word::update`]; what was there may be written to `before` as late as the stream's next
    /// quiet.
    #[inline]
    pub fn update_later<T: Bits>(self, how: Update, value: u64, before: Out<T>) {
        let SegmentRange { world, pe, .. } = self.place;
        match self.place.is_far() && !world.members.faulted() && !world.fewer.is_lost(pe) {
            true => self.place.ask_later(self.bytes, (how, value), before.erase()),
            false => before.write(T::of(self.update(how, value))),
        }
    }

    /// Updates in one step and wakes the PE; what was there before, zero in the faulted state.
    #[inline(always)] // `how` is a constant of the caller
    pub fn update(self, how: Update, value: u64) -> u64 {
        let SegmentRange { world, pe, .. } = self.place;
        if world.drops_at(pe) {
            return 0;
        }
        let before = self.apply(how, value);
        world.segments.ring(pe);
        world.cut_short_at(pe); // what was there may be what is left of a lost node
        before
    }

    /// Reads; zero in the faulted state.
    #[inline]
    pub fn fetch(self) -> u64 {
        let SegmentRange { world, pe, .. } = self.place;
        let value = if world.cut_short_at(pe) { 0 } else { self.load() };
        world.cut_short_at(pe); // as above
        value
    }

    /// Adds one without waiting for it: tells the PE that what was put to it before is there.
    pub fn signal(self) {
        self.after_puts().change(Update::Add, 1);
    }

    /// Waits for a signal to this word, which is the own, and takes `count` of them away.
    pub fn wait_for(self, count: u64, waiting: impl FnOnce() -> Waiting) -> Result<(), Fault> {
        let enough = || self.load().cast_signed() >= count.cast_signed();
        self.world().wait_until(waiting, enough)?;
        self.update(Update::Add, count.wrapping_neg());
        Ok(())
    }

    /// Makes what was put to this PE before visible to a thread that sees the next change of the
    /// word.
    #[inline]
    pub fn after_puts(self) -> Word {
        if self.place.is_far() {
            self.place.fence_far(); // changes of a mapped word are releases
        }
        self
    }

    /// Updates in one step, and does nothing else; what was there.
    #[inline(always)]
    pub(super) fn apply(self, how: Update, value: u64) -> u64 {
        if self.place.is_far() {
            return self.place.world.far_update(self.place.ask(self.bytes, how, value));
        }
        // SAFETY: a `Word` lies in a mapped segment on its natural boundary; segments stay mapped
        // until the process ends, and shared words are accessed as atomics only.
        unsafe { update::apply(self.place.at(), self.bytes, Change { how, operand: value }) }
    }
}
