//! Starting, watching and ending a job, leaving nothing behind.
//!
//! Each kind of process has its own folder. Decisions are made in `raidshmem_core`: `membership`
//! (which process carries which PE number), `detector` (which nodes are dead) and `stall` (which PE
//! waits for which). The kernel kills what a dead process started: agents die with the launcher and
//! PEs with their agent, and memory files have no name that could remain.
//!
//! Layers, each importing only from those above it or to the left of it; process folders import
//! from the other modules but not from each other, except that the launcher takes its job from
//! [`cli`]:
//!
//! ```text
//! bell         signals as descriptors for `poll`
//! worker       a thread for long work, so that the main loop keeps renewing leases
//! handshake    handshake between launcher, supervisor and agent
//! heartbeats   heartbeats between hosts, as encrypted datagrams
//! query        queries to a running job
//! dump         the last events of processes, as text
//! live         the status view on a terminal
//! lines        human-readable lines
//! output       output of programs on other hosts
//! readers      consumers of events: the record, the event file, metrics
//! feed         events as lines
//! scrape       serves metrics
//! probe        detects whether an engine is available here
//! cli          the command line of oshrun, validated before anything starts
//! supervisor   runs next to the agent on another host; cleans up after the node
//! agent        one per node: starts PEs, holds their memory, watches them through pidfds
//! launcher     one per job: orders membership, owns no PE
//! task         a task of srun, which becomes a part of a job
//! ```

// The module documentation links to private items.
#![allow(rustdoc::private_intra_doc_links)]

pub mod agent;
mod bell;
pub mod cli;
mod dump;
mod feed;
pub mod handshake;
mod heartbeats;
pub mod launcher;
pub mod lines;
mod live;
mod output;
pub mod probe;
pub mod query;
pub mod readers;
mod scrape;
pub mod supervisor;
pub mod task;
mod worker;
