//! Logged answers, in a job with logs (`pgas/local.rs`): the results of tests, waits for one of
//! several words, looks at a signal, atomic fetches, and the program's own events.
//!
//! A program may poll in vain many times. Consecutive equal answers of one call share a record that
//! counts them; after a loss each is replayed as often as before. Repeats carry no information: a
//! PE that restored the word to its old value had to know that this PE had looked, through a call
//! that has a record in between.
//!
//! Invariant: a record takes its time after the look whose result it holds.

#![forbid(unsafe_code)]

use raidshmem_segment::log::{Kind, Located};

use super::World;
use super::local::{Call, Remote};
use super::world::local::LogMode;

/// The result of a call, as bytes.
pub trait AnswerBytes: AsRef<[u8]> + for<'a> TryFrom<&'a [u8]> + Default {}

impl<B: AsRef<[u8]> + for<'a> TryFrom<&'a [u8]> + Default> AnswerBytes for B {}

impl World {
    /// Returns the result of `look`, which reads this PE's own words, or in a replay the logged
    /// one.
    pub fn answer_logged<B: AnswerBytes>(&self, call: Call, look: impl FnOnce() -> B) -> B {
        self.answered(call, Remote { pe: self.me(), at: 0, block: (0, 0) }, look)
    }

    /// Returns the value of a word of a PE, from `load` or from the log.
    pub fn fetch_logged(&self, call: Call, place: Remote, load: impl FnMut() -> u64) -> u64 {
        let look = || self.read_there(call.name, place.pe, load).unwrap_or_default();
        u64::from_ne_bytes(self.answered(call, place, || look().to_ne_bytes()))
    }

    fn answered<B: AnswerBytes>(&self, call: Call, place: Remote, look: impl FnOnce() -> B) -> B {
        if self.local.way() == LogMode::Replayed
            && let Some(bytes) = self.answer_replayed(&call, place)
        {
            return B::try_from(bytes).unwrap_or_default();
        }
        let found = look();
        if self.local.way() == LogMode::Logged {
            self.note_answer(&call, place, found.as_ref());
        }
        found
    }

    /// Logs an answer. If the last record holds an equal one, only increments its count.
    #[inline(always)] // how many bytes there are is known to the caller
    fn note_answer(&self, call: &Call, place: Remote, bytes: &[u8]) {
        let record = World::record(Kind::Answer, call, place, bytes.len());
        let (log, last) = (self.own_log(), self.local.pen.answer.get());
        let last = last.checked_sub(1).and_then(|from| log.read(from as usize));
        let is_same = |last: &Located| {
            last.record.is_of_one_call(&record) && self.payload(self.me(), last) == bytes
        };
        match last.filter(is_same) {
            Some(last) => log.repeat(last.from),
            None => {
                self.append_to(&log, record, bytes.len(), |from| self.write(&log, from, bytes));
            }
        }
    }

    /// Returns the logged answer. Repeats skip the work on other PEs' records: they carry no
    /// information, there may be very many, and a replay must not slow them down.
    fn answer_replayed(&self, call: &Call, place: Remote) -> Option<&[u8]> {
        let given = self.next_of(Kind::Answer, call, place)?;
        if given.is_first {
            self.apply(given.found.record.time + 1);
        }
        if given.is_last {
            self.catch_up();
        }
        Some(self.payload(self.me(), &given.found))
    }

    /// Logs `bytes`, which the program has drawn by itself; a replay restores those drawn before.
    pub fn draws(&self, call: &'static str, bytes: &mut [u8]) {
        let call = Call { name: call, with: bytes.len() as u64 };
        let place = Remote { pe: self.me(), at: 0, block: (0, 0) };
        match self.local.way() {
            LogMode::Plain => {}
            LogMode::Logged => {
                self.append(World::record(Kind::Event, &call, place, bytes.len()), bytes);
            }
            LogMode::Replayed => {
                if let Some(given) = self.next_of(Kind::Event, &call, place) {
                    let before = self.payload(self.me(), &given.found);
                    bytes.copy_from_slice(before);
                    self.catch_up();
                }
            }
        }
    }
}
