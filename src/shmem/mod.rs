//! The safe Rust API: symmetric memory by handles, transfers inside exchanges, checkpoints.
//!
//! Other processes write symmetric memory whenever they like; Rust references promise that nobody
//! does. Here the two never meet. [`Shmem`] is the one token of initialisation. It lends references
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
//! Batch      transfers under way              Peers::nonblocking: buffers borrowed until the end
//! ```
//!
//! An exchange may be one of a team ([`Shmem::exchange_in`]): then only its members come together,
//! and only their memory is reached. Meetings of different kinds have gates of their own, so PEs
//! that disagree about what comes next wait for ever, as OpenSHMEM programs do, instead of taking
//! one meeting for another; passing a gate is what proves that no member holds a reference.
//!
//! All state of a program that is to survive lies in symmetric memory and is reached by handles
//! ([`SymSlice`], [`SymRef`]), which are plain data themselves: [`ft::run`] keeps the handle of the
//! program's state where a substitute finds it. Statics of a Rust program are not symmetric.
//!
//! In a job that goes on with fewer (`fewer.rs`) the gates are agreements of those that live, and
//! nobody goes back: an exchange that met a loss ends with an error on all of them alike.
//!
//! What an expert should know:
//!
//! - soundness rests on every PE of the job running a program written to this API; a C program in
//!   the same job can write at any time, as can `unsafe` code here;
//! - inside an exchange two PEs may write the same element, in safe code. They get unexpected
//!   values, not undefined behaviour: words are atomics, and longer ranges are moved by a routine
//!   of the C library that the compiler does not see into (`openshmem/memory/rma.rs`);
//! - a PE that learns of a loss waits until the living have left their exchanges before it gives
//!   out references again. Nodes learn of it one after another: in between a transfer from another
//!   node may still arrive, in memory that the restart overwrites.
//!
//! Left out: active sets and the other names that OpenSHMEM deprecates; the C API has them.

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
