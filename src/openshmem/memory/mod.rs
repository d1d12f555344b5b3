//! Access to the memory of PEs: addresses, places, transfers, words.
//!
//! ```text
//! address    what a call is given          claims
//! strides    blocks that are far apart
//! place      where that is on a PE         checked
//! rma        copies                        elements: single words, by a shorter way
//! word       what PEs poll and change      atomic: as the specification's calls do
//! prelude    results of calls before the first checkpoint
//! twice      two copies, one of them always whole
//! slots      the work area of collectives
//! ```
//!
//! Invariant: only this folder turns C pointers and references of the safe API into accesses.

pub mod address;
pub mod atomic;
pub mod elements;
pub mod logged;
pub mod place;
pub mod prelude;
pub mod rma;
pub mod slots;
pub mod strided;
pub mod strides;
pub mod twice;
pub mod word;
