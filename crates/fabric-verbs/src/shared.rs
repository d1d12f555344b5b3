//! The state of an engine, and the setup and failure of its connections.

#![forbid(unsafe_code)]

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use raidshmem_core::layout::STATICS_MAX;
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::settings::{self, Fabric};
use raidshmem_fabric::hand_off::HandOff;
use raidshmem_fabric::{FabricError, Local};

use crate::blocks::{BLOCKS_LEN, Blocks};
use crate::conn::{Conn, Ticket};
use crate::connections::Connections;
use crate::device::{self, Atomics, Device};
use crate::link::{Greeting, Handshake};
use crate::objects::{Queue, Region};
use crate::pace::Pace;
use crate::pair::{Local as Bytes, Pair, Route, What, Work};
use crate::poller::Poller;
use crate::receiving::{HELLOS, ReceiveBuffers};
use crate::windows::Windows;
use crate::wire::{Address, Hello, LETTER};
use raidshmem_sys::lock;

/// Minimum and maximum work requests of a connection at a time.
const DEPTH: RangeInclusive<usize> = 32..=128;
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
    pub(super) connections: Connections,
    pub(super) receiving: ReceiveBuffers,
    pub(super) blocks: Blocks,
    /// The registered windows of this process.
    regions: Box<[OnceLock<Region>]>,
    pub(super) queue: Arc<Queue>,
    pub(super) device: Arc<Device>,
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
        let n = local.n_pes;
        let messages = (n * MESSAGES).min(MESSAGES_MAX);
        let needed = layout.spills[0] - STATICS_MAX + BLOCKS_LEN + messages * LETTER;
        device::may_pin(needed as u64).map_err(|why| refused("locked memory", why))?;
        let device = Device::open(named).map_err(|why| refused("device", why))?;
        let depth = (device.completions_max / 2 / n.max(1)).clamp(*DEPTH.start(), *DEPTH.end());
        let entries = (n * depth + messages + 2 * HELLOS).min(device.completions_max);
        let made = |why: String| refused("device", why);
        let queue = Arc::new(Queue::new(&device, entries).map_err(made)?);
        let receiving = ReceiveBuffers::new(&device, &queue, (key(local.job), messages));
        let receiving = receiving.map_err(made)?;
        let blocks = Blocks::new(&device).map_err(|why| refused("locked memory", why))?;
        let windows = Windows::new(&layout);
        let own = Shared {
            poller: Mutex::default(),
            pace: Mutex::default(),
            served: Mutex::default(),
            due: AtomicBool::new(false),
            hand_off: HandOff::default(),
            serves_atomics: device.atomics != Atomics::None && device.atomics >= atomics,
            connections: Connections::new(n, depth),
            receiving,
            blocks,
            regions: (0..windows.count()).map(|_| OnceLock::new()).collect(),
            windows,
            queue,
            device,
            local,
        };
        let offered = own.receiving.offer_all(messages);
        offered.then_some(own).ok_or_else(|| refused("device", "it takes no buffers".to_owned()))
    }

    /// Returns the address of this process.
    pub fn address(&self) -> Address {
        let d = &self.device;
        let qpn = self.receiving.bootstrap.number();
        let atomics = self.serves_atomics;
        Address { gid: d.gid, lid: d.lid, mtu: d.mtu, reads: d.reads.0, atomics, qpn }
    }

    /// Returns address and key of a window of this process, which is registered on first use.
    pub(super) fn window(&self, at: usize) -> (u64, u32) {
        let region = self.regions[at].get_or_init(|| {
            let range = self.windows.range(at);
            let bytes = self.local.segment.bytes(range.start, range.len());
            let region =
                Region::new(&self.device, bytes, self.windows.is_visible(at), self.serves_atomics);
            region.unwrap_or_else(|why| self.local.fatal(Fabric::Verbs, "locked memory", &why))
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
        self.connections.add(pe, incarnation, address, self.windows.count());
        Ok(())
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
            let pair = Pair::new(
                &self.device,
                &self.queue,
                Some(&self.receiving.inbox),
                self.connections.depth,
            );
            let pair =
                pair.unwrap_or_else(|why| self.local.fatal(Fabric::Verbs, "queue pair", &why));
            self.connections.listen(pair.number(), conn);
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
        let _ = self.receiving.bootstrap.post(&[Work {
            id,
            what,
            local: Bytes::Inline(&bytes),
            signal: true,
        }]);
    }

    /// Handles a greeting.
    pub(super) fn greeted(&self, hello: &Hello) {
        let own = (self.local.me.0, self.local.incarnation);
        let from = hello.from.0 as usize;
        if hello.job != self.local.job || hello.to != own || from >= self.local.n_pes {
            return;
        }
        let Ok(conn) = self.connections.to(Pe::of(from)) else { return };
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
