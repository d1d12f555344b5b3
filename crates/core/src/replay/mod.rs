//! Local rollback: a substitute recomputes from the checkpoint alone, and no other PE rolls back.
//!
//! Since the last checkpoint, each PE logs its operations on other PEs and the results it receives
//! from them. A substitute restores that checkpoint for itself, runs the program again, and takes
//! from the logs the results that the program received and the operations of other PEs on its
//! memory:
//!
//! ```text
//! routine    the entries that each OpenSHMEM routine logs, and its replay
//! log        the logs as data, and their readers
//! port       access of a call to shared state
//! call       the log record of each call, and the replay of the call
//! origin     an operation on a PE that may be lost
//! far        operations on PEs that are not mapped, as numbered messages
//! meeting    barriers and collectives, executed once each
//! own        replay of the substitute's own log, call by call
//! merge      replay of other PEs' operations on the substitute's memory, in order
//! edges      the order of atomic operations on a word, from the value that each found
//! handover   the switch from logging for a substitute to reaching it
//! replicas   the PE on another node that keeps a copy of a log, for the loss of a node
//! unlogged   calls without records: they rule out local rollback for later losses
//! rejoin     the agreement of all PEs on one view, before a checkpoint and at the end
//! look       the reasons against a local rollback, before a substitute restores its memory
//! decide     the choice between local and global rollback, with its reason
//! place      the check that a substitute reaches the call that made the checkpoint
//! ```
//!
//! All of this logic is here, written against ports: [`log::Logs`] reads the logs of all PEs,
//! [`merge::SubstitutePort`] accesses the memory of a substitute, and [`port::CallPort`] and
//! [`port::MeetingPort`] give a call access to shared state. The crate `raidshmem` implements them
//! on mapped memory, the model checker (`explore`) on a model of it.
//!
//! Invariants (`explore` checks them over every interleaving and every death of small programs):
//! - an entry is in the log before its operation is visible anywhere;
//! - every atomic operation and every assignment of a word is executed once over all incarnations;
//! - a local decision rolls no other PE back, and all PEs reach an equal decision.
//!
//! Limits: programs are free of data races, and depend only on their
//! memory and on the results of calls.

pub mod call;
pub mod decide;
pub mod edges;
pub mod far;
pub mod handover;
pub mod log;
pub mod look;
pub mod meeting;
pub mod merge;
pub mod origin;
pub mod own;
pub mod place;
pub mod port;
pub mod rejoin;
pub mod replicas;
pub mod routine;
pub mod unlogged;

#[cfg(test)]
mod explore;
