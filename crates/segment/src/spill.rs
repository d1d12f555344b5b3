//! Words through which a PE and its agent coordinate a checkpoint that goes to disk.
//!
//! The agent *wants* a checkpoint until it has read it, and records its progress. A PE that is
//! about to let a snapshot or a slot of that checkpoint be overwritten first *keeps* the unread
//! tiles: it copies them to the spill, or records that it does not.
//!
//! Invariants: a PE records the tiles it kept after the last was copied, and before the first is
//! overwritten; the copies stay unchanged while the agent wants them.
//!
//! Left out: the location of the tiles, and the copying.

#![forbid(unsafe_code)]

use raidshmem_core::protocol::operation::StorePart;
use raidshmem_core::quantity::CheckpointNumber;

use crate::atomic::{AtomicU64, Ordering};

/// The words of the agent and the PE.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Spill {
    /// The agent's: the checkpoint; 0 if it wants none.
    wanted: AtomicU64,
    /// The agent's: tiles of snapshot and slot that it has read.
    read: [AtomicU64; 2],
    /// The agent's: the most tiles that may be copied to the spill.
    most: AtomicU64,
    /// The PE's, of snapshot and slot.
    kept: [KeptWords; 2],
}

#[repr(C)]
#[derive(Debug, Default)]
struct KeptWords {
    number: AtomicU64,
    from: AtomicU64,
    tiles: AtomicU64,
    len: AtomicU64,
}

/// The tiles that a PE kept of a snapshot or slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The first tile; the agent had read all before it.
    pub from: usize,
    /// The number of tiles; None if they were too many.
    pub tiles: Option<usize>,
    /// Bytes of a snapshot of that checkpoint.
    pub len: usize,
}

/// The mark of a missing number of tiles.
const NONE: u64 = u64::MAX;

impl Spill {
    /// Requests checkpoint `number`, of the slot only with `parity`; the PE may spill `most` tiles.
    /// Called by the agent.
    pub fn want(&self, number: CheckpointNumber, parity: bool, most: usize) {
        self.release();
        self.allow(most);
        let [snapshot, slot] = &self.read;
        snapshot.store(0, Ordering::SeqCst);
        slot.store(if parity { 0 } else { NONE }, Ordering::SeqCst);
        // The agent has released the tiles kept for an earlier request.
        self.kept.iter().for_each(|kept| kept.number.store(0, Ordering::SeqCst));
        self.wanted.store(number.0, Ordering::SeqCst); // last: the other words are valid then
    }

    /// Allows `most` tiles to be copied to the spill from now on.
    pub fn allow(&self, most: usize) {
        self.most.store(most as u64, Ordering::SeqCst);
    }

    /// Records that the agent has read the first `tiles` tiles of a part.
    pub fn note_read(&self, part: StorePart, tiles: usize) {
        self.read[part as usize].store(tiles as u64, Ordering::SeqCst);
    }

    /// Records that the agent wants no checkpoint.
    pub fn release(&self) {
        self.wanted.store(0, Ordering::SeqCst);
    }

    /// Returns the checkpoint that the agent wants.
    pub fn wanted(&self) -> Option<CheckpointNumber> {
        let wanted = CheckpointNumber(self.wanted.load(Ordering::SeqCst));
        (wanted != CheckpointNumber::START).then_some(wanted)
    }

    /// Returns how many of the first `tiles` tiles of a part the agent no longer needs.
    pub fn read(&self, part: StorePart, tiles: usize) -> usize {
        self.read[part as usize].load(Ordering::SeqCst).min(tiles as u64) as usize
    }

    /// Returns how many more tiles of that checkpoint the PE may copy to the spill.
    pub fn free_tiles(&self, number: CheckpointNumber) -> usize {
        let most = self.most.load(Ordering::SeqCst);
        most.saturating_sub(self.copied(number) as u64) as usize
    }

    /// Returns how many tiles the PE has copied.
    pub fn copied(&self, number: CheckpointNumber) -> usize {
        let parts = [StorePart::Snapshot, StorePart::Slot];
        let kept = parts.iter().filter_map(|&part| self.kept(part, number)?.tiles);
        kept.fold(0, usize::saturating_add)
    }

    /// Records that the PE has copied `kept`, so the part may be overwritten.
    pub fn keep(&self, part: StorePart, number: CheckpointNumber, kept: Kept) {
        let words = &self.kept[part as usize];
        words.number.store(0, Ordering::SeqCst);
        words.from.store(kept.from as u64, Ordering::SeqCst);
        words.tiles.store(kept.tiles.map_or(NONE, |tiles| tiles as u64), Ordering::SeqCst);
        words.len.store(kept.len as u64, Ordering::SeqCst);
        words.number.store(number.0, Ordering::SeqCst); // last, as above
    }

    /// Returns the tiles that the PE has kept of that checkpoint.
    pub fn kept(&self, part: StorePart, number: CheckpointNumber) -> Option<Kept> {
        let words = &self.kept[part as usize];
        let is_it = words.number.load(Ordering::SeqCst) == number.0;
        let load = |word: &AtomicU64| word.load(Ordering::SeqCst);
        let tiles = Some(load(&words.tiles)).filter(|&tiles| tiles != NONE);
        is_it.then(|| Kept {
            from: load(&words.from) as usize,
            tiles: tiles.map(|tiles| tiles as usize),
            len: load(&words.len) as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CheckpointNumber as N;
    use StorePart::{Slot, Snapshot};

    #[test]
    fn the_spill_keeps_and_counts_only_the_wanted_checkpoint() {
        let spill = Spill::default();
        assert_eq!((spill.wanted(), spill.kept(Slot, N(3))), (None, None));
        spill.want(N(3), false, 10);
        assert_eq!((spill.wanted(), spill.free_tiles(N(3))), (Some(N(3)), 10));
        assert_eq!((spill.read(Snapshot, 7), spill.read(Slot, 7)), (0, 7), "no parity is wanted");
        spill.note_read(Snapshot, 4);
        assert_eq!((spill.read(Snapshot, 7), spill.read(Snapshot, 2)), (4, 2));
        let three = Kept { from: 4, tiles: Some(3), len: 400_000 };
        spill.keep(Snapshot, N(3), three);
        assert_eq!((spill.kept(Snapshot, N(3)), spill.kept(Snapshot, N(4))), (Some(three), None));
        assert_eq!(
            (spill.copied(N(3)), spill.free_tiles(N(3)), spill.free_tiles(N(4))),
            (3, 7, 10)
        );
        spill.keep(Slot, N(3), Kept { from: 0, tiles: None, len: 400_000 });
        assert_eq!(spill.free_tiles(N(3)), 7, "nothing was copied");
        spill.allow(2);
        assert_eq!(spill.free_tiles(N(3)), 0);
        spill.want(N(3), true, 10);
        assert_eq!(
            (spill.kept(Snapshot, N(3)), spill.free_tiles(N(3))),
            (None, 10),
            "it was given back"
        );
        spill.release();
        assert_eq!(spill.wanted(), None);
    }
}
