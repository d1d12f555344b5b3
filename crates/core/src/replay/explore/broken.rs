//! Rules of a local rollback that the explorer breaks on purpose, to check that it detects the
//! fault.

/// A rule broken on purpose, to test the explorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    Nothing,
    /// An operation is logged after it has happened.
    LoggedAfter,
    /// An operation is marked as done before it has happened.
    DoneBefore,
    /// An operation being executed is not marked as under way.
    NotUnderway,
    /// The result of an atomic operation does not imply the earlier operations of other PEs.
    FoundLocal,
    /// Operations that the target already has are repeated.
    NotSkipped,
    /// Bytes that were begun are skipped.
    BegunSkipped,
    /// Operations on the PE's own memory are skipped.
    OwnSkipped,
    /// An atomic operation that was under way is repeated.
    DoubtDoneAgain,
    /// An atomic operation that was under way is skipped.
    DoubtSkipped,
    /// Entries are applied one origin after the other.
    ByOrigin,
    /// An atomic operation leaves its new value, whatever is pending.
    PendingIgnored,
    /// A compare-and-swap that failed is applied.
    FailedApplied,
    /// The time of a wait is drawn before its last check.
    TimeBeforeLook,
    /// A PE draws the time of an observation without the clock.
    ClockIgnored,
    /// A PE does not adopt the times of a meeting.
    MeetingTimesIgnored,
    /// A get is executed again.
    ReadAgain,
    /// The events of the predecessor are not taken over.
    EventsLost,
    /// A meeting does not imply the earlier operations of other PEs.
    MeetingBringsNothing,
    /// The last meeting of the predecessor is considered over when all PEs have arrived.
    LastMeetingTrusted,
    /// A substitute in a collective reads the sources of the other PEs again.
    SourceReadAgain,
    /// A substitute in a collective also writes the destinations of the other PEs.
    WritesOthers,
    /// The substitute uses the memory that its predecessor left.
    InPlace,
    /// The substitute reads the chains before it publishes that it drains, and not again.
    NoSecondLook,
    /// The substitute hands over before every node shows the loss.
    HandedOverEarly,
    /// Entries that were taken over are not marked as done.
    NotMarked,
    /// An origin ignores the mark of entries that were taken over.
    MarkIgnored,
    /// A PE that only logged an operation releases peers before every node shows the loss.
    ReleasedEarly,
    /// Memory of a lost node is wiped before every node shows the loss.
    WipedEarly,
    /// A PE in a meeting reads the contribution of a lost node's PE without checking that it is
    /// available.
    LogsNotChecked,
    /// A PE in a meeting does not check again for losses shown since.
    NotLookedAgain,
    /// The result of an atomic operation on memory that may be wiped is accepted.
    FoundInWiped,
    /// An atomic operation on memory that may be wiped is repeated.
    DoneInWipedAgain,
    /// The result of a get from memory that may be wiped is accepted.
    ReadInWiped,
    /// A substitute starts before the log of another lost PE is restored.
    LogsNotAwaited,
    /// A node is lost while a PE rolls back, and the lost PEs roll back locally.
    NodeLostThenIgnored,
    /// A PE rolls back locally although the replica of its log was lost before.
    NoReplicaNeeded,
    /// Logs are dropped when all PEs have arrived at a checkpoint, not when all have left it.
    DroppedEarly,
}
