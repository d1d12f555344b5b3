//! Collectives: the steps of the schedules, done over groups.
//!
//! `movement` and `reduce` choose the way; `relay` passes bytes on between nodes, `exchange` what
//! PEs leave each other in slots. In a job that goes on with fewer all go the way of `living`.

pub mod exchange;
mod living;
pub mod movement;
pub mod reduce;
mod relay;
