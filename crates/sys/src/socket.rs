//! Control connections on one machine: Unix sequenced-packet pairs that carry one encoded message
//! per packet, and file descriptors with it.
//!
//! ```text
//! 0, message    the message follows
//! 1             the message is long: its memory file is the first descriptor
//! ```
//!
//! Invariant: a packet is a whole message or nothing; a packet that does not decode closes the
//! conversation with an error and is never used in part.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair, sockopt,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::memory;

/// Maximum message size in bytes: enough for the longest command line and the largest job.
pub const MESSAGE_MAX: usize = 16 << 20;
/// Maximum number of descriptors with one message.
pub const FDS_MAX: usize = 4;
/// Maximum packet size; the kernel can queue more than that for a socket.
const PACKET_MAX: usize = 64 << 10;
/// First byte of a packet: the location of its message.
const IN_PACKET: u8 = 0;
const IN_FILE: u8 = 1;

/// The reason why a message could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other side has closed the connection.
    #[error("the other side closed the control connection")]
    Closed,
    /// An error of the kernel.
    #[error("control connection: {0}")]
    Io(#[from] Errno),
    /// A descriptor arrived, but this process can open no more.
    #[error("control connection: too many open files (see ulimit -n)")]
    Descriptors,
    /// The packet is not a message of this protocol.
    #[error("control connection: a packet of {0} bytes is not a message")]
    Malformed(usize),
    /// Its descriptor is not open.
    #[error("control connection: descriptor {0} was closed before this program began")]
    Gone(i32),
    /// The bytes do not come from a member of the job.
    #[error("control connection: a message was not written by a member of this job")]
    Foreign,
}

/// One end of a control connection.
#[derive(Debug)]
pub struct Channel {
    fd: OwnedFd,
}

impl Channel {
    /// Creates two connected ends, both closed on exec.
    pub fn pair() -> Result<(Channel, Channel), ChannelError> {
        let (a, b) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel { fd: a }, Channel { fd: b }))
    }

    /// Wraps an end inherited from the parent process.
    pub fn inherited(fd: OwnedFd) -> Channel {
        Channel { fd }
    }

    /// Claims an inherited end for this process; false if another process that holds it has done
    /// so.
    ///
    /// The claim is a flag of the socket, not of a process. The flag has no other effect here:
    /// keepalive only matters for network connections.
    pub fn claim(&self) -> Result<bool, ChannelError> {
        let claimed = sockopt::socket_keepalive(&self.fd)?;
        sockopt::set_socket_keepalive(&self.fd, true)?;
        Ok(!claimed)
    }

    /// Makes the kernel name the sending process of each message from now on.
    pub fn name_senders(&self) -> Result<(), ChannelError> {
        Ok(sockopt::set_socket_passcred(&self.fd, true)?)
    }

    /// Sends one message, waiting for buffer space.
    pub fn send<M: Serialize>(&self, message: &M, fds: &[BorrowedFd]) -> Result<(), ChannelError> {
        let (bytes, long) = encode(message)?;
        let fds: Vec<BorrowedFd> =
            long.iter().map(AsFd::as_fd).chain(fds.iter().copied()).collect();
        self.send_bytes(&bytes, &fds, SendFlags::NOSIGNAL)
    }

    fn send_bytes(
        &self,
        bytes: &[u8],
        fds: &[BorrowedFd],
        flags: SendFlags,
    ) -> Result<(), ChannelError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX + 1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(ChannelError::Malformed(bytes.len()));
        }
        loop {
            match sendmsg(&self.fd, &[IoSlice::new(bytes)], &mut control, flags) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(ChannelError::Closed),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives one message, waiting for it.
    pub fn receive<M: DeserializeOwned>(&self) -> Result<(M, Vec<OwnedFd>), ChannelError> {
        self.receive_with(RecvFlags::CMSG_CLOEXEC).map(|received| (received.message, received.fds))
    }

    /// Receives one message if one has arrived.
    pub fn try_receive<M: DeserializeOwned>(
        &self,
    ) -> Result<Option<(M, Vec<OwnedFd>)>, ChannelError> {
        Ok(self.try_receive_all()?.map(|received| (received.message, received.fds)))
    }

    fn try_receive_all<M: DeserializeOwned>(&self) -> Result<Option<Received<M>>, ChannelError> {
        match self.receive_with(RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT) {
            Ok(received) => Ok(Some(received)),
            Err(ChannelError::Io(Errno::AGAIN)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn receive_with<M: DeserializeOwned>(
        &self,
        flags: RecvFlags,
    ) -> Result<Received<M>, ChannelError> {
        let mut bytes = vec![0; PACKET_MAX];
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX + 1), ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut reset = false;
        let got = loop {
            let mut part = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.fd, &mut part, &mut control, flags) {
                Ok(got) => break got,
                Err(Errno::INTR) => {}
                // Reported once, if an end closed with unread data; what it sent can still be
                // received.
                Err(Errno::CONNRESET) if !reset => reset = true,
                Err(Errno::CONNRESET) => return Err(ChannelError::Closed),
                Err(error) => return Err(error.into()),
            }
        };
        let (mut fds, mut sender) = (Vec::new(), None);
        for message in control.drain() {
            match message {
                RecvAncillaryMessage::ScmRights(rights) => fds.extend(rights),
                RecvAncillaryMessage::ScmCredentials(who) => {
                    sender = Some(who.pid.as_raw_nonzero().get() as u32);
                }
                _ => {}
            }
        }
        let Some((&place, rest)) = bytes[..got.bytes].split_first() else {
            return Err(ChannelError::Closed);
        };
        // The kernel drops descriptors if this process has reached its limit.
        if got.flags.contains(ReturnFlags::CTRUNC) {
            return Err(ChannelError::Descriptors);
        }
        let message = match place {
            IN_PACKET => decode(rest)?,
            IN_FILE if !fds.is_empty() => decode(&whole(&fds.remove(0))?)?,
            _ => return Err(ChannelError::Malformed(got.bytes)),
        };
        Ok(Received { message, fds, sender })
    }
}

/// A received message.
struct Received<M> {
    message: M,
    fds: Vec<OwnedFd>,
    /// The sending process, by its number in this process's namespace, if requested.
    sender: Option<u32>,
}

/// Returns the contents of a memory file that holds a message.
fn whole(file: &OwnedFd) -> Result<Vec<u8>, ChannelError> {
    let len = usize::try_from(fstat(file)?.st_size).unwrap_or(usize::MAX);
    if len > MESSAGE_MAX {
        return Err(ChannelError::Malformed(len));
    }
    let mut bytes = vec![0; len];
    memory::read_at(file, 0, &mut bytes)?;
    Ok(bytes)
}

/// Decodes the message in a packet, with no bytes left over.
pub fn decode<M: DeserializeOwned>(packet: &[u8]) -> Result<M, ChannelError> {
    match postcard::take_from_bytes(packet) {
        Ok((message, [])) => Ok(message),
        _ => Err(ChannelError::Malformed(packet.len())),
    }
}

/// Encodes a message as a packet, with a file if it is long.
fn encode<M: Serialize>(message: &M) -> Result<(Vec<u8>, Option<OwnedFd>), ChannelError> {
    let packet = postcard::to_extend(message, vec![IN_PACKET]);
    let packet = packet.map_err(|_| ChannelError::Malformed(0))?;
    let message = &packet[1..];
    match packet.len() {
        ..=PACKET_MAX => return Ok((packet, None)),
        _ if message.len() > MESSAGE_MAX => return Err(ChannelError::Malformed(message.len())),
        _ => {}
    }
    let file = memory::create("raidshmem-message", message.len())?;
    memory::write_at(&file, 0, message)?;
    Ok((vec![IN_FILE], Some(file)))
}

/// A channel whose sender never waits: messages that do not fit are queued in order. Both sides of
/// a conversation need this if both may send at the same time, or both may wait for buffer space.
#[derive(Debug)]
pub struct Outbox {
    channel: Channel,
    queue: VecDeque<(Vec<u8>, Vec<Arc<OwnedFd>>)>,
}

impl Outbox {
    const FLAGS: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

    /// Creates an empty queue in front of `channel`.
    pub fn new(channel: Channel) -> Outbox {
        Outbox { channel, queue: VecDeque::new() }
    }

    /// Sends one message, now or when there is buffer space. Queued descriptors are held, not
    /// duplicated.
    pub fn send<M: Serialize>(
        &mut self,
        message: &M,
        fds: &[Arc<OwnedFd>],
    ) -> Result<(), ChannelError> {
        let (bytes, long) = encode(message)?;
        let fds = long.map(Arc::new).into_iter().chain(fds.iter().cloned()).collect();
        self.queue.push_back((bytes, fds));
        self.flush()
    }

    /// Like [`Outbox::send`], for a message that need not stay in order, such as a heartbeat: it
    /// does not wait behind descriptors that the kernel holds back.
    pub fn send_ahead<M: Serialize>(&mut self, message: &M) -> Result<(), ChannelError> {
        let (bytes, long) = encode(message)?;
        let fds: Vec<Arc<OwnedFd>> = long.map(Arc::new).into_iter().collect();
        let borrowed: Vec<BorrowedFd> = fds.iter().map(|fd| fd.as_fd()).collect();
        match self.channel.send_bytes(&bytes, &borrowed, Outbox::FLAGS) {
            Err(ChannelError::Io(Errno::AGAIN | Errno::NOBUFS | Errno::TOOMANYREFS)) => {
                self.queue.push_back((bytes, fds));
                Ok(())
            }
            sent => sent,
        }
    }

    /// Sends queued messages as far as there is buffer space.
    pub fn flush(&mut self) -> Result<(), ChannelError> {
        while let Some((bytes, fds)) = self.queue.front() {
            let fds: Vec<BorrowedFd> = fds.iter().map(|fd| fd.as_fd()).collect();
            match self.channel.send_bytes(bytes, &fds, Outbox::FLAGS) {
                Ok(()) => drop(self.queue.pop_front()),
                Err(ChannelError::Io(Errno::AGAIN | Errno::NOBUFS)) => return Ok(()),
                // The user has too many descriptors in flight to all processes together; the
                // receivers will take them, but there is no notification.
                Err(ChannelError::Io(Errno::TOOMANYREFS)) => {
                    std::thread::yield_now();
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the events to poll the channel for.
    pub fn interest(&self) -> PollFlags {
        if self.queue.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
    }

    /// Receives one message if one has arrived.
    pub fn try_receive<M: DeserializeOwned>(
        &self,
    ) -> Result<Option<(M, Vec<OwnedFd>)>, ChannelError> {
        self.channel.try_receive()
    }

    /// Receives one message if one has arrived, with the sending process instead of descriptors:
    /// see [`Channel::name_senders`].
    pub fn try_receive_from<M: DeserializeOwned>(
        &self,
    ) -> Result<Option<(M, Option<u32>)>, ChannelError> {
        Ok(self.channel.try_receive_all()?.map(|received| (received.message, received.sender)))
    }
}

impl AsFd for Outbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
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
        let file = crate::memory::create("test", 4096).unwrap();
        a.send(&(7u32, "seven".to_string()), &[file.as_fd()]).unwrap();
        let ((number, word), fds) = b.receive::<(u32, String)>().unwrap();
        assert_eq!((number, word.as_str(), fds.len()), (7, "seven", 1));
        assert!(b.try_receive::<u32>().unwrap().is_none());
    }

    #[test]
    fn messages_of_every_length_arrive_whole_with_their_descriptors() {
        let (a, b) = Channel::pair().unwrap();
        let mut out = Outbox::new(a);
        for len in [0, PACKET_MAX - 5, PACKET_MAX - 4, PACKET_MAX, 1 << 20, MESSAGE_MAX - 4] {
            let file = Arc::new(memory::create("test", 4096 + len).unwrap());
            let sent: Vec<u8> = (0..len).map(|at| at as u8).collect();
            out.send(&sent, &[file]).unwrap();
            let (got, fds) = b.receive::<Vec<u8>>().unwrap();
            assert!(got == sent, "{len} bytes");
            assert_eq!(fstat(&fds[0]).unwrap().st_size as usize, 4096 + len);
            assert_eq!(fds.len(), 1);
        }
        let long = vec![0u8; MESSAGE_MAX + 1];
        assert!(matches!(out.send(&long, &[]), Err(ChannelError::Malformed(MESSAGE_MAX..))));
    }

    #[test]
    fn the_kernel_identifies_the_sender_of_a_message() {
        let (a, b) = Channel::pair().unwrap();
        let b = Outbox::new(b);
        a.send(&1u32, &[]).unwrap();
        assert_eq!(b.try_receive_from::<u32>().unwrap(), Some((1, None)), "nobody asked");
        b.channel.name_senders().unwrap();
        a.send(&2u32, &[a.as_fd()]).unwrap();
        assert_eq!(b.try_receive_from::<u32>().unwrap(), Some((2, Some(std::process::id()))));
        assert_eq!(b.try_receive_from::<u32>().unwrap(), None);
    }

    #[test]
    fn an_outbox_never_waits_and_keeps_the_order() {
        let (a, b) = Channel::pair().unwrap();
        let file = Arc::new(memory::create("test", 4096).unwrap());
        let mut out = Outbox::new(a);
        for number in 0..5000u32 {
            out.send(&(number, vec![0u8; 100]), &[Arc::clone(&file)]).unwrap();
        }
        assert!(out.interest().contains(PollFlags::OUT), "far more than a socket holds");
        for number in 0..5000u32 {
            out.flush().unwrap();
            let ((got, _), fds) = b.receive::<(u32, Vec<u8>)>().unwrap();
            assert_eq!((got, fds.len()), (number, 1));
        }
        assert_eq!(out.interest(), PollFlags::IN);
    }

    #[test]
    fn the_last_message_of_an_end_with_unread_data_arrives() {
        let (a, b) = Channel::pair().unwrap();
        a.send(&1u32, &[]).unwrap();
        b.send(&2u32, &[]).unwrap();
        drop(b);
        assert_eq!(a.receive::<u32>().unwrap().0, 2);
        assert!(matches!(a.receive::<u32>(), Err(ChannelError::Closed)));
    }

    #[test]
    fn garbage_is_refused_and_a_closed_end_is_reported() {
        let (a, b) = Channel::pair().unwrap();
        a.send(&vec![255u8; 9], &[]).unwrap();
        let got = b.receive::<(String, String, String)>();
        assert!(matches!(got, Err(ChannelError::Malformed(10))), "{got:?}");
        drop(a);
        assert!(matches!(b.receive::<u32>(), Err(ChannelError::Closed)));
    }
}
