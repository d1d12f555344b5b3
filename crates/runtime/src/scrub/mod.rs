//! The scrub: checks the store in idle time, so that damage is found before the store is needed.
//!
//! A thread of the lowest priority in every PE reads the agreed snapshot and parity of its own
//! store, and read-only ranges. The PEs of a node share `SHMEM_FT_SCRUB` bytes a second. A call
//! that holds the store lock, such as a checkpoint, is not disturbed. [`patrol`] chooses the next
//! spot and the time to rest; [`repair`] restores a damaged tile from the group.
//!
//! Invariants:
//! - the thread takes nothing that the program waits for: it reads through the memory's file, and
//!   trusts what it read only if no call changed the store meanwhile (`StoreLock::sequence`);
//! - it writes only an invalid tile, only in its own store, and only while it holds the store lock:
//!   then the own PE is in no checkpoint and no recovery, hence no other PE is past the first
//!   meeting of one, and no PE writes a store or relies on this one;
//! - it writes exactly the bytes that the tile's old checksum covers.
//!
//! Left out: live memory that the program writes, and the slot of the previous checkpoint, which is
//! no longer needed.

pub mod patrol;
mod repair;

use std::sync::Once;
use std::time::Instant;

use raidshmem_core::layout::{STAMP, TILE};
use raidshmem_core::message::{ProgressReport, Scrubbed};
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::store::protection::Protection;
use raidshmem_core::view::{Member, State};
use raidshmem_sys::lock;
use raidshmem_sys::process;

use crate::checkpoint::tiles;
use crate::pgas::World;
use crate::recovery::readonly;
use patrol::{Extent, Patrol, Spot, batch, rest, share};

/// Starts the thread, once, unless the settings say `off` or leave nothing to check. Called when
/// there is a checkpoint.
pub fn start(world: &'static World) {
    static STARTED: Once = Once::new();
    let rate = world.settings().scrub;
    if rate == 0 || !world.settings().checksum {
        return;
    }
    STARTED.call_once(|| {
        let scrub = Scrub { world, patrol: Patrol::default(), bytes: vec![0; TILE] };
        // Without a thread only the early report of damage is lost.
        let _ = process::helper("shmem-scrub", 256 * 1024, move || scrub.run(rate));
    });
}

struct Scrub {
    world: &'static World,
    patrol: Patrol,
    bytes: Vec<u8>,
}

/// The result of a look at a spot.
enum Seen {
    Whole,
    Damaged,
    /// Unknown: a call changed the store meanwhile, or may have.
    Nothing,
}

impl Scrub {
    fn run(mut self, rate: u64) {
        process::least_priority();
        let (mut seen, mut own) = (None, rate);
        loop {
            let view = self.world.members.view_number();
            if seen.replace(view) != Some(view) {
                own = share(rate, self.pes_here());
            }
            let begun = Instant::now();
            let count = batch(own, TILE);
            (0..count).for_each(|_| self.step());
            std::thread::sleep(rest(own, count * TILE, begun.elapsed()));
        }
    }

    /// Returns the number of PEs on this node.
    fn pes_here(&self) -> usize {
        let (view, node) = (self.world.members.view(), self.world.members.node());
        let is_here = |member: &&Member| member.state == State::Alive && member.node == node;
        view.pes.iter().filter(is_here).count()
    }

    fn step(&mut self) {
        let turns = self.world.store.lock.sequence();
        if turns % 2 == 1 {
            return; // a call is in progress
        }
        let Some(protection) = self.world.store.protection() else { return };
        let extent = self.extent(&protection);
        let Some(spot) = self.patrol.next(extent) else { return };
        match self.look((spot, extent.number), &protection, turns) {
            Seen::Whole if spot == Spot::Header => {}
            Seen::Whole => self.count(|counts| counts.bytes += TILE as u64),
            Seen::Damaged if self.patrol.is_news(spot) => {
                self.damaged(spot, extent.number, &protection)
            }
            Seen::Damaged | Seen::Nothing => {}
        }
    }

    /// Returns the extent of the agreed checkpoint.
    fn extent(&self, protection: &Protection) -> Extent {
        let (world, number) = (self.world, self.world.store.agreed());
        let Some(len) = repair::length(world, protection, number) else {
            return Extent::default();
        };
        let (shape, place) = protection.place(world.me());
        let keeps = protection.mode.keeps_snapshot();
        Extent {
            number,
            snapshot: if keeps { tiles::tiles(len) } else { 0 },
            parity: shape.parity_len(place, len) / TILE,
            readonly: readonly::held_tiles(world, protection),
        }
    }

    fn look(
        &mut self,
        (spot, number): (Spot, CheckpointNumber),
        protection: &Protection,
        turns: u64,
    ) -> Seen {
        let world = self.world;
        let mut stamp = [0; STAMP];
        let whole = match repair::tile_of(world, protection, spot, number) {
            None => repair::records(world.segments, protection, number)
                .iter()
                .all(|r| r.is_whole(world.job(), number)),
            Some((at, number)) => {
                let read = world.segments.read_own(at.offset(), &mut self.bytes)
                    && world.segments.read_own(at.stamp(world.segments), &mut stamp);
                if !read {
                    return Seen::Nothing;
                }
                world.stamp(world.me(), number).holds(&stamp, &self.bytes)
            }
        };
        match whole {
            _ if world.store.lock.sequence() != turns
                || world.members.faulted()
                || repair::misses_member(world, protection) =>
            {
                Seen::Nothing
            }
            true => Seen::Whole,
            false => Seen::Damaged,
        }
    }

    /// Repairs new damage, and reports it.
    fn damaged(&mut self, spot: Spot, number: CheckpointNumber, protection: &Protection) {
        let Some(from) = repair::repair(self.world, protection, spot, number) else {
            self.patrol.repaired(spot); // not now: a call is in progress
            return;
        };
        self.count(|counts| {
            counts.damaged += 1;
            counts.repaired += u64::from(from.is_some());
        });
        if from.is_some() {
            self.patrol.repaired(spot);
        }
        if self.patrol.may_report() {
            let (pe, part, checkpoint) = (self.world.me(), spot.name().to_owned(), number);
            self.world.members.report(ProgressReport::Damaged { pe, checkpoint, part, from });
        }
    }

    fn count(&self, add: impl FnOnce(&mut Scrubbed)) {
        add(&mut lock(&self.world.store.scrubbed));
    }
}
