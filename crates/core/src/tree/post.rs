//! What a PE posts for the next one in the tree, as words that survive being torn.
//!
//! The first word says of which meeting they are and which way they go, the last is a digest of all
//! others. Who reads words of another meeting, or words that were read while they changed, has read
//! nothing yet, and looks again.

use crate::mutant::{Mutant, breaks};
use crate::quantity::ViewNumber;

/// Words of what is added up.
pub const BODY: usize = 32;
/// Words of a post.
pub const WORDS: usize = BODY + 2;

/// Which meeting of a view it is. Those of a recovery are numbered by
/// [`crate::protocol::meeting`]; in a checkpoint they count on from [`FIRST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MeetingId {
    /// The view.
    pub view: ViewNumber,
    /// Its number in the view.
    pub number: u64,
}

/// Meetings of checkpoints have numbers from here on.
pub const FIRST: u64 = 16;

/// Which way a post goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// To the PE above: what the PEs here and below bring.
    Up,
    /// To the PEs below: what all bring.
    Down,
}

impl MeetingId {
    /// As one word, never 0: the lowest 31 bits of both numbers, and the way.
    fn word(self, way: Way) -> u64 {
        self.view.0 << 32 | (self.number & 0x7fff_ffff) << 1 | u64::from(way == Way::Down)
    }

    /// The meeting that the first word of a post names.
    pub fn of(word: u64) -> MeetingId {
        MeetingId { view: ViewNumber(word >> 32), number: word >> 1 & 0x7fff_ffff }
    }
}

/// A digest that tells words that are of two posts from those of one.
pub fn digest(words: &[u64]) -> u64 {
    let mix = |sum: u64, word: &u64| {
        (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_add(1)
    };
    words.iter().fold(0x5bd1_e995, mix)
}

/// The words of a post.
pub fn seal(stage: MeetingId, way: Way, body: &[u64; BODY]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words[0] = stage.word(way);
    words[1..=BODY].copy_from_slice(body);
    words[WORDS - 1] = digest(&words[..WORDS - 1]);
    words
}

/// The inverse of `seal`; None if these words are of another meeting, go another way, or are of two
/// posts.
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

    /// Words of one post in the place of any part of another's, whichever comes first.
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
