//! Access to the memory of PEs: addresses, places, transfers, words.
//!
//! ```text
//! address    addresses passed to a call    claims
//! strides    blocks at a stride
//! place      the address on a PE           checked
//! word       words that PEs poll, change
//! operation  a remote operation as data    elements, atomic: the calls that make one;
//!                                          single words of a mapped PE by a faster path
//! issue      the dispatch of operations, by the policy of the job
//! direct     execution without a log       rma: operations of the library itself
//! logged     execution through a log
//! prelude    results of calls before the first checkpoint
//! twice      two copies, one of which is always complete
//! slots      the work area of collectives
//! ```
//!
//! Invariant: only this folder turns C pointers and references of the safe API into accesses.

pub mod address;
pub mod atomic;
pub mod direct;
pub mod elements;
pub mod issue;
pub mod logged;
pub mod operation;
pub mod place;
pub mod prelude;
pub mod rma;
pub mod slots;
pub mod strides;
pub mod twice;
pub mod word;
