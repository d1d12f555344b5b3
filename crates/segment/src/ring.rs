//! A ring of the last events of a process, in memory that outlives it.
//!
//! Any thread of the owner writes, and any process that maps the memory reads, even while the owner
//! is stopped or dead. No thread waits for another: a writer that finds another one in its record,
//! a whole round later, drops its event, and a reader skips a record that changes under it.
//!
//! Invariants: the serial of a record orders its writers: `2 * (n + 1)` when it holds event `n`
//! whole, one less while event `n` is being written. It only grows. Corrupt memory is read as
//! truncated text, never as anything else.

#![forbid(unsafe_code)]

use raidshmem_core::quantity::Incarnation;

use crate::atomic::{AtomicU64, Ordering, fence};

/// Words of a record; the first record of the memory counts events.
const RECORD: usize = 16;
/// Words of a record before the text.
const HEAD: usize = 3;
/// Maximum length of an event's text in bytes; a longer one is cut.
pub const TEXT: usize = (RECORD - HEAD) * 8;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The number of events of this ring before it.
    pub number: u64,
    /// Time in microseconds since 1970.
    pub micros: u64,
    /// The incarnation of the PE.
    pub incarnation: Incarnation,
    /// The text.
    pub text: String,
}

/// A ring in words: a multiple of a record, and two at least.
#[derive(Debug, Clone, Copy)]
pub struct Ring<'a> {
    next: &'a AtomicU64,
    records: &'a [AtomicU64],
}

impl<'a> Ring<'a> {
    /// Returns the ring in `words`.
    pub fn of(words: &'a [AtomicU64]) -> Ring<'a> {
        assert!(words.len().is_multiple_of(RECORD) && words.len() >= 2 * RECORD, "{}", words.len());
        let (head, records) = words.split_at(RECORD);
        Ring { next: &head[0], records }
    }

    fn len(&self) -> u64 {
        (self.records.len() / RECORD) as u64
    }

    fn record(&self, number: u64) -> &'a [AtomicU64] {
        let at = (number % self.len()) as usize * RECORD;
        &self.records[at..at + RECORD]
    }

    /// Adds an event.
    pub fn write(&self, micros: u64, incarnation: Incarnation, text: &str) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let record = self.record(number);
        let (serial, before) = (&record[0], record[0].load(Ordering::Relaxed));
        let (taken, relaxed) = (2 * number + 1, Ordering::Relaxed);
        // An odd serial belongs to a thread that is a whole round behind, and may still write.
        if before % 2 == 1
            || before >= taken
            || serial.compare_exchange(before, taken, Ordering::SeqCst, relaxed).is_err()
        {
            return;
        }
        fence(Ordering::SeqCst); // a reader that sees a new word reads an odd serial after it
        let mut end = text.len().min(TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let bytes = &text.as_bytes()[..end];
        record[1].store(micros, Ordering::Relaxed);
        record[2].store(u64::from(incarnation.0) << 32 | bytes.len() as u64, Ordering::Relaxed);
        for (word, bytes) in record[HEAD..].iter().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
        }
        serial.store(taken + 1, Ordering::Release); // pairs with the first load of `read`
    }

    fn read(&self, at: u64) -> Option<Event> {
        let record = self.record(at);
        let serial = record[0].load(Ordering::Acquire);
        let number = serial.checked_sub(2)? / 2;
        if serial % 2 == 1 || number % self.len() != at {
            return None;
        }
        let words: Vec<u64> = record[1..].iter().map(|word| word.load(Ordering::Relaxed)).collect();
        fence(Ordering::SeqCst);
        if record[0].load(Ordering::Relaxed) != serial {
            return None;
        }
        let [micros, head, text @ ..] = &*words else { return None };
        let bytes: Vec<u8> = text.iter().flat_map(|word| word.to_le_bytes()).collect();
        let text = String::from_utf8_lossy(&bytes[..(*head as u32 as usize).min(TEXT)]);
        let text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Some(Event { number, micros: *micros, incarnation: Incarnation((head >> 32) as u32), text })
    }

    /// Returns the events in the ring, oldest first.
    pub fn events(&self) -> Vec<Event> {
        let mut events: Vec<Event> = (0..self.len()).filter_map(|at| self.read(at)).collect();
        events.sort_by_key(|event| event.number);
        events
    }

    /// Discards unfinished events of a dead owner, so that its successor can write there.
    pub fn inherit(&self) {
        for record in self.records.chunks(RECORD) {
            let serial = record[0].load(Ordering::SeqCst);
            if serial % 2 == 1 {
                record[0].store(serial.saturating_sub(1), Ordering::SeqCst);
                record[2].store(0, Ordering::SeqCst);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(records: usize) -> Vec<AtomicU64> {
        (0..records * RECORD).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn the_last_events_are_there_in_their_order() {
        let memory = words(5);
        let ring = Ring::of(&memory);
        assert_eq!(ring.events(), []);
        for n in 0..11 {
            ring.write(100 + n, Incarnation(3), &format!("event {n}"));
            let texts: Vec<String> = ring.events().into_iter().map(|event| event.text).collect();
            let expected: Vec<String> =
                (n.saturating_sub(3)..=n).map(|n| format!("event {n}")).collect();
            assert_eq!(texts, expected);
        }
        let last = ring.events().pop().unwrap();
        assert_eq!((last.number, last.micros, last.incarnation.0), (10, 110, 3));
    }

    #[test]
    fn text_is_cut_between_letters() {
        let memory = words(2);
        let ring = Ring::of(&memory);
        for (text, kept) in [
            ("x".repeat(TEXT), TEXT),
            ("x".repeat(TEXT + 1), TEXT),
            ("x".repeat(TEXT - 1) + "\u{e9}", TEXT - 1),
            (String::new(), 0),
        ] {
            ring.write(1, Incarnation(0), &text);
            assert_eq!(ring.events()[0].text, text[..kept]);
        }
    }

    #[test]
    fn an_entry_being_written_is_omitted_until_the_ring_is_inherited() {
        let memory = words(3);
        let ring = Ring::of(&memory);
        ring.write(1, Incarnation(0), "first");
        ring.write(2, Incarnation(0), "second");
        ring.write(3, Incarnation(0), "third");
        // The owner died while writing the fourth event, in the place of the second.
        ring.next.store(4, Ordering::SeqCst);
        ring.record(1)[0].store(2 * 3 + 1, Ordering::SeqCst);
        let texts = || ring.events().into_iter().map(|event| event.text).collect::<Vec<_>>();
        assert_eq!(texts(), ["third"]);
        ring.write(4, Incarnation(1), "fifth");
        ring.write(5, Incarnation(1), "no place for it");
        assert_eq!(texts(), ["fifth"]);
        ring.inherit();
        ring.write(6, Incarnation(1), "seventh");
        ring.write(7, Incarnation(1), "eighth");
        assert_eq!(texts(), ["seventh", "eighth"]);
    }

    #[test]
    fn readers_see_whole_events_while_threads_write() {
        let memory = words(4);
        let ring = Ring::of(&memory);
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                scope.spawn(move || {
                    for n in 0..20_000u64 {
                        let letter = char::from(b'a' + (n % 26) as u8).to_string();
                        ring.write(
                            n,
                            Incarnation(thread as u32),
                            &letter.repeat(n as usize % TEXT),
                        );
                    }
                });
            }
            for _ in 0..2000 {
                for event in ring.events() {
                    let letter = char::from(b'a' + (event.micros % 26) as u8);
                    assert_eq!(event.text.len() as u64, event.micros % TEXT as u64, "{event:?}");
                    assert!(event.text.chars().all(|c| c == letter), "{event:?}");
                }
            }
        });
    }

    #[test]
    fn any_memory_can_be_read() {
        let memory = words(4);
        let mut state = 1u64;
        for word in &memory {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            word.store(state, Ordering::SeqCst);
        }
        for (serial, number) in [(2, 0u64), (4, 1), (6, 2)] {
            memory[RECORD * (1 + number as usize)].store(serial, Ordering::SeqCst);
        }
        let ring = Ring::of(&memory);
        assert!(ring.events().iter().all(|event| event.text.len() <= 3 * TEXT));
        assert_eq!(ring.events().len(), 3);
    }
}
