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
//! bell         a signal as something that `poll` waits for
//! worker       a thread for long work, beside a loop that renews leases
//! handshake    what launcher, supervisor and agent agree on before they talk
//! heartbeats   heartbeats between hosts, as sealed datagrams
//! query        questions to a job that runs
//! dump         what its processes did last, as text
//! live         the view on a terminal
//! lines        lines for people
//! output       what programs on other hosts print
//! readers      what reads events, beside people: a file for the record, one for events, metrics
//! feed         lines of events
//! scrape       serves metrics
//! probe        whether an engine can be had here
//! cli          the command line of oshrun: what a job is, checked before anything starts
//! supervisor   on another host, beside the agent: ends what is left of the node
//! agent        one a node: starts PEs, holds their memory, watches them through pidfds
//! launcher     one process: orders membership, owns no PE
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
mod worker;
