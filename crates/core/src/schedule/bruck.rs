//! The all-to-all exchange of small blocks in few messages (Bruck and others, 1997).
//!
//! Every PE keeps its blocks ordered by *distance*: initially the block for the PE that far ahead,
//! finally the block from the PE that far behind.
//!
//! ```text
//! round 0   blocks of distance 1, 3, 5, ..   go to the PE 1 ahead
//! round 1   blocks of distance 2, 3, 6, ..   go to the PE 2 ahead
//! round 2   blocks of distance 4, 5, 6, ..   go to the PE 4 ahead
//! ```
//!
//! A block travels its distance, one binary digit per round; [`crate::rounds`] gives the partners.
//! So a PE sends `ceil(log2 size)` messages with half of its blocks each, instead of one message to
//! each PE. No PE leaves before all have arrived, since each receives a block from each.

/// Returns the distances of the blocks sent in a round.
pub fn sent(round: usize, size: usize) -> impl Iterator<Item = usize> + Clone {
    (0..size).filter(move |distance| distance >> round & 1 == 1)
}

/// Returns the maximum number of blocks in a message.
pub fn most(size: usize) -> usize {
    size.next_power_of_two() / 2
}

/// Returns the PE that is `distance` ahead.
pub fn ahead(index: usize, distance: usize, size: usize) -> usize {
    (index + distance) % size
}

/// Returns the PE that is `distance` behind.
pub fn behind(index: usize, distance: usize, size: usize) -> usize {
    (index + size - distance) % size
}
