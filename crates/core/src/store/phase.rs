//! The rule that selects the valid checkpoint after a death at any moment, from the survivors'
//! phases.
//!
//! ```text
//! Agreed(n) -> Entering(n+1) -> Encoded(n+1) -> Copying(n+1) -> Agreed(n+1)
//!                    |               |   \
//!                    +--- back to n -+    +--- forward to n+1
//! ```
//!
//! A PE becomes `Encoded(n+1)` only when its own parity of `n+1` is complete, and `Copying(n+1)`
//! only when every PE was `Encoded(n+1)`. Hence the job goes forward to `n+1` if every survivor is
//! at least `Encoded(n+1)`, or any is beyond it, and rolls back to `n` otherwise. A decision
//! written into a header stands until its recovery is over, regardless of later phases.
//!
//! A recovery that encodes the restored checkpoint again in new groups takes the same steps, from
//! `n` to [`CheckpointNumber::healed`], in the phases `Healing` and `Healed`. A number alone does
//! not say from which of the two it was reached, so these phases do.
//!
//! In a checkpoint whose parity is computed in the background, the snapshot comes first, and the
//! program runs on from there:
//!
//! ```text
//! Agreed(n) -> Entering(n+1) -> Copied(n+1) -> Protected(n+1) -> Agreed(n+1)
//!                    |               |               |   \
//!                    +--- back to n -+---------------+    +--- forward to n+1
//! ```
//!
//! Live memory is then that of no checkpoint: both decisions restore a snapshot that is complete.
//!
//! Proof: whitepaper/paper.typ, "One agreed decision". The thesis has no such rule (its faults are
//! simulated between checkpoints).

use crate::mutant::{Mutant, breaks};
use crate::quantity::CheckpointNumber;

/// The progress of a PE in the checkpoint protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Snapshot and parity of this checkpoint are complete here; the program runs.
    Agreed(CheckpointNumber),
    /// The PE is in the call that makes this checkpoint; its parity is not complete.
    Entering(CheckpointNumber),
    /// The PE's parity of this checkpoint is complete; its snapshot is still the previous one.
    Encoded(CheckpointNumber),
    /// The snapshot is being overwritten with this checkpoint.
    Copying(CheckpointNumber),
    /// Like `Entering`, in a recovery that encodes the restored checkpoint again as this one.
    Healing(CheckpointNumber),
    /// Like `Encoded`, in such a recovery.
    Healed(CheckpointNumber),
    /// The PE's snapshot of this checkpoint is complete, its parity is not; the program runs.
    Copied(CheckpointNumber),
    /// The PE's snapshot and parity of this checkpoint are complete; the program runs.
    Protected(CheckpointNumber),
}

/// Bits of a packed phase that hold its kind.
const KIND_BITS: u32 = 4;

impl Phase {
    /// Packs the phase into one word of the store header; never 0.
    pub fn pack(self) -> u64 {
        match self {
            Phase::Agreed(n) => n.0 << KIND_BITS | 1,
            Phase::Entering(n) => n.0 << KIND_BITS | 2,
            Phase::Encoded(n) => n.0 << KIND_BITS | 3,
            Phase::Copying(n) => n.0 << KIND_BITS | 4,
            Phase::Healing(n) => n.0 << KIND_BITS | 5,
            Phase::Healed(n) => n.0 << KIND_BITS | 6,
            Phase::Copied(n) => n.0 << KIND_BITS | 7,
            Phase::Protected(n) => n.0 << KIND_BITS | 8,
        }
    }

    /// Unpacks a phase; None for 0 (a process without a vote) and for garbage.
    pub fn unpack(word: u64) -> Option<Phase> {
        let n = CheckpointNumber(word >> KIND_BITS);
        match word & ((1 << KIND_BITS) - 1) {
            1 => Some(Phase::Agreed(n)),
            2 => Some(Phase::Entering(n)),
            3 => Some(Phase::Encoded(n)),
            4 => Some(Phase::Copying(n)),
            5 => Some(Phase::Healing(n)),
            6 => Some(Phase::Healed(n)),
            7 => Some(Phase::Copied(n)),
            8 => Some(Phase::Protected(n)),
            _ => None,
        }
    }

    /// True if this PE can move to checkpoint `number`, by rolling back or going forward.
    pub fn has(self, number: CheckpointNumber) -> bool {
        (self.knows()..=self.reaches()).contains(&number)
    }

    /// Returns the newest checkpoint whose parity is complete here, and whose snapshot is complete
    /// or can still be made after a decision to go forward.
    fn reaches(self) -> CheckpointNumber {
        match self {
            Phase::Agreed(n)
            | Phase::Encoded(n)
            | Phase::Healed(n)
            | Phase::Copying(n)
            | Phase::Protected(n) => n,
            Phase::Entering(n) | Phase::Copied(n) => n.previous(),
            Phase::Healing(n) if breaks(Mutant::SwitchedEarly) => n,
            Phase::Healing(n) => n.unhealed(),
        }
    }

    /// Returns a checkpoint that this PE knows every PE to have encoded.
    fn knows(self) -> CheckpointNumber {
        match self {
            Phase::Agreed(n) | Phase::Copying(n) => n,
            Phase::Entering(n) | Phase::Encoded(n) | Phase::Copied(n) | Phase::Protected(n) => {
                n.previous()
            }
            Phase::Healing(n) | Phase::Healed(n) => n.unhealed(),
        }
    }

    /// Returns the checkpoint whose parity is complete here, while its snapshot is not.
    pub fn encoded(self) -> Option<CheckpointNumber> {
        match self {
            Phase::Encoded(n) | Phase::Healed(n) | Phase::Copying(n) => Some(n),
            Phase::Agreed(_)
            | Phase::Entering(_)
            | Phase::Healing(_)
            | Phase::Copied(_)
            | Phase::Protected(_) => None,
        }
    }
}

/// The input of one PE to the decision: a survivor, or a substitute for a dead process
/// ([`super::inherited`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vote {
    /// Phase of the PE; None for a substitute that has not adopted the memory of its predecessor.
    pub phase: Option<Phase>,
    /// A recorded decision whose recovery is not finished.
    pub decided: Option<CheckpointNumber>,
}

/// The relevant part of the votes of several PEs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Votes {
    /// The highest decision that any PE has recorded.
    decided: Option<CheckpointNumber>,
    /// The highest checkpoint that any PE knows every PE to have encoded.
    known: Option<CheckpointNumber>,
    /// The lowest and the highest checkpoint that any PE reaches.
    reached: Option<(CheckpointNumber, CheckpointNumber)>,
}

impl Votes {
    /// Returns the vote of one PE.
    pub fn of(vote: Vote) -> Votes {
        let reached = vote.phase.map(|phase| (phase.reaches(), phase.reaches()));
        Votes { decided: vote.decided, known: vote.phase.map(Phase::knows), reached }
    }

    /// Adds the votes of other PEs.
    pub fn add(&mut self, other: &Votes) {
        self.decided = self.decided.max(other.decided);
        self.known = self.known.max(other.known);
        self.reached = match (self.reached, other.reached) {
            (Some(own), Some(other)) => Some((own.0.min(other.0), own.1.max(other.1))),
            (own, other) => own.or(other),
        };
    }

    /// Packs the votes into words.
    pub fn words(&self) -> [u64; 4] {
        let (least, most) = self.reached.unzip();
        [self.decided, self.known, least, most].map(CheckpointNumber::pack)
    }

    /// Unpacks the votes.
    pub fn read(words: [u64; 4]) -> Votes {
        let [decided, known, least, most] = words.map(CheckpointNumber::unpack);
        Votes { decided, known, reached: least.zip(most) }
    }
}

impl FromIterator<Vote> for Votes {
    fn from_iter<I: IntoIterator<Item = Vote>>(votes: I) -> Votes {
        let add = |mut all: Votes, vote| {
            all.add(&Votes::of(vote));
            all
        };
        votes.into_iter().fold(Votes::default(), add)
    }
}

/// Returns the checkpoint to resume from. None if no PE has a vote.
pub fn decide(votes: &Votes) -> Option<CheckpointNumber> {
    let by_phase = || Some(votes.known?.max(votes.reached?.0));
    votes.decided.or_else(by_phase)
}

/// The rule broken on purpose ([`crate::mutant`]): goes forward as soon as one survivor has
/// encoded.
pub fn forward_too_early(votes: &Votes) -> Option<CheckpointNumber> {
    decide(votes).max(votes.reached.map(|(_, most)| most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use CheckpointNumber as N;
    use Phase::{Agreed, Copied, Copying, Encoded, Entering, Protected};

    fn of(phases: &[Phase]) -> Option<CheckpointNumber> {
        let vote = |&phase| Vote { phase: Some(phase), decided: None };
        decide(&phases.iter().map(vote).collect())
    }

    #[test]
    fn phases_survive_packing_and_zero_is_no_phase() {
        for phase in [
            Agreed(N(0)),
            Agreed(N(5)),
            Entering(N(1)),
            Encoded(N(9)),
            Copying(N(1 << 40)),
            Copied(N(3)),
            Protected(N(4)),
        ] {
            assert_eq!(Phase::unpack(phase.pack()), Some(phase));
        }
        assert_eq!(Phase::unpack(0), None);
        assert_eq!(Phase::unpack(9), None);
    }

    #[test]
    fn back_until_every_survivor_has_encoded_forward_after() {
        assert_eq!(of(&[Agreed(N(4)), Agreed(N(4))]), Some(N(4)));
        assert_eq!(of(&[Entering(N(5)), Agreed(N(4))]), Some(N(4)));
        assert_eq!(of(&[Encoded(N(5)), Entering(N(5))]), Some(N(4)));
        assert_eq!(of(&[Encoded(N(5)), Agreed(N(4))]), Some(N(4)));
        assert_eq!(of(&[Encoded(N(5)), Encoded(N(5))]), Some(N(5)));
        assert_eq!(of(&[Encoded(N(5)), Copying(N(5))]), Some(N(5)));
        assert_eq!(of(&[Encoded(N(5)), Agreed(N(5))]), Some(N(5)));
        assert_eq!(of(&[Agreed(N(5)), Copying(N(5))]), Some(N(5)));
        assert_eq!(of(&[Agreed(N(5)), Entering(N(6))]), Some(N(5)));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn what_is_copied_counts_only_once_all_of_it_is_protected() {
        assert_eq!(of(&[Copied(N(5)), Entering(N(5))]), Some(N(4)));
        assert_eq!(of(&[Copied(N(5)), Copied(N(5))]), Some(N(4)));
        assert_eq!(of(&[Protected(N(5)), Copied(N(5))]), Some(N(4)));
        assert_eq!(of(&[Protected(N(5)), Protected(N(5))]), Some(N(5)));
        assert_eq!(of(&[Protected(N(5)), Agreed(N(5))]), Some(N(5)));
        assert_eq!(of(&[Agreed(N(5)), Entering(N(6)), Copied(N(6))]), Some(N(5)));
    }

    /// Compares the rule with an oracle on every reachable set of phases: forward to `n+1` only if
    /// all survivors hold its parity, and always if one may have discarded `n`.
    #[test]
    fn exhaustive_over_reachable_phases_of_four() {
        let all = [
            Agreed(N(4)),
            Entering(N(5)),
            Encoded(N(5)),
            Copying(N(5)),
            Agreed(N(5)),
            Entering(N(6)),
        ];
        let mut reachable = 0;
        for code in 0..all.len().pow(4) {
            let set: Vec<Phase> =
                (0..4).map(|i| all[code / all.len().pow(i) % all.len()]).collect();
            let least = set.iter().map(|p| p.reaches()).min().unwrap();
            let overwritten =
                set.iter().any(|p| matches!(p, Copying(N(5)) | Agreed(N(5)) | Entering(N(6))));
            let past_b = set.iter().any(|p| matches!(p, Entering(N(6))));
            let not_copied = set.iter().any(|p| !matches!(p, Agreed(N(5)) | Entering(N(6))));
            if (overwritten && least < N(5)) || (past_b && not_copied) {
                continue; // the barriers rule this out
            }
            reachable += 1;
            let expected = if least >= N(5) { 5 } else { 4 };
            assert_eq!(of(&set), Some(N(expected)), "{set:?}");
        }
        assert!(reachable > 100, "{reachable}");
    }

    /// Compares the two transitions: whatever the phases, healing decides as a checkpoint does.
    #[test]
    fn an_encoding_in_new_groups_is_decided_on_like_a_checkpoint() {
        let (old, new) = (N(4).healed(), N(4).healed().healed());
        let usual = [Agreed(N(4)), Entering(N(5)), Encoded(N(5)), Copying(N(5)), Agreed(N(5))];
        let heals =
            [Agreed(old), Phase::Healing(new), Phase::Healed(new), Copying(new), Agreed(new)];
        for code in 0..5_usize.pow(3) {
            let at = [code % 5, code / 5 % 5, code / 25];
            let expected = of(&at.map(|at| usual[at])).map(|n| if n == N(5) { new } else { old });
            assert_eq!(of(&at.map(|at| heals[at])), expected, "{at:?}");
        }
        for phase in heals {
            assert_eq!(Phase::unpack(phase.pack()), Some(phase));
        }
    }

    #[test]
    fn a_written_decision_stands_against_the_phases() {
        let back = Vote { phase: Some(Encoded(N(5))), decided: Some(N(4)) };
        let other = Vote { phase: Some(Encoded(N(5))), decided: None };
        let of = |votes: &[Vote]| decide(&votes.iter().copied().collect());
        assert_eq!(of(&[other, back]), Some(N(4)));
        assert_eq!(of(&[other, other]), Some(N(5)));
        let substitute = Vote { phase: None, decided: Some(N(5)) };
        assert_eq!(of(&[substitute]), Some(N(5)));
    }

    /// Votes lead to the same decision in any order, also if packed and unpacked in between.
    #[test]
    fn votes_are_added_up_in_any_order() {
        let phases = [None, Some(Agreed(N(4))), Some(Entering(N(5))), Some(Encoded(N(5)))];
        let decisions = [None, Some(N(0)), Some(N(5))];
        let pairs = phases.iter().flat_map(|&phase| decisions.map(|decided| (phase, decided)));
        let all: Vec<Vote> = pairs.map(|(phase, decided)| Vote { phase, decided }).collect();
        for one in &all {
            for two in &all {
                for three in &all {
                    let there: Votes = [*one, *two, *three].into_iter().collect();
                    let mut back: Votes = [*three, *two].into_iter().collect();
                    back = Votes::read(back.words());
                    back.add(&Votes::of(*one));
                    assert_eq!(there, back);
                    let mut known = [one, two, three].into_iter().filter_map(|vote| vote.phase);
                    let silent = known.next().is_none() && there.decided.is_none();
                    assert_eq!(decide(&there).is_none(), silent);
                }
            }
        }
    }
}
