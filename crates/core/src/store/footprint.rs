//! The memory that checkpoints take in the store of a PE.
//!
//! Invariant: all snapshots and slots count from the first checkpoint on, also with new groups: one
//! that was accepted is followed by others of its length that need no more.

use super::protection::Protection;
use crate::layout::TILE;
use crate::mutant::{Mutant, breaks};
use crate::quantity::Pe;

impl Protection {
    /// Returns the bytes of all snapshots of `len` bytes.
    pub fn snapshots_len(&self, len: usize) -> usize {
        let snapshot = if self.mode.keeps_snapshot() { len.next_multiple_of(TILE) } else { 0 };
        snapshot * self.snapshots
    }

    /// Returns the bytes of all slots of a PE, with its parity over snapshots of `len` bytes.
    pub fn slots_len(&self, pe: Pe, len: usize) -> usize {
        let (shape, place) = self.place(pe);
        let slots = if breaks(Mutant::SlotUncounted) { 1 } else { self.mode.slots() };
        shape.parity_len(place, len) * slots
    }
}

#[cfg(test)]
mod tests {
    use super::super::intent::{Bounds, Intent, Intents, agree};
    use super::*;
    use crate::placement::Domains;
    use crate::quantity::ViewNumber;
    use crate::settings::{BackupMode, Settings};

    /// Four PEs, one of which has moved to the node of another: pairs would survive the loss of
    /// that node, and keep three times the parity.
    #[test]
    fn new_groups_are_taken_with_memory_for_both_slots() {
        const LEN: usize = 9 * TILE;
        let settings = Settings { backup_mode: BackupMode::Raid5, ..Settings::default() };
        let made = |node_of: &[usize]| {
            let made = Protection::new(&settings, node_of, &Domains::default());
            made.unwrap().expect("a mode that protects")
        };
        let old = made(&[0, 1, 2, 3]);
        let anew = old.healed(&settings, &[0, 1, 1, 3], &Domains::default(), ViewNumber(2));
        let anew = anew.expect("pairs");
        let slots = |groups: &Protection| Pe::all(4).map(|pe| groups.slots_len(pe, LEN)).sum();
        let (before, slots): (usize, usize) = (slots(&old), slots(&anew));
        assert_eq!((before, slots), (4 * 2 * 3 * TILE, 4 * 2 * 9 * TILE));
        let snapshots = 4 * anew.snapshots_len(LEN);
        assert_eq!(snapshots, 4 * 9 * TILE);
        // Takes the new groups on a machine with that limit.
        let taken = |limit: usize| {
            let limit = Some(limit as u64);
            let intent = |pe: Pe| {
                let hold = (anew.snapshots_len(LEN) + anew.slots_len(pe, LEN)) as u64;
                Intent { len: LEN as u64, hold, available: u64::MAX, ..Intent::default() }
            };
            let each = Pe::all(4).map(|pe| Intents::of((pe, 0), &intent(pe), limit));
            let all = each.reduce(|mut all, other| {
                all.add(&other);
                all
            });
            let mut all = all.expect("four PEs");
            all.close();
            let bounds = Bounds { mode: "raid5", manifest: TILE, snapshot: usize::MAX, limit };
            agree(&all, &[0; 4], &bounds).is_ok()
        };
        assert!(!taken(snapshots + slots / 2), "memory for the first checkpoint only");
        assert!(!taken(snapshots + slots - 1));
        assert!(taken(snapshots + slots));
    }

    #[test]
    fn a_store_has_the_snapshots_and_slots_of_its_mode() {
        for (mode, kept, slots) in
            [(BackupMode::Single, 0, 1), (BackupMode::Double, 1, 1), (BackupMode::Raid5, 1, 2)]
        {
            for snapshots in [1, 2] {
                let settings = Settings { backup_mode: mode, snapshots, ..Settings::default() };
                let made = Protection::new(&settings, &[0, 1], &Domains::default());
                let made = made.unwrap().expect("a mode that protects");
                let len = TILE + 1;
                assert_eq!(made.snapshots_len(len), kept * snapshots * 2 * TILE, "{mode:?}");
                assert_eq!(made.slots_len(Pe(1), len), slots * 2 * TILE, "{mode:?}");
            }
        }
    }
}
