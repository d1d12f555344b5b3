//! Visible waits: the call in which each thread of a PE waits, once it waits longer than it spins.
//!
//! A thread takes an entry before it sleeps, and frees it when its wait is over; a short wait costs
//! nothing. The agent of the node reads the entries, even when the PE is stopped. A change of
//! `looks` proves that the thread has since checked its condition.
//!
//! Invariants: the serial of an entry only grows, by [`ROUND`] per wait: it is unique to a wait. An
//! entry is read only between two equal serials that mark it as shown.

#![forbid(unsafe_code)]

use raidshmem_core::message::WaitTarget;
use raidshmem_core::quantity::CheckpointNumber;

use crate::atomic::{AtomicU64, Ordering, fence};

/// Threads of a PE with visible waits; the waits of further threads are not shown.
pub const ENTRIES: usize = 4;
/// Maximum length of a routine's name in bytes; a longer one is cut.
const CALL: usize = 56;

/// The distance between consecutive serials of one meaning.
const ROUND: u64 = 4;
/// Serials modulo [`ROUND`]: the entry is free, is being filled in, or shows a wait.
const FREE: u64 = 0;
const FILLING: u64 = 1;
const SHOWN: u64 = 2;

/// The description of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// The routine.
    pub call: &'static str,
    /// The PEs that are waited for.
    pub whom: WaitTarget,
}

impl Waiting {
    /// Describes a wait for an event that any PE may cause; the call does not name one.
    pub const fn anyone(call: &'static str) -> Waiting {
        Waiting { call, whom: WaitTarget::Anyone }
    }

    /// Describes a wait for each of `n_pes` PEs to make the same call.
    pub const fn all(call: &'static str, n_pes: usize) -> Waiting {
        Waiting { call, whom: WaitTarget::Members { start: 0, stride: 1, size: n_pes as u32 } }
    }
}

/// An entry.
#[repr(C, align(64))]
#[derive(Default)]
pub struct WaitEntry {
    serial: AtomicU64,
    looks: AtomicU64,
    /// The kind of [`WaitTarget`], and a size.
    kind: AtomicU64,
    /// Start and stride.
    start: AtomicU64,
    agreed: AtomicU64,
    call: [AtomicU64; CALL / 8],
}

/// A wait as seen by another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The serial, unique within the entry.
    pub serial: u64,
    /// The number of checks since the wait was shown.
    pub looks: u64,
    /// The routine.
    pub call: String,
    /// The PEs that are waited for.
    pub whom: WaitTarget,
    /// The last agreed checkpoint of this PE.
    pub agreed: CheckpointNumber,
}

fn pack(whom: WaitTarget) -> (u64, u64) {
    match whom {
        WaitTarget::Anyone => (0, 0),
        WaitTarget::Finalize => (1, 0),
        WaitTarget::Members { start, stride, size } => {
            let (start, stride) = (start.cast_unsigned(), stride.cast_unsigned());
            (2 | u64::from(size) << 32, u64::from(start) | u64::from(stride) << 32)
        }
    }
}

fn unpack(kind: u64, start: u64) -> Option<WaitTarget> {
    match kind as u32 {
        0 => Some(WaitTarget::Anyone),
        1 => Some(WaitTarget::Finalize),
        2 => {
            let (size, stride) = ((kind >> 32) as u32, (start >> 32) as u32);
            let (start, stride) = ((start as u32).cast_signed(), stride.cast_signed());
            Some(WaitTarget::Members { start, stride, size })
        }
        _ => None,
    }
}

impl WaitEntry {
    /// Takes the entry and shows a wait in it; returns false if another thread has it.
    fn show(&self, waiting: Waiting, agreed: CheckpointNumber) -> bool {
        let before = self.serial.load(Ordering::Relaxed);
        let (taken, relaxed) = (before + FILLING, Ordering::Relaxed);
        if before % ROUND != FREE
            || self.serial.compare_exchange(before, taken, Ordering::SeqCst, relaxed).is_err()
        {
            return false;
        }
        fence(Ordering::SeqCst); // a reader that sees a new word sees this serial after it
        let (kind, start) = pack(waiting.whom);
        for (word, value) in
            [(&self.looks, 0), (&self.kind, kind), (&self.start, start), (&self.agreed, agreed.0)]
        {
            word.store(value, Ordering::Relaxed);
        }
        let bytes = waiting.call.as_bytes();
        for (at, word) in self.call.iter().enumerate().take(bytes.len() / 8 + 1) {
            let byte = |i: usize| bytes.get(at * 8 + i).copied().unwrap_or(0);
            word.store(u64::from_le_bytes(std::array::from_fn(byte)), Ordering::Relaxed);
        }
        self.serial.store(before + SHOWN, Ordering::Release); // pairs with the first load of `read`
        true
    }

    /// Returns the wait that the entry shows.
    pub fn read(&self) -> Option<Shown> {
        let serial = self.serial.load(Ordering::Acquire);
        if serial % ROUND != SHOWN {
            return None;
        }
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let whom = unpack(load(&self.kind), load(&self.start));
        let mut bytes = Vec::with_capacity(CALL);
        for word in &self.call {
            let some = load(word).to_le_bytes();
            bytes.extend(some);
            if some.contains(&0) {
                break;
            }
        }
        let (looks, agreed) = (load(&self.looks), load(&self.agreed));
        fence(Ordering::SeqCst);
        if load(&self.serial) != serial {
            return None;
        }
        // Corrupt memory is not text.
        let printable = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { ' ' };
        let call = bytes.iter().take_while(|byte| **byte != 0).map(printable).collect();
        Some(Shown { serial, looks, call, whom: whom?, agreed: CheckpointNumber(agreed) })
    }
}

/// The entries of a PE.
#[repr(C)]
#[derive(Default)]
pub struct Waits([WaitEntry; ENTRIES]);

impl Waits {
    /// Returns all entries, taken or not.
    pub fn entries(&self) -> &[WaitEntry; ENTRIES] {
        &self.0
    }

    /// Shows a wait until the value is dropped, if an entry is free.
    pub fn show(&self, waiting: Waiting, agreed: CheckpointNumber) -> Showing<'_> {
        Showing(self.0.iter().find(|entry| entry.show(waiting, agreed)))
    }

    /// Frees the entries of a dead owner.
    pub fn clear(&self) {
        for entry in &self.0 {
            let serial = entry.serial.load(Ordering::SeqCst);
            entry.serial.store(serial.next_multiple_of(ROUND), Ordering::SeqCst);
        }
    }
}

/// A wait that is shown.
pub struct Showing<'a>(Option<&'a WaitEntry>);

impl Showing<'_> {
    /// Counts a check of the condition by the thread.
    pub fn looked(&self) {
        if let Some(entry) = self.0 {
            // Release: the check came before.
            entry.looks.fetch_add(1, Ordering::Release);
        }
    }
}

impl Drop for Showing<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.0 {
            entry.serial.fetch_add(ROUND - SHOWN, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(waits: &Waits) -> Vec<Shown> {
        waits.0.iter().filter_map(WaitEntry::read).collect()
    }

    #[test]
    fn a_wait_is_shown_as_it_is_until_it_is_over() {
        let waits = Waits::default();
        for whom in [
            WaitTarget::Anyone,
            WaitTarget::Finalize,
            WaitTarget::Members { start: 9, stride: -3, size: 4 },
            WaitTarget::Members { start: i32::MAX, stride: i32::MIN, size: u32::MAX },
        ] {
            assert_eq!(seen(&waits), []);
            let call = "shmem_uint64_wait_until_some_vector";
            let showing = waits.show(Waiting { call, whom }, CheckpointNumber(7));
            showing.looked();
            let shown = seen(&waits);
            assert_eq!(shown.len(), 1);
            let Shown { looks, call: shown_call, whom: shown_whom, agreed, .. } = &shown[0];
            assert_eq!((*looks, shown_call.as_str(), *shown_whom, agreed.0), (1, call, whom, 7));
        }
    }

    #[test]
    fn no_two_waits_share_a_serial() {
        let waits = Waits::default();
        let serial = || {
            let _showing = waits.show(Waiting::anyone("a"), CheckpointNumber(0));
            seen(&waits)[0].serial
        };
        assert_ne!(serial(), serial());
    }

    #[test]
    fn each_thread_has_an_entry_and_one_too_many_is_not_shown() {
        let waits = Waits::default();
        let names = ["a", "b", "c", "d", "e"];
        let all: Vec<Showing> =
            names.map(|call| waits.show(Waiting::anyone(call), CheckpointNumber(0))).into();
        let calls = |waits: &Waits| seen(waits).into_iter().map(|s| s.call).collect::<Vec<_>>();
        assert_eq!(calls(&waits), ["a", "b", "c", "d"]);
        all[4].looked(); // has no effect
        drop(all);
        assert_eq!(calls(&waits), [""; 0]);
    }

    #[test]
    fn waits_of_a_dead_owner_vanish_and_their_serials_are_not_reused() {
        let waits = Waits::default();
        std::mem::forget(waits.show(Waiting::anyone("a"), CheckpointNumber(0)));
        let left = seen(&waits)[0].serial;
        waits.0[1].serial.store(FILLING, Ordering::SeqCst);
        waits.clear();
        assert_eq!(seen(&waits), []);
        let _a = waits.show(Waiting::anyone("b"), CheckpointNumber(0));
        let _b = waits.show(Waiting::anyone("c"), CheckpointNumber(0));
        assert_eq!(seen(&waits).len(), 2);
        assert_ne!(seen(&waits)[0].serial, left);
    }

    #[test]
    fn a_long_name_is_cut_and_one_that_went_bad_is_harmless() {
        let waits = Waits::default();
        let long = Box::leak("x".repeat(CALL + 9).into_boxed_str());
        let _showing = waits.show(Waiting::anyone(long), CheckpointNumber(0));
        assert_eq!(seen(&waits)[0].call, "x".repeat(CALL));
        waits.0[0].call[0].store(u64::from_le_bytes(*b"\x1b[2Jab\nc"), Ordering::SeqCst);
        assert!(seen(&waits)[0].call.starts_with(" [2Jab cx"));
        waits.0[0].kind.store(77, Ordering::SeqCst);
        assert_eq!(seen(&waits), []);
    }
}
