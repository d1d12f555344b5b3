//! Which checkpoint stands after a death at any moment: a pure rule over the survivors' phases.
//!
//! ```text
//! Agreed(n) -> Entering(n+1) -> Encoded(n+1) -> Copying(n+1) -> Agreed(n+1)
//!                    |               |   \
//!                    +--- back to n -+    +--- forward to n+1
//! ```
//!
//! A PE becomes `Encoded(n+1)` only when its own parity of `n+1` is complete, and `Copying(n+1)`
//! only when every PE was `Encoded(n+1)`. Hence: forward to `n+1` if every survivor is at least
//! `Encoded(n+1)`, or any has gone past it; back to `n` otherwise. A decision once written into a
//! header stands until the recovery it belongs to is over, whatever the phases say meanwhile.
//!
//! Why it holds: whitepaper/paper.typ, "One agreed decision". The thesis has no such rule (its
//! faults are simulated between checkpoints).

use crate::quantity::CheckpointNumber;

/// How far a PE has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Snapshot and parity of this checkpoint are complete here; the program runs.
    Agreed(CheckpointNumber),
    /// The PE is in the call that makes this checkpoint; its parity is not complete.
    Entering(CheckpointNumber),
    /// Own parity of this checkpoint complete; snapshot still the one before.
    Encoded(CheckpointNumber),
    /// Snapshot being overwritten with this checkpoint.
    Copying(CheckpointNumber),
}

impl Phase {
    /// As one word of the store header; never 0.
    pub fn pack(self) -> u64 {
        match self {
            Phase::Agreed(n) => n.0 << 3 | 1,
            Phase::Entering(n) => n.0 << 3 | 2,
            Phase::Encoded(n) => n.0 << 3 | 3,
            Phase::Copying(n) => n.0 << 3 | 4,
        }
    }

    /// The inverse; None for 0 (a process that has no say) and for garbage.
    pub fn unpack(word: u64) -> Option<Phase> {
        let n = CheckpointNumber(word >> 3);
        match word & 7 {
            1 => Some(Phase::Agreed(n)),
            2 => Some(Phase::Entering(n)),
            3 => Some(Phase::Encoded(n)),
            4 => Some(Phase::Copying(n)),
            _ => None,
        }
    }

    /// True if this PE can be made that of checkpoint `number`, going back or forward.
    pub fn has(self, number: CheckpointNumber) -> bool {
        (self.knows()..=self.reaches()).contains(&number)
    }

    /// The checkpoint whose parity is complete here and whose snapshot is, or can still be made,
    /// if the rule says forward.
    fn reaches(self) -> CheckpointNumber {
        match self {
            Phase::Agreed(n) | Phase::Encoded(n) | Phase::Copying(n) => n,
            Phase::Entering(n) => n.previous(),
        }
    }

    /// A checkpoint this PE knows every PE to have encoded.
    fn knows(self) -> CheckpointNumber {
        match self {
            Phase::Agreed(n) | Phase::Copying(n) => n,
            Phase::Entering(n) | Phase::Encoded(n) => n.previous(),
        }
    }
}

/// What a PE brings to the decision: a survivor, or a substitute for the dead
/// ([`super::inherited`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vote {
    /// Its phase; None in a substitute that has not taken over the memory of the dead.
    pub phase: Option<Phase>,
    /// A decision it has written down and not yet finished.
    pub decided: Option<CheckpointNumber>,
}

/// The votes of several PEs, as far as they matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Votes {
    /// The highest decision that any has written down.
    decided: Option<CheckpointNumber>,
    /// The highest checkpoint that any knows every PE to have encoded.
    known: Option<CheckpointNumber>,
    /// The lowest and the highest that any reaches.
    reached: Option<(CheckpointNumber, CheckpointNumber)>,
}

impl Votes {
    /// That of one PE.
    pub fn of(vote: Vote) -> Votes {
        let reached = vote.phase.map(|phase| (phase.reaches(), phase.reaches()));
        Votes { decided: vote.decided, known: vote.phase.map(Phase::knows), reached }
    }

    /// Adds those of others.
    pub fn add(&mut self, other: &Votes) {
        self.decided = self.decided.max(other.decided);
        self.known = self.known.max(other.known);
        self.reached = match (self.reached, other.reached) {
            (Some(own), Some(other)) => Some((own.0.min(other.0), own.1.max(other.1))),
            (own, other) => own.or(other),
        };
    }

    /// As words.
    pub fn words(&self) -> [u64; 4] {
        let (least, most) = self.reached.unzip();
        [self.decided, self.known, least, most].map(CheckpointNumber::pack)
    }

    /// The inverse.
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

/// The checkpoint to resume from. None if nobody has a say.
pub fn decide(votes: &Votes) -> Option<CheckpointNumber> {
    let by_phase = || Some(votes.known?.max(votes.reached?.0));
    votes.decided.or_else(by_phase)
}

/// The rule broken on purpose ([`crate::mutant`]): forward as soon as one survivor has encoded.
pub fn forward_too_early(votes: &Votes) -> Option<CheckpointNumber> {
    decide(votes).max(votes.reached.map(|(_, most)| most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use CheckpointNumber as N;
    use Phase::{Agreed, Copying, Encoded, Entering};

    fn of(phases: &[Phase]) -> Option<CheckpointNumber> {
        let vote = |&phase| Vote { phase: Some(phase), decided: None };
        decide(&phases.iter().map(vote).collect())
    }

    #[test]
    fn phases_survive_packing_and_zero_is_no_phase() {
        for phase in
            [Agreed(N(0)), Agreed(N(5)), Entering(N(1)), Encoded(N(9)), Copying(N(1 << 40))]
        {
            assert_eq!(Phase::unpack(phase.pack()), Some(phase));
        }
        assert_eq!(Phase::unpack(0), None);
        assert_eq!(Phase::unpack(7), None);
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

    /// Every set of phases the protocol can reach, with the truth beside it: at `n+1` agreed only
    /// if all survivors hold its parity, and always if one may have thrown `n` away.
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
                continue; // the barriers forbid it
            }
            reachable += 1;
            let expected = if least >= N(5) { 5 } else { 4 };
            assert_eq!(of(&set), Some(N(expected)), "{set:?}");
        }
        assert!(reachable > 100, "{reachable}");
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

    /// Added up in any order and read back on the way, votes lead to the same decision.
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
