//! The protocol of checkpoint and recovery as a pure state machine: states, outcomes, a table.
//!
//! A PE inside `shmem_checkpoint_all` or `shmem_restart_pes` is in one state of [`At`]. The
//! [`driver`] selects the operations of the state, one after the other, and passes the outcome to
//! [`next`]. The crate `raidshmem` executes operations on real memory, the model checker
//! (`explore`, in the tests) on a model of memory, views and deaths, and the simulator
//! (`tests/sim`) on its own memory. The machine takes two decisions:
//! [`crate::store::phase::decide`] and [`crate::plan::check`].
//!
//! ```text
//! checkpoint  Enter Intend BarrierQ Agree Compare BarrierC Encode Publish BarrierA
//!             Copy BarrierB                                                     -> Saved
//! in parts    Enter Intend BarrierQ Agree Compare CopyAhead BarrierCopied       -> Copied
//!             Encode Publish BarrierA Copy                                      -> Saved
//!             Enter Follow                                                      -> Passed
//! settle      MeetSettling Decide MeetDecided Finish MeetSettled                -> Reported
//! restart     Whole, settle, Verify .. Judge .. Rebuild .. Restore .. Reencode .. Reset .. Join
//!                                                                               -> Resumed
//! finalize    as a restart if a PE is lost, without rebuilding, restoring or re-encoding
//! ```
//!
//! If a PE of the view is in `shmem_finalize`, no parity is recomputed, because live memory then
//! does not belong to a single checkpoint; a PE that has rolled back runs to its end without the
//! other PEs.
//!
//! In a state named Meet, all living PEs of the view wait for each other *in that view*. A PE that
//! has moved to a later view does not count; it makes the meeting impossible. A change of view is
//! the outcome `Changed`, which leads back to `MeetSettling` in the new view.
//!
//! A checkpoint in parts has parity that is computed in the background: the call ends once all PEs
//! have copied their live memory, and a thread of each PE takes the second part while the program
//! runs. That part reads snapshots alone. A loss ends it ([`At::Interrupted`]), and the next call
//! of the program waits for its end before anything else, so each PE is in one of the two at a
//! time.
//!
//! Invariants: no user code runs between `Publish` and the end of a call, except that of a
//! checkpoint in parts, of which nothing is copied any more then; a decision is written
//! before any PE acts on it; the store of the chosen checkpoint is not overwritten before
//! redundancy is restored.

pub mod brought;
pub mod driver;
#[cfg(test)]
pub(crate) mod explore;
pub mod operation;
mod words;

/// The call of the program that a PE is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// `shmem_checkpoint_all`.
    Checkpoint,
    /// `shmem_checkpoint_all`, which ends before the parity is computed.
    Copy,
    /// The rest of that checkpoint, in the background.
    Protect,
    /// `shmem_restart_pes`.
    Restart,
    /// `shmem_finalize`: the PE keeps its results, and serves PEs that roll back.
    Finalize,
}

impl Call {
    /// True if the call goes through a whole recovery, not only to the report of the fault.
    pub fn recovers(self) -> bool {
        matches!(self, Call::Restart | Call::Finalize)
    }

    /// Returns the name of the call, for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Call::Checkpoint | Call::Copy | Call::Protect => "shmem_checkpoint_all",
            Call::Restart => "shmem_restart_pes",
            Call::Finalize => "a recovery in shmem_finalize",
        }
    }
}

/// The position of a PE in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// Begins a checkpoint: is the view the joined one?
    Enter,
    /// The first call after a restart of a PE that is behind: wait for the next action of the
    /// reference ([`crate::store::site`]).
    Follow,
    /// Quiet; write the manifest, publish the intent.
    Intend,
    /// Barrier Q: no transfer is in flight anywhere, every intent can be read.
    BarrierQ,
    /// Compare the intents of all PEs.
    Agree,
    /// Barrier before a refusal: no PE changes its intent before all PEs have read it.
    BarrierRefuse,
    /// Find the changes since the last checkpoint, and publish them.
    Compare,
    /// Barrier C: the changes of all PEs can be read.
    BarrierC,
    /// Pull the chunks that this PE protects, and write their parity into the free slot.
    Encode,
    /// Seal the slot and publish `Encoded(n + 1)`.
    Publish,
    /// Barrier A.
    BarrierA,
    /// Copy live memory into the snapshot: `Copying(n + 1)`, then `Agreed(n + 1)`.
    Copy,
    /// Barrier B.
    BarrierB,
    /// Copy live memory into the free snapshot, before parity over it is computed.
    CopyAhead,
    /// Barrier: all PEs have copied, so the program may change memory again.
    BarrierCopied,
    /// Wait until the current view has no dead PE; adopt it.
    Whole,
    /// Meet: every living PE has stopped.
    MeetSettling,
    /// Read all phases and decisions, decide, write the decision.
    Decide,
    /// Meet: every living PE has written the decision.
    MeetDecided,
    /// Forward: complete the snapshot. Back: discard the unfinished checkpoint.
    Finish,
    /// Meet: all living PEs have one checkpoint.
    MeetSettled,
    /// Check this PE's store and publish the faults. The tiles of the snapshot are checked when
    /// they are used, unless the recovery has restarted.
    Verify,
    /// Meet: all findings can be read.
    MeetVerified,
    /// Make the plan from the findings of all PEs.
    Judge,
    /// Meet: all have read all findings.
    MeetJudged,
    /// Continue, or abort with the verdict; that requires that all tiles were checked.
    Verdict,
    /// Decode the missing parts of this PE's snapshot.
    Rebuild,
    /// Meet: all snapshots are complete.
    MeetRebuilt,
    /// Copy the snapshot into live memory.
    Restore,
    /// Meet: live memory on all PEs is that of the checkpoint.
    MeetRestored,
    /// Compute the missing parity.
    Reencode,
    /// Meet: redundancy is restored.
    MeetEncoded,
    /// Reset control words.
    Reset,
    /// Meet: all PEs have reset their control words.
    MeetReset,
    /// Join the view, clear the decision.
    Join,
    /// End: the checkpoint is agreed.
    Saved,
    /// End: all PEs have copied their memory, which is not protected yet.
    Copied,
    /// End: a loss interrupted the background, and the next call settles it.
    Interrupted,
    /// End: no checkpoint, because nothing was written since the restart and the other PEs have
    /// moved on.
    Passed,
    /// End: the checkpoint was refused on every PE.
    Refused,
    /// End: a fault is reported; all PEs have one checkpoint.
    Reported,
    /// End: rolled back to the checkpoint, with full redundancy.
    Resumed,
    /// End: the job cannot continue; the error is equal on every PE.
    Unrecoverable,
}

/// The result of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The state is complete; in a meeting, all PEs have arrived.
    Done,
    /// A PE was lost: the view has changed.
    Changed,
    /// The intents do not fit.
    Refused,
    /// Too much is lost, or calls will never meet. For a substitute in `Enter`: the live memory
    /// that it would have to settle is lost.
    Lost,
    /// This PE is behind; the other PEs have moved on.
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
    /// True for the end of a call.
    pub fn is_end(self) -> bool {
        use At::{Copied, Interrupted, Passed, Refused, Reported, Resumed, Saved, Unrecoverable};
        matches!(self, Saved | Passed | Refused | Reported | Resumed | Unrecoverable)
            || matches!(self, Copied | Interrupted)
    }
}

/// Transitions that do not depend on the call.
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
        (CopyAhead, Done, BarrierCopied),
        (BarrierCopied, Done, Copied),
        (BarrierCopied, Changed, MeetSettling),
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

/// Returns the state after `outcome` at `at`. None if the state cannot have that outcome.
pub fn next(call: Call, at: At, outcome: Outcome) -> Option<At> {
    use At::{
        CopyAhead, Decide, Interrupted, MeetSettled, MeetSettling, Reported, Saved, Unrecoverable,
        Verify, Whole,
    };
    match (call.recovers(), at, outcome) {
        (_, At::Compare, Outcome::Done) if call == Call::Copy => Some(CopyAhead),
        (_, At::Copy, Outcome::Done) if call == Call::Protect => Some(Saved),
        (_, _, Outcome::Changed) if call == Call::Protect => Some(Interrupted),
        // A substitute has no live memory to settle. Its adopted memory votes later, in a whole
        // view.
        (false, At::Enter, Outcome::Lost) => Some(Reported),
        (false, MeetSettled, Outcome::Done) => Some(Reported),
        (true, MeetSettled, Outcome::Done) => Some(Verify),
        // Only substitutes are left in this view: the restart, in a whole view, ends the job.
        (false, Decide, Outcome::Lost) => Some(Reported),
        (true, Decide, Outcome::Lost) => Some(Unrecoverable),
        (false, at, Outcome::Changed) if meets(at) || at == Decide => Some(MeetSettling),
        (true, at, Outcome::Changed) if meets(at) || ends_with_the_view(at) => Some(Whole),
        _ => {
            let row = TABLE.iter().find(|&&(from, with, _)| (from, with) == (at, outcome));
            row.map(|&(.., to)| to)
        }
    }
}

/// Returns the number under which a meeting is published, ascending within a recovery; None if `at`
/// is not a meeting.
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

/// True for recovery steps that a change of view interrupts: those that read peers' memory, which
/// disappears with a lost node, and those that may find an invalid tile.
fn ends_with_the_view(at: At) -> bool {
    matches!(at, At::Decide | At::Verdict | At::Rebuild | At::Restore | At::Reencode)
}

/// Draws the machine as a graph in the dot language.
pub fn dot() -> String {
    let mut rows: Vec<String> = Vec::new();
    for call in [Call::Checkpoint, Call::Copy, Call::Restart] {
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

/// All states.
pub const ALL: [At; 43] = {
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
        CopyAhead,
        BarrierCopied,
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
        Copied,
        Interrupted,
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

    const CALLS: [Call; 4] = [Call::Checkpoint, Call::Copy, Call::Protect, Call::Restart];

    /// A changed protocol must show as a changed picture. `RAIDSHMEM_WRITE_DOCS=1` updates it.
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
                CALLS.into_iter().any(|call| {
                    Outcome::ALL.into_iter().any(|outcome| next(call, from, outcome) == Some(at))
                })
            };
            assert!(matches!(at, At::Enter | At::Whole) || ALL.into_iter().any(into), "{at:?}");
            let goes_on = next(Call::Restart, at, Outcome::Done).is_some();
            assert_eq!(goes_on, !at.is_end(), "{at:?}");
        }
    }
}
