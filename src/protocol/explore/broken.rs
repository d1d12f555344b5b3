//! Rules of the protocol that a search breaks on purpose, and must find broken.

use crate::mutant::{Mutant, breaks};

/// A rule broken on purpose, to test the checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The real protocol.
    Nothing,
    /// The new parity overwrites the agreed one.
    SlotReused,
    /// The decision is acted on without having been written.
    DecisionNotWritten,
    /// The program goes on while peers still copy, and puts into them.
    NoBarrierB,
    /// A PE copies before all have encoded.
    NoBarrierA,
    /// Forward as soon as one survivor has encoded.
    ForwardTooEarly,
    /// Encoding is believed without looking at the view.
    ViewNotChecked,
    /// A lost node's memory is wiped before all have seen that it is lost.
    WipedTooEarly,
    /// The program hears of a fault before the checkpoint is settled.
    NoSettleBeforeReport,
    /// A dead process's memory is taken over without a look at its seals.
    AdoptedUnseen,
    /// The program goes on before the parity that was lost is there again.
    ParityNotMadeAnew,
    /// The plan counts one parity more than there is.
    PlanTooHopeful,
    /// What a substitute takes over has no say in a decision.
    DeadUnheard,
    /// A substitute speaks for memory that it has not saved before its program ran.
    LiveNotRescued,
    /// Every call of the checkpoint meets, wherever it is made.
    EveryCallMeets,
    /// A PE in `shmem_finalize` waits there, whatever the others need.
    EndIgnoresLosses,
    /// It goes back to the checkpoint as all do, though its program does not.
    EndGoesBack,
    /// Parity that was lost is made anew, of what PEs in `shmem_finalize` have computed since.
    ParityOfTheEnd,
}

/// The rule that is broken by the switch of `crate::mutant`, as far as it lies with the driver, of
/// which this is a model; the pure rules break by themselves.
pub fn switched() -> Broken {
    let all = [
        (Mutant::DecisionNotWritten, Broken::DecisionNotWritten),
        (Mutant::NoBarrierB, Broken::NoBarrierB),
        (Mutant::NoBarrierA, Broken::NoBarrierA),
        (Mutant::SlotReused, Broken::SlotReused),
        (Mutant::ViewNotChecked, Broken::ViewNotChecked),
        (Mutant::WipedTooEarly, Broken::WipedTooEarly),
        (Mutant::ParityNotMadeAnew, Broken::ParityNotMadeAnew),
    ];
    let chosen = all.into_iter().find(|(mutant, _)| breaks(*mutant));
    chosen.map_or(Broken::Nothing, |(_, broken)| broken)
}
