//! The safe Rust API: symmetric memory by handles, transfers inside exchanges, checkpoints.
//!
//! Other processes write symmetric memory at any time; Rust references promise that no one does.
//! This API keeps the two apart. [`Shmem`] is the only token of initialisation. It lends references
//! to a PE's own memory ([`Shmem::local`], [`Shmem::local_mut`]), and it lends the other PEs
//! ([`Shmem::exchange`], which borrows it mutably), so a reference cannot live into an exchange;
//! and an exchange begins and ends with all its PEs passing a gate together, so no PE transfers
//! while another holds a reference. A checkpoint or restart borrows the token mutably too.
//!
//! ```text
//! Shmem      the token                        own memory by reference, teams, exchanges
//! Team       some PEs, plain data             Shmem::split_strided, split_2d
//! Peers      a team inside an exchange        put, get, atomics, waits, collectives, locks
//! Context    a stream of transfers            Peers::context: fence and quiet of its own
//! Batch      transfers in progress            Peers::nonblocking: buffers borrowed until the end
//! ```
//!
//! An exchange may be restricted to a team ([`Shmem::exchange_in`]): then only its members meet,
//! and only their memory is accessible. Meetings of different kinds have different gates, so PEs
//! that disagree about the next step hang, as OpenSHMEM programs do, instead of mistaking one
//! meeting for another; passing a gate proves that no member holds a reference.
//!
//! All program state that must survive lies in symmetric memory and is accessed by handles
//! ([`SymSlice`], [`SymRef`]), which are plain data themselves: [`ft::run`] keeps the handle of the
//! program's state where a substitute finds it. Statics of a Rust program are not symmetric.
//!
//! In shrink mode (`fewer.rs`) the gates are agreements of the survivors, and no PE rolls back: an
//! exchange that met a loss ends with the same error on all of them.
//!
//! Notes for experts:
//!
//! - soundness requires that every PE of the job runs a program written to this API; a C program in
//!   the same job can write at any time, as can `unsafe` code here;
//! - inside an exchange two PEs may write the same element, in safe code. They get unexpected
//!   values, not undefined behaviour: words are atomics, and longer ranges are moved by a routine
//!   of the C library that is opaque to the compiler (`openshmem/memory/rma.rs`);
//! - a PE that learns of a loss waits until the survivors have left their exchanges before it lends
//!   references again. Nodes learn of it one after another: in between a transfer from another node
//!   may still arrive, in memory that the restart overwrites.
//!
//! Left out: active sets and other names that OpenSHMEM deprecates; the C API has them.

mod atomic;
mod collective;
mod context;
mod error;
mod fewer;
pub mod ft;
mod handle;
mod lock;
mod peers;
mod protected;
mod root;
mod set;
mod signal;
mod split;
mod team;
mod token;

pub use atomic::{Bits, Integer, Number, Word};
pub use context::{Batch, Context, NoStore, Private, Serialized};
pub use error::{Error, Fault};
pub use handle::{SymRef, SymSlice, Symmetric};
pub use lock::{Guard, Lock};
pub use peers::Peers;
pub use protected::Protected;
pub use signal::Signal;
pub use team::{Team, TeamConfig};
pub use token::Shmem;
