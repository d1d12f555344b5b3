//! The network between guests: an Ethernet switch over Unix sockets, a thread a port.
//!
//! A frame is a datagram. The last byte of a guest's hardware address is its port, so nothing need
//! be learned; what is for all goes to all others. A frame for a port whose queue is full is
//! dropped, as in any switch. No privileges are needed, and the machine's own network is not
//! touched.

use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

const QUEUE_FRAMES: usize = 1024;
/// The largest frame that QEMU sends.
const FRAME_MAX: usize = 68 * 1024;

type Ports = Arc<Mutex<BTreeMap<u8, SyncSender<Arc<[u8]>>>>>;

/// A switch and the folder of its guests; both end with it.
#[derive(Debug)]
pub struct Switch {
    folder: PathBuf,
    ports: Ports,
}

impl Switch {
    /// A switch without guests.
    pub fn new() -> Switch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Short, because the path of a Unix socket may have no more than 107 bytes.
        let name = format!("guests-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder for guests");
        let switch = Switch { folder, ports: Ports::default() };
        let socket = UnixDatagram::bind(switch.path()).expect("the switch has a socket");
        let ports = Arc::clone(&switch.ports);
        std::thread::spawn(move || forward(&socket, &ports));
        switch
    }

    /// Where consoles and sockets are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where guests send to.
    pub fn path(&self) -> PathBuf {
        self.folder.join("switch")
    }

    /// The socket of port `number`, which may have had a guest before.
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

fn forward(socket: &UnixDatagram, ports: &Ports) {
    let mut buffer = vec![0; FRAME_MAX];
    while let Ok(len) = socket.recv(&mut buffer)
        && len > 0
    {
        let frame: Arc<[u8]> = buffer[..len].into();
        let Some(&[first, .., last]) = frame.get(..6) else { continue };
        let source = frame.get(11).copied();
        let for_all = first & 1 == 1;
        for (&port, sender) in ports.lock().expect("no thread panics").iter() {
            if port == last || for_all && Some(port) != source {
                let _ = sender.try_send(Arc::clone(&frame));
            }
        }
    }
}

fn deliver(frames: &Receiver<Arc<[u8]>>, to: &Path) {
    let socket = UnixDatagram::unbound().expect("a socket");
    for frame in frames {
        let _ = socket.send_to(&frame, to); // refused: the guest is dead, or not there yet
    }
}
