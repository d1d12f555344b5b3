//! What a PE does in each state of the protocol: lists of operations, in their order.
//!
//! [`list`] is where it stands when a PE voids, encodes, seals, posts and copies. Which of its
//! lists a state takes is decided by [`super::driver`], which goes through it.
//!
//! Invariants: a record is void while what it speaks of is written; nothing is read from another
//! PE that it has not posted; an operation is one moment for the other PEs, or a transfer of tiles
//! between two such moments.
//!
//! Left out: how an operation is carried out, and how a PE waits.

use super::{At, meeting};
use crate::inject::Point;
use crate::quantity::CheckpointNumber;
use crate::store::phase::Phase;

/// A part of the store whose record says which checkpoint it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StorePart {
    /// The snapshot.
    Snapshot,
    /// The slot of parity.
    Slot,
}

/// The phase that a PE posts, of the checkpoint that the driver is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Posted {
    /// It makes the checkpoint.
    Entering,
    /// Its parity is complete.
    Encoded,
    /// Its snapshot is being written.
    Copying,
    /// It has the checkpoint.
    Agreed,
    /// It has the one before, after a refusal.
    Previous,
    /// What it inherited has no say any more.
    None,
}

impl Posted {
    /// The phase for checkpoint `number`.
    pub fn phase(self, number: CheckpointNumber) -> Option<Phase> {
        Some(match self {
            Posted::Entering => Phase::Entering(number),
            Posted::Encoded => Phase::Encoded(number),
            Posted::Copying => Phase::Copying(number),
            Posted::Agreed => Phase::Agreed(number),
            Posted::Previous => Phase::Agreed(number.previous()),
            Posted::None => return None,
        })
    }
}

/// An operation of a PE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// A step at which a fault can be injected.
    Pass(Point),
    /// Posts the phase in the own header.
    Post(Posted),
    /// The record of a part of the own store says nothing.
    Void(StorePart),
    /// It speaks of the checkpoint again.
    Seal(StorePart),
    /// Comes to the barrier or meeting of this state.
    Arrive,
    /// Waits for the others there.
    Await,

    /// Shows the place of the call, where the program has two.
    ShowCall,
    /// Waits for what the reference does, as one that is behind.
    Follow,
    /// Completes all transfers.
    Quiet,
    /// Writes the manifest, and says what is to be saved and what it needs.
    Describe,
    /// Gets memory for the store.
    Prepare,
    /// Finds what changed since the last checkpoint, and shows it.
    Compare,
    /// Pulls what this PE protects into the void slot.
    Encode,
    /// Goes on only if no PE was lost since the view was joined.
    StillJoined,
    /// Live memory into the void snapshot.
    CopyLive,
    /// Begins to watch what is written.
    Watch,
    /// Notes that all have the checkpoint.
    Saved,

    /// Forgets what was known of changes, of which a recovery keeps nothing.
    ForgetChanges,
    /// Waits for a view in which no PE is dead.
    AwaitWhole,
    /// Takes the view that is shown.
    Adopt,
    /// Shows phase and decision.
    ShowVote,
    /// Decides, from the votes of the living.
    Decide,
    /// Takes the groups that the checkpoint decided on was encoded with.
    TakeGroups,
    /// Finds who is behind whom, where the program calls the checkpoint at two places.
    FindApart,
    /// Writes the decision.
    WriteDecision,
    /// What a dead process left in live memory, and was kept beside, into the void snapshot.
    BringInherited,
    /// Nothing lies beside the snapshot any more.
    ClearBeside,
    /// The decision is the last agreed checkpoint.
    SetAgreed,

    /// Checks the own store, and shows what does not hold.
    CheckStore,
    /// Reads the findings of all.
    ReadFindings,
    /// Says which PE's store is damaged: the recovery begins again in the next view.
    ShowDamage,
    /// Waits for the view after the one adopted.
    AwaitNext,
    /// Goes on only if the own snapshot misses something.
    NeedSnapshot,
    /// Decodes that from the others' stores.
    Decode,
    /// Goes on only if the view is still the one adopted.
    StillAdopted,
    /// Notes that the snapshot is rebuilt.
    Rebuilt,
    /// Snapshot into live memory.
    Restore,
    /// Goes on only if the own parity misses something.
    NeedParity,
    /// Pulls that anew.
    EncodeMissing,
    /// Notes what the store occupies.
    Account,
    /// Resets control words.
    ResetWords,
    /// Forgets the decision.
    ForgetDecision,
    /// Joins the view that was adopted.
    Join,
}

/// Which of its lists a state takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Path {
    /// Most have one.
    Usual,
    /// There are two snapshots in turns: the new one is written with the parity.
    InTurns,
    /// No snapshots are kept.
    NoSnapshot,
    /// The checkpoint is refused.
    Refused,
    /// The report of a fault: the view is the one that is shown.
    Report,
    /// The snapshot is completed.
    Copies,
    /// A substitute completes it from what it inherited.
    Brings,
    /// A substitute inherited the checkpoint decided on.
    Inherits,
    /// What it inherited is not that.
    Forfeits,
    /// It inherited nothing.
    Nothing,
    /// The damage is not known whole yet.
    Damaged,
}

/// The operations of a state, in their order.
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
        (At::Agree, Path::Refused) => &[Post(Previous)],
        (At::Agree, _) => &[Prepare],
        (At::Compare, _) => &[Compare],
        // The slot may hold this very number, of an attempt that was given up: half of that
        // and half of this would pass every checksum.
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
            ClearBeside,
            SetAgreed,
        ],
        (At::Finish, Path::Inherits) => &[Post(Agreed), ClearBeside, SetAgreed],
        (At::Finish, Path::Forfeits) => &[Post(None), ClearBeside, SetAgreed],
        (At::Finish, Path::Nothing) => &[ClearBeside, SetAgreed],
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
