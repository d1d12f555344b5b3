//! Checkpoints in files: the formats and decisions, without I/O.
//!
//! A *set* has the file of each PE ([`part`]) and a manifest ([`manifest`]) that names them. It is
//! one folder, or one on the disk of each node: then it also has the parity that each PE keeps
//! ([`parity`]), and [`choose`] selects the disks that a job resumes from. `docs/format.md` has the
//! files byte by byte. [`program`] identifies the build of a program and its variables, [`runtime`]
//! those that belong to a profiler's library; [`schedule`] decides which checkpoint becomes a set,
//! and when it is whole.
//!
//! Invariants: nothing here reads a file or a clock; no bytes make it panic, or allocate more than
//! a few times their own length; decoded data is encoded to the original bytes.
//!
//! Left out: files and folders (the crate `raidshmem-disk`), and protection against deliberately
//! forged checksums.
//!
//! Layers, each importing only from those above it or to the left of it:
//!
//! ```text
//! error                       reasons for rejecting bytes
//! bytes                       integers, and the frame around the head of a file
//! compress                    the stored form of a tile
//! owner  tiles  code          the owner of a file; its tiles; the parity computation
//! references                  the tiles of a file that files of earlier sets hold
//! part  parity  manifest      the files of a PE; the manifest that makes a set complete
//! judge  lineage  encoded     the decision if a set can be read or decoded; the sets of a job, and
//!                             the groups of its checkpoints
//! choose  rebuilt             disks from which a job can start; sets of another program build
//! objects                     the objects of a PE by name
//! program  schedule  pace     identity of the program; the checkpoint to store; write rate
//! runtime                     variables that belong to a profiler
//! ```

#![forbid(unsafe_code)]
// Modules link to their private items.
#![allow(rustdoc::private_intra_doc_links)]

mod bytes;
pub mod choose;
pub mod code;
pub mod compress;
pub mod encoded;
pub mod error;
pub mod judge;
pub mod lineage;
pub mod manifest;
pub mod objects;
pub mod owner;
pub mod pace;
pub mod parity;
pub mod part;
pub mod program;
pub mod rebuilt;
pub mod references;
pub mod runtime;
pub mod schedule;
pub mod tiles;
