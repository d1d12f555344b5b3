//! An OpenSHMEM library whose programs survive the death of processes and of nodes.
//!
//! Symmetric memory is striped over the PEs with rotating XOR or Reed-Solomon parity at every
//! checkpoint, appended after the data so that no symmetric address moves. When a PE is lost a
//! substitute takes its number, its memory is adopted or rebuilt from the survivors, all PEs roll
//! back to the last agreed checkpoint, and the program continues.
//!
//! A program is a state and a step: [`ft::run`] takes a checkpoint between two steps, and rolls
//! back to the last one after a loss.
//!
#![doc = "```"]
#![doc = include_str!("../examples/count.rs")]
#![doc = "```"]
//!
//! `oshrun -n 4 --mode raid5 --kill 2@5 ./program` runs it and kills PE 2 after checkpoint 5; a
//! program started without `oshrun` is a job of one PE. `cargo install raidshmem` installs
//! `oshrun`, `oshinfo` and `oshreport`.
//!
//! | you want to | look at |
//! | --- | --- |
//! | initialise, and allocate | [`Shmem`], [`SymSlice`], [`SymRef`] |
//! | put, get, reduce | [`Shmem::exchange_in`], [`Peers`], [`Team`], [`Context`] |
//! | signal, lock | [`Signal`], [`Lock`] |
//! | survive losses | [`ft::run`], or by hand [`ft::checkpoint_all`] and [`ft::restart_pes`] |
//! | checkpoint private memory | [`ft::protect`], [`Protected`] |
//! | keep a single copy of read-only data | [`ft::readonly`] |
//! | read a checkpoint on disk of another number of PEs | [`ft::CheckpointSet`] |
//!
//! # Inside
//!
//! The crate `raidshmem-core` makes the decisions, without I/O: placement, views, the contents of
//! checkpoints, the order of checkpoint and recovery, failure detection. The crate
//! `raidshmem-runtime` carries them out: the state of a process, checkpoint and recovery. It stands
//! on `raidshmem-sys` (system calls), `raidshmem-segment` (the memory of a PE), `raidshmem-fabric`
//! (the interface of engines) and one for each engine, and `raidshmem-disk` (checkpoints in files).
//! This crate is the model of OpenSHMEM with its interfaces. The launcher is the crate
//! `raidshmem-launch`, which no program links.
//!
//! Layers, each importing only from those above it or to the left of it (`tests/tidy/` checks
//! this):
//!
//! ```text
//! version                                    version of this build
//! openshmem                                  the model: teams, collectives, waits, locks ..
//! capi  shmem                                the C API and the safe Rust API, side by side
//! wrapper  usage  sizing  inventory          oshcc and oshc++; oshinfo plan; oshinfo
//! advise                                     oshadvise: from source to LLVM IR
//! ```
//!
//! This page shows the public API below. Other public modules exist only for the programs, tests,
//! benches and fuzz targets of this repository: they are hidden here, and may change at any time.
//!
//! The codec (stripe layout, XOR, Reed-Solomon, checksums) is the crate `raidshmem-codec`.

// Hidden modules link to their private items.
#![allow(rustdoc::private_intra_doc_links)]

#[doc(hidden)]
pub mod advise;
#[doc(hidden)]
pub mod capi;
#[doc(hidden)]
pub mod inventory;
mod openshmem;
#[doc(hidden)]
pub mod shmem;
#[doc(hidden)]
pub mod sizing;
#[doc(hidden)]
pub mod usage;
#[doc(hidden)]
pub mod version;
#[doc(hidden)]
pub mod wrapper;

pub use bytemuck;
pub use shmem::{Batch, Context, Guard, Lock, NoStore, Peers, Private, Protected};
pub use shmem::{
    Bits, Error, Fault, Integer, Number, Serialized, Shmem, Signal, SymRef, SymSlice, Symmetric,
    Team, TeamConfig, Word, ft,
};
