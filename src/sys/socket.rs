//! Control connections on one machine: Unix sequenced-packet pairs that carry one encoded message
//! a packet, with file descriptors beside it.
//!
//! Invariant: a packet is a whole message or nothing; a packet that does not decode closes the
//! conversation with an error and is never half believed.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest message in bytes.
pub const MESSAGE_MAX: usize = 128 * 1024;
/// Most descriptors beside one message.
pub const FDS_MAX: usize = 4;

/// Why a message could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other side is gone.
    #[error("the other side closed the control connection")]
    Closed,
    /// The kernel refused.
    #[error("control connection: {0}")]
    Io(#[from] Errno),
    /// The packet is not a message of this protocol.
    #[error("control connection: a packet of {0} bytes is not a message")]
    Malformed(usize),
}

/// One end of a control connection.
#[derive(Debug)]
pub struct Channel {
    fd: OwnedFd,
}

impl Channel {
    /// Two connected ends, both closed on exec.
    pub fn pair() -> Result<(Channel, Channel), ChannelError> {
        let (a, b) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel { fd: a }, Channel { fd: b }))
    }

    /// An end inherited from the parent process.
    pub fn inherited(fd: OwnedFd) -> Channel {
        Channel { fd }
    }

    /// Sends one message, waiting for room.
    pub fn send<M: Serialize>(&self, message: &M, fds: &[BorrowedFd]) -> Result<(), ChannelError> {
        let bytes = postcard::to_allocvec(message).map_err(|_| ChannelError::Malformed(0))?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(ChannelError::Malformed(bytes.len()));
        }
        loop {
            let part = [IoSlice::new(&bytes)];
            match sendmsg(&self.fd, &part, &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(ChannelError::Closed),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives one message, waiting for it.
    pub fn receive<M: DeserializeOwned>(&self) -> Result<(M, Vec<OwnedFd>), ChannelError> {
        self.receive_with(RecvFlags::CMSG_CLOEXEC)
    }

    /// Receives one message if one is there.
    pub fn try_receive<M: DeserializeOwned>(
        &self,
    ) -> Result<Option<(M, Vec<OwnedFd>)>, ChannelError> {
        match self.receive_with(RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT) {
            Ok(message) => Ok(Some(message)),
            Err(ChannelError::Io(Errno::AGAIN)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn receive_with<M: DeserializeOwned>(
        &self,
        flags: RecvFlags,
    ) -> Result<(M, Vec<OwnedFd>), ChannelError> {
        let mut bytes = vec![0; MESSAGE_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = loop {
            let mut part = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.fd, &mut part, &mut control, flags) {
                Ok(got) => break got,
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(ChannelError::Closed),
                Err(error) => return Err(error.into()),
            }
        };
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        if got.bytes == 0 {
            return Err(ChannelError::Closed);
        }
        let message = postcard::from_bytes(&bytes[..got.bytes])
            .map_err(|_| ChannelError::Malformed(got.bytes))?;
        Ok((message, fds))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_whole_with_its_descriptors() {
        let (a, b) = Channel::pair().unwrap();
        let file = crate::sys::memory::create("test", 4096).unwrap();
        a.send(&(7u32, "seven".to_string()), &[file.as_fd()]).unwrap();
        let ((number, word), fds) = b.receive::<(u32, String)>().unwrap();
        assert_eq!((number, word.as_str(), fds.len()), (7, "seven", 1));
        assert!(b.try_receive::<u32>().unwrap().is_none());
    }

    #[test]
    fn garbage_is_refused_and_a_closed_end_is_said() {
        let (a, b) = Channel::pair().unwrap();
        a.send(&vec![255u8; 9], &[]).unwrap();
        let got = b.receive::<(String, String, String)>();
        assert!(matches!(got, Err(ChannelError::Malformed(10))), "{got:?}");
        drop(a);
        assert!(matches!(b.receive::<u32>(), Err(ChannelError::Closed)));
    }
}
