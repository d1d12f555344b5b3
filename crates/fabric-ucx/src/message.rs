//! Messages between processes of the engine: addresses, requests for updates, answers.
//!
//! The engine drops bytes that do not decode, or are of another job.

#![forbid(unsafe_code)]

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::update::{Change, WordAt};
use serde::{Deserialize, Serialize};

/// Kind of message: a request for an update.
pub const REQUEST: u32 = 1;
/// Kind of message: the answer to a request.
pub const ANSWER: u32 = 2;

/// Kind of message: a request for bytes.
pub const READ: u32 = 3;
/// Kind of message: the requested bytes.
pub const DATA: u32 = 4;

/// Kind of message: bytes to write; the receiver acknowledges them.
pub const WRITE: u32 = 5;

/// Kind of message: bytes for the receiver's events.
pub const TELL: u32 = 6;

/// Maximum bytes of a message: small enough to be sent at once with any TCP segment size.
pub const PIECE: usize = 4096;

/// The address of a process.
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
    /// Its offset in the segment.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Its address in its owner's memory.
    pub base: u64,
    /// Its key, as UCP packed it.
    pub key: Vec<u8>,
}

/// A message with its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter<T> {
    /// The job; messages of other jobs are rejected.
    pub job: u64,
    /// The PE of the sender.
    pub pe: Pe,
    /// The sender's incarnation; stale ones are rejected.
    pub incarnation: Incarnation,
    /// The number that links a request to its answer; 0 if only completion is waited for.
    pub ticket: u64,
    /// The request or answer.
    pub body: T,
}

/// An update of a word of the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The word.
    pub word: WordAt,
    /// The change.
    pub change: Change,
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The previous value.
    pub before: u64,
}

/// A request for bytes of the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Their offset in the segment.
    pub offset: u64,
    /// Their number.
    pub len: u64,
}

/// Bytes, read or to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data<'a> {
    /// Their offset in the segment, in a write.
    pub offset: u64,
    /// The bytes.
    #[serde(with = "raidshmem_core::bulk", borrow)]
    pub bytes: &'a [u8],
}

/// Bytes for the receiver's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told<'a> {
    /// The bytes.
    #[serde(with = "raidshmem_core::bulk", borrow)]
    pub bytes: &'a [u8],
}

/// Encodes a message.
pub fn encode<M: Serialize>(message: &M) -> Vec<u8> {
    postcard::to_allocvec(message).expect("plain data is encoded")
}

/// Decodes a message; `None` if the bytes are invalid.
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
    fn truncated_messages_are_refused() {
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
