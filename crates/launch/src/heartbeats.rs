//! Heartbeats between hosts: sealed datagrams.
//!
//! ```text
//! sender (4 bytes), number (8 bytes), then encrypted by ChaCha20-Poly1305: receiver, heartbeat
//! ```
//!
//! Invariants: sender and number form the nonce, and no sender reuses a number; a datagram is
//! dropped unless its number is higher than all earlier ones of its sender, so a replayed recording
//! has no effect; nothing in a datagram is used before it decrypts.
//!
//! Left out: messages that must arrive. A lost heartbeat is followed by the next.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use raidshmem_core::message::{Beat, Party};
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::secret::Secret;

const NONCE_LEN: usize = 12;
const DATAGRAM_MAX: usize = 128;
/// The maximum number of datagrams read per call, so that a flood cannot starve other work.
const LOOKS_MAX: usize = 64;

/// The socket of one party.
pub struct Heartbeats {
    socket: UdpSocket,
    sealed: Sealed,
    refused: bool,
}

/// The state of datagrams, without a socket.
struct Sealed {
    cipher: ChaCha20Poly1305,
    me: Party,
    number: u64,
    newest: BTreeMap<Party, u64>,
}

/// A datagram that arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum Datagram {
    /// A heartbeat of a member of the job, and its source address.
    Beat(Party, Beat, SocketAddr),
    /// The first datagram that no member of the job sealed; it is worth a log line.
    Foreign(SocketAddr),
}

impl Heartbeats {
    /// Creates the heartbeats of `me` over `socket`, which must be non-blocking.
    pub fn new(socket: UdpSocket, me: Party, key: &Secret) -> Heartbeats {
        Heartbeats { socket, sealed: Sealed::new(me, key), refused: false }
    }

    /// Sends a heartbeat; only an answer shows that it arrived.
    pub fn send(&mut self, to: Party, at: SocketAddr, beat: Beat) {
        if let Some(datagram) = self.sealed.seal(to, beat) {
            let _ = self.socket.send_to(&datagram, at);
        }
    }

    /// Returns the next valid heartbeat, or the first foreign datagram. Returns None also after
    /// [`LOOKS_MAX`] datagrams without one; the socket must then be polled again.
    pub fn receive(&mut self) -> Option<Datagram> {
        let mut bytes = [0; DATAGRAM_MAX];
        for _ in 0..LOOKS_MAX {
            let (len, from) = match self.socket.recv_from(&mut bytes) {
                Ok(got) => got,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return None,
                // An earlier datagram went to a port without a listener.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => continue,
                Err(_) => return None,
            };
            match self.sealed.open(&bytes[..len]) {
                Ok(Some((party, beat))) => return Some(Datagram::Beat(party, beat, from)),
                Ok(None) => {}
                Err(()) if self.refused => {}
                Err(()) => {
                    self.refused = true;
                    return Some(Datagram::Foreign(from));
                }
            }
        }
        None
    }
}

impl AsFd for Heartbeats {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Sealed {
    fn new(me: Party, key: &Secret) -> Sealed {
        let cipher = ChaCha20Poly1305::new(Key::from_slice(&key.0));
        Sealed { cipher, me, number: 0, newest: BTreeMap::new() }
    }

    fn seal(&mut self, to: Party, beat: Beat) -> Option<Vec<u8>> {
        self.number += 1;
        let nonce = nonce(self.me, self.number);
        let plain = postcard::to_allocvec(&(to, beat)).ok()?;
        let sealed = self.cipher.encrypt(Nonce::from_slice(&nonce), plain.as_slice()).ok()?;
        Some([&nonce[..], &sealed].concat())
    }

    /// Decrypts a datagram. Returns None if it is old or addressed to another party; fails if no
    /// member sealed it.
    fn open(&mut self, datagram: &[u8]) -> Result<Option<(Party, Beat)>, ()> {
        let (nonce, sealed) = datagram.split_at_checked(NONCE_LEN).ok_or(())?;
        let plain = self.cipher.decrypt(Nonce::from_slice(nonce), sealed).map_err(drop)?;
        let (to, beat) = postcard::from_bytes::<(Party, Beat)>(&plain).map_err(drop)?;
        let (from, number) = read_nonce(nonce).ok_or(())?;
        let newest = self.newest.entry(from).or_default();
        let again = number <= *newest && !breaks(Mutant::ReplayAccepted);
        if to != self.me || again {
            return Ok(None);
        }
        *newest = number;
        Ok(Some((from, beat)))
    }
}

fn nonce(from: Party, number: u64) -> [u8; NONCE_LEN] {
    let from = match from {
        Party::Node(node) => node,
        Party::Launcher => u32::MAX,
    };
    let mut nonce = [0; NONCE_LEN];
    nonce[..4].copy_from_slice(&from.to_le_bytes());
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    nonce
}

fn read_nonce(nonce: &[u8]) -> Option<(Party, u64)> {
    let from = u32::from_le_bytes(nonce.get(..4)?.try_into().ok()?);
    let number = u64::from_le_bytes(nonce.get(4..)?.try_into().ok()?);
    let from = if from == u32::MAX { Party::Launcher } else { Party::Node(from) };
    Some((from, number))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use raidshmem_core::secret::SECRET_LEN;

    use super::*;

    fn sealed(me: Party, key: u8) -> Sealed {
        Sealed::new(me, &Secret([key; SECRET_LEN]))
    }

    #[test]
    fn a_heartbeat_is_accepted_once_by_its_addressee() {
        let (mut one, mut two) = (sealed(Party::Node(1), 7), sealed(Party::Launcher, 7));
        let beat = Beat::Ping(Duration::from_millis(5));
        let first = one.seal(Party::Launcher, beat).unwrap();
        let second = one.seal(Party::Launcher, beat).unwrap();
        assert!(first.len() <= DATAGRAM_MAX);
        assert_eq!(two.open(&second), Ok(Some((Party::Node(1), beat))));
        assert_eq!(two.open(&second), Ok(None), "played again");
        assert_eq!(two.open(&first), Ok(None), "late");
        let other = one.seal(Party::Node(3), beat).unwrap();
        assert_eq!(two.open(&other), Ok(None), "for somebody else");
    }

    #[test]
    fn a_flood_of_unknown_datagrams_is_processed_in_portions() {
        let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (own, member, stranger) = (socket(), socket(), socket());
        let (at, key) = (own.local_addr().unwrap(), Secret([7; SECRET_LEN]));
        own.set_nonblocking(true).unwrap();
        let mut own = Heartbeats::new(own, Party::Launcher, &key);
        let mut member = Heartbeats::new(member, Party::Node(1), &key);
        for _ in 0..2 * LOOKS_MAX {
            stranger.send_to(&[9; 40], at).unwrap();
        }
        let beat = Beat::Ping(Duration::from_millis(5));
        let home = member.socket.local_addr().unwrap();
        member.send(Party::Launcher, at, beat);
        assert!(matches!(own.receive(), Some(Datagram::Foreign(_))));
        assert_eq!(own.receive(), None, "first something else");
        assert_eq!(own.receive(), Some(Datagram::Beat(Party::Node(1), beat, home)));
        assert_eq!(own.receive(), None);
    }

    #[test]
    fn datagrams_of_non_members_are_refused() {
        let (mut one, mut two) = (sealed(Party::Node(1), 7), sealed(Party::Launcher, 8));
        let datagram = one.seal(Party::Launcher, Beat::Pong(Duration::ZERO)).unwrap();
        assert_eq!(two.open(&datagram), Err(()), "another job");
        let mut same = sealed(Party::Launcher, 7);
        for bit in 0..datagram.len() * 8 {
            let mut wrong = datagram.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(same.open(&wrong), Err(()), "bit {bit}");
        }
        for garbage in [&[][..], &[0; 11], &[0; 12], &[255; 100]] {
            assert_eq!(same.open(garbage), Err(()));
        }
        assert!(same.open(&datagram).unwrap().is_some());
    }
}
