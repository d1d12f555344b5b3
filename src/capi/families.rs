//! Every family of functions, in the order of the headers.

use super::family::Family;
use super::{atomic, coll, context, ft, legacy, lock, longdouble, memory, order, reduce, rma};
use super::{set, setup, signal, strided, team, wait, wait_many};

/// All families, in the order of the headers.
pub const FAMILIES: &[&[Family]] = &[
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
    set::SET,
];
