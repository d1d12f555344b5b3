//! Collectives: the steps of the schedules, done over groups.
//!
//! `movement` and `reduce` choose the way; `relay` passes bytes on between nodes, `exchange` what
//! PEs leave each other in slots.

pub mod exchange;
pub mod movement;
pub mod reduce;
mod relay;
