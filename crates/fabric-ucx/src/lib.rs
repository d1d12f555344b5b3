//! The engine over UCX: TCP, and the other networks that UCX drives.
//!
//! [`Ucx`] implements [`Engine`]. Layers, each importing only from those above it or to the left of
//! it:
//!
//! ```text
//! message                                    wire format (pure)
//! raw                                        UCP's worker, endpoints, operations
//! shared                                     state shared by callbacks and threads
//! links                                      connections: setup, failure, teardown
//! asking                                     requests to peers, and their answers
//! ```
//!
//! Implementation:
//!
//! ```text
//! put, get       UCP's, flushed per endpoint; messages in shrink mode. A put of one range does not
//!                allocate, and a put of one word waits for no other thread
//! connection     made when an operation first needs it
//! updates        messages, carried out by the target's processor and answered: UCP's own atomics
//!                are not atomic with the processor's, and fail in newer versions if peers may die
//! progress       a thread that sleeps until the worker has work. Threads that wait for their own
//!                operation also progress it; meanwhile that thread polls rarely, because two
//!                threads woken by every message obstruct each other
//! loss           endpoints fail (UCP_ERR_HANDLING_MODE_PEER), or are force-closed when the view
//!                marks the peer as lost; either ends all pending operations on them
//! ```
//!
//! Invariants: only the thread whose turn it is (`raidshmem_fabric::turns`) calls UCP. A link that
//! has failed stays in the table until `disconnect`, so that `quiet` keeps reporting it. After any
//! event, waiting threads look again.
//!
//! UCX is configured by its environment, [`ENVIRONMENT`], which its libraries read when they are
//! loaded.
//!
//! Left out: rejection of RMA by incarnation. TCP has no keys to revoke: a dead process is fenced
//! by closing the connection, and by killing the process before its PE number is reassigned. The
//! crate `raidshmem` chooses the engine of a job.

// Documentation of modules links to their private items.
#![allow(rustdoc::private_intra_doc_links)]

mod asking;
mod links;
mod message;
mod raw;
mod shared;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::settings::Fabric;
use raidshmem_fabric::turns::{DelegatedPut, Inside, SHORT, Turns};
use raidshmem_fabric::{AmoRequest, Engine, FabricError, Local, Lost, Read, Write};
use raidshmem_sys::futex;

use self::links::{Connection, Connections, attend, report};
use self::message::{
    ANSWER, Address, DATA, READ, REQUEST, SegmentPart, TELL, WRITE, decode, encode,
};
use self::raw::{Operation, Status, Worker};
use self::shared::Shared;
use raidshmem_sys::lock;

/// Variables that UCX's libraries read, and the reasons for their values.
pub const ENVIRONMENT: &[(&str, &str)] = &[
    ("UCX_HANDLE_ERRORS", "none"), // no signal handlers in the program's process
    ("UCX_DEBUG_SIGNO", "0"),
    ("UCX_MEM_MMAP_HOOK_MODE", "none"), // no hooks in its allocator
    ("UCX_MEM_EVENTS", "n"),
    ("UCX_VFS_ENABLE", "n"),           // no files
    ("UCX_WARN_UNUSED_ENV_VARS", "n"), // no warnings about variables of another version
    ("UCX_TLS", "tcp"),                // its shared memory does not survive a death
    ("UCX_TCP_CONN_NB", "y"),          // otherwise connecting to a lost node blocks for a minute
    ("UCX_TCP_TX_SEG_SIZE", "64k"),    // several times faster from 64 KiB on
    ("UCX_TCP_RX_SEG_SIZE", "64k"),
    ("UCX_KEEPALIVE_INTERVAL", "1s"),
    ("UCX_LOG_LEVEL", "fatal"), // the launcher reports losses
];

/// Loads UCX into this process, where it stays.
///
/// # Errors
/// The loader's message, or a message that the library is too old.
pub fn load() -> Result<(), &'static str> {
    ucx_sys::load().map(drop)
}

/// Maximum sleep between two checks of the view.
const LIMIT: Duration = Duration::from_millis(10);
/// Polls before sleeping, with a processor for each PE and without.
const LOOKS: (u32, u32) = (2000, 20);
/// Maximum operations of one call under way at a time.
const WINDOW: usize = 64;

/// The engine.
#[derive(Debug)]
pub struct Ucx {
    turns: &'static Turns<Connections>,
    shared: &'static Shared,
    address: Vec<u8>,
    tickets: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

fn refused(what: &'static str) -> impl Fn(Status) -> FabricError {
    move |why| FabricError::Refused { fabric: Fabric::Ucx, what, why: why.to_string() }
}

impl Ucx {
    /// Opens UCX for this process.
    ///
    /// # Errors
    /// [`FabricError`] with the message of the loader or of UCX.
    pub fn open(local: Local) -> Result<Ucx, FabricError> {
        let absent =
            |why: &str| FabricError::NotLoaded { fabric: Fabric::Ucx, why: why.to_owned() };
        let ucp = ucx_sys::load().map_err(absent)?;
        let worker = Worker::open(ucp, local.n_pes).map_err(refused("opening UCX"))?;
        let mut parts = Vec::new();
        for (offset, base, len) in local.segment.parts() {
            let key = worker.expose(base, len).map_err(refused("exposing memory"))?;
            parts.push(SegmentPart {
                offset: offset as u64,
                len: len as u64,
                base: base as u64,
                key,
            });
        }
        let parts: [SegmentPart; 2] = parts.try_into().expect("a segment has two parts");
        let own = worker.address().map_err(refused("the address of this process"))?;
        let address = encode(&Address { job: local.job, worker: own, parts });
        let descriptor = worker.descriptor().map_err(refused("a descriptor to wait on"))?;
        let shared: &'static Shared = Box::leak(Box::new(Shared::new(local)));
        worker.set_handler::<_, REQUEST>(shared).map_err(refused("receiving requests"))?;
        worker.set_handler::<_, ANSWER>(shared).map_err(refused("receiving answers"))?;
        worker.set_handler::<_, READ>(shared).map_err(refused("receiving reads"))?;
        worker.set_handler::<_, DATA>(shared).map_err(refused("receiving data"))?;
        worker.set_handler::<_, WRITE>(shared).map_err(refused("receiving writes"))?;
        worker.set_handler::<_, TELL>(shared).map_err(refused("receiving messages"))?;
        let turns = Turns::new(Connections::new(worker, shared));
        let turns: &'static Turns<Connections> = Box::leak(Box::new(turns));
        let body = move || {
            let _own = raidshmem_sys::threads::own();
            attend(turns, shared, &descriptor)
        };
        let thread = std::thread::Builder::new().name("shmem-ucx".into()).spawn(body);
        let thread = thread.map_err(|error| FabricError::Refused {
            fabric: Fabric::Ucx,
            what: "a thread for progress",
            why: error.to_string(),
        })?;
        let (tickets, thread) = (AtomicU64::new(1), Mutex::new(Some(thread)));
        Ok(Ucx { turns, shared, address, tickets, thread })
    }

    /// Waits until `over` returns a value, helping with progress.
    fn complete<T>(&self, mut over: impl FnMut(&mut Connections) -> Option<T>) -> T {
        let looks = if self.shared.local.oversubscribed { LOOKS.1 } else { LOOKS.0 };
        let mut look = 0u32;
        loop {
            let seen = self.shared.ticks.load(Ordering::SeqCst);
            self.shared.hand_off.look();
            let mut state = self.turns.enter();
            let worked = state.progress(false);
            let suspects = state.tend(look >= looks);
            let result = over(&mut state);
            drop(state);
            report(self.shared, suspects);
            if worked {
                self.shared.tick();
            }
            if let Some(result) = result {
                return result;
            }
            look = look.saturating_add(1);
            if look < looks {
                std::hint::spin_loop();
            } else if !worked {
                self.shared.hand_off.hand_over();
                self.shared.sleepers.fetch_add(1, Ordering::SeqCst);
                futex::sleep_while(&self.shared.ticks, seen, LIMIT);
                self.shared.sleepers.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// Waits for one operation, and returns `lost` if it fails.
    fn finish(&self, (mut operation, lost): Begun) -> Result<(), Lost> {
        let result = match operation {
            Operation::Over(result) => result,
            Operation::Open(_) => self.complete(|_| operation.result()),
        };
        result.map_err(|_| lost)
    }

    /// Starts an operation for each item, at most [`WINDOW`] at a time, and waits for all of them.
    /// Returns the first loss.
    fn each<I, B>(
        &self,
        mut items: impl Iterator<Item = I>,
        mut begin: impl FnMut(&mut Connections, I) -> Result<B, Lost>,
        mut end: impl FnMut(B) -> Result<(), Lost>,
    ) -> Result<(), Lost> {
        let mut first = Ok(());
        loop {
            let mut state = self.turns.enter();
            let some = items.by_ref().take(WINDOW);
            let begun: Vec<_> = some.map(|item| begin(&mut state, item)).collect();
            drop(state);
            if begun.is_empty() {
                return first;
            }
            for one in begun {
                first = first.and(one.and_then(&mut end));
            }
        }
    }

    /// Puts one range without allocating memory. A short one does not wait for the thread inside
    /// UCP.
    fn put_one(&self, write: &Write) -> Result<(), Lost> {
        let &Write { pe, offset, from } = write;
        let may_be_left = || from.len() <= SHORT && self.shared.is_whole(pe);
        let mut state = match self.turns.try_enter() {
            Some(state) => state,
            None if may_be_left() && self.turns.leave(pe, offset, from) => return Ok(()),
            None => self.turns.enter(),
        };
        // SAFETY: the operation is waited for below; the bytes are borrowed until then.
        let begun = unsafe { begin_put(&mut state, write) }?;
        drop(state);
        self.finish(begun)
    }
}

/// An operation, and the error if it fails.
type Begun = (Operation, Lost);

/// Starts a put.
///
/// # Safety
/// The bytes must not change until the operation is over.
unsafe fn begin_put(state: &mut Connections, write: &Write) -> Result<Begun, Lost> {
    let (link, len) = (state.usable(write.pe)?, write.from.len());
    let (to, key) = link.place(write.offset, len);
    // SAFETY: guaranteed by the caller.
    Ok((unsafe { link.endpoint.put(write.from.as_ptr(), len, to, key) }, link.lost))
}

impl Inside for Connections {
    /// Starts a delegated put. If the connection is lost, its next quiet reports the loss.
    fn begin(&mut self, place: &'static DelegatedPut) {
        let (pe, offset, len) = place.target();
        // SAFETY: a place lives forever and holds `len` bytes.
        let from = unsafe { std::slice::from_raw_parts(place.bytes(), len) };
        // SAFETY: the bytes do not change before the place is marked over.
        match unsafe { begin_put(self, &Write { pe, offset, from }) } {
            Ok((operation @ Operation::Open(_), _)) => self.left.push((operation, place)),
            Ok(_) | Err(_) => place.over(),
        }
    }
}

impl Engine for Ucx {
    fn address(&self) -> Vec<u8> {
        self.address.clone()
    }

    fn connect(&self, pe: Pe, incarnation: Incarnation, address: &[u8]) -> Result<(), FabricError> {
        let no_address = |why: &str| FabricError::Refused {
            fabric: Fabric::Ucx,
            what: "the address of a peer",
            why: why.to_owned(),
        };
        let address: Address = decode(address).ok_or_else(|| no_address("it is none"))?;
        if address.job != self.shared.local.job {
            return Err(no_address("it is of another job"));
        }
        self.disconnect(pe);
        self.turns.enter().add(pe, Connection::new(incarnation, address));
        Ok(())
    }

    fn disconnect(&self, pe: Pe) {
        if !self.turns.enter().remove(pe) {
            self.complete(|state| state.all_closed().then_some(()));
        }
    }

    fn put(&self, writes: &[Write]) -> Result<(), Lost> {
        match writes {
            _ if self.shared.by_messages.load(Ordering::Relaxed) => self.write(writes),
            [write] => self.put_one(write),
            writes => {
                // SAFETY: all operations are waited for, in every case; the bytes are borrowed
                // until then.
                let begin = |state: &mut Connections, write| unsafe { begin_put(state, write) };
                self.each(writes.iter(), begin, |begun| self.finish(begun))
            }
        }
    }

    fn get(&self, reads: &mut [Read]) -> Result<(), Lost> {
        if self.shared.by_messages.load(Ordering::Relaxed) {
            return self.read(reads);
        }
        let begin = |state: &mut Connections, read: &mut Read| {
            let (link, len) = (state.usable(read.pe)?, read.into.len());
            let (from, key) = link.place(read.offset, len);
            // SAFETY: all operations are waited for, in every case; the bytes are borrowed until
            // then.
            Ok((unsafe { link.endpoint.get(read.into.as_mut_ptr(), len, from, key) }, link.lost))
        };
        self.each(reads.iter_mut(), begin, |begun| self.finish(begun))
    }

    fn update(&self, asks: &[AmoRequest], before: &mut [u64]) -> Result<(), Lost> {
        self.update_words(asks, before)
    }

    fn post(&self, ask: AmoRequest) -> Result<(), Lost> {
        self.post_word(ask)
    }

    fn fence(&self, peers: &[Pe]) -> Result<(), Lost> {
        self.quiet(peers)
    }

    fn quiet(&self, peers: &[Pe]) -> Result<(), Lost> {
        let state = self.turns.enter();
        let used = peers.iter().filter_map(|&pe| state.used(pe));
        let flushes: Vec<Begun> = used.map(|(endpoint, lost)| (endpoint.flush(), lost)).collect();
        drop(state);
        let mut result = Ok(());
        for flush in flushes {
            result = self.finish(flush).and(result);
        }
        let unanswered = |pe: &Pe| self.shared.unanswered[pe.at()].load(Ordering::SeqCst) != 0;
        if peers.iter().any(unanswered) {
            self.complete(|_| (!peers.iter().any(unanswered)).then_some(()));
        }
        match self.turns.enter().lost(peers) {
            Some(lost) => Err(lost),
            None => result,
        }
    }

    fn tell(&self, pe: Pe, bytes: &[u8]) -> Result<(), Lost> {
        self.tell_bytes(pe, bytes)
    }

    fn wake(&self, _: Pe) {} // the target's own thread wakes it when bytes arrive

    fn rest(&self) {
        self.shared.hand_off.hand_over();
    }

    fn outlive_peers(&self) {
        self.shared.by_messages.store(true, Ordering::Relaxed);
    }

    /// True over TCP, where the target's own process reads the bytes from its sockets.
    fn writes_are_seen(&self) -> bool {
        let names = std::env::var("UCX_TLS").unwrap_or_default();
        names.split(',').all(|name| name == "tcp" || name == "self")
    }

    fn progress(&self) {
        self.shared.hand_off.look();
        let Some(mut state) = self.turns.try_enter() else { return };
        let worked = state.progress(false);
        drop(state);
        if worked {
            self.shared.tick();
        }
    }

    fn close(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.turns.enter().worker.signal();
        self.shared.hand_off.hand_over();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}
