//! An OpenSHMEM library whose programs survive the death of processes and of nodes.
//!
//! Symmetric memory is striped over the PEs with rotating XOR or Reed-Solomon parity at every
//! checkpoint, appended after the data so that no symmetric address moves. When a PE is lost a
//! substitute takes its number, its memory is adopted or rebuilt from the survivors, all roll back
//! to the last agreed checkpoint, and the program goes on.
//!
//! Layers, each importing only from those above it or to the left of it (`tests/tidy/` holds it):
//!
//! ```text
//! mutant  sys  inject  settings              words, environment, system calls
//! trace                                      the last events of a process
//! heap                                       symmetric allocator (pure)
//! placement                                  failure domains, groups, substitutes (pure)
//! control                                    messages, views, the page that shows them
//! segment                                    memory of a PE, offsets to bytes
//! fabric                                     reaching memory that is not mapped
//! store                                      what a checkpoint is, how it is agreed
//! pgas                                       the world of a process: waiting, barrier, memory
//! checkpoint                                 sealing live memory and its parity
//! recovery                                   what was lost, and making it whole again
//! scrub                                      looking over the store in idle time
//! protocol                                   the machine that orders both, and its driver
//! faults                                     the fault-tolerance calls
//! launch                                     launcher, agents, membership (beside)
//! openshmem                                  the model: teams, collectives, waits, locks ..
//! capi  shmem                                the C API and the safe Rust API, side by side
//! wrapper  sizing                            oshcc and oshc++; oshinfo plan (beside)
//! ```
//!
//! What users call is what this page shows below. The modules are public for the programs, tests,
//! benches and fuzz targets of this repository alone: they are hidden here, and change at will.
//!
//! The codec (stripe layout, XOR, Reed-Solomon, checksums) is the crate `raidshmem-codec`.

// Modules that users do not see explain themselves by what is private to them.
#![allow(rustdoc::private_intra_doc_links)]

#[doc(hidden)]
pub mod capi;
#[doc(hidden)]
pub mod checkpoint;
#[doc(hidden)]
pub mod control;
#[doc(hidden)]
pub mod fabric;
#[doc(hidden)]
pub mod faults;
#[doc(hidden)]
pub mod heap;
#[doc(hidden)]
pub mod inject;
#[doc(hidden)]
pub mod launch;
#[doc(hidden)]
pub mod mutant;
mod openshmem;
#[doc(hidden)]
pub mod pgas;
#[doc(hidden)]
pub mod placement;
#[doc(hidden)]
pub mod protocol;
#[doc(hidden)]
pub mod recovery;
#[doc(hidden)]
pub mod scrub;
#[doc(hidden)]
pub mod segment;
#[doc(hidden)]
pub mod settings;
#[doc(hidden)]
pub mod shmem;
#[doc(hidden)]
pub mod sizing;
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
pub mod sys;
#[doc(hidden)]
pub mod trace;
#[doc(hidden)]
pub mod wrapper;

pub use bytemuck;
pub use shmem::{Batch, Context, Guard, Lock, NoStore, Peers, Private, Protected};
pub use shmem::{
    Bits, Error, Fault, Integer, Number, Serialized, Shmem, Signal, SymRef, SymSlice, Symmetric,
    Team, TeamConfig, Word, ft,
};
