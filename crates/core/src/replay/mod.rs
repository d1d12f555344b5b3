//! Local rollback: a substitute recomputes from the checkpoint alone, and no other PE rolls back.
//!
//! Since the last checkpoint, each PE logs its operations on other PEs and the results it receives
//! from them. A substitute restores that checkpoint for itself, runs the program again, and takes
//! from the logs the results that the program received and the operations of other PEs on its
//! memory:
//!
//! ```text
//! routine    log entries and replay of each OpenSHMEM routine
//! log        the logs as data: operations at their origin, events and barriers at each PE
//! merge      applies the entries of all origins to the memory of the substitute, in order
//! edges      the order of atomic operations on a word, from the value that each found
//! own        calls of the substitute itself: skipped, repeated, or answered from a log
//! handover   from logging only to direct access to the substitute, with nothing lost or repeated
//! replicas   the PE of another node that keeps a copy of a log, for the loss of a node
//! decide     local or global rollback after a loss, and the reason
//! place      checks that a substitute reaches the call that made the checkpoint
//! ```
//!
//! Each is decided here and nowhere else, over ports: [`log::Logs`] reads the logs of all,
//! [`merge::SubstitutePort`] has the memory of a substitute, [`port::CallPort`] and
//! [`port::MeetingPort`] what a call shows and sees. The crate `raidshmem` has these in mapped
//! memory, the model checker (`explore`) in a model of it.
//!
//! Invariants (`explore` checks them over every interleaving and every death of small programs):
//! - an entry is in the log before its operation is visible anywhere;
//! - every atomic operation and every assignment of a word is executed once over all incarnations;
//! - a local decision rolls no other PE back, and a decision is equal on all PEs.
//!
//! Limits: PEs map each other. Programs are free of races, and depend on their memory and on what
//! calls return alone.

pub mod call;
pub mod decide;
pub mod edges;
pub mod handover;
pub mod log;
pub mod meeting;
pub mod merge;
pub mod origin;
pub mod own;
pub mod place;
pub mod port;
pub mod replicas;
pub mod routine;

#[cfg(test)]
mod explore;
