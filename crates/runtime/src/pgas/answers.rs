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

use raidshmem_core::replay::call;
use raidshmem_core::replay::log::{Kind, LogRecord};
use raidshmem_core::replay::origin::read_there;
use raidshmem_core::replay::port::LogMode;

use super::caller::{Caller, Cut};
use super::local::{Call, CallLog, RemotePlace};

/// The result of a call, as bytes.
pub trait AnswerBytes: AsRef<[u8]> + for<'a> TryFrom<&'a [u8]> + Default {}

impl<B: AsRef<[u8]> + for<'a> TryFrom<&'a [u8]> + Default> AnswerBytes for B {}

/// Returns the value of the bytes of a word.
fn value(bytes: &[u8]) -> u64 {
    let (mut word, len) = ([0; 8], bytes.len().min(8));
    let from = if cfg!(target_endian = "big") { 8 - len } else { 0 };
    word[from..from + len].copy_from_slice(&bytes[..len]);
    u64::from_ne_bytes(word)
}

impl<'a> CallLog<'a> {
    /// Returns the result of `look`, which reads this PE's own words, or in a replay the logged
    /// one.
    pub fn answer_logged<B: AnswerBytes>(self, call: Call, look: impl FnOnce() -> B) -> B {
        let mut look = Some(look);
        let record = call.record(Kind::Answer, self.nowhere(), 0);
        let found = self
            .answered(&call, record, |_| Ok(look.take().map_or_else(B::default, |look| look())));
        found.unwrap_or_else(|Cut| look.map_or_else(B::default, |look| look()))
    }

    /// Returns the value of a word of a PE, by `load`.
    pub fn fetch_logged(
        self,
        call: Call,
        place: RemotePlace,
        mut load: impl FnMut() -> u64,
    ) -> u64 {
        let record = call.record(Kind::Answer, place, 0);
        let word = (place.block.0, 1, 0);
        let mut load = |caller: &mut Caller| match self.world.far_calls().is_far(place.pe) {
            true => caller.read_far(place.pe, place.at, word).map(|bytes| value(&bytes)),
            false => Ok(load()),
        };
        let look = |caller: &mut Caller| Ok(read_there(caller, place.pe, &mut load)?.to_ne_bytes());
        self.answered(&call, record, look).map_or(0, u64::from_ne_bytes)
    }

    #[inline]
    fn answered<B: AnswerBytes>(
        self,
        call: &Call,
        record: LogRecord,
        look: impl FnOnce(&mut Caller<'a>) -> Result<B, Cut>,
    ) -> Result<B, Cut> {
        let mut caller = Caller::new(self.world, call.name);
        let found = call::answer(&mut caller, record, look)?;
        let before = |from| B::try_from(call::own_bytes(&caller, from)).unwrap_or_default();
        Ok(found.unwrap_or_else(before))
    }

    /// Logs `bytes`, which the program has drawn by itself; a replay restores those drawn before.
    pub fn draws(self, call: &'static str, bytes: &mut [u8]) {
        if self.world.local.way() == LogMode::Plain {
            return;
        }
        let with = Call { name: call, with: bytes.len() as u64 };
        let record = with.record(Kind::Event, self.nowhere(), bytes.len());
        let mut caller = Caller::new(self.world, call);
        if let Ok(Some(from)) = call::draw(&mut caller, record, bytes) {
            bytes.copy_from_slice(call::own_bytes(&caller, from));
        }
    }

    /// Returns the place of a call that accesses no word.
    fn nowhere(self) -> RemotePlace {
        RemotePlace { pe: self.world.me(), at: 0, block: (0, 0) }
    }
}
