//! The vote of a substitute that adopts the memory of a dead process, and how it keeps it valid.
//!
//! The phase and the decision in that memory are those that the dead process would have voted with.
//! The vote counts like a survivor's once the memory can do what it promises: roll back to the
//! checkpoint that all agreed on, or go forward to the one that it has encoded. Going forward needs
//! live memory, which the substitute's program is about to overwrite. Hence, before that:
//!
//! ```text
//! Copying(n)   every PE has encoded n: the copy is completed, and the phase is Agreed(n)
//! Encoded(n)   undecided: live memory is copied into a shadow of the snapshot of n - 1, and the
//!              decision selects one of the two
//! ```
//!
//! A checkpoint whose parity is computed in the background needs no live memory: `Copied` and
//! `Protected` promise what their snapshots hold.
//!
//! Both steps can be repeated if the substitute dies during them. If live memory cannot be saved,
//! the phase is reduced to what does not need it ([`without_live`]): then the PE counts as lost,
//! and is rebuilt.

use super::phase::{Phase, Vote};
use crate::mutant::{Mutant, breaks};
use crate::quantity::CheckpointNumber;

/// The step that must precede the program of the substitute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rescue {
    /// No step: live memory is no longer needed.
    Nothing,
    /// Complete the snapshot of this checkpoint.
    Complete(CheckpointNumber),
    /// Keep live memory as this checkpoint, as a shadow of the snapshot.
    Keep(CheckpointNumber),
}

/// Returns the step required for the memory of a PE that died with this vote.
pub fn rescue(vote: &Vote) -> Rescue {
    match vote.phase {
        Some(Phase::Copying(n)) => Rescue::Complete(n),
        Some(Phase::Encoded(n) | Phase::Healed(n))
            if vote.decided.is_none_or(|decided| decided >= n) =>
        {
            Rescue::Keep(n)
        }
        _ => Rescue::Nothing,
    }
}

/// Returns the phase of a PE whose live memory is gone.
pub fn without_live(phase: Phase) -> Phase {
    match phase {
        Phase::Encoded(n) => Phase::Entering(n),
        Phase::Healed(n) => Phase::Healing(n),
        Phase::Copying(n) => Phase::Agreed(n),
        other => other,
    }
}

/// True if the records in an adopted memory confirm the phase in its header, which no longer has an
/// owner to publish it again.
pub fn is_borne_out(
    phase: Phase,
    snapshot: impl Fn(CheckpointNumber) -> bool,
    slot: impl Fn(CheckpointNumber) -> bool,
) -> bool {
    let snapshot = |n: CheckpointNumber| n == CheckpointNumber::START || snapshot(n);
    match phase {
        _ if breaks(Mutant::DeadVoteIgnored) => false,
        Phase::Agreed(n) => n == CheckpointNumber::START || snapshot(n) && slot(n),
        Phase::Entering(CheckpointNumber::START)
        | Phase::Encoded(CheckpointNumber::START)
        | Phase::Copying(CheckpointNumber::START) => false,
        Phase::Copied(CheckpointNumber::START) | Phase::Protected(CheckpointNumber::START) => false,
        Phase::Entering(n) | Phase::Copied(n) => snapshot(n.previous()),
        Phase::Protected(n) => snapshot(n.previous()) && snapshot(n) && slot(n),
        Phase::Encoded(n) => snapshot(n.previous()) && slot(n),
        Phase::Copying(n) => slot(n),
        Phase::Healing(n) => n.healed_times() > 0 && snapshot(n.unhealed()),
        Phase::Healed(n) => n.healed_times() > 0 && snapshot(n.unhealed()) && slot(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CheckpointNumber as N;
    use Phase::{Agreed, Copying, Encoded, Entering};

    #[test]
    fn live_memory_is_saved_while_it_may_be_needed() {
        let of = |phase, decided| rescue(&Vote { phase: Some(phase), decided });
        assert_eq!(of(Copying(N(5)), None), Rescue::Complete(CheckpointNumber(5)));
        assert_eq!(of(Copying(N(5)), Some(N(5))), Rescue::Complete(CheckpointNumber(5)));
        assert_eq!(of(Encoded(N(5)), None), Rescue::Keep(CheckpointNumber(5)));
        assert_eq!(of(Encoded(N(5)), Some(N(5))), Rescue::Keep(CheckpointNumber(5)));
        assert_eq!(of(Encoded(N(5)), Some(N(4))), Rescue::Nothing, "it goes back");
        assert_eq!(of(Entering(N(5)), None), Rescue::Nothing);
        assert_eq!(of(Agreed(N(5)), None), Rescue::Nothing);
        assert_eq!(rescue(&Vote { phase: None, decided: Some(N(5)) }), Rescue::Nothing);
    }

    #[test]
    fn a_phase_is_believed_by_what_the_records_hold() {
        let with = |phase, snapshot: u64, slot: u64| {
            is_borne_out(phase, |n| n == N(snapshot), |n| n == N(slot))
        };
        assert!(with(Agreed(N(5)), 5, 5) && with(Entering(N(6)), 5, 0));
        assert!(with(Encoded(N(6)), 5, 6) && with(Copying(N(6)), 0, 6));
        assert!(
            with(Agreed(N(0)), 9, 9) && with(Entering(N(1)), 9, 9) && with(Encoded(N(1)), 9, 1)
        );
        for phase in [
            Agreed(N(7)),
            Entering(N(7)),
            Encoded(N(7)),
            Copying(N(7)),
            Copying(N(0)),
            Encoded(N(0)),
        ] {
            assert!(!with(phase, 5, 6), "{phase:?}");
        }
    }
}
