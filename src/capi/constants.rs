//! The constants of `shmem.h`: defined here once, used by the code and printed into the header.
//!
//! Invariant: a constant that a program may test with `#if` is a plain integer literal. Left out:
//! the handles (`SHMEM_CTX_DEFAULT` ..), which are casts, in `emit.rs`.

use std::ffi::{c_int, c_long};

/// One `#define`.
pub struct Constant {
    /// The name without `SHMEM_`.
    pub name: &'static str,
    /// The value as in C.
    pub value: &'static str,
}

macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident: $ty:ty = $value:literal;)*) => {
        $($(#[$doc])* #[allow(dead_code, reason = "some are for C programs only")]
        pub const $name: $ty = $value;)*
        /// All constants, for the header.
        pub const CONSTANTS: &[Constant] = &[
            $(Constant { name: stringify!($name), value: stringify!($value) }),*
        ];
    };
}

constants! {
    /// The major version of the supported specification.
    MAJOR_VERSION: c_int = 1;
    /// The minor version of the supported specification.
    MINOR_VERSION: c_int = 6;
    /// The buffer size for `shmem_info_get_name`, with the terminating zero.
    MAX_NAME_LEN: usize = 256;
    /// Only one thread exists.
    THREAD_SINGLE: c_int = 0;
    /// Only the main thread makes calls.
    THREAD_FUNNELED: c_int = 1;
    /// One thread at a time makes calls.
    THREAD_SERIALIZED: c_int = 2;
    /// Any thread makes calls at any time.
    THREAD_MULTIPLE: c_int = 3;
    /// `==`
    CMP_EQ: c_int = 0;
    /// `!=`
    CMP_NE: c_int = 1;
    /// `>`
    CMP_GT: c_int = 2;
    /// `>=`
    CMP_GE: c_int = 3;
    /// `<`
    CMP_LT: c_int = 4;
    /// `<=`
    CMP_LE: c_int = 5;
    /// Overwrites the signal word.
    SIGNAL_SET: c_int = 0;
    /// Adds to the signal word.
    SIGNAL_ADD: c_int = 1;
    /// Bit of `options`: the context is used by one thread at a time.
    CTX_SERIALIZED: c_long = 1;
    /// Bit of `options`: the context is used by the thread that made it.
    CTX_PRIVATE: c_long = 2;
    /// Bit of `options`: the context needs no ordering of its puts.
    CTX_NOSTORE: c_long = 4;
    /// Bit of a session's `options`: many operations follow.
    CTX_SESSION_BATCH: c_long = 1;
    /// Bit of a session's `config_mask`: `total_ops` is set.
    CTX_SESSION_TOTAL_OPS: c_long = 1;
    /// Bit of a team's `config_mask`: `num_contexts` is set.
    TEAM_NUM_CONTEXTS: c_long = 1;
    /// Bit of `hints`: the block is for remote atomics.
    MALLOC_ATOMICS_REMOTE: c_long = 1;
    /// Bit of `hints`: the block is for signals.
    MALLOC_SIGNAL_REMOTE: c_long = 2;
    /// The value of a `pSync` before its first use.
    SYNC_VALUE: c_long = 0;
    /// Length of a `pSync` for any collective.
    SYNC_SIZE: usize = 96;
    /// Length of a `pSync` for a barrier.
    BARRIER_SYNC_SIZE: usize = 96;
    /// Length of a `pSync` for a broadcast.
    BCAST_SYNC_SIZE: usize = 96;
    /// Length of a `pSync` for a reduction.
    REDUCE_SYNC_SIZE: usize = 96;
    /// Length of a `pSync` for a collection.
    COLLECT_SYNC_SIZE: usize = 96;
    /// Length of a `pSync` for an exchange.
    ALLTOALL_SYNC_SIZE: usize = 96;
    /// Length of a `pSync` for a strided exchange.
    ALLTOALLS_SYNC_SIZE: usize = 96;
    /// Least length of a `pWrk`.
    REDUCE_MIN_WRKDATA_SIZE: usize = 16;
}

/// The result of `shmem_info_get_name`.
pub const VENDOR_STRING: &str = "raidshmem";

/// Names that the specification keeps with a leading underscore.
pub const UNDERSCORED: &[&str] = &[
    "SYNC_VALUE",
    "BARRIER_SYNC_SIZE",
    "BCAST_SYNC_SIZE",
    "REDUCE_SYNC_SIZE",
    "COLLECT_SYNC_SIZE",
    "REDUCE_MIN_WRKDATA_SIZE",
    "MAJOR_VERSION",
    "MINOR_VERSION",
    "MAX_NAME_LEN",
    "VENDOR_STRING",
    "CMP_EQ",
    "CMP_NE",
    "CMP_GT",
    "CMP_GE",
    "CMP_LT",
    "CMP_LE",
];
