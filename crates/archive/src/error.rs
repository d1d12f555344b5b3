//! Format errors: one type for all files of a set.

/// The reasons why bytes are rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The file is shorter than its head requires, or than any such file.
    #[error("cut short: {found} bytes, expected {expected}")]
    Short {
        /// Bytes needed.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// It does not begin like such a file.
    #[error("not a {0} of a set: unknown header")]
    Magic(&'static str),
    /// A version that this build does not know.
    #[error("version {found} of the format, expected {oldest} to {newest}")]
    Version {
        /// The version in the file.
        found: u32,
        /// The oldest supported version.
        oldest: u32,
        /// The newest supported version.
        newest: u32,
    },
    /// The checksum of the head does not match.
    #[error("damaged: the checksum of its head does not match")]
    Damaged,
    /// The checksum of a tile does not match.
    #[error("damaged: the checksum of tile {0} does not match")]
    Tile(usize),
    /// Its checksum matches, but its contents are impossible.
    #[error("{0} cannot be")]
    Impossible(&'static str),
}
