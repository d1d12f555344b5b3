//! The data that two engines exchange besides the bytes of programs: addresses, greetings,
//! messages.
//!
//! ```text
//! Address   the address of a process; sent once, through the launcher
//! Hello     unreliable datagrams that set up a connection, see `link`
//! Message   on a connection: requests to the target's processor, and its answers
//! ```
//!
//! Fixed sizes, little-endian. Undecodable data is dropped: it cannot come from a peer of this
//! build.

#![forbid(unsafe_code)]

use raidshmem_core::quantity::Incarnation;
use raidshmem_core::update::{Change, Update, WordAt};

/// The version of these formats.
const VERSION: u8 = 3;

/// Address and key of a peer's memory.
pub type RemoteAddress = (u64, u32);

/// The address of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// Global identifier of its port; that of RoCE version 2 holds an IP address.
    pub gid: [u8; 16],
    /// Local identifier of its port, 0 on Ethernet.
    pub lid: u16,
    /// Maximum packet size, as the code of the verbs interface (1: 256 bytes .. 5: 4096).
    pub mtu: u8,
    /// Reads of one peer that it serves at a time.
    pub reads: u8,
    /// True if its device may update words of 8 bytes: such updates are indistinguishable from its
    /// processor's.
    pub atomics: bool,
    /// Number of the queue pair for greetings.
    pub qpn: u32,
}

impl Address {
    /// Encoded length, in bytes.
    pub const LEN: usize = 28;

    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, self.mtu, self.reads, self.atomics.into()];
        out.extend(self.gid);
        out.extend(u32::from(self.lid).to_le_bytes());
        out.extend(self.qpn.to_le_bytes());
        out
    }

    /// Decodes an address; `None` if the bytes are invalid.
    pub fn decode(bytes: &[u8]) -> Option<Address> {
        let bytes: &[u8; Address::LEN] = bytes.try_into().ok()?;
        let [VERSION, mtu @ 1..=5, reads @ 1..=255, atomics @ 0..=1] = bytes[..4] else {
            return None;
        };
        Some(Address {
            gid: bytes[4..20].try_into().ok()?,
            lid: u16::try_from(word(bytes, 20)).ok()?,
            mtu,
            reads,
            atomics: atomics == 1,
            qpn: word(bytes, 24),
        })
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// A greeting: the sender's end of the connection, and what it knows of the receiver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The job's random number.
    pub job: u64,
    /// PE and incarnation of the sender.
    pub from: (u32, Incarnation),
    /// PE and incarnation of the intended receiver.
    pub to: (u32, Incarnation),
    /// The sender's queue pair for this connection.
    pub qpn: u32,
    /// Number of its first packet.
    pub psn: u32,
    /// The receiver's queue pair to which the sender's is connected; 0 if not yet.
    pub have: u32,
    /// True if an answer is requested.
    pub want: bool,
}

impl Hello {
    /// Encoded length, in bytes.
    pub const LEN: usize = 48;

    /// Encodes it.
    pub fn encode(&self) -> [u8; Hello::LEN] {
        let mut out = [0; Hello::LEN];
        out[..8].copy_from_slice(&self.job.to_le_bytes());
        let words = [
            self.from.0,
            self.from.1.0,
            self.to.0,
            self.to.1.0,
            self.qpn,
            self.psn,
            self.have,
            u32::from(self.want),
            u32::from(VERSION),
        ];
        for (at, word) in words.into_iter().enumerate() {
            out[8 + 4 * at..12 + 4 * at].copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Decodes a greeting; `None` if the bytes are invalid.
    pub fn decode(bytes: &[u8]) -> Option<Hello> {
        let bytes: &[u8; Hello::LEN] = bytes.try_into().ok()?;
        let at = |at: usize| word(bytes, 8 + 4 * at);
        (at(7) <= 1 && at(8) == u32::from(VERSION)).then(|| Hello {
            job: long(bytes, 0),
            from: (at(0), Incarnation(at(1))),
            to: (at(2), Incarnation(at(3))),
            qpn: at(4),
            psn: at(5),
            have: at(6),
            want: at(7) == 1,
        })
    }
}

/// Maximum bytes of a letter.
pub const LETTER: usize = 1024;
/// The first bytes of a letter with a piece of an engine's user's bytes: of the last piece, or of
/// another one. Kinds of messages are lower.
const LAST: u8 = 8;
const MORE: u8 = 9;

/// The content of a receive buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Letter {
    /// A message of the engine.
    Message(Message),
    /// A piece of bytes for the user of the engine, after its first byte.
    Piece(Vec<u8>),
}

impl Letter {
    /// Returns the letters that carry these bytes.
    pub fn pieces(bytes: &[u8]) -> impl Iterator<Item = Letter> {
        let last = bytes.len().div_ceil(LETTER - 1).max(1) - 1;
        (0..=last).map(move |nth| {
            let piece = &bytes[nth * (LETTER - 1)..bytes.len().min((nth + 1) * (LETTER - 1))];
            let kind = if nth == last { LAST } else { MORE };
            Letter::Piece([&[kind], piece].concat())
        })
    }

    /// Splits a piece after so many bytes, if it is longer.
    pub fn split(mut piece: Vec<u8>, most: usize) -> (Vec<u8>, Option<Letter>) {
        if piece.len() <= most {
            return (piece, None);
        }
        let rest = [&piece[..1], &piece[most..]].concat();
        piece.truncate(most);
        piece[0] = MORE;
        (piece, Some(Letter::Piece(rest)))
    }

    /// Decodes a letter; `None` if the bytes are invalid.
    pub fn decode(bytes: &[u8]) -> Option<Letter> {
        match bytes.first()? {
            &(LAST | MORE) => Some(Letter::Piece(bytes.to_vec())),
            _ => Message::decode(bytes).map(Letter::Message),
        }
    }

    /// Adds a piece to those before it. Returns them all if it is the last.
    pub fn gather(before: &mut Vec<u8>, piece: &[u8]) -> Option<Vec<u8>> {
        let (kind, bytes) = piece.split_first()?;
        before.extend_from_slice(bytes);
        (*kind == LAST).then(|| std::mem::take(before))
    }
}

/// A message on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// A request to change a word; the answer carries `tag`.
    Update {
        /// Slot of the waiting thread.
        tag: u32,
        /// The word.
        word: WordAt,
        /// The change.
        change: Change,
    },
    /// Like `Update`, without an answer.
    Post {
        /// The word.
        word: WordAt,
        /// The change.
        change: Change,
    },
    /// The number of posts carried out since the connection was made.
    Posted(u64),
    /// A request to wake the sleeping threads.
    Wake,
    /// A request for the address of this window, for reads and writes.
    Where(u32),
    /// The answer to `Where`.
    Window {
        /// The window.
        window: u32,
        /// Its address and key.
        place: RemoteAddress,
    },
    /// The answer to `Update`.
    Answer {
        /// The tag of the question.
        tag: u32,
        /// The value before the update.
        value: u64,
    },
}

impl Message {
    /// Encoded length, in bytes.
    pub const LEN: usize = 32;

    /// Encodes it: kind, bytes, how, 0, tag, offset, operand, expected.
    pub fn encode(&self) -> [u8; Message::LEN] {
        let mut out = [0; Message::LEN];
        let (mut long, mut tag) = ([0; 3], 0);
        match *self {
            Message::Update { tag: slot, word, change } => {
                tag = slot;
                (out[0], out[1]) = (1, word.bytes as u8);
                (out[2], long) = order(word, change);
            }
            Message::Post { word, change } => {
                (out[0], out[1]) = (2, word.bytes as u8);
                (out[2], long) = order(word, change);
            }
            Message::Posted(count) => {
                out[0] = 3;
                long[0] = count;
            }
            Message::Wake => out[0] = 4,
            Message::Where(window) => (out[0], tag) = (5, window),
            Message::Window { window, place: (address, key) } => {
                (out[0], tag) = (6, window);
                long = [address, key.into(), 0];
            }
            Message::Answer { tag: slot, value } => {
                (out[0], tag) = (7, slot);
                long[0] = value;
            }
        }
        out[4..8].copy_from_slice(&tag.to_le_bytes());
        for (at, long) in long.into_iter().enumerate() {
            out[8 + 8 * at..16 + 8 * at].copy_from_slice(&long.to_le_bytes());
        }
        out
    }

    /// Decodes a message; `None` if the bytes are invalid.
    pub fn decode(from: &[u8]) -> Option<Message> {
        let from: &[u8; Message::LEN] = from.try_into().ok()?;
        let tag = word(from, 4);
        let [offset, operand, expected] = [8, 16, 24].map(|at| long(from, at));
        let place = || {
            let offset = usize::try_from(offset).ok()?;
            Some(WordAt { offset, bytes: from[1].into() })
        };
        let change = || Some(Change { how: Update::of_code(from[2].into(), expected)?, operand });
        Some(match from[0] {
            1 => Message::Update { tag, word: place()?, change: change()? },
            2 => Message::Post { word: place()?, change: change()? },
            3 => Message::Posted(offset),
            4 => Message::Wake,
            5 => Message::Where(tag),
            6 => Message::Window { window: tag, place: (offset, u32::try_from(operand).ok()?) },
            7 => Message::Answer { tag, value: offset },
            _ => return None,
        })
    }
}

/// Returns the code of the update; offset, operand, expected.
fn order(word: WordAt, change: Change) -> (u8, [u64; 3]) {
    let (code, expected) = change.how.code();
    (code as u8, [word.offset as u64, change.operand, expected])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_and_others_are_refused() {
        let gid = std::array::from_fn(|at| at as u8);
        let (atomics, qpn) = (true, 0xff_ffff);
        let address = Address { gid, lid: 0xfffe, mtu: 3, reads: 16, atomics, qpn };
        let bytes = address.encode();
        assert_eq!(bytes.len(), Address::LEN);
        assert_eq!(Address::decode(&bytes), Some(address));
        for (at, wrong) in [(0, 9), (1, 0), (1, 6), (2, 0), (3, 2), (22, 1)] {
            let mut other = bytes.clone();
            other[at] = wrong;
            assert_eq!(Address::decode(&other), None, "byte {at} = {wrong}");
        }
        assert_eq!(Address::decode(&bytes[1..]), None);
        assert_eq!(Address::decode(&[]), None);
    }

    #[test]
    fn greetings_survive() {
        let hello = Hello {
            job: u64::MAX - 1,
            from: (1, Incarnation(2)),
            to: (3, Incarnation(4)),
            qpn: 5,
            psn: 6,
            have: 7,
            want: true,
        };
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        let mut other = hello.encode();
        other[40] = 9;
        assert_eq!(Hello::decode(&other), None);
        assert_eq!(Hello::decode(&[0; 47]), None);
    }

    #[test]
    fn messages_survive() {
        let hows = (0..8).map(|code| Update::of_code(code, 77).expect("a code"));
        let updates = hows.flat_map(|how| {
            let far = WordAt { offset: 1 << 40, bytes: 4 };
            let update = Message::Update { tag: 9, word: far, change: Change { how, operand: 3 } };
            let word = WordAt { offset: 8, bytes: 8 };
            [update, Message::Post { word, change: Change { how, operand: u64::MAX } }]
        });
        let others = [
            Message::Posted(1 << 50),
            Message::Wake,
            Message::Where(2),
            Message::Window { window: 3, place: (1 << 60, u32::MAX) },
            Message::Answer { tag: 3, value: 1 << 60 },
        ];
        for message in updates.chain(others) {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        for wrong in [[0u8; Message::LEN], [8; Message::LEN], [1; Message::LEN].map(|_| 200)] {
            assert_eq!(Message::decode(&wrong), None);
        }
        assert_eq!(Update::of_code(8, 0), None);
    }

    #[test]
    fn bytes_arrive_in_pieces() {
        for len in [0, 1, LETTER - 1, LETTER, 3 * LETTER, 4096] {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let (mut before, mut whole) = (Vec::new(), None);
            for letter in Letter::pieces(&bytes) {
                assert!(whole.is_none(), "a piece after the last");
                let mut rest = Some(letter);
                while let Some(Letter::Piece(piece)) = rest {
                    assert!(piece.len() <= LETTER);
                    let (first, after) = Letter::split(piece, 200);
                    assert_eq!(Letter::decode(&first), Some(Letter::Piece(first.clone())));
                    whole = Letter::gather(&mut before, &first);
                    rest = after;
                }
            }
            assert_eq!(whole, Some(bytes));
            assert!(before.is_empty());
        }
    }
}
