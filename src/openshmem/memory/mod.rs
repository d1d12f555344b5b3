//! Access to the memory of PEs: addresses, places, transfers, words.
//!
//! ```text
//! address    addresses passed to a call    claims
//! strides    blocks at a stride
//! place      the address on a PE           checked
//! rma        copies                        elements: single words, by a faster path
//! word       words that PEs poll, change   atomic: the specification's operations
//! prelude    results of calls before the first checkpoint
//! twice      two copies, one of which is always complete
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
