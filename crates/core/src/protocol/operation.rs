//! The operations of a PE in each state of the protocol, in order.
//!
//! [`list`] defines when a PE voids, encodes, seals, posts and copies. [`super::driver`] decides
//! which list a state uses, and walks through it.
//!
//! Invariants: a record is void while the data it describes is being written; a PE reads nothing
//! from another PE before that PE has posted it; an operation is atomic for the other PEs, or a
//! transfer of tiles between two atomic operations.
//!
//! Left out: execution of operations, and waiting.

use super::{At, meeting};
use crate::inject::Point;
use crate::quantity::CheckpointNumber;
use crate::store::phase::Phase;

/// A part of the store whose record names its checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StorePart {
    /// The snapshot.
    Snapshot,
    /// The slot of parity.
    Slot,
}

/// The phase that a PE posts, relative to the checkpoint of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Posted {
    /// It is making the checkpoint.
    Entering,
    /// Its parity is complete.
    Encoded,
    /// Its snapshot is being written.
    Copying,
    /// Its snapshot is complete, before its parity.
    Copied,
    /// Its snapshot and its parity are complete.
    Protected,
    /// It has the checkpoint.
    Agreed,
    /// It has the previous checkpoint, after a refusal.
    Previous,
    /// The inherited phase no longer votes.
    None,
}

impl Posted {
    /// Returns the phase for checkpoint `number`; `heals` if a recovery encodes it again.
    pub fn phase(self, number: CheckpointNumber, heals: bool) -> Option<Phase> {
        Some(match self {
            Posted::Entering if heals => Phase::Healing(number),
            Posted::Encoded if heals => Phase::Healed(number),
            Posted::Previous if heals => Phase::Agreed(number.unhealed()),
            Posted::Entering => Phase::Entering(number),
            Posted::Encoded => Phase::Encoded(number),
            Posted::Copying => Phase::Copying(number),
            Posted::Copied => Phase::Copied(number),
            Posted::Protected => Phase::Protected(number),
            Posted::Agreed => Phase::Agreed(number),
            Posted::Previous => Phase::Agreed(number.previous()),
            Posted::None => return None,
        })
    }
}

/// An operation of a PE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Passes a point at which a fault can be injected.
    Pass(Point),
    /// Posts the phase in this PE's header.
    Post(Posted),
    /// Voids the record of a part of this PE's store.
    Void(StorePart),
    /// Makes the record name the checkpoint again.
    Seal(StorePart),
    /// Arrives at the barrier or meeting of this state.
    Arrive,
    /// Waits there for the other PEs.
    Await,

    /// Publishes the site of the call, if the program has two.
    ShowCall,
    /// Waits for the next action of the reference, on a PE that is behind.
    Follow,
    /// Completes all transfers.
    Quiet,
    /// Writes the manifest, and publishes the intent.
    Describe,
    /// Allocates memory for the store.
    Prepare,
    /// Finds the changes since the last checkpoint, and publishes them.
    Compare,
    /// Pulls the chunks that this PE protects, and writes their parity into the void slot.
    Encode,
    /// Continues only if no PE was lost since the view was joined.
    StillJoined,
    /// Copies live memory into the void snapshot.
    CopyLive,
    /// Begins write tracking.
    Watch,
    /// Records that all PEs have the checkpoint.
    Saved,

    /// Discards all knowledge of changes, which is invalid after a recovery.
    ForgetChanges,
    /// Waits for a view in which no PE is dead.
    AwaitWhole,
    /// Adopts the published view.
    Adopt,
    /// Publishes phase and decision.
    ShowVote,
    /// Decides, from the votes of the living PEs.
    Decide,
    /// Switches to the groups that the checkpoint decided on was encoded with.
    TakeGroups,
    /// Finds the PEs that are behind others, if the program calls the checkpoint at two places.
    FindApart,
    /// Writes the decision.
    WriteDecision,
    /// Copies the shadow snapshot of a dead process's live memory into the void snapshot.
    BringInherited,
    /// Discards the shadow snapshot.
    ClearShadow,
    /// Records the decision as the last agreed checkpoint.
    SetAgreed,

    /// Checks this PE's store, and publishes the faults.
    CheckStore,
    /// Reads the findings of all PEs.
    ReadFindings,
    /// Publishes which PE's store is corrupt: the recovery restarts in the next view.
    ShowDamage,
    /// Waits for the view after the adopted one.
    AwaitNext,
    /// Continues only if this PE's snapshot is incomplete.
    NeedSnapshot,
    /// Decodes the missing parts from the stores of other PEs.
    Decode,
    /// Continues only if the view is still the adopted one.
    StillAdopted,
    /// Records that the snapshot is rebuilt.
    Rebuilt,
    /// Copies the snapshot into live memory.
    Restore,
    /// Continues only if this PE's parity is incomplete.
    NeedParity,
    /// Computes the missing parity.
    EncodeMissing,
    /// Records the size of the store.
    Account,
    /// Resets control words.
    ResetWords,
    /// Clears the decision.
    ForgetDecision,
    /// Joins the adopted view.
    Join,
}

/// The list that a state uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Path {
    /// The only list of most states.
    Usual,
    /// Two snapshots in turn: the new one is written with the parity.
    InTurns,
    /// The snapshot was written before the parity, and live memory has changed since.
    Ahead,
    /// Mode without snapshots.
    NoSnapshot,
    /// Refused checkpoint.
    Refused,
    /// Report of a fault: adopts the published view.
    Report,
    /// Completes the snapshot.
    Copies,
    /// A substitute completes the snapshot from the inherited shadow.
    Brings,
    /// A substitute inherited the checkpoint decided on.
    Inherits,
    /// A substitute inherited a different checkpoint.
    Forfeits,
    /// A substitute inherited nothing.
    Nothing,
    /// The extent of the damage is not yet known.
    Damaged,
}

/// Returns the operations of a state, in order.
pub(super) fn list(at: At, path: Path) -> &'static [Op] {
    use Op::*;
    use Posted::*;
    use StorePart::{Slot, Snapshot};
    match (at, path) {
        (At::Enter, _) => &[ShowCall],
        (At::Follow, _) => &[ShowCall, Op::Follow],
        (At::Intend, _) => &[Quiet, Pass(Point::Quiesce), Describe, Post(Entering)],
        (At::BarrierB, _) => &[Arrive, Await, Saved],
        (At::BarrierQ | At::BarrierC | At::BarrierA | At::BarrierRefuse, _) => &[Arrive, Await],
        (At::BarrierCopied, _) => &[Arrive, Await],
        (At::CopyAhead, _) | (_, Path::Ahead) => in_parts(at),
        (At::Agree, Path::Refused) => &[Post(Previous)],
        (At::Agree, _) => &[Prepare],
        (At::Compare, _) => &[Compare],
        // The slot may hold this very number, from an abandoned attempt: a mixture of the two
        // attempts would pass every checksum.
        (At::Encode, Path::InTurns) => &[Void(Slot), Void(Snapshot), Encode, StillJoined],
        (At::Encode, _) => &[Void(Slot), Encode, StillJoined],
        (At::Publish, _) => &[Seal(Slot), Post(Encoded), Pass(Point::Encoded)],
        (At::Copy, Path::InTurns) => {
            &[Post(Copying), CopyLive, Seal(Snapshot), Post(Agreed), Watch, Pass(Point::Copied)]
        }
        (At::Copy, _) => &[
            Post(Copying),
            Void(Snapshot),
            CopyLive,
            Seal(Snapshot),
            Post(Agreed),
            Watch,
            Pass(Point::Copied),
        ],
        (At::Whole, _) => &[ForgetChanges, AwaitWhole, Adopt],
        (At::MeetSettling, Path::Report) => &[Adopt, Pass(Point::Settle), ShowVote, Arrive, Await],
        (At::MeetSettling, _) => &[Pass(Point::Settle), ShowVote, Arrive, Await],
        (at, _) if meeting(at).is_some() => &[Arrive, Await],
        (At::Decide, _) => &[Decide, TakeGroups, FindApart, WriteDecision, Pass(Point::Decided)],
        (At::Finish, Path::Copies) => {
            &[Post(Copying), Void(Snapshot), CopyLive, Seal(Snapshot), Post(Agreed), SetAgreed]
        }
        (At::Finish, Path::Brings) => &[
            Post(Copying),
            Void(Snapshot),
            BringInherited,
            Seal(Snapshot),
            Post(Agreed),
            ClearShadow,
            SetAgreed,
        ],
        (At::Finish, Path::Inherits) => &[Post(Agreed), ClearShadow, SetAgreed],
        (At::Finish, Path::Forfeits) => &[Post(None), ClearShadow, SetAgreed],
        (At::Finish, Path::Nothing) => &[ClearShadow, SetAgreed],
        (At::Finish, _) => &[Post(Agreed), SetAgreed],
        (At::Verify, _) => &[Pass(Point::Verify), CheckStore],
        (At::Judge, _) => &[ReadFindings],
        (At::Verdict, _) => &[ShowDamage, AwaitNext],
        (At::Rebuild, Path::NoSnapshot) => &[Decode, StillAdopted, Rebuilt],
        (At::Rebuild, _) => {
            &[NeedSnapshot, Void(Snapshot), Decode, StillAdopted, Seal(Snapshot), Rebuilt]
        }
        (At::Restore, Path::NoSnapshot) => &[Restore, Seal(Snapshot)],
        (At::Restore, _) => &[Restore],
        (At::Reencode, _) => {
            &[NeedParity, Void(Slot), EncodeMissing, StillAdopted, Seal(Slot), Account]
        }
        (At::Reset, _) => &[ResetWords, Post(Agreed)],
        (At::Join, _) => &[ForgetDecision, Op::Join, Pass(Point::Resume)],
        _ => &[],
    }
}

/// Returns the operations of a state that only a checkpoint in parts has, or has differently.
fn in_parts(at: At) -> &'static [Op] {
    use Op::*;
    use StorePart::{Slot, Snapshot};
    match at {
        At::CopyAhead => &[
            Void(Snapshot),
            CopyLive,
            Seal(Snapshot),
            Post(Posted::Copied),
            Watch,
            Pass(Point::Copied),
        ],
        At::Encode => &[Void(Slot), Encode, StillJoined],
        At::Publish => &[Seal(Slot), Post(Posted::Protected), Pass(Point::Encoded)],
        _ => &[Post(Posted::Agreed), SetAgreed, Saved],
    }
}
