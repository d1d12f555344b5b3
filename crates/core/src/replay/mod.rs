//! Local rollback: a substitute recomputes from the checkpoint alone, and no other PE rolls back.
//!
//! Since the last checkpoint, each PE logs its operations on other PEs and the results it receives
//! from them. A substitute restores that checkpoint for itself, runs the program again, and takes
//! from the logs the results that the program received and the operations of other PEs on its
//! memory:
//!
//! ```text
//! routine    what each routine of OpenSHMEM logs, and what its replay does
//! log        the logs as data, and how they are read
//! port       what a call shows and sees
//! call       what is written down of each call, and what becomes of it in a replay
//! origin     an operation on a PE that may be lost
//! meeting    barriers and collectives, once each
//! own        the own log of a substitute, call by call
//! merge      what others did becomes the memory of a substitute, in order
//! edges      the order of atomic operations on a word, from what each found
//! handover   from "others only log" to "the substitute is reached", nothing lost or twice
//! replicas   which PE of another node keeps a copy of a log, for the loss of a node
//! decide     whether a loss is for one PE alone or takes all back, and the reason
//! place      whether a substitute comes to the call that made the checkpoint
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
