//! Joining the job from another host: over the network, authenticated by the job's secret.

#![forbid(unsafe_code)]

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use raidshmem_control::link::{Link, Net};
use raidshmem_control::noise::Side;
use raidshmem_core::message::Hello;
use raidshmem_core::secret::Secret;
use raidshmem_sys::machine;

use crate::handshake::JoinError;

/// Time limit for connecting.
const CONNECT: Duration = Duration::from_secs(10);
/// Connects to the launcher and sends this node's number and build. The returned socket is for
/// heartbeats.
pub fn join(
    launcher: SocketAddr,
    node: u32,
    secret: &Secret,
    build: &str,
) -> Result<(Link, UdpSocket), JoinError> {
    let connect = |error| JoinError::Connect { launcher, error };
    let stream = TcpStream::connect_timeout(&launcher, CONNECT).map_err(connect)?;
    let own = stream.local_addr().map_err(connect)?.ip();
    let socket = UdpSocket::bind((own, 0)).map_err(connect)?;
    socket.set_nonblocking(true).map_err(connect)?;
    let beats = socket.local_addr().map_err(connect)?.port();
    let net = Net::new(stream, Side::Agent, secret).map_err(connect)?;
    let mut link = Link::Net(Box::new(net));
    link.send(&Hello { build: build.to_owned(), node, beats }, &[])?;
    link.send(&machine::enclosure(), &[])?;
    Ok((link, socket))
}
