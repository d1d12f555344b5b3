//! Rules of a local rollback that a search breaks on purpose, and must find broken.

/// A rule broken on purpose, to test the explorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    Nothing,
    /// An operation is logged after it has happened.
    LoggedAfter,
    /// An operation is said to be done before it has happened.
    DoneBefore,
    /// What is carried out is not said to be under way.
    NotUnderway,
    /// What an atomic operation found tells its origin nothing of what others did before.
    FoundAlone,
    /// What the target has is done again.
    NotSkipped,
    /// Bytes that were begun are skipped.
    BegunSkipped,
    /// Operations on the own memory are skipped.
    OwnSkipped,
    /// An atomic operation that was under way is done again.
    DoubtDoneAgain,
    /// The same, and it is skipped.
    DoubtSkipped,
    /// Entries are applied one origin after the other.
    ByOrigin,
    /// An atomic operation leaves its new value, whatever is pending.
    PendingIgnored,
    /// A compare-and-swap that failed is applied.
    FailedApplied,
    /// The time of a wait is drawn before its last look.
    TimeBeforeLook,
    /// A PE draws the time of what it learns without the clock.
    ClockIgnored,
    /// A PE does not take over the times of a meeting.
    MeetingTimesIgnored,
    /// A get is carried out again.
    ReadAgain,
    /// What the predecessor learned is not taken over.
    EventsLost,
    /// A meeting brings nothing of what others did before it.
    MeetingBringsNothing,
    /// The last meeting of the predecessor is taken to be over when all have come.
    LastMeetingTrusted,
    /// A substitute in a collective reads the sources of the others again.
    SourceReadAgain,
    /// A substitute in a collective writes the destinations of the others, too.
    WritesOthers,
    /// The substitute uses the memory that its predecessor left.
    InPlace,
    /// The substitute looks at the chains before it shows that it drains, and not again.
    NoSecondLook,
    /// It hands over before every node shows the loss.
    HandedOverEarly,
    /// What was taken over is not marked as done.
    NotMarked,
    /// An origin does not look at that mark.
    MarkIgnored,
    /// A PE that only logged an operation releases others before every node shows the loss.
    ReleasedEarly,
    /// Memory of a lost node is wiped before every node shows the loss.
    WipedEarly,
    /// A PE in a meeting reads what a lost node's PE brought without a look whether that is there.
    LogsNotChecked,
    /// It does not look again whether a loss was shown since.
    NotLookedAgain,
    /// What an atomic operation found in memory that may be wiped is believed.
    FoundInWiped,
    /// It is done again.
    DoneInWipedAgain,
    /// What a get read in memory that may be wiped is believed.
    ReadInWiped,
    /// A substitute begins before the log of another lost PE is back.
    LogsNotAwaited,
    /// A node is lost while a PE goes back, and the lost go back alone.
    NodeLostThenIgnored,
    /// A PE goes back alone, though the replica of its log was lost before.
    NoReplicaNeeded,
    /// Logs are dropped when all have come to a checkpoint, not when all have left it.
    DroppedEarly,
}
