//! The standard input of a job on its way to PE 0 on another host.
//!
//! The launcher reads it and sends it to the agent of PE 0's node. The agent writes it to the pipe
//! that PE 0 reads, and acknowledges the bytes written. The launcher keeps unacknowledged bytes, at
//! most [`WINDOW`], and stops reading at this limit, so a program that reads slowly holds up the
//! writer and memory stays bounded. When PE 0 restarts on another node, the launcher sends that
//! node the bytes that the first one has not acknowledged.
//!
//! Invariant: an agent gets each byte once, in order. A lost node loses only the bytes in its pipe.

use std::collections::VecDeque;

/// Maximum bytes read but not acknowledged.
pub const WINDOW: usize = 256 << 10;
/// Maximum bytes per message.
const PIECE: usize = 32 << 10;

/// The bytes that the launcher has read and PE 0's agent has not acknowledged.
#[derive(Debug, Default)]
pub struct Input {
    kept: VecDeque<u8>,
    /// Number of those bytes already sent to `node`.
    sent: usize,
    node: Option<u32>,
    /// True once the end of the input was read.
    ended: bool,
    /// True once the end was reported to `node`.
    end_sent: bool,
}

impl Input {
    /// Returns how many bytes may be read now.
    pub fn window(&self) -> usize {
        if self.ended { 0 } else { WINDOW - self.kept.len() }
    }

    /// Accepts input, at most [`Input::window`] bytes; an empty slice marks its end.
    pub fn take(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.window());
        self.ended |= bytes.is_empty();
        self.kept.extend(bytes);
    }

    /// Returns the next message for `node`, where PE 0 runs; an empty one marks the end.
    pub fn next(&mut self, node: u32) -> Option<Vec<u8>> {
        if self.node.replace(node) != Some(node) {
            (self.sent, self.end_sent) = (0, false);
        }
        let end = self.kept.len().min(self.sent + PIECE);
        let piece: Vec<u8> = self.kept.range(self.sent..end).copied().collect();
        self.sent = end;
        if piece.is_empty() && (!self.ended || self.end_sent) {
            return None;
        }
        self.end_sent |= piece.is_empty();
        Some(piece)
    }

    /// Records that `node` has written `bytes` more bytes to PE 0's pipe. False if fewer were sent.
    pub fn acknowledge(&mut self, node: u32, bytes: usize) -> bool {
        if self.node != Some(node) {
            return true; // from a node that PE 0 has left
        }
        if bytes > self.sent {
            return false;
        }
        self.kept.drain(..bytes);
        self.sent -= bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every message that is ready for `node`.
    fn flow(input: &mut Input, node: u32) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| input.next(node)).collect()
    }

    #[test]
    fn it_goes_in_pieces_and_its_end_once() {
        let mut input = Input::default();
        assert_eq!(flow(&mut input, 1), [[0; 0]; 0], "nothing was read");
        let bytes: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
        input.take(&bytes);
        let pieces = flow(&mut input, 1);
        assert!(pieces.len() == 4 && pieces.iter().all(|piece| piece.len() <= PIECE));
        assert_eq!(pieces.concat(), bytes);
        input.take(&[]);
        assert_eq!(flow(&mut input, 1), [[0; 0]]);
        assert_eq!(flow(&mut input, 1), [[0; 0]; 0], "the end is told once");
        assert_eq!(input.window(), 0, "nothing comes after the end");
    }

    #[test]
    fn no_more_is_read_than_fits_into_the_window() {
        let mut input = Input::default();
        input.take(&vec![7; WINDOW]);
        assert_eq!(input.window(), 0);
        assert_eq!(flow(&mut input, 0).concat().len(), WINDOW);
        assert_eq!(input.window(), 0, "sent is not acknowledged");
        assert!(input.acknowledge(0, 1000));
        assert_eq!(input.window(), 1000);
        assert!(!input.acknowledge(0, WINDOW), "it was not sent so much");
    }

    #[test]
    fn another_node_gets_what_the_first_did_not_acknowledge() {
        let mut input = Input::default();
        input.take(b"one two three");
        input.take(b"");
        assert_eq!(flow(&mut input, 4), [&b"one two three"[..], b""]);
        assert!(input.acknowledge(4, 4));
        assert_eq!(flow(&mut input, 5), [&b"two three"[..], b""]);
        assert!(input.acknowledge(4, 1000), "what a lost node still says counts for nothing");
        assert!(input.acknowledge(5, 9));
        assert_eq!(flow(&mut input, 5), [[0; 0]; 0]);
    }
}
