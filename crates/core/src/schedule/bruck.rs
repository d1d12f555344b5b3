//! An exchange of small blocks between all, in few messages (Bruck and others, 1997).
//!
//! Every PE keeps a row of blocks by *distance*: at first that for the PE so far ahead, in the end
//! that from the PE so far behind.
//!
//! ```text
//! round 0   blocks of distance 1, 3, 5, ..   go to the PE 1 ahead
//! round 1   blocks of distance 2, 3, 6, ..   go to the PE 2 ahead
//! round 2   blocks of distance 4, 5, 6, ..   go to the PE 4 ahead
//! ```
//!
//! A block goes as far as its distance says, a binary digit in each round; with whom, says
//! `pgas::rounds`. So a PE sends `ceil(log2 size)` messages of half of its blocks, and not one
//! to each. Nobody leaves before all have come, since each gets something from each.

/// Distances of the blocks that are sent in a round.
pub fn sent(round: usize, size: usize) -> impl Iterator<Item = usize> + Clone {
    (0..size).filter(move |distance| distance >> round & 1 == 1)
}

/// Most blocks in a message.
pub fn most(size: usize) -> usize {
    size.next_power_of_two() / 2
}

/// The PE that is `distance` ahead.
pub fn ahead(index: usize, distance: usize, size: usize) -> usize {
    (index + distance) % size
}

/// The PE that is `distance` behind.
pub fn behind(index: usize, distance: usize, size: usize) -> usize {
    (index + size - distance) % size
}
