//! The bytes of operations on this side: slots of memory that always belongs to the engine.
//!
//! A provider may complete an operation to a dead peer late, or never; until then it may use the
//! bytes. So no operation uses bytes of the program: what is put is copied here first, and what is
//! got is copied from here. This memory is registered once, if the provider demands that.
//!
//! Invariants: while an operation is under way in a slot, nothing else uses its bytes. A slot is
//! abandoned once no thread waits for its operation: it becomes free if the operation ends. If many
//! are abandoned, there are more slots.
//!
//! Left out: what an operation is for.

use std::ptr::null_mut;

use ofi_sys::{FI_READ, FI_RECV, FI_SEND, FI_WRITE};
use raidshmem_fabric::TOLD_MAX;

use crate::offers::Status;
use crate::raw::{Context, Event, Local, Peer, Port, Posted, Remote};

/// The length of a short slot in bytes: enough for a message without bytes for events.
pub const SHORT: usize = 512;
/// The length of a slot in bytes that any message fits in.
pub const MESSAGE: usize = TOLD_MAX + 128;
/// The length of a long slot in bytes, and the maximum of a transfer.
pub const LONG: usize = 64 << 10;
/// Slots that are made together: their number and length.
const KINDS: [(usize, usize); 3] = [(1024, SHORT), (512, MESSAGE), (64, LONG)];
/// Maximum operations under way before slots are added.
pub const OPERATIONS: usize = KINDS[0].0 + KINDS[1].0 + KINDS[2].0;
/// The first key of this memory; smaller ones are of segments.
const FIRST_KEY: u64 = 1000;

/// A number of a slot.
pub type Slot = usize;

/// Returns the index in [`KINDS`] of the slots for this many bytes.
fn kind(len: usize) -> usize {
    KINDS.iter().position(|&(_, most)| len <= most).expect("a transfer of at most a long slot")
}

#[derive(Debug)]
struct SlotState {
    at: Local,
    under_way: bool,
    abandoned: bool,
}

/// All slots, and the port that their operations use.
#[derive(Debug)]
pub struct Slots {
    pub port: Port,
    places: Vec<SlotState>,
    /// Free slots of each kind.
    free: [Vec<Slot>; KINDS.len()],
    /// Abandoned slots of each kind.
    abandoned: [usize; KINDS.len()],
    made: u64,
}

// SAFETY: as for `Port`; the memory of slots belongs to this value.
unsafe impl Send for Slots {}

impl Slots {
    /// Makes the first slots of a port.
    pub fn new(port: Port) -> Result<Slots, Status> {
        let (places, free, abandoned) = (Vec::new(), Default::default(), Default::default());
        let mut slots = Slots { port, places, free, abandoned, made: 0 };
        slots.add()?;
        Ok(slots)
    }

    /// Adds slots of each length.
    fn add(&mut self) -> Result<(), Status> {
        let len = KINDS.iter().map(|(count, len)| count * len).sum();
        // Never freed; pages are allocated when first used.
        let memory: &'static mut [u64] = Box::leak(vec![0; len / 8].into_boxed_slice());
        let base: *mut u8 = memory.as_mut_ptr().cast();
        let mut description = null_mut();
        if self.port.demands.local {
            let access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
            let key = FIRST_KEY + self.made;
            // SAFETY: made above, and never freed.
            (description, _) = unsafe { self.port.register((base, len), access, key) }?;
        }
        self.made += 1;
        let mut from = 0;
        for (kind, (count, len)) in KINDS.into_iter().enumerate() {
            for _ in 0..count {
                let (at, slot) = (base.wrapping_add(from), self.places.len());
                from += len;
                let at = Local { at, len, description, context: Context::leak(slot) };
                self.places.push(SlotState { at, under_way: false, abandoned: false });
                self.free[kind].push(slot);
            }
        }
        Ok(())
    }

    /// Returns a slot of at least `len` bytes; `None` if all are in use.
    pub fn take(&mut self, len: usize) -> Option<Slot> {
        let kind = kind(len);
        let many = KINDS[kind].0 / 4 * self.made as usize;
        if self.free[kind].is_empty() && self.abandoned[kind] > many {
            let _ = self.add(); // without them, operations wait
        }
        self.free[kind].pop()
    }

    /// Gives a slot back.
    pub fn give(&mut self, slot: Slot) {
        assert!(!self.places[slot].under_way, "an operation uses the slot");
        self.free[kind(self.places[slot].at.len)].push(slot);
    }

    /// Notes that no thread waits for the operation in this slot.
    pub fn abandon(&mut self, slot: Slot) {
        self.abandoned[kind(self.places[slot].at.len)] += 1;
        self.places[slot].abandoned = true;
    }

    /// Copies bytes to a slot.
    pub fn fill(&mut self, slot: Slot, bytes: &[u8]) {
        let place = &self.places[slot];
        assert!(!place.under_way && bytes.len() <= place.at.len, "an operation uses the slot");
        // SAFETY: memory of this value that nothing else uses now; the length was checked.
        unsafe { place.at.at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Returns the first `len` bytes of a slot.
    pub fn bytes(&self, slot: Slot, len: usize) -> &[u8] {
        let place = &self.places[slot];
        assert!(!place.under_way && len <= place.at.len, "an operation uses the slot");
        // SAFETY: as for `fill`; an operation can begin only when this borrow has ended.
        unsafe { std::slice::from_raw_parts(place.at.at, len) }
    }

    /// Puts the first `len` bytes of a slot.
    pub fn write(&mut self, slot: Slot, len: usize, peer: Peer, to: Remote) -> Posted {
        // SAFETY: these bytes stay as they are while the operation is under way (`fill`).
        self.begin(slot, len, |port, at| unsafe { port.write(peer, at, to) })
    }

    /// Gets `len` bytes into a slot.
    pub fn read(&mut self, slot: Slot, len: usize, peer: Peer, from: Remote) -> Posted {
        // SAFETY: these bytes are not used while the operation is under way (`bytes`).
        self.begin(slot, len, |port, at| unsafe { port.read(peer, at, from) })
    }

    /// Sends the first `len` bytes of a slot.
    pub fn send(&mut self, slot: Slot, len: usize, peer: Peer) -> Posted {
        // SAFETY: as for `write`.
        self.begin(slot, len, |port, at| unsafe { port.send(peer, at) })
    }

    /// Receives a message into a slot.
    pub fn receive(&mut self, slot: Slot) -> Posted {
        let len = self.places[slot].at.len;
        // SAFETY: as for `read`.
        self.begin(slot, len, |port, at| unsafe { port.receive(at) })
    }

    fn begin(&mut self, slot: Slot, len: usize, post: impl Fn(&Port, Local) -> Posted) -> Posted {
        let place = &mut self.places[slot];
        assert!(!place.under_way && len <= place.at.len, "an operation uses the slot");
        let posted = post(&self.port, Local { len, ..place.at });
        place.under_way = posted == Posted::Begun;
        posted
    }

    /// Makes progress, and adds operations that are over to `events`.
    pub fn poll(&mut self, events: &mut Vec<Event>) {
        let before = events.len();
        self.port.poll(events);
        for event in &events[before..] {
            let place = &mut self.places[event.slot];
            place.under_way = false;
            let abandoned = std::mem::take(&mut place.abandoned);
            self.abandoned[kind(place.at.len)] -= usize::from(abandoned);
        }
    }
}
