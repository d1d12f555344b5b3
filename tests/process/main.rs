//! Real processes and real SIGKILLs: what must go on goes on with the right sum, what cannot ends
//! with one agreed sentence, and nothing is left of either.
//!
//! - [`modes`]: every mode, a process or a node lost at every step of a checkpoint

#[path = "../support/mod.rs"]
mod support;

mod modes;
