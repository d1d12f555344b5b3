//! The message that a PE posts for the next one in the tree, as words that detect torn reads.
//!
//! The first word names the meeting and the direction, the last is a digest of all other words. A
//! PE that reads words of another meeting, or words that changed during the read, ignores them and
//! polls again.

use crate::mutant::{Mutant, breaks};
use crate::quantity::ViewNumber;

/// Number of words of a combined value.
pub const BODY: usize = 32;
/// Number of words of a post.
pub const WORDS: usize = BODY + 2;

/// The identity of a meeting of a view. The meetings of a recovery are numbered by
/// [`crate::protocol::meeting`]; those of checkpoints are numbered consecutively from [`FIRST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MeetingId {
    /// View of the meeting.
    pub view: ViewNumber,
    /// Number of the meeting in the view.
    pub number: u64,
}

/// The lowest number of a meeting of a checkpoint.
pub const FIRST: u64 = 16;

/// The direction of a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// To the PE above: the combined value of this PE and those below.
    Up,
    /// To the PEs below: the combined value of all PEs.
    Down,
}

impl MeetingId {
    /// Packs the meeting and the direction into one word, never 0: the lowest 31 bits of each
    /// number.
    fn word(self, way: Way) -> u64 {
        self.view.0 << 32 | (self.number & 0x7fff_ffff) << 1 | u64::from(way == Way::Down)
    }

    /// Returns the meeting that the first word of a post names.
    pub fn of(word: u64) -> MeetingId {
        MeetingId { view: ViewNumber(word >> 32), number: word >> 1 & 0x7fff_ffff }
    }
}

/// Computes a digest that detects a mixture of words from two posts.
pub fn digest(words: &[u64]) -> u64 {
    let mix = |sum: u64, word: &u64| {
        (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_add(1)
    };
    words.iter().fold(0x5bd1_e995, mix)
}

/// Returns the words of a post.
pub fn seal(stage: MeetingId, way: Way, body: &[u64; BODY]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words[0] = stage.word(way);
    words[1..=BODY].copy_from_slice(body);
    words[WORDS - 1] = digest(&words[..WORDS - 1]);
    words
}

/// Unpacks a post; None if the words belong to another meeting or direction, or are from two posts.
pub fn open(words: &[u64; WORDS], stage: MeetingId, way: Way) -> Option<[u64; BODY]> {
    let whole = words[WORDS - 1] == digest(&words[..WORDS - 1]) || breaks(Mutant::TornPostTaken);
    let body = || std::array::from_fn(|at| words[at + 1]);
    (words[0] == stage.word(way) && whole).then(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGE: MeetingId = MeetingId { view: ViewNumber(3), number: 17 };

    #[test]
    fn a_post_is_read_in_its_meeting_and_its_way_alone() {
        let body = std::array::from_fn(|at| at as u64 * 77);
        let words = seal(STAGE, Way::Up, &body);
        assert_eq!(open(&words, STAGE, Way::Up), Some(body));
        assert_eq!(open(&words, STAGE, Way::Down), None);
        assert_eq!(MeetingId::of(words[0]), STAGE);
        let later = MeetingId { number: 18, ..STAGE };
        let another = MeetingId { view: ViewNumber(4), ..STAGE };
        assert_eq!((open(&words, later, Way::Up), open(&words, another, Way::Up)), (None, None));
        assert_eq!(open(&[0; WORDS], MeetingId { view: ViewNumber(0), number: 0 }, Way::Up), None);
    }

    /// Words of one post replace any part of another's, in either order.
    #[test]
    fn words_of_two_posts_are_none() {
        let old = seal(MeetingId { number: 16, ..STAGE }, Way::Up, &[5; BODY]);
        let new = seal(STAGE, Way::Up, &std::array::from_fn(|at| at as u64));
        for cut in 1..WORDS {
            let torn = std::array::from_fn(|at| if at < cut { new[at] } else { old[at] });
            assert_eq!(open(&torn, STAGE, Way::Up), None, "cut at {cut}");
        }
    }
}
