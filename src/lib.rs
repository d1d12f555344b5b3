//! An OpenSHMEM library whose programs survive the death of processes and of nodes.
//!
//! Symmetric memory is striped over the PEs with rotating XOR or Reed-Solomon parity at every
//! checkpoint, appended after the data so that no symmetric address moves. When a PE is lost a
//! substitute takes its number, its memory is adopted or rebuilt from the survivors, all roll back
//! to the last agreed checkpoint, and the program goes on.
//!
//! Layers, each importing only from those above it or to the left of it (`tests/tidy.rs` holds it):
//!
//! ```text
//! sys  inject  settings                      words, environment, system calls
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
//! capi  shmem                                the C API and the safe Rust API, on top
//! wrapper  sizing                            oshcc and oshc++; oshinfo plan (beside)
//! ```
//!
//! The codec (stripe layout, XOR, Reed-Solomon, checksums) is the crate `raidshmem-codec`.

pub mod capi;
pub mod checkpoint;
pub mod control;
pub mod fabric;
pub mod faults;
pub mod heap;
pub mod inject;
pub mod launch;
pub mod pgas;
pub mod placement;
pub mod protocol;
pub mod recovery;
pub mod scrub;
pub mod segment;
pub mod settings;
pub mod shmem;
pub mod sizing;
pub mod store;
pub mod sys;
pub mod wrapper;

pub use bytemuck;
pub use shmem::{Batch, Context, Guard, Lock, NoStore, Peers, Private, Protected};
pub use shmem::{
    Bits, Error, Fault, Integer, Number, Serialized, Shmem, Signal, SymRef, SymSlice, Symmetric,
    Team, TeamConfig, Word, ft,
};
