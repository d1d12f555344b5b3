//! Rules of the protocol that a search breaks on purpose, and must find broken.

use crate::mutant::Mutant;

/// A rule broken on purpose, to test the checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The real protocol.
    Nothing,
    /// A rule that can be broken in the library, too.
    Rule(Mutant),
    /// The program hears of a fault before the checkpoint is settled.
    NoSettleBeforeReport,
    /// A dead process's memory is taken over without a look at its seals.
    AdoptedUnseen,
    /// A substitute speaks for memory that it has not saved before its program ran.
    LiveNotRescued,
    /// A PE in `shmem_finalize` waits there, whatever the others need.
    EndIgnoresLosses,
}
