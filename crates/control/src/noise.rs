//! Sealed messages between nodes: bytes in, messages out, no socket (Noise protocol framework,
//! revision 34, pattern `NNpsk0`, with Curve25519, ChaCha20-Poly1305 and BLAKE2s).
//!
//! ```text
//! frame    length (2 bytes, big endian), then that many bytes: one Noise message
//! first    the handshake, agent to launcher and back, exactly HELLO_LEN bytes each way
//! later    one byte (1: more fragments follow, 0: last fragment), then a fragment of a message
//! ```
//!
//! Invariants: no bytes are accepted as a message unless both sides know the job's secret; a
//! replayed recording does not decrypt, since both sides contribute a fresh key; a stranger can
//! make this side buffer at most one frame, and a member at most one message of [`SEALED_MAX`].
//! After the first error a session returns no further messages.
//!
//! Left out: which peer may act as which node; the first sealed message decides that.

#![forbid(unsafe_code)]

use std::collections::VecDeque;

use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::secret::{SECRET_LEN, Secret};
use snow::{Builder, HandshakeState, TransportState};

/// The maximum size of a sealed message in bytes: ample for a user's environment.
pub const SEALED_MAX: usize = 16 << 20;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
const PROLOGUE: &[u8] = b"raidshmem control connection 1";
/// Bytes of a public key and the tag of an empty payload.
const HELLO_LEN: usize = 32 + 16;
const TAG_LEN: usize = 16;
const FRAME_MAX: usize = u16::MAX as usize;
const PIECE_MAX: usize = FRAME_MAX - TAG_LEN - 1;

/// The role of this end of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The agent, which sends the first handshake message.
    Agent,
    /// The launcher, which answers.
    Launcher,
}

/// An error: the bytes were not written by a member of this job, or are not a valid frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message was not written by a member of this job")]
pub struct NotAMember;

enum SessionState {
    Hello(Box<HandshakeState>),
    Open(Box<TransportState>),
    Over,
}

/// One end of a sealed session.
pub struct Session {
    state: SessionState,
    side: Side,
    input: Vec<u8>,
    message: Vec<u8>,
    ready: VecDeque<Vec<u8>>,
    /// Messages to seal once the handshake is complete.
    early: VecDeque<Vec<u8>>,
    output: VecDeque<u8>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("side", &self.side).finish_non_exhaustive()
    }
}

impl Session {
    /// Starts a session.
    pub fn new(side: Side, secret: &Secret) -> Session {
        let mut session = Session {
            state: SessionState::Over,
            side,
            input: Vec::new(),
            message: Vec::new(),
            ready: VecDeque::new(),
            early: VecDeque::new(),
            output: VecDeque::new(),
        };
        let built = PATTERN.parse().and_then(|pattern| {
            let anyone = [0; SECRET_LEN];
            let secret = if breaks(Mutant::SecretUnchecked) { &anyone } else { &secret.0 };
            let builder = Builder::new(pattern).psk(0, secret)?.prologue(PROLOGUE)?;
            match side {
                Side::Agent => builder.build_initiator(),
                Side::Launcher => builder.build_responder(),
            }
        });
        if let Ok(state) = built {
            session.state = SessionState::Hello(Box::new(state));
            if side == Side::Agent {
                let _ = session.say_hello(); // cannot fail: the frame has its exact size
            }
        }
        session
    }

    /// Returns true if there are bytes to write.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns the bytes to write to the other side.
    pub fn output(&mut self) -> &mut VecDeque<u8> {
        &mut self.output
    }

    /// Seals a message, which is written once the handshake is complete.
    ///
    /// # Errors
    /// The session is over, or the message is longer than [`SEALED_MAX`].
    pub fn say(&mut self, message: Vec<u8>) -> Result<(), NotAMember> {
        if message.len() > SEALED_MAX {
            return Err(NotAMember);
        }
        match self.state {
            SessionState::Hello(_) => self.early.push_back(message),
            SessionState::Open(_) => self.seal(&message)?,
            SessionState::Over => return Err(NotAMember),
        }
        Ok(())
    }

    /// Processes bytes that arrived, in chunks of any size.
    ///
    /// # Errors
    /// The bytes were not written by a member of this job; the session is then over.
    pub fn hear(&mut self, bytes: &[u8]) -> Result<(), NotAMember> {
        if matches!(self.state, SessionState::Over) {
            return Err(NotAMember);
        }
        self.input.extend_from_slice(bytes);
        let result = self.open_frames();
        if result.is_err() {
            self.state = SessionState::Over;
            self.ready.clear();
        }
        result
    }

    /// Returns the next whole message.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    fn open_frames(&mut self) -> Result<(), NotAMember> {
        let mut at = 0;
        while let Some(length) = self.input.get(at..at + 2) {
            let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
            match &self.state {
                SessionState::Hello(_) if length != HELLO_LEN => return Err(NotAMember),
                SessionState::Over => return Err(NotAMember),
                _ => {}
            }
            let Some(frame) = self.input.get(at + 2..at + 2 + length) else { break };
            let frame = frame.to_vec();
            self.open_frame(&frame)?;
            at += 2 + length;
        }
        self.input.drain(..at);
        Ok(())
    }

    fn open_frame(&mut self, frame: &[u8]) -> Result<(), NotAMember> {
        let mut piece = vec![0; frame.len()];
        match &mut self.state {
            SessionState::Hello(state) => {
                state.read_message(frame, &mut piece).map_err(|_| NotAMember)?;
                if self.side == Side::Launcher {
                    self.say_hello()?;
                }
                self.finish_hello()
            }
            SessionState::Open(state) => {
                let len = state.read_message(frame, &mut piece).map_err(|_| NotAMember)?;
                let (more, piece) = piece[..len].split_first().ok_or(NotAMember)?;
                if self.message.len() + piece.len() > SEALED_MAX {
                    return Err(NotAMember);
                }
                self.message.extend_from_slice(piece);
                if *more == 0 {
                    self.ready.push_back(std::mem::take(&mut self.message));
                }
                Ok(())
            }
            SessionState::Over => Err(NotAMember),
        }
    }

    fn say_hello(&mut self) -> Result<(), NotAMember> {
        let SessionState::Hello(state) = &mut self.state else { return Err(NotAMember) };
        let mut frame = [0; HELLO_LEN];
        let len = state.write_message(&[], &mut frame).map_err(|_| NotAMember)?;
        self.frame(&frame[..len]);
        Ok(())
    }

    fn finish_hello(&mut self) -> Result<(), NotAMember> {
        let SessionState::Hello(state) = std::mem::replace(&mut self.state, SessionState::Over)
        else {
            return Err(NotAMember);
        };
        let state = state.into_transport_mode().map_err(|_| NotAMember)?;
        self.state = SessionState::Open(Box::new(state));
        for message in std::mem::take(&mut self.early) {
            self.seal(&message)?;
        }
        Ok(())
    }

    fn seal(&mut self, message: &[u8]) -> Result<(), NotAMember> {
        let mut rest = message;
        loop {
            let (piece, after) = rest.split_at(rest.len().min(PIECE_MAX));
            let mut plain = vec![u8::from(!after.is_empty())];
            plain.extend_from_slice(piece);
            let mut frame = vec![0; plain.len() + TAG_LEN];
            let SessionState::Open(state) = &mut self.state else { return Err(NotAMember) };
            let len = state.write_message(&plain, &mut frame).map_err(|_| NotAMember)?;
            self.frame(&frame[..len]);
            rest = after;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    fn frame(&mut self, bytes: &[u8]) {
        self.output.extend((bytes.len() as u16).to_be_bytes());
        self.output.extend(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Session, Session) {
        let secret = Secret([7; SECRET_LEN]);
        (Session::new(Side::Agent, &secret), Session::new(Side::Launcher, &secret))
    }

    /// Moves the pending output of `from` to `to`; returns the bytes.
    fn carry(from: &mut Session, to: &mut Session) -> (Vec<u8>, Result<(), NotAMember>) {
        let bytes: Vec<u8> = from.output().drain(..).collect();
        let heard = to.hear(&bytes);
        (bytes, heard)
    }

    #[test]
    fn messages_of_every_length_arrive_whole_and_in_order() {
        let (mut agent, mut launcher) = pair();
        let lengths = [0, 1, PIECE_MAX - 1, PIECE_MAX, PIECE_MAX + 1, 300_000];
        for len in lengths {
            agent.say(vec![len as u8; len]).unwrap();
        }
        carry(&mut agent, &mut launcher).1.unwrap();
        launcher.say(b"early".to_vec()).unwrap();
        carry(&mut launcher, &mut agent).1.unwrap();
        assert_eq!(launcher.take(), None, "a greeting alone may be a recorded one");
        carry(&mut agent, &mut launcher).1.unwrap();
        for len in lengths {
            assert_eq!(launcher.take(), Some(vec![len as u8; len]));
        }
        assert_eq!(launcher.take(), None);
        assert_eq!(agent.take().as_deref(), Some(&b"early"[..]));
        assert!(agent.say(vec![0; SEALED_MAX + 1]).is_err());
    }

    #[test]
    fn bytes_may_arrive_one_by_one() {
        let (mut agent, mut launcher) = pair();
        agent.say(b"hello".to_vec()).unwrap();
        for _ in 0..2 {
            for byte in agent.output().drain(..) {
                launcher.hear(&[byte]).unwrap();
            }
            carry(&mut launcher, &mut agent).1.unwrap();
        }
        assert_eq!(launcher.take().as_deref(), Some(&b"hello"[..]));
    }

    #[test]
    fn another_secret_and_garbage_are_refused_without_keeping_them() {
        let (_, mut launcher) = pair();
        let mut stranger = Session::new(Side::Agent, &Secret([8; SECRET_LEN]));
        assert_eq!(carry(&mut stranger, &mut launcher).1, Err(NotAMember));
        assert_eq!(launcher.hear(&[]), Err(NotAMember), "it is over for good");
        assert_eq!(launcher.take(), None);
        assert!(launcher.say(vec![1]).is_err());
        for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 0, 0], &[255; 100], &[0, 47, 1]] {
            let (_, mut launcher) = pair();
            assert_eq!(launcher.hear(garbage), Err(NotAMember), "{garbage:?}");
        }
    }

    #[test]
    fn a_replayed_recording_has_no_effect() {
        let (mut agent, mut launcher) = pair();
        agent.say(b"node 1".to_vec()).unwrap();
        let (hello, _) = carry(&mut agent, &mut launcher);
        carry(&mut launcher, &mut agent).1.unwrap();
        let (said, _) = carry(&mut agent, &mut launcher);
        assert_eq!(launcher.take().as_deref(), Some(&b"node 1"[..]));
        assert_eq!(launcher.hear(&said), Err(NotAMember), "twice in one conversation");
        let (_, mut again) = pair();
        again.hear(&hello).unwrap();
        assert_eq!(again.hear(&said), Err(NotAMember), "in a conversation of its own");
        assert_eq!(again.take(), None);
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let (mut agent, mut launcher) = pair();
        carry(&mut agent, &mut launcher).1.unwrap();
        carry(&mut launcher, &mut agent).1.unwrap();
        agent.say(b"stop".to_vec()).unwrap();
        let bytes: Vec<u8> = agent.output().drain(..).collect();
        let bit = bytes.len() * 8 - 1;
        let mut wrong = bytes.clone();
        wrong[bit / 8] ^= 1;
        assert_eq!(launcher.hear(&wrong), Err(NotAMember));
    }

    /// Random bytes in chunks of any size, before and after the handshake, yield an error or
    /// nothing.
    #[test]
    fn no_bytes_make_it_panic_or_keep_more_than_a_frame() {
        let mut state = 1u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for round in 0..2000 {
            let (mut agent, mut launcher) = pair();
            if round % 2 == 1 {
                carry(&mut agent, &mut launcher).1.unwrap();
                carry(&mut launcher, &mut agent).1.unwrap();
            }
            for _ in 0..8 {
                let mut bytes: Vec<u8> = (0..random() % 400).map(|_| random() as u8).collect();
                if random() % 2 == 0 && bytes.len() > 2 {
                    let length = (random() % 64) as u16; // small enough that the frame may be whole
                    bytes[..2].copy_from_slice(&length.to_be_bytes());
                }
                let _ = launcher.hear(&bytes);
                assert_eq!(launcher.take(), None);
                assert!(launcher.input.len() <= FRAME_MAX + 2);
            }
        }
    }
}
