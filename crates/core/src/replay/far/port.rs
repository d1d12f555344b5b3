//! The access of the links with far PEs to the mirrors, to the own log, and to the own memory.

use super::LogInterval;
use super::message::{LogWords, NumberedRecord};
use super::replica::{LogBytes, LogHead};
use crate::mutant::Mutant;
use crate::quantity::{Incarnation, Pe};

/// The access to the mirrors, to the own log, and to the own memory.
pub trait MirrorPort {
    /// Returns the interval of the mirror of a PE's log.
    fn interval(&self, pe: Pe) -> LogInterval;
    /// Returns the words of the own log.
    fn own_words(&self) -> LogWords;
    /// Empties the mirror, and begins this interval.
    fn clear(&mut self, pe: Pe, interval: LogInterval);
    /// Sets the words of the mirror. Those of an earlier process change nothing.
    fn set_words(&mut self, pe: Pe, words: &LogWords);
    /// Appends a record with this time, by default the present one. Returns its place and time;
    /// None if there is no room: this PE then no longer rolls back locally.
    fn append(
        &mut self,
        pe: Pe,
        record: &NumberedRecord,
        time: Option<u64>,
    ) -> Option<(usize, u64)>;
    /// Links the meeting at `from` to the one before.
    fn link(&mut self, pe: Pe, last: Option<usize>, from: usize);
    /// Sets the last meeting of all PEs that the PE entered.
    fn set_met(&mut self, pe: Pe, met: u64);
    /// Writes the payload of a put to the own memory.
    fn put(&mut self, record: &NumberedRecord);
    /// Changes an own word, and notes before and after that in the record at `from`. Returns the
    /// value found.
    fn change(&mut self, pe: Pe, from: Option<usize>, record: &NumberedRecord) -> u64;
    /// Returns the value found by the operation of the record at `from`.
    fn found(&self, pe: Pe, from: usize) -> u64;
    /// Notes this value.
    fn set_found(&mut self, pe: Pe, from: usize, old: u64);
    /// Reads blocks of own bytes: their offset, length, number, and distance.
    fn read(&self, at: u64, shape: (u64, u64, u64)) -> Vec<u8>;
    /// Notes in the own log that the PE has taken the records up to this number.
    fn set_acknowledged(&mut self, pe: Pe, number: u64);
    /// Returns that number.
    fn acknowledged(&self, pe: Pe) -> u64;
    /// Returns the own process, and the end of the own log.
    fn own_end(&self) -> (Incarnation, u64);
    /// Returns the own log from byte `at` on.
    fn own_records(&self, at: u64) -> (LogHead, LogBytes);
    /// Notes that the records for PE `pe` are no longer kept, since all need this many bytes.
    fn note_dropped(&mut self, pe: Pe, bytes: u64);
    /// Returns true if this rule is broken on purpose.
    fn breaks(&self, rule: Mutant) -> bool;
}
