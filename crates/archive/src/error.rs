//! Why bytes are not what they should be: one type for all files of a set.

/// Why bytes are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The file is shorter than it says, or than any such file.
    #[error("cut short: {found} bytes, expected {expected}")]
    Short {
        /// Bytes needed.
        expected: u64,
        /// Bytes there.
        found: u64,
    },
    /// It does not begin as such a file.
    #[error("no {0} of a set: it does not begin as one")]
    Magic(&'static str),
    /// A version that this build does not know.
    #[error("version {found} of the format, expected {oldest} to {newest}")]
    Version {
        /// The version in the file.
        found: u32,
        /// The oldest that is read here.
        oldest: u32,
        /// The newest.
        newest: u32,
    },
    /// The checksum of the head does not hold.
    #[error("damaged: the checksum of its head does not hold")]
    Damaged,
    /// The checksum of a tile does not hold.
    #[error("damaged: the checksum of tile {0} does not hold")]
    Tile(usize),
    /// Its checksum holds, and it says what cannot be.
    #[error("{0} cannot be")]
    Impossible(&'static str),
}
