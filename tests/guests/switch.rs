//! The network between guests: an Ethernet switch over Unix sockets, with one thread per port.
//!
//! A frame is a datagram. The last byte of a guest's hardware address is its port, so the switch
//! need not learn addresses; broadcasts go to all other ports. A frame for a port whose queue is
//! full is dropped, as in any switch. No privileges are needed, and the machine's own network is
//! not touched.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

const QUEUE_FRAMES: usize = 1024;
/// The largest frame that QEMU sends.
const FRAME_MAX: usize = 68 * 1024;

type Ports = Arc<Mutex<BTreeMap<u8, SyncSender<Arc<[u8]>>>>>;
/// Pairs of ports between which RDMA is the only UDP traffic that passes.
type Silent = Arc<Mutex<BTreeSet<(u8, u8)>>>;

/// The UDP port of RoCE version 2.
const ROCE: u16 = 4791;

/// A switch and the folder of its guests; both end when it is dropped.
#[derive(Debug)]
pub struct Switch {
    folder: PathBuf,
    ports: Ports,
    silent: Silent,
}

impl Switch {
    /// Starts a switch without guests.
    pub fn new() -> Switch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Short, because the path of a Unix socket may have no more than 107 bytes.
        let name = format!("guests-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder for guests");
        let switch = Switch { folder, ports: Ports::default(), silent: Silent::default() };
        let socket = UnixDatagram::bind(switch.path()).expect("the switch has a socket");
        let (ports, silent) = (Arc::clone(&switch.ports), Arc::clone(&switch.silent));
        std::thread::spawn(move || forward(&socket, &ports, &silent));
        switch
    }

    /// Returns the folder of consoles and sockets.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the socket to which guests send.
    pub fn path(&self) -> PathBuf {
        self.folder.join("switch")
    }

    /// Blocks datagrams between two ports from now on, but not RDMA or connections.
    #[allow(dead_code, reason = "of the tests, not of the scorecard")]
    pub fn silence(&self, one: u8, other: u8) {
        self.silent.lock().expect("no thread panics").extend([(one, other), (other, one)]);
    }

    /// Returns the socket of port `number`, which may have had a guest before.
    pub fn port(&self, number: u8) -> PathBuf {
        let path = self.folder.join(format!("port{number}"));
        let _ = std::fs::remove_file(&path);
        let (sender, frames) = sync_channel(QUEUE_FRAMES);
        self.ports.lock().expect("no thread panics").insert(number, sender);
        let to = path.clone();
        std::thread::spawn(move || deliver(&frames, &to));
        path
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.ports.lock().expect("no thread panics").clear();
        // An empty datagram ends `forward`.
        let _ = UnixDatagram::unbound().and_then(|socket| socket.send_to(&[], self.path()));
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn forward(socket: &UnixDatagram, ports: &Ports, silent: &Silent) {
    let mut buffer = vec![0; FRAME_MAX];
    while let Ok(len) = socket.recv(&mut buffer)
        && len > 0
    {
        let frame: Arc<[u8]> = buffer[..len].into();
        let Some(&[first, .., last]) = frame.get(..6) else { continue };
        let source = frame.get(11).copied();
        let for_all = first & 1 == 1;
        let pair = (source.unwrap_or(0), last);
        if is_message(&frame) && silent.lock().expect("no thread panics").contains(&pair) {
            continue;
        }
        for (&port, sender) in ports.lock().expect("no thread panics").iter() {
            if port == last || for_all && Some(port) != source {
                let _ = sender.try_send(Arc::clone(&frame));
            }
        }
    }
}

/// True for UDP over IPv4, except RDMA.
fn is_message(frame: &[u8]) -> bool {
    let header = frame.get(14).map_or(0, |first| usize::from(first & 15) * 4);
    let port = frame.get(14 + header + 2..14 + header + 4);
    let udp = frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&17);
    udp && port.is_some_and(|port| port != ROCE.to_be_bytes())
}

fn deliver(frames: &Receiver<Arc<[u8]>>, to: &Path) {
    let socket = UnixDatagram::unbound().expect("a socket");
    for frame in frames {
        let _ = socket.send_to(&frame, to); // refused: the guest is dead, or not up yet
    }
}
