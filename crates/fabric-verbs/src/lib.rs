//! The engine for RDMA between nodes: reliable connections through libibverbs.
//!
//! [`Verbs`] implements [`Engine`] and [`Beats`] implements [`raidshmem_fabric::Signs`]. Layers,
//! each importing only from those above it or to the left of it:
//!
//! ```text
//! wire                                       addresses, greetings, messages (pure)
//! link                                       handshake between two queue pairs (pure)
//! windows                                    registered memory regions of a segment (pure)
//! pace                                       polling time before a thread sleeps (pure)
//! device                                     choice of device, port and GID; limits
//! objects  pair                              memory, queues; queue pairs
//! conn                                       one connection: work requests, answers
//! connections  blocks  receiving             all connections; registered memory for transfers
//! poller                                     completion-queue poller
//! shared                                     connections: setup, failure, teardown
//! letters                                    messages and bytes in order
//! work                                       posting, waiting, requests of peers
//! transfer  put                              gets, updates; puts on top of them
//! beat                                       RDMA liveness of agents
//! ```
//!
//! Puts are RDMA writes and gets are RDMA reads: the target's processor only registers a window of
//! its segment when it is first needed or announced. So parity is encoded, and a lost PE is
//! rebuilt, without the processors of the other PEs. Up to [`pair::INLINE`] bytes travel in the
//! work request itself; more go through registered blocks, several per doorbell.
//!
//! A put that a program may wait for wakes the peer's sleepers by the same packets: it is a write
//! with an immediate, unless a wake request is already under way. Waiting threads poll completions
//! themselves; the engine's own thread stays away meanwhile.
//!
//! Updates are messages that the target's processor carries out. The first of its threads to poll
//! the completion queue does so: a waiting thread, or the engine's own, which sleeps until a
//! solicited message arrives. If the target's device reports that its atomics are atomic with the
//! processor's (`IBV_ATOMIC_GLOB`), the device itself does sums, loads and conditional swaps of 8
//! bytes whose answer is waited for. Most devices, and soft-RoCE, promise atomicity only among
//! their own atomics (`IBV_ATOMIC_HCA`), whereas ours must be atomic with those of the target's
//! processor: there, and for posts, which are ordered, updates are messages. The queue pair limits
//! how many reads and atomics are under way at a time (`max_rd_atomic`).
//!
//! Bytes for the user of a peer's engine are letters of up to a KiB, sent from registered blocks
//! or, while those are short, in smaller pieces inside the work requests.
//!
//! A queue pair that fails is a broken connection. A fenced queue pair goes into the error state:
//! its peer can reach nothing any more, whatever keys it knows, because a key is valid only on a
//! queue pair of the same process. It is kept until the engine ends, so that queue pair numbers are
//! not reused.
//!
//! Left out: atomics of other widths by the device, shared receive by several ports, zero-copy
//! sends. The crate `raidshmem` chooses the engine of a job.

// Documentation of modules links to their private items.
#![allow(rustdoc::private_intra_doc_links)]

mod beat;
mod blocks;
mod conn;
mod connections;
mod device;
mod letters;
mod link;
mod objects;
mod pace;
mod pair;
mod poller;
mod put;
mod receiving;
mod shared;
mod transfer;
mod windows;
mod wire;
mod work;

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::settings;
use raidshmem_fabric::{AmoRequest, Engine, FabricError, Local, Lost, Read, Write};
use rustix::event::{EventfdFlags, eventfd};

use shared::{Shared, refused};

pub use beat::Beats;
pub use device::{Atomics, any_device};

/// The engine.
#[derive(Debug)]
pub struct Verbs {
    shared: Arc<Shared>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Verbs {
    /// Opens `device`, or the first device with an active port.
    ///
    /// # Errors
    /// [`FabricError`]: no library, no device, or the limit on pinned memory is too low.
    pub fn open(local: Local, device: Option<&settings::Device>) -> Result<Verbs, FabricError> {
        Verbs::with_atomics(local, device, Atomics::All)
    }

    /// Like [`Verbs::open`], but uses the device's atomics if they are atomic with at least
    /// `atomics`. Below [`Atomics::All`], words of 8 bytes may be updated only by peers, never by
    /// this process or another of its node.
    ///
    /// # Errors
    /// As [`Verbs::open`].
    /// As of `open`.
    pub fn with_atomics(
        local: Local,
        device: Option<&settings::Device>,
        atomics: Atomics,
    ) -> Result<Verbs, FabricError> {
        let shared = Arc::new(Shared::open(local, device, atomics)?);
        let failed = |error: std::io::Error| refused("progress thread", error.to_string());
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let stop = Arc::new(stop);
        let (engine, end) = (Arc::clone(&shared), Arc::clone(&stop));
        let builder = std::thread::Builder::new().name("shmem-verbs".into());
        let thread = builder
            .spawn(move || {
                let _own = raidshmem_sys::threads::own();
                engine.serve_until(&end)
            })
            .map_err(failed)?;
        Ok(Verbs { shared, stop, thread: Some(thread) })
    }
}

impl Drop for Verbs {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Engine for Verbs {
    fn address(&self) -> Vec<u8> {
        self.shared.address().encode()
    }

    fn connect(&self, pe: Pe, incarnation: Incarnation, address: &[u8]) -> Result<(), FabricError> {
        self.shared.connect(pe, incarnation, address)
    }

    fn disconnect(&self, pe: Pe) {
        self.shared.connections.disconnect(pe);
    }

    fn put(&self, writes: &[Write]) -> Result<(), Lost> {
        self.shared.put(writes, false)
    }

    fn put_and_wake(&self, writes: &[Write]) -> Result<(), Lost> {
        self.shared.put(writes, true)
    }

    fn get(&self, reads: &mut [Read]) -> Result<(), Lost> {
        self.shared.get(reads)
    }

    fn expect(&self, pe: Pe, range: Range<usize>) -> Result<(), Lost> {
        self.shared.expect(pe, range)
    }

    fn update(&self, asks: &[AmoRequest], before: &mut [u64]) -> Result<(), Lost> {
        self.shared.update(asks, before)
    }

    fn post(&self, ask: AmoRequest) -> Result<(), Lost> {
        self.shared.post(ask)
    }

    fn fence(&self, peers: &[Pe]) -> Result<(), Lost> {
        self.shared.fence(peers)
    }

    fn quiet(&self, peers: &[Pe]) -> Result<(), Lost> {
        self.shared.quiet(peers)
    }

    fn tell(&self, pe: Pe, bytes: &[u8]) -> Result<(), Lost> {
        let conn = self.shared.ready(pe)?;
        self.shared.letters(&conn).tell(bytes)
    }

    fn wake(&self, pe: Pe) {
        self.shared.wake(pe);
    }

    fn progress(&self) {
        self.shared.turn();
    }

    fn patience(&self) -> Duration {
        self.shared.patience()
    }

    fn rest(&self) {
        self.shared.hand_off.hand_over();
    }
}
