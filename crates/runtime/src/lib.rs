//! The processes of a job: their state, their checkpoints and their recoveries.
//!
//! [`raidshmem_core`] makes the decisions; this crate carries them out over real memory, control
//! connections and the engines.
//!
//! Invariants: a process has one [`pgas::World`], from `shmem_init` to its end; only one checkpoint
//! or recovery is in progress; memory of another PE is read through its segment or an engine, never
//! by its own code.
//!
//! Left out: the model of OpenSHMEM (teams, collectives, locks) and its interfaces, which are the
//! crate `raidshmem`; the launcher (`raidshmem-launch`).
//!
//! Layers, each importing only from those above it or to the left of it:
//!
//! ```text
//! pgas               the state of a process: memory, waiting, barrier
//! checkpoint         sealing live memory, and encoding its parity
//! recovery           rebuilding and restoring lost memory
//! scrub              verification of the store in idle time
//! protocol_memory    the steps of the protocol on real memory
//! affinity  numa     CPU binding of threads, and NUMA nodes of pages, across a restart
//! fault_tolerance    checkpoint, restart, and what they report
//! ```

// Modules link to their private items.
#![allow(rustdoc::private_intra_doc_links)]

pub mod affinity;
pub mod checkpoint;
pub mod fault_tolerance;
pub mod numa;
pub mod pgas;
pub mod protocol_memory;
pub mod recovery;
pub mod scrub;
