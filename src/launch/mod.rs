//! Starting a job, watching it, and leaving nothing behind.
//!
//! A folder for each process that runs. What they decide is in `raidshmem_core`: `membership` (who
//! carries which PE number), `detector` (who is dead, between nodes) and `stall` (who waits for
//! whom).
//!
//! ```text
//! cli          the command line of oshrun: what a job is, checked before anything starts
//! launcher     one process: orders membership, owns no PE
//! agent        one a node: starts PEs, holds their memory, watches them through pidfds
//! supervisor   on another host, beside the agent: ends what is left of the node
//!
//! handshake    what launcher, supervisor and agent agree on before they talk
//! heartbeats   heartbeats between hosts, as sealed datagrams
//! lines        lines for people            output   what programs on other hosts print
//! readers      what reads events, beside people: a file for the record, one for events, and
//!              an endpoint for metrics     feed     lines of events    scrape   serves metrics
//! live         the view on a terminal
//! query        questions to a job that runs    dump     what its processes did last, as text
//! probe        whether an engine can be had here
//! worker       a thread for long work, beside a loop that renews leases
//! bell         a signal as something that `poll` waits for
//! ```
//!
//! The kernel kills what a dead process started: agents die with the launcher, PEs with their
//! agent, and memory files have no name to be left behind under. Processes import from what is
//! beside them and never from each other; the launcher takes its job from [`cli`].

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
