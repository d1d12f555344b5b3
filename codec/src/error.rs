//! The errors of the codec.
//!
//! Invariant: the enum is closed (a caller can match on all of it) and each variant carries the
//! bound or value that was expected next to the one that was given, so that the message alone
//! locates the mistake.
//!
//! Left out: damaged content. A shard with wrong bytes in it is a valid input here; see
//! [`crate::crc`] for detecting it.
#![forbid(unsafe_code)]

/// The reason why a layout, code or plan was rejected. When one is returned, no output byte has
/// been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A group needs at least `expected` members.
    #[error("a group needs at least {expected} members, got {got}")]
    TooFewMembers {
        /// Fewest members allowed.
        expected: usize,
        /// Members asked for.
        got: usize,
    },
    /// A group can have at most `expected` members.
    #[error("a group has at most {expected} members, got {got}")]
    TooManyMembers {
        /// Most members allowed.
        expected: usize,
        /// Members asked for.
        got: usize,
    },
    /// A code or layout needs at least `expected` data shards per stripe.
    #[error("a stripe needs at least {expected} data shards, got {got}")]
    TooFewData {
        /// Fewest data shards allowed.
        expected: usize,
        /// Data shards asked for.
        got: usize,
    },
    /// A code or layout needs at least `expected` parity shards per stripe.
    #[error("a stripe needs at least {expected} parity shards, got {got}")]
    TooFewParities {
        /// Fewest parity shards allowed.
        expected: usize,
        /// Parity shards asked for.
        got: usize,
    },
    /// A group of this size can carry at most `expected` parity shards per stripe.
    #[error("a stripe of this group has at most {expected} parity shards, got {got}")]
    TooManyParities {
        /// Most parity shards allowed: one less than the members.
        expected: usize,
        /// Parity shards asked for.
        got: usize,
    },
    /// Data plus parity shards exceed the size of the field.
    #[error("a stripe has at most {expected} shards, got {got}")]
    TooManyShards {
        /// Most shards allowed.
        expected: usize,
        /// Data plus parity shards asked for.
        got: usize,
    },
    /// The number of slices (or loss flags) differs from the number of shards that they represent.
    #[error("expected {expected} shards, got {got}")]
    Shards {
        /// Shards the call is about.
        expected: usize,
        /// Slices or flags given.
        got: usize,
    },
    /// A row, column or shard number is out of range.
    #[error("expected an index below {expected}, got {got}")]
    Index {
        /// First number that is out of range.
        expected: usize,
        /// Number given.
        got: usize,
    },
    /// The slices of one call differ in length.
    #[error("expected {expected} bytes, got {got}")]
    Length {
        /// Bytes of the output (or first output) of the call.
        expected: usize,
        /// Bytes of the first slice that differs.
        got: usize,
    },
    /// More shards are lost than the code can rebuild.
    #[error("{lost} shards lost, but only {parity} can be made up for")]
    TooManyLost {
        /// Shards flagged as lost.
        lost: usize,
        /// Parity shards of the code: the most losses it survives.
        parity: usize,
    },
    /// This machine cannot run the kernel that `RAIDSHMEM_KERNEL` names.
    #[error("RAIDSHMEM_KERNEL is {got}: the kernels of this machine are {expected}")]
    Kernel {
        /// The names of the available kernels.
        expected: &'static str,
        /// The name given.
        got: &'static str,
    },
}
