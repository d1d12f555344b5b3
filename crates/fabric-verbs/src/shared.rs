//! The state of an engine, and its connections: made on demand, broken, ended.
//!
//! Invariants: `peers` holds the connection to the incarnation that the caller named last;
//! `listening` holds those whose messages are still processed. `disconnect` removes a connection
//! from both, but it stays in `all`, where its last completions find it.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use arc_swap::ArcSwapOption;
use raidshmem_core::layout::STATICS_MAX;
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::settings::{self, Fabric};
use raidshmem_fabric::hand_off::HandOff;
use raidshmem_fabric::{FabricError, Local, Lost};

use crate::conn::{Conn, Ticket};
use crate::device::{self, Atomics, Device};
use crate::link::{Greeting, Handshake};
use crate::objects::{Inbox, Queue, Region};
use crate::pace::Pace;
use crate::pair::{Local as Bytes, Pair, Route, What, Work};
use crate::poller::Poller;
use crate::windows::Windows;
use crate::wire::{Address, Hello, Message};
use raidshmem_sys::lock;

/// Minimum and maximum work requests of a connection at a time.
const DEPTH: RangeInclusive<usize> = 32..=128;
/// Bytes of a block: a piece of a transfer on its way to or from registered memory.
pub const BLOCK: usize = 64 << 10;
const BLOCKS: usize = 64;
/// Buffers for greetings, and the length of the header that precedes each.
const HELLOS: usize = 128;
const HEADER: usize = 40;
/// Buffers for messages per peer.
const MESSAGES: usize = 32;
/// Maximum buffers for messages.
const MESSAGES_MAX: usize = 4096;

/// An engine.
#[derive(Debug)]
pub struct Shared {
    pub(super) local: Local,
    pub(super) windows: Windows,
    pub(super) poller: Mutex<Poller>,
    /// Round-trip times, over all peers.
    pub(super) pace: Mutex<Pace>,
    /// Connections with posts that have not been reported to their peers yet.
    pub(super) served: Mutex<Vec<Arc<Conn>>>,
    /// True if something waits for a completion to free an entry.
    pub(super) due: AtomicBool,
    /// For the engine's thread, which stays away while others poll.
    pub(super) hand_off: HandOff,
    /// True if peers may use the atomics of this device.
    serves_atomics: bool,
    peers: Box<[ArcSwapOption<Conn>]>,
    incarnations: Box<[AtomicU32]>,
    pub(super) all: RwLock<Vec<Arc<Conn>>>,
    listening: Mutex<HashMap<u32, Arc<Conn>>>,
    bootstrap: Pair,
    /// The registered windows of this process.
    regions: Box<[OnceLock<Region>]>,
    buffers: Region,
    pub(super) blocks: Region,
    pub(super) free: Mutex<Vec<u32>>,
    inbox: Arc<Inbox>,
    pub(super) queue: Arc<Queue>,
    device: Arc<Device>,
    depth: usize,
}

/// Returns an error of this fabric.
pub fn refused(what: &'static str, why: String) -> FabricError {
    FabricError::Refused { fabric: Fabric::Verbs, what, why }
}

impl Shared {
    /// Opens a device, and everything that does not depend on peers. The device's atomics are used
    /// if they are atomic with at least `atomics`.
    pub fn open(
        local: Local,
        named: Option<&settings::Device>,
        atomics: Atomics,
    ) -> Result<Shared, FabricError> {
        let absent = |why: &str| FabricError::NotLoaded { fabric: Fabric::Verbs, why: why.into() };
        rdma_sys::load().map_err(absent)?;
        let layout = *local.segment.layout();
        let needed = layout.spills[0] - STATICS_MAX + BLOCKS * BLOCK;
        device::may_pin(needed as u64).map_err(|why| refused("locked memory", why))?;
        let device = Device::open(named).map_err(|why| refused("device", why))?;
        let n = local.n_pes;
        let depth = (device.completions_max / 2 / n.max(1)).clamp(*DEPTH.start(), *DEPTH.end());
        let messages = (n * MESSAGES).min(MESSAGES_MAX);
        let entries = (n * depth + messages + 2 * HELLOS).min(device.completions_max);
        let made = |why: String| refused("device", why);
        let queue = Arc::new(Queue::new(&device, entries).map_err(made)?);
        let inbox = Arc::new(Inbox::new(&device, messages).map_err(made)?);
        let bootstrap = Pair::new(&device, &queue, None, HELLOS).map_err(made)?;
        bootstrap.open(key(local.job)).map_err(made)?;
        let pinned = |why: String| refused("locked memory", why);
        let letters = messages * Message::LEN + HELLOS * (HEADER + Hello::LEN);
        let buffers = Region::private(&device, letters).map_err(pinned)?;
        let blocks = Region::private(&device, BLOCKS * BLOCK).map_err(pinned)?;
        let windows = Windows::new(&layout);
        let own = Shared {
            poller: Mutex::default(),
            pace: Mutex::default(),
            served: Mutex::default(),
            due: AtomicBool::new(false),
            hand_off: HandOff::default(),
            serves_atomics: device.atomics != Atomics::None && device.atomics >= atomics,
            peers: (0..n).map(|_| ArcSwapOption::empty()).collect(),
            incarnations: (0..n).map(|_| AtomicU32::new(0)).collect(),
            all: RwLock::default(),
            listening: Mutex::default(),
            bootstrap,
            regions: (0..windows.count()).map(|_| OnceLock::new()).collect(),
            windows,
            buffers,
            blocks,
            free: Mutex::new((0..BLOCKS as u32).collect()),
            inbox,
            queue,
            device,
            depth,
            local,
        };
        let hellos = (0..HELLOS as u32).all(|at| own.offer(Ticket::Hello(at)));
        let offered = hellos && (0..messages as u32).all(|at| own.offer(Ticket::Message(at)));
        offered.then_some(own).ok_or_else(|| refused("device", "it takes no buffers".to_owned()))
    }

    /// Returns the address of this process.
    pub fn address(&self) -> Address {
        let d = &self.device;
        let qpn = self.bootstrap.number();
        let atomics = self.serves_atomics;
        Address { gid: d.gid, lid: d.lid, mtu: d.mtu, reads: d.reads.0, atomics, qpn }
    }

    /// Returns true if the device of that peer can update its words.
    pub(super) fn updates_by_device(&self, conn: &Conn) -> bool {
        conn.address.atomics && self.device.atomics != Atomics::None
    }

    /// Ends this process, because it cannot keep its guarantees to peers.
    pub(super) fn fatal(&self, what: &str, why: &str) -> ! {
        self.local.fatal(Fabric::Verbs, what, why)
    }

    // ---- buffers -----------------------------------------------------------------------------

    /// Returns the location of a buffer's bytes.
    fn place(&self, buffer: Ticket) -> Range<usize> {
        let (hello, message) = (HEADER + Hello::LEN, Message::LEN);
        let from = |at: usize, len: usize| at..at + len;
        match buffer {
            Ticket::Hello(at) => from(at as usize * hello, hello),
            Ticket::Message(at) => from(HELLOS * hello + at as usize * message, message),
            Ticket::Greeted | Ticket::Sent(..) => 0..0,
        }
    }

    /// Posts a receive buffer.
    pub(super) fn offer(&self, buffer: Ticket) -> bool {
        let place = self.place(buffer);
        let span = self.buffers.span(place.start, place.len());
        match buffer {
            Ticket::Hello(_) => self.bootstrap.offer(buffer.pack(), span),
            _ => self.inbox.offer(buffer.pack(), span),
        }
    }

    /// Decodes the message in a buffer.
    pub(super) fn message(&self, buffer: Ticket, len: usize) -> Option<Message> {
        let mut bytes = [0; Message::LEN];
        self.buffers.read(self.place(buffer).start, &mut bytes);
        Message::decode(&bytes[..len.min(Message::LEN)])
    }

    /// Decodes the greeting in a buffer, after its header.
    pub(super) fn hello(&self, buffer: Ticket, len: usize) -> Option<Hello> {
        let mut bytes = [0; Hello::LEN];
        self.buffers.read(self.place(buffer).start + HEADER, &mut bytes);
        Hello::decode(&bytes[..len.checked_sub(HEADER)?.min(Hello::LEN)])
    }

    /// Returns address and key of a window of this process, which is registered on first use.
    pub(super) fn window(&self, at: usize) -> (u64, u32) {
        let region = self.regions[at].get_or_init(|| {
            let range = self.windows.range(at);
            let bytes = self.local.segment.bytes(range.start, range.len());
            let region =
                Region::new(&self.device, bytes, self.windows.is_visible(at), self.serves_atomics);
            region.unwrap_or_else(|why| self.fatal("locked memory", &why))
        });
        region.remote()
    }

    // ---- connections -------------------------------------------------------------------------

    /// Sets `pe` to this incarnation; the connection is made on first use.
    pub fn connect(
        &self,
        pe: Pe,
        incarnation: Incarnation,
        address: &[u8],
    ) -> Result<(), FabricError> {
        let Some(address) = Address::decode(address) else {
            return Err(refused("address", format!("PE {pe} has another build")));
        };
        self.disconnect(pe);
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let (index, windows) = (all.len() as u32, self.windows.count());
        let conn = Conn::new(index, (pe, incarnation), address, windows, self.depth);
        let conn = Arc::new(conn);
        all.push(Arc::clone(&conn));
        self.incarnations[pe.at()].store(incarnation.0, Ordering::Relaxed);
        self.peers[pe.at()].store(Some(conn));
        Ok(())
    }

    /// Stops all traffic with `pe`.
    pub fn disconnect(&self, pe: Pe) {
        let Some(conn) = self.peers[pe.at()].swap(None) else { return };
        conn.broken.store(true, Ordering::Release);
        let _ends = lock(&conn.ends); // excludes creation of its queue pair
        if let Some(pair) = conn.pair.get() {
            pair.fail();
            lock(&self.listening).remove(&pair.number());
        }
    }

    /// Returns the connection to `pe`, open or not.
    pub(super) fn conn(&self, pe: Pe) -> Result<Arc<Conn>, Lost> {
        let incarnation = || Incarnation(self.incarnations[pe.at()].load(Ordering::Relaxed));
        let conn = self.peers[pe.at()].load_full();
        conn.ok_or_else(|| Lost { pe, incarnation: incarnation() })
    }

    /// Returns the connection that receives messages through queue pair `qpn`.
    pub(super) fn listening(&self, qpn: u32) -> Option<Arc<Conn>> {
        lock(&self.listening).get(&qpn).cloned()
    }

    /// Handles the failure of a connection.
    pub(super) fn broke(&self, conn: &Conn, suspect: bool) {
        if conn.broken.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(pair) = conn.pair.get() {
            pair.fail();
        }
        if suspect {
            self.local.events.suspect(conn.pe, conn.incarnation);
        }
    }

    // ---- greetings ---------------------------------------------------------------------------

    /// Returns the queue pair of `conn`, creating it on first use. Called with `ends` locked.
    fn pair<'a>(&self, conn: &'a Arc<Conn>) -> &'a Pair {
        conn.pair.get_or_init(|| {
            let pair = Pair::new(&self.device, &self.queue, Some(&self.inbox), self.depth);
            let pair = pair.unwrap_or_else(|why| self.fatal("queue pair", &why));
            lock(&self.listening).insert(pair.number(), Arc::clone(conn));
            pair
        })
    }

    /// Requests the connection.
    pub(super) fn greet(&self, conn: &Arc<Conn>) {
        let mut ends = lock(&conn.ends);
        if conn.is_broken() {
            return;
        }
        let mine = self.pair(conn).number();
        let greeting = ends.link.get_or_insert(Handshake::new(mine)).greeting();
        self.say(conn, greeting);
    }

    fn say(&self, conn: &Conn, greeting: Greeting) {
        let Greeting { qpn, have, want } = greeting;
        let own = (self.local.me.0, self.local.incarnation);
        let hello = Hello {
            job: self.local.job,
            from: own,
            to: (conn.pe.0, conn.incarnation),
            qpn,
            psn: psn(qpn),
            have,
            want,
        };
        if conn.route.get().is_none()
            && let Ok(route) = Route::new(&self.device, &conn.address)
        {
            let _ = conn.route.set(route);
        }
        // Without a route the greeting is lost, and will be repeated like any other.
        let Some(route) = conn.route.get() else { return };
        let what = What::Datagram(route, conn.address.qpn, key(self.local.job));
        let bytes = hello.encode();
        let id = Ticket::Greeted.pack();
        let _ =
            self.bootstrap.post(&[Work { id, what, local: Bytes::Inline(&bytes), signal: true }]);
    }

    /// Handles a greeting.
    pub(super) fn greeted(&self, hello: &Hello) {
        let own = (self.local.me.0, self.local.incarnation);
        let from = hello.from.0 as usize;
        if hello.job != self.local.job || hello.to != own || from >= self.local.n_pes {
            return;
        }
        let Ok(conn) = self.conn(Pe::of(from)) else { return };
        if conn.incarnation != hello.from.1 || conn.is_broken() {
            return;
        }
        let mut ends = lock(&conn.ends);
        if conn.is_broken() {
            return;
        }
        let pair = self.pair(&conn);
        let link = ends.link.get_or_insert(Handshake::new(pair.number()));
        let then = link.hear(Greeting { qpn: hello.qpn, have: hello.have, want: hello.want });
        if let Some(qpn) = then.connect
            && pair
                .connect(&conn.address, qpn, (psn(pair.number()), hello.psn), self.serves_atomics)
                .is_err()
        {
            self.broke(&conn, true);
            return;
        }
        if link.is_open() {
            conn.open.store(true, Ordering::Release);
        }
        if let Some(answer) = then.answer {
            self.say(&conn, answer);
        }
    }
}

/// Returns the key of a job's greetings: the device drops those of other jobs. The top bit is
/// reserved for privileged keys.
fn key(job: u64) -> u32 {
    (job ^ job >> 32) as u32 & 0x7fff_ffff
}

/// Returns the initial packet number of a queue pair.
pub(super) fn psn(qpn: u32) -> u32 {
    qpn.wrapping_mul(0x9e37_79b9) >> 8
}
