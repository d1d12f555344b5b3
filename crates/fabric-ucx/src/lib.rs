//! The engine over UCX: TCP, and the other networks that UCX drives.
//!
//! [`Ucx`] is an [`Engine`], and keeps what that promises. Layers, each importing only from those
//! above it or to the left of it:
//!
//! ```text
//! message                                    what travels, as bytes (pure)
//! raw                                        UCP's worker, endpoints, operations
//! bytes                                      the own segment, word by word
//! shared                                     what its callbacks and the threads share
//! links                                      connections made, broken and ended
//! copies                                     puts and gets as messages
//! ```
//!
//! How it works:
//!
//! ```text
//! put, get       UCP's, flushed per endpoint; where nobody goes back after a loss, messages
//! updates        messages, carried out by the target's processor and answered: UCP's own atomics
//!                are not atomic with the processor's, and fail in newer versions where peers may
//! progress       a thread that sleeps until the worker has something to do; threads that wait for
//!                an operation of theirs help, and while they do it only looks now and then: two
//!                that are woken by every message are in each other's way
//! loss           endpoints fail by themselves (UCP_ERR_HANDLING_MODE_PEER) or are closed by force
//!                when the view says so; either ends what is open on them
//! ```
//!
//! Invariants: UCP is called with the lock held. A link that has failed stays in the table until
//! `disconnect`, so that `quiet` goes on saying so. Whatever came in, threads that wait look again.
//!
//! Settings of UCX are its environment, [`ENVIRONMENT`], which its libraries read when they are
//! loaded.
//!
//! Left out: a refusal of RMA by incarnation. TCP has no keys to revoke: the fence round a dead
//! process is the closed connection, and its being killed before its number is given away. Which
//! engine a job uses is the business of the crate `raidshmem`.

// Modules explain themselves by what is private to them.
#![allow(rustdoc::private_intra_doc_links)]

mod bytes;
mod copies;
mod links;
mod message;
mod raw;
mod shared;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::settings::Fabric;
use raidshmem_fabric::{Ask, Engine, FabricError, Local, Lost, Read, Write};
use raidshmem_sys::futex;

use self::bytes::PIECE;
use self::links::{Connection, Connections, attend, report, tend};
use self::message::{
    ANSWER, Address, DATA, READ, REQUEST, Request, SegmentPart, WRITE, decode, encode,
};
use self::raw::{Failure, Operation, Status, Worker};
use self::shared::{NOBODY, Shared};
use raidshmem_sys::lock;

/// Variables that UCX's libraries read, and why they are not left at their defaults.
pub const ENVIRONMENT: &[(&str, &str)] = &[
    ("UCX_HANDLE_ERRORS", "none"), // no signal handlers in the program's process
    ("UCX_DEBUG_SIGNO", "0"),
    ("UCX_MEM_MMAP_HOOK_MODE", "none"), // no hooks in its allocator
    ("UCX_MEM_EVENTS", "n"),
    ("UCX_VFS_ENABLE", "n"),           // no files
    ("UCX_WARN_UNUSED_ENV_VARS", "n"), // no lines about those of another version
    ("UCX_TLS", "tcp"),                // its shared memory is not safe round a death
    ("UCX_TCP_CONN_NB", "y"),          // else connecting to a lost node blocks for a minute
    ("UCX_TCP_TX_SEG_SIZE", "64k"),    // several times faster from 64 KiB on
    ("UCX_TCP_RX_SEG_SIZE", "64k"),
    ("UCX_KEEPALIVE_INTERVAL", "1s"),
    ("UCX_LOG_LEVEL", "fatal"), // losses are told by the launcher
];

/// Loads UCX into this process, where it stays.
///
/// # Errors
/// What the loader says, or that it is too old.
pub fn load() -> Result<(), &'static str> {
    ucx_sys::load().map(drop)
}

/// Longest sleep without a look at the view.
const LIMIT: Duration = Duration::from_millis(10);
/// Looks before sleeping, with a processor for each PE and without.
const LOOKS: (u32, u32) = (2000, 20);
/// Gets that are on their way at a time.
const WINDOW: usize = 64;
/// Posts to all peers that may be unanswered.
const UNANSWERED: u64 = 1024;

/// The engine.
#[derive(Debug)]
pub struct Ucx {
    state: &'static Mutex<Connections>,
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
    /// [`FabricError`] with what the loader or UCX says.
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
        let links = (0..local.n_pes).map(|_| None).collect();
        let shared: &'static Shared = Box::leak(Box::new(Shared::new(local)));
        worker.hear::<_, REQUEST>(shared).map_err(refused("hearing requests"))?;
        worker.hear::<_, ANSWER>(shared).map_err(refused("hearing answers"))?;
        worker.hear::<_, READ>(shared).map_err(refused("hearing reads"))?;
        worker.hear::<_, DATA>(shared).map_err(refused("hearing what was read"))?;
        worker.hear::<_, WRITE>(shared).map_err(refused("hearing writes"))?;
        let state = Connections { worker, links, closing: Vec::new() };
        let state: &'static Mutex<Connections> = Box::leak(Box::new(Mutex::new(state)));
        let body = move || {
            let _own = raidshmem_sys::threads::own();
            attend(state, shared, &descriptor)
        };
        let thread = std::thread::Builder::new().name("shmem-ucx".into()).spawn(body);
        let thread = thread.map_err(|error| FabricError::Refused {
            fabric: Fabric::Ucx,
            what: "a thread for progress",
            why: error.to_string(),
        })?;
        let (tickets, thread) = (AtomicU64::new(1), Mutex::new(Some(thread)));
        Ok(Ucx { state, shared, address, tickets, thread })
    }

    /// Waits until `over` has an answer, helping the progress.
    fn complete<T>(&self, mut over: impl FnMut(&mut Connections) -> Option<T>) -> T {
        let looks = if self.shared.local.oversubscribed { LOOKS.1 } else { LOOKS.0 };
        let mut look = 0u32;
        loop {
            let seen = self.shared.ticks.load(Ordering::SeqCst);
            self.shared.helps.fetch_add(1, Ordering::Relaxed); // says only that somebody is here
            let mut state = lock(self.state);
            let worked = state.progress(self.shared);
            let suspects = tend(&mut state, self.shared, look >= looks);
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
                self.shared.hand_over();
                self.shared.sleepers.fetch_add(1, Ordering::SeqCst);
                futex::sleep_while(&self.shared.ticks, seen, LIMIT);
                self.shared.sleepers.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// Waits for one operation to `lost`, which is lost if it fails.
    fn finish(&self, mut operation: Operation, lost: Lost) -> Result<(), Lost> {
        let result = match operation {
            Operation::Over(result) => result,
            Operation::Open(_) => self.complete(|_| operation.result()),
        };
        result.map_err(|_| lost)
    }

    fn ask(&self, state: &mut Connections, ticket: u64, ask: &Ask) -> Result<Lost, Lost> {
        let local = &self.shared.local;
        let (endpoint, link) = state.link(ask.pe)?;
        let lost = Lost { pe: ask.pe, incarnation: link.incarnation };
        let request = Request {
            job: local.job,
            pe: local.me,
            incarnation: local.incarnation,
            ticket,
            word: ask.word,
            change: ask.change,
        };
        endpoint.send(REQUEST, encode(&request), true).map_err(|_| lost)?;
        Ok(lost)
    }

    /// Asks for one update, to be answered.
    fn begin(&self, state: &mut Connections, ask: &Ask) -> Result<(u64, Lost), Lost> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        lock(&self.shared.answers).insert(ticket, None);
        let asked = self.ask(state, ticket, ask);
        if asked.is_err() {
            lock(&self.shared.answers).remove(&ticket);
        }
        asked.map(|lost| (ticket, lost))
    }

    /// Begins what `pe` answers, and only a quiet waits for.
    fn begin_unanswered(
        &self,
        pe: Pe,
        begin: impl FnOnce(&mut Connections) -> Result<Lost, Lost>,
    ) -> Result<(), Lost> {
        let shared = self.shared;
        if shared.unanswered_all.load(Ordering::SeqCst) >= UNANSWERED {
            let room = || shared.unanswered_all.load(Ordering::SeqCst) < UNANSWERED;
            self.complete(|_| room().then_some(()));
        }
        let mut state = lock(self.state);
        state.link(pe)?;
        shared.unanswered[pe.at()].fetch_add(1, Ordering::SeqCst);
        shared.unanswered_all.fetch_add(1, Ordering::SeqCst);
        let begun = begin(&mut state);
        if begun.is_err() {
            shared.answered(pe);
        }
        begun.map(drop)
    }

    /// A get that is messages.
    fn read(&self, reads: &mut [Read]) -> Result<(), Lost> {
        let mut first = Ok(());
        for some in copies::pieces(reads).chunks_mut(WINDOW) {
            let mut state = lock(self.state);
            let mut want = |read: &Read| {
                let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
                copies::want(&mut state, self.shared, ticket, read).map(|lost| (ticket, lost))
            };
            let asked: Vec<_> = some.iter().map(&mut want).collect();
            drop(state);
            for (asked, read) in asked.into_iter().zip(some) {
                let found = asked.and_then(|(ticket, lost)| self.found(ticket, lost, read));
                first = first.and(found);
            }
        }
        first
    }

    /// Waits for bytes that were asked for.
    fn found(&self, ticket: u64, lost: Lost, read: &mut Read) -> Result<(), Lost> {
        let bytes = self.complete(|state| {
            let bytes = lock(&self.shared.found).get_mut(&ticket).and_then(Option::take);
            let here = state.link(lost.pe).is_ok_and(|(_, l)| l.incarnation == lost.incarnation);
            bytes.map(Ok).or((!here).then_some(Err(lost)))
        });
        lock(&self.shared.found).remove(&ticket);
        let bytes = bytes?;
        if bytes.len() != read.into.len() {
            return Err(lost);
        }
        read.into.copy_from_slice(&bytes);
        Ok(())
    }

    /// A put that is messages.
    fn write(&self, writes: &[Write]) -> Result<(), Lost> {
        let mut first = Ok(());
        for write in writes {
            for (nth, bytes) in write.from.chunks(PIECE).enumerate() {
                let to = (write.pe, write.offset + nth * PIECE);
                let bring = |state: &mut Connections| copies::bring(state, self.shared, to, bytes);
                first = first.and(self.begin_unanswered(write.pe, bring));
            }
        }
        first
    }

    /// Waits for the answer.
    fn answer(&self, ticket: u64, lost: Lost) -> Result<u64, Lost> {
        let result = self.complete(|state| {
            let answer = lock(&self.shared.answers).get(&ticket).copied().flatten();
            let here = state.link(lost.pe).is_ok_and(|(_, l)| l.incarnation == lost.incarnation);
            answer.map(Ok).or((!here).then_some(Err(lost)))
        });
        lock(&self.shared.answers).remove(&ticket);
        result
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
        let mut state = lock(self.state);
        let any = &self.shared.any_broken;
        let failure = Box::new(Failure { broken: AtomicBool::new(false), any });
        // SAFETY: the link keeps it, and `closing` until the endpoint is closed.
        let endpoint = unsafe { state.worker.connect(&address.worker, &failure) }
            .map_err(refused("connecting"))?;
        let key =
            |part: &SegmentPart| endpoint.key(&part.key).map_err(refused("the key of a peer"));
        let keys = [key(&address.parts[0])?, key(&address.parts[1])?];
        let parts = address.parts;
        let (endpoint, reported) = (Some(endpoint), false);
        self.shared.oldest[pe.at()].store(incarnation.0, Ordering::SeqCst);
        self.shared.connected[pe.at()].store(incarnation.0, Ordering::SeqCst);
        state.links[pe.at()] =
            Some(Connection { incarnation, endpoint, keys, parts, failure, reported });
        Ok(())
    }

    fn disconnect(&self, pe: Pe) {
        let mut state = lock(self.state);
        state.cut(pe, self.shared);
        self.shared.connected[pe.at()].store(NOBODY, Ordering::SeqCst);
        if let Some(link) = state.links[pe.at()].take() {
            self.shared.oldest[pe.at()].store(link.incarnation.next().0, Ordering::SeqCst);
        }
        drop(state);
        self.complete(|state| {
            state.closing.retain_mut(|(operation, _)| operation.result().is_none());
            state.closing.is_empty().then_some(())
        });
    }

    fn put(&self, writes: &[Write]) -> Result<(), Lost> {
        if self.shared.by_messages.load(Ordering::Relaxed) {
            return self.write(writes);
        }
        let mut first = Ok(());
        for some in writes.chunks(WINDOW) {
            let mut under_way = Vec::new();
            let mut state = lock(self.state);
            for write in some {
                let (endpoint, link) = match state.link(write.pe) {
                    Ok(found) => found,
                    Err(lost) => {
                        first = first.and(Err(lost));
                        continue;
                    }
                };
                let (to, key) = link.place(write.offset, write.from.len());
                let lost = Lost { pe: write.pe, incarnation: link.incarnation };
                let (at, len) = (write.from.as_ptr(), write.from.len());
                // SAFETY: all are waited for below, whatever happens; borrowed until then.
                under_way.push((unsafe { endpoint.put(at, len, to, key) }, lost));
            }
            drop(state);
            for (operation, lost) in under_way {
                first = self.finish(operation, lost).and(first);
            }
        }
        first
    }

    fn get(&self, reads: &mut [Read]) -> Result<(), Lost> {
        if self.shared.by_messages.load(Ordering::Relaxed) {
            return self.read(reads);
        }
        let mut first = Ok(());
        for some in reads.chunks_mut(WINDOW) {
            let mut under_way = Vec::new();
            let mut state = lock(self.state);
            for read in some {
                let (endpoint, link) = match state.link(read.pe) {
                    Ok(found) => found,
                    Err(lost) => {
                        first = first.and(Err(lost));
                        continue;
                    }
                };
                let (from, key) = link.place(read.offset, read.into.len());
                let lost = Lost { pe: read.pe, incarnation: link.incarnation };
                let (at, len) = (read.into.as_mut_ptr(), read.into.len());
                // SAFETY: all are waited for below, whatever happens; borrowed until then.
                under_way.push((unsafe { endpoint.get(at, len, from, key) }, lost));
            }
            drop(state);
            for (operation, lost) in under_way {
                first = self.finish(operation, lost).and(first);
            }
        }
        first
    }

    fn update(&self, asks: &[Ask], before: &mut [u64]) -> Result<(), Lost> {
        let mut first = Ok(());
        for (asks, before) in asks.chunks(WINDOW).zip(before.chunks_mut(WINDOW)) {
            let mut state = lock(self.state);
            let asked: Vec<_> = asks.iter().map(|ask| self.begin(&mut state, ask)).collect();
            drop(state);
            for (asked, before) in asked.into_iter().zip(before) {
                let found = asked.and_then(|(ticket, lost)| self.answer(ticket, lost));
                first = first.and(found.map(|value| *before = value));
            }
        }
        first
    }

    fn post(&self, ask: Ask) -> Result<(), Lost> {
        self.begin_unanswered(ask.pe, |state| self.ask(state, 0, &ask))
    }

    fn fence(&self, peers: &[Pe]) -> Result<(), Lost> {
        self.quiet(peers)
    }

    fn quiet(&self, peers: &[Pe]) -> Result<(), Lost> {
        let mut flushes = Vec::new();
        let state = lock(self.state);
        for &pe in peers {
            let Some(link) = state.links.get(pe.at()).and_then(Option::as_ref) else { continue };
            if let Some(endpoint) = link.works() {
                flushes.push((endpoint.flush(), Lost { pe, incarnation: link.incarnation }));
            }
        }
        drop(state);
        let mut result = Ok(());
        for (operation, lost) in flushes {
            result = self.finish(operation, lost).and(result);
        }
        let unanswered = |pe: &Pe| self.shared.unanswered[pe.at()].load(Ordering::SeqCst) != 0;
        if peers.iter().any(unanswered) {
            self.complete(|_| (!peers.iter().any(unanswered)).then_some(()));
        }
        match lock(self.state).lost(peers) {
            Some(lost) => Err(lost),
            None => result,
        }
    }

    fn wake(&self, _: Pe) {} // the target's own thread wakes it when bytes come

    fn rest(&self) {
        self.shared.hand_over();
    }

    fn outlive_peers(&self) {
        self.shared.by_messages.store(true, Ordering::Relaxed);
    }

    /// Over TCP the target's own process takes the bytes from its sockets.
    fn writes_are_seen(&self) -> bool {
        let names = std::env::var("UCX_TLS").unwrap_or_default();
        names.split(',').all(|name| name == "tcp" || name == "self")
    }

    fn progress(&self) {
        self.shared.helps.fetch_add(1, Ordering::Relaxed); // as in `complete`
        let Ok(mut state) = self.state.try_lock() else { return };
        let worked = state.progress(self.shared);
        drop(state);
        if worked {
            self.shared.tick();
        }
    }

    fn close(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        lock(self.state).worker.signal();
        self.shared.hand_over();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}
