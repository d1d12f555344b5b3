//! Local rollback: what a substitute must know to compute again alone, while nobody else goes back.
//!
//! Each PE logs what it does to others and what it learns from them since the last checkpoint. A
//! substitute restores that checkpoint for itself, runs the program again, and takes from the logs
//! what the program learned and what others did to its memory:
//!
//! ```text
//! routine    what each routine of OpenSHMEM logs, and what its replay does
//! log        the logs as data: operations at their origin, events and meetings at each PE
//! merge      entries of all origins become the memory of the substitute, in order
//! edges      the order of atomic operations on a word, from what each found
//! own        the own calls of the substitute: skipped, done again, or answered from a log
//! handover   from "survivors only log" to "survivors reach the substitute", nothing lost or twice
//! replicas   which PE of another node keeps a copy of a log, for the loss of a node
//! decide     whether a loss is for one PE alone or takes all back, and the reason
//! place      whether a substitute comes to the call that made the checkpoint
//! ```
//!
//! Invariants (`explore` checks them over every interleaving and every death of small programs):
//! - an entry is in the log before its operation shows anywhere;
//! - every atomic change and every assignment of a word is carried out once over all incarnations;
//! - nobody is taken back by a local decision, and a decision is the same on all PEs.
//!
//! Limits: PEs map each other. The explorer has deaths of processes, whose logs survive in the
//! memory of their agent; after the loss of a node a substitute begins with a replica of such a
//! log, and goes on in the same way. Programs are free of races, and depend on their memory and on
//! what calls return alone.
//!
//! Used by the explorer in its tests, which drives all of it, and by the C tables, each family of
//! which must have a [`routine::rule`]. The logs of real PEs are those of the crate `raidshmem`; of
//! this they use the rules, the reasons and the order of atomic operations.

pub mod decide;
pub mod edges;
pub mod handover;
pub mod log;
pub mod merge;
pub mod own;
pub mod place;
pub mod replicas;
pub mod routine;

#[cfg(test)]
mod explore;
