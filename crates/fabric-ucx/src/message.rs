//! Messages between processes of the engine: addresses, requests for updates, answers.
//!
//! The engine drops bytes that do not decode, or are of another job.

#![forbid(unsafe_code)]

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::update::{Change, WordAt};
use serde::{Deserialize, Serialize};

/// Kind of message: an update to be carried out.
pub const REQUEST: u32 = 1;
/// Kind of message: it was carried out.
pub const ANSWER: u32 = 2;

/// Kind of message: bytes that the sender wants.
pub const READ: u32 = 3;
/// Kind of message: those bytes.
pub const DATA: u32 = 4;

/// Kind of message: bytes for the receiver, which answers that it has them.
pub const WRITE: u32 = 5;

/// Where a process is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The job it belongs to.
    pub job: u64,
    /// Its worker, as UCP packed it.
    pub worker: Vec<u8>,
    /// The two parts of its segment.
    pub parts: [SegmentPart; 2],
}

/// A part of a segment, as its owner maps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentPart {
    /// Where it begins in the segment.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Where it begins in its owner's memory.
    pub base: u64,
    /// Its key, as UCP packed it.
    pub key: Vec<u8>,
}

/// A message: who sends it, and what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter<T> {
    /// The job; others are refused.
    pub job: u64,
    /// The PE that sends it.
    pub pe: Pe,
    /// Its incarnation; older ones than known are refused.
    pub incarnation: Incarnation,
    /// Number of what is asked and answered; 0 if only its being over is waited for.
    pub ticket: u64,
    /// What is asked or answered.
    pub body: T,
}

/// An update of a word of the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Which word.
    pub word: WordAt,
    /// What to do with it.
    pub change: Change,
}

/// It was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What was there.
    pub before: u64,
}

/// Bytes of the receiver that the sender wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Where they begin in the segment.
    pub offset: u64,
    /// How many they are.
    pub len: u64,
}

/// Bytes, read or to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data<'a> {
    /// Where in the segment they belong, in a write.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// As bytes.
pub fn encode<M: Serialize>(message: &M) -> Vec<u8> {
    postcard::to_allocvec(message).expect("plain data is encoded")
}

/// From bytes; None if they are none of ours.
pub fn decode<'a, M: Deserialize<'a>>(bytes: &'a [u8]) -> Option<M> {
    postcard::from_bytes(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidshmem_core::update::Update;

    fn letter<T>(body: T) -> Letter<T> {
        Letter { job: u64::MAX, pe: Pe(3), incarnation: Incarnation(2), ticket: 9, body }
    }

    #[test]
    fn what_is_cut_short_is_not_believed() {
        let change = Change { how: Update::CompareSwap(7), operand: 1 };
        let request = letter(Request { word: WordAt { offset: 4096, bytes: 8 }, change });
        let bytes = encode(&request);
        assert_eq!(decode::<Letter<Request>>(&bytes), Some(request));
        for len in 0..bytes.len() {
            assert_eq!(decode::<Letter<Request>>(&bytes[..len]), None, "{len} bytes");
        }
    }

    #[test]
    fn bytes_that_were_read_survive_their_message() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let data = letter(Data { offset: 7, bytes: &all });
        let bytes = encode(&data);
        assert_eq!(decode::<Letter<Data>>(&bytes), Some(data));
        assert_eq!(decode::<Letter<Data>>(&bytes[..bytes.len() - 1]), None);
    }
}
