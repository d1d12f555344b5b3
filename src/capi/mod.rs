//! The C interface: every function of `shmem.h` and `shmem_ft.h`, exported from this crate.
//!
//! The semantics are in `openshmem`; here are the names, types and forms of C. Rules of the
//! boundary: no panic leaves a call (an `extern "C"` function ends the process instead); arguments
//! are claims, not pointers (`openshmem/memory/address.rs`); a misuse prints one line and ends the
//! job, a failure of the machine is returned or kept for a query (`ft.rs`).
//!
//! A family of functions is written once (`family.rs`) over a type table (`types.rs`); the headers
//! in `include/` are printed from that text (`emit.rs`), and `tests/abi.rs` compares them.
//!
//! All of OpenSHMEM 1.6 is here, as `tests/abi.rs` verifies. Limits: 64-bit Linux on x86-64 and
//! aarch64.
#![deny(clippy::undocumented_unsafe_blocks)]
#![allow(non_snake_case, reason = "parameters have the specification's names")]

#[macro_use]
mod types;
#[macro_use]
mod family;

mod atomic;
mod claims;
mod coll;
mod constants;
mod context;
pub mod emit;
mod emit_generic;
mod families;
mod ft;
mod legacy;
mod lock;
mod longdouble;
mod memory;
mod number;
mod order;
mod prototypes;
mod reduce;
mod rma;
mod set;
mod setup;
mod signal;
mod strided;
mod team;
mod wait;
mod wait_many;
