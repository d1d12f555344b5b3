//! Rules of a local rollback that the explorer breaks on purpose, to check that it detects the
//! fault.

use crate::mutant::Mutant;

/// A rule broken on purpose, to test the explorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    Nothing,
    /// A rule of the replay code, which tests of the shipped code break, too.
    Rule(Mutant),
    /// The log of the predecessor is lost.
    EventsLost,
    /// A substitute in a collective reads the sources of the others again.
    SourceReadAgain,
    /// A substitute in a collective also writes the destinations of the other PEs.
    WritesOthers,
    /// It begins before every node shows the loss.
    ChosenEarly,
    /// Memory of a lost node is wiped before every node shows the loss.
    WipedEarly,
    /// A node is lost during a local rollback, and its PEs roll back locally, too.
    NodeLostThenIgnored,
    /// A PE rolls back locally although the replica of its log was lost before.
    NoReplicaNeeded,
}
