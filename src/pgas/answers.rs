//! What a PE learns from its own memory, or draws by itself, in a job with logs (`pgas/local.rs`):
//! tests, waits for one of several words, looks at a signal, and the program's own events.
//!
//! A program may test a word many times in vain. Equal answers of one call that follow each other
//! share a record that counts them: after a loss each is given as often as before.
//!
//! Invariant: the time of a record is drawn after the look that it holds.

#![forbid(unsafe_code)]

use raidshmem_segment::log::{Kind, Located, bytes_for};
use raidshmem_sys::lock;

use super::World;
use super::local::{Call, Remote};
use super::world::local::CallWay;

/// What a call found in own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// It as bytes.
    pub bytes: Vec<u8>,
    /// It may be the same again and again, and tells nothing new then.
    pub idle: bool,
}

impl World {
    /// What `look` finds in own words, or found before.
    pub fn answer_logged(&self, call: Call, look: impl FnOnce() -> Answer) -> Vec<u8> {
        let place = Remote { pe: self.me(), at: 0, block: (0, 0) };
        if self.local.way() == CallWay::Replayed
            && let Some((found, bytes)) = self.next_of(Kind::Answer, &call, place)
        {
            self.apply(found.record.time + 1);
            self.catch_up();
            return bytes;
        }
        let Answer { bytes, idle } = look();
        if self.local.way() == CallWay::Logged {
            let record = World::record(Kind::Answer, &call, place, &bytes);
            let mut book = lock(&self.local.book);
            let log = self.own_log();
            let tail = book.tail;
            let is_last = |from: &usize| from + bytes_for(bytes.len()) == tail;
            let last = book.idle.filter(is_last).and_then(|from| log.read(from));
            let is_same = |last: &Located| {
                (last.record.digest, last.record.crc) == (record.digest, record.crc)
            };
            match last.filter(|last| idle && is_same(last)) {
                Some(last) => log.repeat(last.from),
                None => book.idle = self.append(&mut book, record, &bytes).filter(|_| idle),
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
