//! Checkpoints in files: bytes in, values out.
//!
//! A *set* has the file of each PE ([`part`]) and a manifest ([`manifest`]) that names them. It is
//! one folder, or one on the disk of each node: then it also has the parity that each PE keeps
//! ([`parity`]), and [`choose`] says from which disks a job can begin. `docs/format.md` has the
//! files byte by byte. [`program`] says which build of a program a process runs, and where its
//! variables are, [`runtime`] which of them a profiler's library has; [`schedule`] which checkpoint
//! becomes a set, and when it is whole.
//!
//! Invariants: nothing here reads a file or a clock; no bytes make it panic, or allocate more than
//! a few times their own length; what is read is written as the same bytes again.
//!
//! Left out: files and folders (the crate `raidshmem`), and protection against somebody who
//! computes matching checksums on purpose.
//!
//! Layers, each importing only from those above it or to the left of it:
//!
//! ```text
//! error                       why bytes are refused
//! bytes                       numbers, and the frame round what a file begins with
//! compress                    what is stored of a tile
//! owner  tiles  code          whose file it is; what follows its head; how parity is computed
//! part  parity  manifest      the files of a PE; what says that a set is whole
//! choose  rebuilt             from which disks a job can begin; by which build of the program
//! program  schedule  pace     which program; which checkpoint, and when; how fast (beside)
//! runtime                     which of its variables are a profiler's
//! ```

#![forbid(unsafe_code)]
// Modules explain themselves by what is private to them.
#![allow(rustdoc::private_intra_doc_links)]

mod bytes;
pub mod choose;
pub mod code;
pub mod compress;
pub mod error;
pub mod manifest;
pub mod owner;
pub mod pace;
pub mod parity;
pub mod part;
pub mod program;
pub mod rebuilt;
pub mod runtime;
pub mod schedule;
pub mod tiles;
