//! The C interface: every function of `shmem.h` and `shmem_ft.h`, exported from this crate.
//!
//! Rules of the boundary: no panic leaves a call (an `extern "C"` function ends the process
//! instead); arguments are claims, not pointers (`memory_ops.rs`); what a caller got wrong is one
//! line and the end of the job (`guard.rs`), what the machine did wrong is returned or kept for the
//! asking (`ft.rs`); and no call waits for a dead PE: between a death and the restart blocking
//! calls return, writes are dropped and reads give zeroes.
//!
//! A family of functions is written once (`family.rs`) over a type table (`types.rs`); the headers
//! in `include/` are printed from the same words (`emit.rs`), and `tests/abi.rs` compares them.
//!
//! All of OpenSHMEM 1.6 is here; `tests/abi.rs` counts. Limits: 64-bit Linux on x86-64
//! and aarch64.
#![deny(clippy::undocumented_unsafe_blocks)]
#![allow(non_snake_case, reason = "parameters have the specification's names")]

#[macro_use]
mod types;
#[macro_use]
mod family;

pub(crate) mod atomic;
pub(crate) mod bits;
pub(crate) mod coll;
pub(crate) mod constants;
pub(crate) mod context;
pub mod emit;
mod emit_generic;
pub(crate) mod exchange;
mod ft;
pub(crate) mod group;
pub(crate) mod guard;
mod legacy;
pub(crate) mod lock;
mod longdouble;
mod memory;
pub(crate) mod memory_ops;
pub(crate) mod number;
pub(crate) mod order;
pub(crate) mod reduce;
mod relay;
mod rma;
mod setup;
mod signal;
mod strided;
pub(crate) mod team;
mod wait;
mod wait_many;
mod word;

/// Every family, in the order of the headers.
const FAMILIES: &[&[family::Family]] = &[
    setup::SETUP,
    setup::THREADS,
    setup::PROFILING,
    memory::MEMORY,
    team::TEAM,
    context::CONTEXT,
    context::SESSION,
    order::ORDER,
    order::SYNC,
    coll::SYNC,
    rma::BLOCKING,
    longdouble::BY_VALUE,
    strided::STRIDED,
    rma::NONBLOCKING,
    atomic::BLOCKING,
    atomic::NONBLOCKING,
    signal::SIGNAL,
    wait::WAIT,
    wait_many::WAIT_MANY,
    lock::LOCKS,
    coll::TEAM,
    reduce::TEAM,
    reduce::SCAN,
    legacy::ATOMICS,
    legacy::WAIT,
    legacy::CACHE,
    coll::SETS,
    reduce::SETS,
    ft::CHECKPOINT,
    ft::REGISTER,
    ft::EXTENSION,
];
