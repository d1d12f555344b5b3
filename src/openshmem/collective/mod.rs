//! Collectives: the steps of the schedules, done over groups.
//!
//! `movement` and `reduce` choose the way; `merge` combines what one PE reads of all; `relay`
//! passes bytes on between nodes, `exchange` what PEs leave each other in slots. In a job that goes
//! on with fewer all go the way of `living`, in one with logs that of `logged`.

pub mod exchange;
mod living;
pub mod logged;
mod merge;
pub mod movement;
pub mod reduce;
mod relay;
