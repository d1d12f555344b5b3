//! The schedule of the scrub: the next spot, the time to rest, and the damage to report. Pure.
//!
//! A round covers the header, the snapshot and the parity of the agreed checkpoint, tile by tile;
//! the next begins where the last ended, or from the start when another checkpoint is agreed.
//! Damage is reported once; if it could not be repaired, again only after the next checkpoint.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::time::Duration;

use raidshmem_core::quantity::CheckpointNumber;

/// The most tiles between two rests.
const BATCH: usize = 16;
/// Rests per second, unless the tiles are too large for that.
const RESTS: u64 = 16;
/// The most lines about damage in one checkpoint.
const LINES: usize = 8;

/// A spot to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spot {
    /// The records of the store header.
    Header,
    /// A tile of the snapshot and its stamp.
    Snapshot(usize),
    /// A tile of the parity and its stamp.
    Parity(usize),
    /// A tile that is kept of read-only ranges, and its stamp.
    ReadOnly(usize),
}

impl Spot {
    /// Returns its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Spot::Header => "header",
            Spot::Snapshot(_) => "snapshot",
            Spot::Parity(_) => "parity",
            Spot::ReadOnly(_) => "read-only memory",
        }
    }
}

/// The spots of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// The checkpoint; 0 before the first.
    pub number: CheckpointNumber,
    /// Tiles of the snapshot.
    pub snapshot: usize,
    /// Tiles of the parity held.
    pub parity: usize,
    /// Tiles of read-only ranges, and of the parity over them.
    pub readonly: usize,
}

impl Extent {
    fn spot(&self, index: usize) -> Spot {
        match index.checked_sub(1) {
            None => Spot::Header,
            Some(tile) if tile < self.snapshot => Spot::Snapshot(tile),
            Some(tile) => match tile - self.snapshot {
                tile if tile < self.parity => Spot::Parity(tile),
                tile => Spot::ReadOnly(tile - self.parity),
            },
        }
    }

    fn len(&self) -> usize {
        1 + self.snapshot + self.parity + self.readonly
    }
}

/// The progress of the round, and the known damage.
#[derive(Debug, Default)]
pub struct Patrol {
    extent: Extent,
    next: usize,
    known: BTreeSet<Spot>,
    reported: usize,
}

impl Patrol {
    /// Returns the next spot to check in `now`; None while there is no checkpoint.
    pub fn next(&mut self, now: Extent) -> Option<Spot> {
        if now != self.extent {
            *self = Patrol { extent: now, ..Patrol::default() };
        }
        let spot = now.spot(self.next % now.len());
        self.next = (self.next + 1) % now.len();
        (now.number != CheckpointNumber::START).then_some(spot)
    }

    /// Notes a damaged spot. Returns true if it was not known yet.
    pub fn is_news(&mut self, spot: Spot) -> bool {
        self.known.insert(spot)
    }

    /// Notes that a spot is whole again: further damage there is new.
    pub fn repaired(&mut self, spot: Spot) {
        self.known.remove(&spot);
    }

    /// Returns true if one more line about this checkpoint is allowed.
    pub fn may_report(&mut self) -> bool {
        self.reported += 1;
        self.reported <= LINES
    }
}

/// Returns the bytes a second of each of a node's PEs, given those of the node.
pub fn share(rate: u64, pes: usize) -> u64 {
    (rate / pes.max(1) as u64).max(1)
}

/// Returns how many tiles of `tile_len` bytes to check between two rests, for `rate` bytes a
/// second.
pub fn batch(rate: u64, tile_len: usize) -> usize {
    ((rate / RESTS) as usize / tile_len).clamp(1, BATCH)
}

/// Returns the time to rest after `bytes` bytes that took `took`, for `rate` bytes a second.
pub fn rest(rate: u64, bytes: usize, took: Duration) -> Duration {
    Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64).saturating_sub(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent =
        Extent { number: CheckpointNumber(3), snapshot: 2, parity: 1, readonly: 1 };

    #[test]
    fn a_round_sees_everything_once_and_begins_again() {
        let mut patrol = Patrol::default();
        let snapshot = [Spot::Snapshot(0), Spot::Snapshot(1)];
        let round = [Spot::Header, snapshot[0], snapshot[1], Spot::Parity(0), Spot::ReadOnly(0)];
        for _ in 0..3 {
            assert_eq!([(); 5].map(|()| patrol.next(EXTENT)), round.map(Some));
        }
        assert_eq!(Patrol::default().next(Extent::default()), None);
    }

    #[test]
    fn the_pes_of_a_node_share_its_rate() {
        assert_eq!([1, 4, 100].map(|pes| share(1 << 20, pes)), [1 << 20, 1 << 18, 10485]);
        assert_eq!([share(5, 0), share(5, 9)], [5, 1]);
    }

    #[test]
    fn another_checkpoint_is_begun_at_its_beginning_with_nothing_known() {
        let mut patrol = Patrol::default();
        patrol.next(EXTENT);
        patrol.next(EXTENT);
        assert!(patrol.is_news(Spot::Snapshot(1)) && !patrol.is_news(Spot::Snapshot(1)));
        (0..LINES).for_each(|_| assert!(patrol.may_report()));
        assert!(!patrol.may_report());
        let other = Extent { number: CheckpointNumber(4), ..EXTENT };
        assert_eq!(patrol.next(other), Some(Spot::Header));
        assert!(patrol.is_news(Spot::Snapshot(1)) && patrol.may_report());
        patrol.repaired(Spot::Snapshot(1));
        assert!(patrol.is_news(Spot::Snapshot(1)));
    }

    #[test]
    fn rests_keep_the_rate_whatever_the_work_takes() {
        let tile = 1 << 16;
        assert_eq!([1, 1 << 20, 1 << 24, 1 << 40].map(|rate| batch(rate, tile)), [1, 1, 16, 16]);
        let took = Duration::from_millis(10);
        assert_eq!(rest(1 << 20, 1 << 20, took), Duration::from_millis(990));
        assert_eq!(rest(1 << 30, 1 << 20, took), Duration::ZERO);
    }
}
