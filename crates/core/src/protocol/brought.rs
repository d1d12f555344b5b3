//! The values that PEs bring to the meetings of a checkpoint and of a recovery, combined in the
//! tree ([`crate::tree`]).
//!
//! Most meetings only synchronize. Four of them also carry the input of decisions, so that no PE
//! must read the words of all other PEs:
//!
//! ```text
//! BarrierQ       data to save, memory for it, calls, drain  -> all save or all refuse
//! MeetSettling   phases, decisions, calls, groups           -> the checkpoint that stands
//! MeetVerified   length of the snapshots, PEs at their end  -> the scope of the findings
//! MeetJudged     the verdict on each group                  -> all continue or all end
//! ```
//!
//! Invariant: the combined value does not depend on the order, and is equal on all PEs that have
//! met.

use super::{At, meeting};
use crate::plan::Lost;
use crate::quantity::Pe;
use crate::store::grouped::GroupedCheckpoints;
use crate::store::intent::{INTENTS, Intents};
use crate::store::phase::Votes;
use crate::store::site::{CALLS, Calls};
use crate::tree::meeting::Sum;
use crate::tree::post::BODY;
use crate::view::MoveRequest;

/// True for states in which PEs meet in the tree; other barriers use a counter.
pub fn is_in_tree(at: At) -> bool {
    at == At::BarrierQ || meeting(at).is_some()
}

/// The findings of all PEs, reduced to what every PE must know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// The lowest PE that knows of a snapshot, and its length.
    len: Option<(Pe, u64)>,
    /// Number of PEs that miss a part of their snapshot.
    pub incomplete: u64,
    /// [`crate::status::Ending`] of the PE furthest in `shmem_finalize`, or 0.
    pub ending: u64,
}

impl Found {
    /// Returns the finding of PE `pe`: the length of the snapshot that it refers to (0 if the PE
    /// knows of none), whether the PE misses a part of its own, and how it entered
    /// `shmem_finalize`.
    pub fn of(pe: Pe, len: u64, misses: bool, ending: u64) -> Found {
        Found { len: (len != 0).then_some((pe, len)), incomplete: misses.into(), ending }
    }

    /// Returns the length of all snapshots, 0 if no PE knows of one.
    pub fn snapshot_len(&self) -> u64 {
        self.len.map_or(0, |(_, len)| len)
    }

    fn add(&mut self, other: &Found) {
        self.len = [self.len, other.len].into_iter().flatten().min();
        self.incomplete += other.incomplete;
        self.ending = self.ending.max(other.ending);
    }
}

/// The values that several PEs bring to a meeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brought {
    /// No value: the meeting only synchronizes.
    Nothing,
    /// Values for barrier Q. The request to drain a node is the latest that one of the PEs knows.
    Intents(Intents, Calls, Option<MoveRequest>),
    /// Values for the settling meeting. The number is the [`crate::status::Ending`] of the PE that
    /// is furthest in ending, or 0; the groups are those of checkpoints that may be decided on.
    Settling(Votes, Calls, u64, GroupedCheckpoints),
    /// Values for the meeting after the check.
    Found(Found),
    /// Values for the meeting before the verdict: the lowest group that is lost.
    Judged(Option<Lost>),
}

impl Brought {
    /// Packs the value into words.
    pub fn body(&self) -> [u64; BODY] {
        let mut body = [0; BODY];
        match self {
            Brought::Nothing => {}
            Brought::Intents(intents, calls, drain) => {
                body[..INTENTS].copy_from_slice(&intents.words());
                body[INTENTS..][..CALLS].copy_from_slice(&calls.words());
                body[INTENTS + CALLS] = MoveRequest::pack(*drain);
            }
            Brought::Settling(votes, calls, ending, grouped) => {
                body[..4].copy_from_slice(&votes.words());
                body[4..][..CALLS].copy_from_slice(&calls.words());
                body[4 + CALLS] = *ending;
                body[5 + CALLS..][..4].copy_from_slice(&grouped.words());
            }
            Brought::Found(Found { len, incomplete, ending }) => {
                let (pe, len) = len.map_or((0, 0), |(pe, len)| (u64::from(pe.0), len));
                body[..4].copy_from_slice(&[pe, len, *incomplete, *ending]);
            }
            Brought::Judged(lost) => body[..3].copy_from_slice(&Lost::words(*lost)),
        }
        body
    }

    /// Unpacks the value, in the meeting of state `at`, on a PE with this memory limit.
    pub fn read(at: At, body: &[u64; BODY], limit: Option<u64>) -> Brought {
        fn part<const N: usize>(words: &[u64]) -> [u64; N] {
            std::array::from_fn(|at| words[at])
        }
        match at {
            At::BarrierQ => {
                let intents = Intents::read(part(body), limit);
                let drain = MoveRequest::unpack(body[INTENTS + CALLS]);
                Brought::Intents(intents, Calls::read(part(&body[INTENTS..])), drain)
            }
            At::MeetSettling => {
                let (votes, calls) = (Votes::read(part(body)), Calls::read(part(&body[4..])));
                let grouped = GroupedCheckpoints::read(part(&body[5 + CALLS..]));
                Brought::Settling(votes, calls, body[4 + CALLS], grouped)
            }
            At::MeetVerified => {
                let [pe, len, incomplete, ending] = part(body);
                let len = (len != 0).then_some((Pe(pe as u32), len));
                Brought::Found(Found { len, incomplete, ending })
            }
            At::MeetJudged => Brought::Judged(Lost::read(part(body))),
            _ => Brought::Nothing,
        }
    }
}

const _: () = assert!(INTENTS + CALLS < BODY && 9 + CALLS <= BODY);

impl Sum for Brought {
    fn add(&mut self, other: &Brought) {
        match (self, other) {
            (Brought::Intents(intents, calls, drain), Brought::Intents(others, more, known)) => {
                intents.add(others);
                calls.add(more);
                *drain = (*drain).max(*known);
            }
            (
                Brought::Settling(votes, calls, ending, grouped),
                Brought::Settling(others, more, end, known),
            ) => {
                votes.add(others);
                calls.add(more);
                *ending = (*ending).max(*end);
                grouped.add(known);
            }
            (Brought::Found(own), Brought::Found(other)) => own.add(other),
            (Brought::Judged(own), Brought::Judged(other)) => *own = Lost::lower(*own, *other),
            (own, other) => assert_eq!((&*own, other), (&Brought::Nothing, &Brought::Nothing)),
        }
    }

    fn close(&mut self) {
        if let Brought::Intents(intents, ..) = self {
            intents.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Unrecoverable;
    use crate::quantity::{CheckpointNumber, ViewNumber};
    use crate::store::grouped::Grouped;
    use crate::store::intent::Intent;
    use crate::store::phase::{Phase, Vote};
    use crate::store::site::Called;

    fn brought(pe: Pe) -> [(At, Brought); 5] {
        let number = CheckpointNumber(7 + u64::from(pe.0));
        let call =
            Called { site: 90 + u64::from(pe.0), number, new: pe == Pe(2), ..Called::default() };
        let calls = Calls::of(pe, &call);
        let intent = Intent { digest: 5, len: 6 + u64::from(pe.0), hold: 8, need: 9, available: 3 };
        let vote = Vote { phase: Some(Phase::Encoded(number)), decided: Some(number) };
        let drain = (pe == Pe(1)).then_some(MoveRequest { serial: 2, node: 3, joins: true });
        let places = ViewNumber(3 + u64::from(pe.0));
        let grouped = [Grouped { number, places }].into_iter().collect();
        let lost = Unrecoverable {
            group: pe.at(),
            pes: vec![Pe(4)],
            damaged: vec![Pe(6), Pe(5)],
            parity: None,
        };
        [
            (At::MeetReset, Brought::Nothing),
            (At::BarrierQ, Brought::Intents(Intents::of((pe, 3), &intent, Some(1)), calls, drain)),
            (At::MeetSettling, Brought::Settling(Votes::of(vote), calls, pe.0.into(), grouped)),
            (At::MeetVerified, Brought::Found(Found::of(pe, 70 + u64::from(pe.0), true, 2))),
            (At::MeetJudged, Brought::Judged(Some(Lost::of(&lost, &[4, 5, 6].map(Pe))))),
        ]
    }

    #[test]
    fn contributions_survive_packing_alone_and_combined() {
        for turn in 0..3 {
            for kind in 0..5 {
                let of = |pe: usize| brought(Pe::of(pe))[kind];
                let (at, mut all) = of(turn);
                for pe in [(turn + 1) % 3, (turn + 2) % 3] {
                    all.add(&of(pe).1);
                    assert_eq!(Brought::read(at, &all.body(), Some(1)), all);
                }
                all.close();
                assert_eq!(Brought::read(at, &all.body(), Some(1)), all);
                let (_, mut first) = of(0);
                first.add(&of(1).1);
                first.add(&of(2).1);
                first.close();
                assert_eq!(first, all, "in any order");
            }
        }
    }

    #[test]
    fn the_lowest_informed_pe_names_the_checkpoint_of_the_findings() {
        let mut found = Found::of(Pe(0), 0, true, 0);
        found.add(&Found::of(Pe(2), 50, false, 1));
        found.add(&Found::of(Pe(1), 40, true, 0));
        assert_eq!((found.snapshot_len(), found.incomplete, found.ending), (40, 2, 1));
        assert_eq!(Found::of(Pe(3), 0, false, 0).snapshot_len(), 0);
    }
}
