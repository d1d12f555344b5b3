//! Rules of the protocol that the checker breaks on purpose, to prove that it detects the fault.

use crate::mutant::Mutant;

/// A rule broken on purpose, to test the checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The real protocol.
    Nothing,
    /// A rule that can be broken in the library, too.
    Rule(Mutant),
    /// The program learns of a fault before the checkpoint is settled.
    NoSettleBeforeReport,
    /// A dead process's memory is adopted without checking its seals.
    AdoptedUnseen,
    /// A substitute votes for memory that it did not save before its program ran.
    LiveNotRescued,
    /// A PE in `shmem_finalize` waits there, and ignores losses.
    EndIgnoresLosses,
}
