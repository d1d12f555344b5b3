//! What a PE learns by looking at words, or draws by itself, in a job with logs (`pgas/local.rs`):
//! tests, waits for one of several words, looks at a signal, atomic fetches, and the program's own
//! events.
//!
//! A program may look again and again in vain. Equal answers of one call that follow each other
//! share a record that counts them: after a loss each is given as often as before. Later ones tell
//! nothing new: whoever put the word back to what it was had to know that this PE had looked, by a
//! call that has a record in between.
//!
//! Invariant: the time of a record is drawn after the look that it holds.

#![forbid(unsafe_code)]

use raidshmem_segment::log::{Kind, Located, Record, bytes_for};
use raidshmem_sys::lock;

use super::World;
use super::local::{Call, Remote};
use super::world::local::CallWay;

impl World {
    /// What `look` finds in own words, or found before.
    pub fn answer_logged(&self, call: Call, look: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
        self.answered(call, Remote { pe: self.me(), at: 0, block: (0, 0) }, look)
    }

    /// The value of a word of a PE, by `load`.
    pub fn fetch_logged(&self, call: Call, place: Remote, load: impl FnMut() -> u64) -> u64 {
        let look = || self.read_there(call.name, place.pe, load).unwrap_or_default();
        let bytes = self.answered(call, place, || look().to_ne_bytes().to_vec());
        bytes.try_into().map_or(0, u64::from_ne_bytes)
    }

    fn answered(&self, call: Call, place: Remote, look: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
        // One that was given again tells nothing new, and there may be very many of them.
        let again = lock(&self.local.book).replay.repeated > 0;
        if self.local.way() == CallWay::Replayed
            && let Some((found, bytes)) = self.next_of(Kind::Answer, &call, place)
        {
            if !again {
                self.apply(found.record.time + 1);
            }
            self.catch_up();
            return bytes;
        }
        let bytes = look();
        if self.local.way() == CallWay::Logged {
            let record = World::record(Kind::Answer, &call, place, &bytes);
            let (log, mut book) = (self.own_log(), lock(&self.local.book));
            let last = book.tail.checked_sub(bytes_for(bytes.len())).filter(|_| book.answered);
            let is_same = |last: &Located| Record { time: record.time, ..last.record } == record;
            match last.and_then(|from| log.read(from)).filter(is_same) {
                Some(last) => log.repeat(last.from),
                None => book.answered = self.append(&mut book, record, &bytes).is_some(),
            }
        }
        bytes
    }

    /// The program has drawn `bytes` by itself: a replay gives it what it had before.
    pub fn draws(&self, call: &'static str, bytes: &mut [u8]) {
        let call = Call { name: call, with: bytes.len() as u64 };
        let place = Remote { pe: self.me(), at: 0, block: (0, 0) };
        match self.local.way() {
            CallWay::Plain => {}
            CallWay::Logged => {
                let record = World::record(Kind::Event, &call, place, bytes);
                self.append(&mut lock(&self.local.book), record, bytes);
            }
            CallWay::Replayed => {
                let found = self.next_of(Kind::Event, &call, place);
                if let Some((_, before)) = found.filter(|(_, had)| had.len() == bytes.len()) {
                    bytes.copy_from_slice(&before);
                    self.catch_up();
                }
            }
        }
    }
}
