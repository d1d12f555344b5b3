//! The meetings of the protocol: a PE's contribution to each, and the results that it uses.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use raidshmem_core::protocol::brought::{Brought, Found, is_in_tree};
use raidshmem_core::protocol::driver::{Driver, OpProgress, Port};
use raidshmem_core::protocol::{At, Outcome};
use raidshmem_core::store::phase::Votes;
use raidshmem_core::view::State;

use super::RealMemory;

impl RealMemory<'_> {
    /// Returns this PE's contribution to a meeting.
    fn brings(&self, at: At) -> Brought {
        let (world, words) = (self.world, self.world.segments.own().words());
        let ending = words.ending.load(Ordering::SeqCst);
        match at {
            At::BarrierQ => self.saving.intents(world, &self.view),
            At::MeetSettling => {
                let votes = Votes::of(world.store.recovery.vote());
                Brought::Settling(
                    votes,
                    world.call_sites().call(),
                    ending,
                    world.grouping().grouped(),
                )
            }
            At::MeetVerified => {
                let found = world.segments.own().status();
                let misses = found.bad_snapshot != 0;
                Brought::Found(Found::of(world.me(), found.found_len, misses, ending))
            }
            At::MeetJudged => Brought::Judged(self.restoring.lost()),
            _ => Brought::Nothing,
        }
    }

    /// Enters a meeting that carries contributions; a plain barrier is entered by waiting for it.
    pub(super) fn arrive(&self, driver: &Driver) -> OpProgress {
        let (world, at) = (self.world, driver.at());
        if at == At::BarrierQ && self.faulted() {
            return OpProgress::Out(Outcome::Changed);
        }
        if at == At::MeetSettling {
            world.comm.settle(&self.view);
        }
        if at == At::MeetVerified {
            let (shape, _) = self.protection.place(world.me());
            world.comm.publish(&shape.members, world.members.incarnation());
        }
        if is_in_tree(at) {
            world.tree_meetings().come(&self.view, at, self.brings(at));
        }
        OpProgress::Done
    }

    /// Returns the state of a meeting: all have come, or no longer can, or may still come. A plain
    /// barrier is decided by waiting for it.
    pub(super) fn all_arrived(&mut self, driver: &Driver) -> OpProgress {
        let at = driver.at();
        if !is_in_tree(at) {
            return OpProgress::Wait;
        }
        if let Some(all) = self.world.tree_meetings().met(at) {
            self.results.take(at, all, &self.protection);
            return OpProgress::Done;
        }
        let gone = match at {
            At::BarrierQ if self.agrees => self.changed() || self.lost_in_view() != self.left_out,
            At::BarrierQ => self.faulted(),
            _ => self.changed(),
        };
        if gone { OpProgress::Out(Outcome::Changed) } else { OpProgress::Wait }
    }

    /// Returns the number of PEs that are lost in the adopted view.
    fn lost_in_view(&self) -> u32 {
        let lost = self.view.pes.iter().filter(|member| member.state != State::Alive);
        lost.count() as u32
    }
}
