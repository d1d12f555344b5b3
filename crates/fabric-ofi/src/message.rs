//! Messages between processes of the engine: addresses, requests for updates, answers, and bytes
//! for the receiver's events.
//!
//! The engine drops bytes that do not decode, or are of another job.

#![forbid(unsafe_code)]

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::update::{Change, WordAt};
use serde::{Deserialize, Serialize};

/// The address of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The job it belongs to.
    pub job: u64,
    /// Its provider: two providers do not reach each other.
    pub provider: String,
    /// Its endpoint, as the provider names it.
    pub name: Vec<u8>,
    /// The two parts of its segment.
    pub parts: [SegmentPart; 2],
}

/// A part of a segment, as peers name it to their provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentPart {
    /// Its offset in the segment.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Its first address: in its owner's memory, or 0 if the provider counts from its beginning.
    pub base: u64,
    /// Its key.
    pub key: u64,
}

/// A message with its sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter<B = Body> {
    /// The job; messages of other jobs are rejected.
    pub job: u64,
    /// The PE of the sender.
    pub pe: Pe,
    /// The sender's incarnation; stale ones are rejected.
    pub incarnation: Incarnation,
    /// The number that links a request to its answer; 0 if only completion is waited for.
    pub ticket: u64,
    /// The contents.
    pub body: B,
}

/// The contents of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// The sender's endpoint: the first message to a peer, which may not know the sender yet.
    Hello(Vec<u8>),
    /// A change of a word of the receiver.
    Request(WordAt, Change),
    /// The previous value of such a word.
    Answer(u64),
    /// The puts so far have arrived: sleeping threads should look again.
    Wake,
    /// Bytes for the receiver's events.
    Tell(#[serde(with = "raidshmem_core::bulk")] Vec<u8>),
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

    #[test]
    fn truncated_messages_are_refused() {
        let change = Change { how: Update::CompareSwap(7), operand: 1 };
        let body = Body::Request(WordAt { offset: 4096, bytes: 8 }, change);
        let (pe, incarnation) = (Pe(3), Incarnation(2));
        let letter = Letter { job: u64::MAX, pe, incarnation, ticket: 9, body };
        let bytes = encode(&letter);
        assert_eq!(decode::<Letter>(&bytes), Some(letter));
        for len in 0..bytes.len() {
            assert_eq!(decode::<Letter>(&bytes[..len]), None, "{len} bytes");
        }
    }
}
