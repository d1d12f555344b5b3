//! Rules that tests can break, one at a time, to see which of them notices: in a build with the
//! feature `mutants`, by `RAIDSHMEM_MUTANT=NAME`. `.ci/mutants` does it for all of them.
//!
//! Without the feature [`breaks`] is false, what asks is compiled away, and nothing knows the
//! variable. The driver of the protocol asks its port, so that the model checker and the simulator
//! break its rules in any build.

#![forbid(unsafe_code)]

/// A rule that can be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// A decision is acted on without having been written.
    DecisionNotWritten,
    /// The program goes on while peers still copy.
    NoBarrierB,
    /// A PE copies before all have encoded.
    NoBarrierA,
    /// Forward as soon as one survivor has encoded.
    ForwardTooEarly,
    /// The new parity overwrites the agreed one.
    SlotReused,
    /// What was pulled is believed without a look at the view.
    ViewNotChecked,
    /// A stamp holds whatever the tile is.
    StampBelieved,
    /// The plan counts one parity more than there is.
    PlanTooHopeful,
    /// Lost parity is not made anew.
    ParityNotMadeAnew,
    /// A substitute is chosen, and memory wiped, before all nodes show the death.
    WipedTooEarly,
    /// A PE in `shmem_finalize` goes back to the checkpoint as all do, though its program does not.
    EndGoesBack,
    /// Parity that was lost is made anew, of what PEs in `shmem_finalize` have computed since.
    ParityOfTheEnd,
    /// Who wakes does not fence between its store and its look for sleepers.
    WakeWithoutFence,
}

/// True if this process is to break the rule.
#[inline]
pub fn breaks(rule: Mutant) -> bool {
    chosen() == Some(rule)
}

/// The rule that is broken in this process.
#[cfg(not(feature = "mutants"))]
#[inline]
pub fn chosen() -> Option<Mutant> {
    None
}

/// The rule that is broken in this process.
#[cfg(feature = "mutants")]
pub fn chosen() -> Option<Mutant> {
    static CHOSEN: std::sync::OnceLock<Option<Mutant>> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = std::env::var("RAIDSHMEM_MUTANT").ok()?;
        let found = ALL.iter().find(|(own, _)| *own == name);
        Some(found.unwrap_or_else(|| panic!("RAIDSHMEM_MUTANT={name}: there is none")).1)
    })
}

/// Their names.
#[cfg(feature = "mutants")]
pub const ALL: &[(&str, Mutant)] = &[
    ("decision-not-written", Mutant::DecisionNotWritten),
    ("no-barrier-b", Mutant::NoBarrierB),
    ("no-barrier-a", Mutant::NoBarrierA),
    ("forward-too-early", Mutant::ForwardTooEarly),
    ("slot-reused", Mutant::SlotReused),
    ("view-not-checked", Mutant::ViewNotChecked),
    ("stamp-believed", Mutant::StampBelieved),
    ("plan-too-hopeful", Mutant::PlanTooHopeful),
    ("parity-not-made-anew", Mutant::ParityNotMadeAnew),
    ("wiped-too-early", Mutant::WipedTooEarly),
    ("end-goes-back", Mutant::EndGoesBack),
    ("parity-of-the-end", Mutant::ParityOfTheEnd),
    ("wake-without-fence", Mutant::WakeWithoutFence),
];
