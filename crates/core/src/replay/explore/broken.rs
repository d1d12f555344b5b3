//! Rules of a local rollback that the explorer breaks on purpose, to check that it detects the
//! fault.

use crate::mutant::Mutant;

/// A rule broken on purpose, to test the explorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    Nothing,
    /// One of the machine, which tests of the shipped code break, too.
    Rule(Mutant),
    /// The log of the predecessor is lost.
    EventsLost,
    /// A substitute in a collective reads the sources of the others again.
    SourceReadAgain,
    /// A substitute in a collective also writes the destinations of the other PEs.
    WritesOthers,
    /// A substitute restores its memory while others are about to write there.
    QuietNotAwaited,
    /// It begins before every node shows the loss.
    ChosenEarly,
    /// Memory of a lost node is wiped before every node shows the loss.
    WipedEarly,
    /// A substitute begins before the log of another lost PE is back.
    LogsNotAwaited,
    /// A substitute begins with logs of others that are of an interval before.
    LogsOfBefore,
    /// A node is lost while a PE goes back, and the lost go back alone.
    NodeLostThenIgnored,
    /// A PE rolls back locally although the replica of its log was lost before.
    NoReplicaNeeded,
}
