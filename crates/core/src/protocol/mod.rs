//! The protocol of checkpoint and recovery as one pure machine: states, outcomes, a table.
//!
//! A PE inside `shmem_checkpoint_all` or `shmem_restart_pes` is at one state of [`At`]. The
//! [`driver`] says what is done there, one operation after the other, and hands the outcome to
//! [`next`]. Operations are carried out over real memory (by the crate `raidshmem`), over a model
//! of memory, views and deaths (`explore`, in the tests), and over the simulator's (`tests/sim`).
//! [`crate::store::phase::decide`] and [`crate::plan::check`] are the two decisions it takes.
//!
//! ```text
//! checkpoint  Enter Intend BarrierQ Agree Compare BarrierC Encode Publish BarrierA
//!             Copy BarrierB                                                     -> Saved
//!             Enter Follow                                                      -> Passed
//! settle      MeetSettling Decide MeetDecided Finish MeetSettled                -> Reported
//! restart     Whole, settle, Verify .. Judge .. Rebuild .. Restore .. Reencode .. Reset .. Join
//!                                                                               -> Resumed
//! finalize    the same, when a PE is lost; it rebuilds, restores and re-encodes nothing
//! ```
//!
//! If a PE of the view is in `shmem_finalize`, no parity is made anew, since live memory is not
//! that of one checkpoint then; a PE that has gone back comes to its end alone.
//!
//! At a state named Meet all living PEs of the view wait for each other *in that view*: a PE that
//! has gone on to a later one does not count, it makes the meeting impossible. A change of view is
//! the outcome `Changed` and leads back to the meeting that settles, with the new view.
//!
//! Invariants: no user code runs between `Publish` and the end of a call; a decision is written
//! before anybody acts on it; the store of the checkpoint decided on is not overwritten before
//! redundancy is whole.

pub mod brought;
pub mod driver;
#[cfg(test)]
pub(crate) mod explore;
pub mod operation;
mod words;

/// Which call of the program a PE is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// `shmem_checkpoint_all`.
    Checkpoint,
    /// `shmem_restart_pes`.
    Restart,
    /// `shmem_finalize`: it keeps what it has computed, and serves those who go back.
    Finalize,
}

impl Call {
    /// True if it goes through the whole of a recovery, not to the report of the fault only.
    pub fn recovers(self) -> bool {
        self != Call::Checkpoint
    }

    /// Where a PE is, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Call::Checkpoint => "shmem_checkpoint_all",
            Call::Restart => "shmem_restart_pes",
            Call::Finalize => "a recovery in shmem_finalize",
        }
    }
}

/// Where a PE is in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// Begin of a checkpoint: is the view the one joined?
    Enter,
    /// The first call after a restart of a PE that is behind: wait for what the reference does
    /// ([`crate::store::site`]).
    Follow,
    /// Quiet; write the manifest, say what is to be saved and what it needs.
    Intend,
    /// Barrier Q: no transfer is in flight anywhere, every intent can be read.
    BarrierQ,
    /// Compare the intents of all.
    Agree,
    /// The intents do not fit: nobody changes its own before all have read them.
    BarrierRefuse,
    /// Find what changed since the last checkpoint, and show it.
    Compare,
    /// Barrier C: what changed can be read of all.
    BarrierC,
    /// Pull the chunks this PE protects into the free slot.
    Encode,
    /// Seal the slot and say so: `Encoded(n + 1)`.
    Publish,
    /// Barrier A.
    BarrierA,
    /// Live memory into the snapshot: `Copying(n + 1)`, then `Agreed(n + 1)`.
    Copy,
    /// Barrier B.
    BarrierB,
    /// Take the current view; wait until no PE is dead in it.
    Whole,
    /// Meet: every living PE has stopped.
    MeetSettling,
    /// Read all phases and decisions, decide, write the decision.
    Decide,
    /// Meet: every living PE has written the decision.
    MeetDecided,
    /// Forward: complete the snapshot. Back: forget the checkpoint begun.
    Finish,
    /// Meet: every living PE has one checkpoint.
    MeetSettled,
    /// Check the own store; show what does not hold. The tiles of the snapshot are checked when
    /// they are used, unless the recovery began again.
    Verify,
    /// Meet: all findings can be read.
    MeetVerified,
    /// Make the plan from the findings of all.
    Judge,
    /// Meet: all have read all findings.
    MeetJudged,
    /// Go on, or say the verdict; that is not given before all tiles were checked.
    Verdict,
    /// Decode what the own snapshot misses.
    Rebuild,
    /// Meet: all snapshots are whole.
    MeetRebuilt,
    /// Snapshot into live memory.
    Restore,
    /// Meet: all live memory is that of the checkpoint.
    MeetRestored,
    /// Compute the parity that is missing.
    Reencode,
    /// Meet: redundancy is whole.
    MeetEncoded,
    /// Reset control words.
    Reset,
    /// Meet: nobody's words will be reset any more.
    MeetReset,
    /// Join the view, forget the decision.
    Join,
    /// End: the checkpoint is agreed.
    Saved,
    /// End: nothing was written since the restart, and the others have gone on: no checkpoint.
    Passed,
    /// End: the checkpoint was refused on every PE.
    Refused,
    /// End: a fault is reported; every PE has one checkpoint.
    Reported,
    /// End: back at the checkpoint, whole.
    Resumed,
    /// End: the job cannot go on; the same words on every PE.
    Unrecoverable,
}

/// What came of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It is done; all have met.
    Done,
    /// A PE was lost: the view is another one.
    Changed,
    /// The intents do not fit.
    Refused,
    /// Too much is lost, or calls that never meet; of a substitute, at its begin: all that it would
    /// have to settle.
    Lost,
    /// This PE is behind; the others have gone on.
    Behind,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Outcome; 5] = {
        use Outcome::*;
        [Done, Changed, Refused, Lost, Behind]
    };
}

impl At {
    /// True where a call ends.
    pub fn is_end(self) -> bool {
        use At::{Passed, Refused, Reported, Resumed, Saved, Unrecoverable};
        matches!(self, Saved | Passed | Refused | Reported | Resumed | Unrecoverable)
    }
}

/// The transitions that do not depend on the call.
pub const TABLE: &[(At, Outcome, At)] = {
    use At::*;
    use Outcome::{Behind, Changed, Done, Lost};
    &[
        (Enter, Done, Intend),
        (Enter, Changed, MeetSettling),
        (Enter, Behind, Follow),
        (Follow, Done, Intend),
        (Follow, Behind, Passed),
        (Follow, Changed, MeetSettling),
        (Follow, Lost, Unrecoverable),
        (Intend, Done, BarrierQ),
        (BarrierQ, Done, Agree),
        (BarrierQ, Changed, MeetSettling),
        (Agree, Done, Compare),
        (Agree, Outcome::Refused, BarrierRefuse),
        (Agree, Lost, Unrecoverable),
        (BarrierRefuse, Done, Refused),
        (BarrierRefuse, Changed, MeetSettling),
        (Compare, Done, BarrierC),
        (BarrierC, Done, Encode),
        (BarrierC, Changed, MeetSettling),
        (Encode, Done, Publish),
        (Encode, Changed, MeetSettling),
        (Publish, Done, BarrierA),
        (BarrierA, Done, Copy),
        (BarrierA, Changed, MeetSettling),
        (Copy, Done, BarrierB),
        (BarrierB, Done, Saved),
        (BarrierB, Changed, MeetSettling),
        (Whole, Done, MeetSettling),
        (MeetSettling, Done, Decide),
        (Decide, Done, MeetDecided),
        (MeetDecided, Done, Finish),
        (Finish, Done, MeetSettled),
        (Verify, Done, MeetVerified),
        (Verify, Lost, Unrecoverable),
        (MeetVerified, Done, Judge),
        (Judge, Done, MeetJudged),
        (MeetJudged, Done, Verdict),
        (Verdict, Done, Rebuild),
        (Verdict, Lost, Unrecoverable),
        (Rebuild, Done, MeetRebuilt),
        (MeetRebuilt, Done, Restore),
        (Restore, Done, MeetRestored),
        (MeetRestored, Done, Reencode),
        (Reencode, Done, MeetEncoded),
        (MeetEncoded, Done, Reset),
        (Reset, Done, MeetReset),
        (MeetReset, Done, Join),
        (Join, Done, Resumed),
    ]
};

/// The state after `outcome` at `at`. None for an outcome the state cannot have.
pub fn next(call: Call, at: At, outcome: Outcome) -> Option<At> {
    use At::{Decide, MeetSettled, MeetSettling, Reported, Unrecoverable, Verify, Whole};
    match (call.recovers(), at, outcome) {
        // A substitute has no live memory to bring in order. It votes in a whole view, where the
        // others do for whom memory speaks.
        (false, At::Enter, Outcome::Lost) => Some(Reported),
        (false, MeetSettled, Outcome::Done) => Some(Reported),
        (true, MeetSettled, Outcome::Done) => Some(Verify),
        // Only substitutes are left in this view: the restart, in a whole view, ends the job.
        (false, Decide, Outcome::Lost) => Some(Reported),
        (true, Decide, Outcome::Lost) => Some(Unrecoverable),
        (false, at, Outcome::Changed) if meets(at) || at == Decide => Some(MeetSettling),
        (true, at, Outcome::Changed) if meets(at) || breaks_off(at) => Some(Whole),
        _ => {
            let row = TABLE.iter().find(|&&(from, with, _)| (from, with) == (at, outcome));
            row.map(|&(.., to)| to)
        }
    }
}

/// The number under which a meeting is shown, growing through a recovery; None if `at` is none.
pub fn meeting(at: At) -> Option<u64> {
    use At::*;
    let order = [
        MeetSettling,
        MeetDecided,
        MeetSettled,
        MeetVerified,
        MeetJudged,
        MeetRebuilt,
        MeetRestored,
        MeetEncoded,
        MeetReset,
    ];
    order.iter().position(|&meet| meet == at).map(|index| index as u64 + 1)
}

fn meets(at: At) -> bool {
    meeting(at).is_some()
}

/// Recovery steps that a change of view breaks off: those that read peers' memory, which a lost
/// node takes away under the reader, and those that come upon a tile that does not hold.
fn breaks_off(at: At) -> bool {
    matches!(at, At::Decide | At::Verdict | At::Rebuild | At::Restore | At::Reencode)
}

/// The machine as a graph in the dot language.
pub fn dot() -> String {
    let mut rows: Vec<String> = Vec::new();
    for call in [Call::Checkpoint, Call::Restart] {
        for at in ALL {
            for outcome in Outcome::ALL {
                if let Some(to) = next(call, at, outcome) {
                    let row = format!("  {at:?} -> {to:?} [label=\"{outcome:?}\"];\n");
                    if !rows.contains(&row) {
                        rows.push(row);
                    }
                }
            }
        }
    }
    format!("digraph protocol {{\n{}}}\n", rows.concat())
}

/// Every state.
pub const ALL: [At; 39] = {
    use At::*;
    [
        Enter,
        Follow,
        Intend,
        BarrierQ,
        Agree,
        BarrierRefuse,
        Compare,
        BarrierC,
        Encode,
        Publish,
        BarrierA,
        Copy,
        BarrierB,
        Whole,
        MeetSettling,
        Decide,
        MeetDecided,
        Finish,
        MeetSettled,
        Verify,
        MeetVerified,
        Judge,
        MeetJudged,
        Verdict,
        Rebuild,
        MeetRebuilt,
        Restore,
        MeetRestored,
        Reencode,
        MeetEncoded,
        Reset,
        MeetReset,
        Join,
        Saved,
        Passed,
        Refused,
        Reported,
        Resumed,
        Unrecoverable,
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    /// A changed protocol shows as a changed picture. `RAIDSHMEM_WRITE_DOCS=1` writes it anew.
    #[test]
    fn the_drawing_is_that_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.dot");
        if std::env::var_os("RAIDSHMEM_WRITE_DOCS").is_some() {
            std::fs::write(path, dot()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), dot(), "docs/protocol.dot is stale");
    }

    #[test]
    fn every_state_is_reached_and_every_end_is_one() {
        for at in ALL {
            let into = |from| {
                [Call::Checkpoint, Call::Restart].into_iter().any(|call| {
                    Outcome::ALL.into_iter().any(|outcome| next(call, from, outcome) == Some(at))
                })
            };
            assert!(matches!(at, At::Enter | At::Whole) || ALL.into_iter().any(into), "{at:?}");
            let goes_on = next(Call::Restart, at, Outcome::Done).is_some();
            assert_eq!(goes_on, !at.is_end(), "{at:?}");
        }
    }
}
