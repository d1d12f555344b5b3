//! The engine over libfabric: Slingshot (`cxi`), EFA, Omni-Path (`opx`, `psm3`), and TCP.
//!
//! [`Ofi`] implements [`Engine`]. Layers, each importing only from those above it or to the left of
//! it:
//!
//! ```text
//! message  provider  sequence        wire format; which provider; which puts are over (pure)
//! offers  raw                        libfabric's offers; its endpoint, queue and registered memory
//! slots  shared  owed                the bytes of operations; what threads share; messages to send
//! link  links                        a connection; all of them, and their operations
//! letters                            messages: requests, answers, wake-ups, bytes for events
//! attend                             the thread that makes progress
//! ```
//!
//! Implementation:
//!
//! ```text
//! endpoint       one reliable datagram endpoint (FI_EP_RDM) with FI_MSG and FI_RMA, which all
//!                providers have that matter; memory is registered as the provider demands
//! put, get       writes with FI_DELIVERY_COMPLETE, and reads; pieces of at most 64 KiB, by way of
//!                the engine's own memory. A put of one word does not allocate, and waits for no
//!                other thread
//! connection     made by the provider, when an operation first needs it
//! updates        messages, carried out by the target's processor and answered
//! wakes          a message after the puts, unless the target's processor writes them anyway
//! progress       a thread, and threads that wait for their own operation
//! loss           an operation that fails, with whatever code, or the view: either ends all
//!                operations of the connection for their callers, and abandons them to the provider
//! ```
//!
//! Invariants: only the thread whose turn it is (`raidshmem_fabric::turns`) calls libfabric. After
//! any event, waiting threads look again.
//!
//! Left out: the provider's own atomics; transfers from and to the program's own memory, which a
//! provider could still use after a loss; rejection of RMA by incarnation, beyond keys that differ
//! where the provider lets them.

// Documentation of modules links to their private items.
#![allow(rustdoc::private_intra_doc_links)]

mod attend;
mod letters;
mod link;
mod links;
mod message;
mod offers;
mod owed;
mod provider;
mod raw;
mod sequence;
mod shared;
mod slots;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ofi_sys::{FI_REMOTE_READ, FI_REMOTE_WRITE};
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::settings::Fabric;
use raidshmem_fabric::turns::{SHORT, Turns};
use raidshmem_fabric::{AmoRequest, Engine, FabricError, Local, Lost, Read, Write};
use raidshmem_sys::{futex, lock};
use rustix::event::{EventfdFlags, eventfd};

use self::attend::{Bell, attend};
use self::link::PeerLink;
use self::links::Connections;
use self::message::{Address, SegmentPart, decode, encode};
use self::offers::{Status, providers};
use self::raw::{Demands, Port};
use self::shared::Shared;
use self::slots::{LONG, MESSAGE, OPERATIONS, Slot, Slots};

/// Variables that libfabric reads, and the reasons for their values.
pub const ENVIRONMENT: &[(&str, &str)] = &[
    ("FI_MR_CACHE_MONITOR", "disabled"), // no hooks in the program's allocator
    ("IPATH_NO_BACKTRACE", "1"),         // no signal handlers of PSM's libraries in the program
    ("HFI_NO_BACKTRACE", "1"),
];

/// Maximum sleep between two checks of the view.
const LIMIT: Duration = Duration::from_millis(10);
/// Polls before sleeping, with a processor for each PE and without.
const LOOKS: (u32, u32) = (2000, 20);
/// Gets of one call under way at a time.
const WINDOW: usize = 32;
/// Maximum number of unanswered messages, over all peers.
const UNANSWERED: u64 = 1024;
/// Slots in which messages are received.
const RECEIVES: usize = 256;
/// Maximum time for which a process that ends waits for room for its last messages.
const LAST: Duration = Duration::from_millis(200);

/// Loads libfabric into this process, where it stays. Returns true if it has a provider for special
/// hardware of this machine.
///
/// # Errors
/// The loader's message, or a message that the library is too old.
pub fn load() -> Result<bool, &'static str> {
    let api = ofi_sys::load()?;
    let names = providers(api).unwrap_or_default();
    Ok(names.iter().any(|name| provider::is_special(name)))
}

/// The engine.
#[derive(Debug)]
pub struct Ofi {
    turns: &'static Turns<Connections>,
    shared: &'static Shared,
    demands: Demands,
    polled: bool,
    address: Vec<u8>,
    tickets: AtomicU64,
    end: std::os::fd::OwnedFd,
    thread: Mutex<Option<JoinHandle<()>>>,
}

fn refused(what: &'static str, why: impl ToString) -> FabricError {
    FabricError::Refused { fabric: Fabric::Ofi, what, why: why.to_string() }
}

fn failed(what: &'static str) -> impl Fn(Status) -> FabricError {
    move |why| refused(what, why)
}

/// Mixes numbers into a key that other processes do not have by chance.
fn mixed(numbers: [u64; 4]) -> u64 {
    numbers.into_iter().fold(0x9e37_79b9_7f4a_7c15, |sum, number| {
        let sum = (sum ^ number).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        sum ^ sum >> 29
    })
}

/// Lets peers read and write the segment of this process. Returns what they need for it.
fn expose(port: &mut Port, local: &Local) -> Result<[SegmentPart; 2], Status> {
    let demands = port.demands.clone();
    let small = demands.key_bytes < 8 || provider::wants_small_keys(&demands.provider);
    let mut exposed = Vec::new();
    for (number, (offset, base, len)) in (0..).zip(local.segment.parts()) {
        let access = if number == 0 { FI_REMOTE_READ | FI_REMOTE_WRITE } else { FI_REMOTE_READ };
        let (me, incarnation) = (local.me.0.into(), local.incarnation.0.into());
        let key = if small { number } else { mixed([local.job, me, incarnation, number]) };
        // SAFETY: a mapping of this process's segment, which is never unmapped.
        let (_, key) = unsafe { port.register((base, len), access, key) }?;
        let base = if demands.addresses { base as u64 } else { 0 };
        exposed.push(SegmentPart { offset: offset as u64, len: len as u64, base, key });
    }
    Ok(exposed.try_into().expect("a segment has two parts"))
}

impl Ofi {
    /// Opens libfabric for this process, with the named provider or the best one.
    ///
    /// # Errors
    /// [`FabricError`] with the message of the loader or of libfabric.
    pub fn open(local: Local, asked: Option<&str>) -> Result<Ofi, FabricError> {
        let absent =
            |why: &str| FabricError::NotLoaded { fabric: Fabric::Ofi, why: why.to_owned() };
        let api = ofi_sys::load().map_err(absent)?;
        let operations = 2 * OPERATIONS;
        let port = Port::open(api, asked, operations, local.n_pes);
        let port = port.map_err(failed("opening libfabric"))?;
        let Some(mut port) = port else {
            let names = providers(api).unwrap_or_default().join(", ");
            let asked = asked.map_or(String::new(), |asked| format!("SHMEM_FT_PROVIDER={asked}: "));
            let why = format!("{asked}expected one of those here ({names})");
            return Err(refused("provider", why));
        };
        let parts = expose(&mut port, &local).map_err(failed("exposing memory"))?;
        let name = port.name().map_err(failed("the address of this process"))?;
        let demands = port.demands.clone();
        let provider = demands.provider.clone();
        let address = encode(&Address { job: local.job, provider, name: name.clone(), parts });
        let descriptor = port.descriptor();
        let polled = descriptor.is_none();
        let slots = Slots::new(port).map_err(failed("memory for operations"))?;
        let by_processor = provider::is_by_processor(&demands.provider);
        let shared: &'static Shared = Box::leak(Box::new(Shared::new(local, by_processor)));
        let mut connections = Connections::new(slots, name, shared);
        for _ in 0..RECEIVES {
            let slot = connections.slots.take(MESSAGE).expect("they are all free");
            connections.await_letter(slot);
        }
        let turns: &'static Turns<Connections> = Box::leak(Box::new(Turns::new(connections)));
        let event =
            || eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| refused("a descriptor", error));
        let end = event()?;
        let bell_end = end.try_clone().map_err(|error| refused("a descriptor", error))?;
        let bell = Bell { provider: descriptor, end: bell_end };
        let body = move || {
            let _own = raidshmem_sys::threads::own();
            attend(turns, shared, &bell)
        };
        let thread = std::thread::Builder::new().name("shmem-ofi".into()).spawn(body);
        let thread = thread.map_err(|error| refused("a thread for progress", error))?;
        let (tickets, thread) = (AtomicU64::new(1), Mutex::new(Some(thread)));
        Ok(Ofi { turns, shared, demands, polled, address, tickets, end, thread })
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
            self.shared.report(suspects);
            self.shared.progressed(worked);
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

    /// Puts one short range without allocating memory or waiting for the thread inside libfabric.
    /// Returns `None` if that is not possible now.
    fn put_one(&self, write: &Write) -> Option<Result<(), Lost>> {
        let &Write { pe, offset, from } = write;
        let may_be_left = || from.len() <= SHORT && self.shared.is_whole(pe);
        let mut state = match self.turns.try_enter() {
            Some(state) => state,
            None if may_be_left() && self.turns.leave(pe, offset, from) => return Some(Ok(())),
            None => self.turns.enter(),
        };
        match state.write(pe, offset, from) {
            Ok(true) => Some(Ok(())),
            Ok(false) => None,
            Err(lost) => Some(Err(lost)),
        }
    }

    /// Begins one operation for each item, in order, as slots become free. Returns the first loss.
    fn begin_all<I>(
        &self,
        items: impl Iterator<Item = I>,
        mut begin: impl FnMut(&mut Connections, &I) -> Result<bool, Lost>,
    ) -> Result<(), Lost> {
        let (mut items, mut first) = (items.peekable(), Ok(()));
        let mut some = |state: &mut Connections| {
            while let Some(item) = items.peek() {
                match begin(state, item) {
                    Ok(false) => return None,
                    Ok(true) => {}
                    Err(lost) => first = first.and(Err(lost)),
                }
                items.next();
            }
            Some(first)
        };
        let begun = some(&mut self.turns.enter());
        begun.unwrap_or_else(|| self.complete(some))
    }

    /// Waits for the answers under these tickets.
    fn answers(&self, asked: &mut [(u64, Option<Lost>)], before: &mut [u64]) -> Result<(), Lost> {
        let mut first = Ok(());
        self.complete(|state| {
            for ((ticket, lost), before) in asked.iter_mut().zip(&mut *before) {
                let Some(to) = *lost else { continue };
                let answer = state.answers.get(ticket).copied().flatten();
                if answer.is_none() && state.is_open(to) {
                    return None;
                }
                state.answers.remove(ticket);
                *lost = None;
                match answer {
                    Some(answer) => *before = answer,
                    None => first = first.and(Err(to)),
                }
            }
            Some(first)
        })
    }
}

/// Splits a put into pieces of one slot each.
fn pieces<'a>(write: &Write<'a>) -> impl Iterator<Item = Write<'a>> {
    let Write { pe, offset, from } = *write;
    let pieces = from.chunks(LONG).enumerate();
    pieces.map(move |(nth, from)| Write { pe, offset: offset + nth * LONG, from })
}

/// Splits a get into pieces of one slot each.
fn pieces_mut<'a>(read: &'a mut Read<'_>) -> impl Iterator<Item = Read<'a>> {
    let (pe, offset) = (read.pe, read.offset);
    let pieces = read.into.chunks_mut(LONG).enumerate();
    pieces.map(move |(nth, into)| Read { pe, offset: offset + nth * LONG, into })
}

impl Engine for Ofi {
    fn address(&self) -> Vec<u8> {
        self.address.clone()
    }

    fn connect(&self, pe: Pe, incarnation: Incarnation, address: &[u8]) -> Result<(), FabricError> {
        let no_address = |why: String| Err(refused("the address of a peer", why));
        let Some(address) = decode::<Address>(address) else {
            return no_address("it is none".to_owned());
        };
        if address.job != self.shared.local.job {
            return no_address("it is of another job".to_owned());
        }
        if address.provider != self.demands.provider {
            let (theirs, ours) = (&address.provider, &self.demands.provider);
            return no_address(format!("its provider is {theirs}, and this one's is {ours}"));
        }
        let mut state = self.turns.enter();
        state.remove(pe);
        state.add(pe, PeerLink::new(incarnation, address));
        Ok(())
    }

    fn disconnect(&self, pe: Pe) {
        self.turns.enter().remove(pe);
        self.shared.progressed(true); // threads that wait for it look again
    }

    fn put(&self, writes: &[Write]) -> Result<(), Lost> {
        if let [write] = writes
            && write.from.len() <= LONG
            && let Some(done) = self.put_one(write)
        {
            return done;
        }
        let all = writes.iter().flat_map(pieces);
        self.begin_all(all, |state, piece| state.write(piece.pe, piece.offset, piece.from))
    }

    fn get(&self, reads: &mut [Read]) -> Result<(), Lost> {
        let mut items = reads.iter_mut().flat_map(pieces_mut).peekable();
        let mut open: Vec<(Slot, &mut [u8])> = Vec::with_capacity(WINDOW);
        let mut first = Ok(());
        self.complete(|state| {
            open.retain_mut(|(slot, into)| match state.take(*slot, into) {
                Some(result) => {
                    first = first.and(result);
                    false
                }
                None => true,
            });
            while open.len() < WINDOW
                && let Some(item) = items.peek()
            {
                match state.read(item.pe, item.offset, item.into.len()) {
                    Ok(None) => break,
                    Ok(Some(slot)) => open.extend(items.next().map(|item| (slot, item.into))),
                    Err(lost) => {
                        first = first.and(Err(lost));
                        items.next();
                    }
                }
            }
            (open.is_empty() && items.peek().is_none()).then_some(first)
        })
    }

    fn expect(&self, _: Pe, _: Range<usize>) -> Result<(), Lost> {
        Ok(()) // all of a segment is registered
    }

    fn update(&self, asks: &[AmoRequest], before: &mut [u64]) -> Result<(), Lost> {
        let mut first = Ok(());
        for (asks, before) in asks.chunks(WINDOW).zip(before.chunks_mut(WINDOW)) {
            let mut asked: Vec<(u64, Option<Lost>)> = Vec::with_capacity(WINDOW);
            let begun = self.begin_all(asks.iter(), |state, ask| {
                let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
                let to = state.ask(ticket, **ask);
                match to {
                    Ok(None) => return Ok(false),
                    Ok(to) => asked.push((ticket, to)),
                    Err(_) => asked.push((ticket, None)),
                }
                to.map(|_| true)
            });
            first = first.and(begun).and(self.answers(&mut asked, before));
        }
        first
    }

    fn post(&self, ask: AmoRequest) -> Result<(), Lost> {
        let begin = |state: &mut Connections, ask: &AmoRequest| {
            state.usable(ask.pe)?;
            let may = state.unanswered < UNANSWERED;
            Ok(may && state.ask(0, *ask)?.is_some())
        };
        self.begin_all(std::iter::once(ask), begin)
    }

    fn fence(&self, peers: &[Pe]) -> Result<(), Lost> {
        self.quiet(peers)
    }

    fn quiet(&self, peers: &[Pe]) -> Result<(), Lost> {
        let mut open: Option<Vec<(Lost, u64)>> = None;
        self.complete(|state| {
            if open.is_none() && !peers.iter().any(|&pe| state.has_left(pe)) {
                open = Some(peers.iter().filter_map(|&pe| state.begun(pe)).collect());
            }
            let over = open.as_ref()?.iter().all(|&one| state.is_quiet(one));
            over.then(|| state.lost(peers).map_or(Ok(()), Err))
        })
    }

    fn tell(&self, pe: Pe, bytes: &[u8]) -> Result<(), Lost> {
        self.turns.enter().tell(pe, bytes)
    }

    fn wake(&self, pe: Pe) {
        if !self.shared.by_processor {
            self.turns.enter().wake(pe);
        }
    }

    /// True over sockets, from which the target's own process reads the bytes.
    fn writes_are_seen(&self) -> bool {
        provider::is_by_sockets(&self.demands.provider)
    }

    fn progress(&self) {
        self.shared.hand_off.look();
        let Some(mut state) = self.turns.try_enter() else { return };
        let worked = state.progress(false);
        drop(state);
        self.shared.progressed(worked);
    }

    fn patience(&self) -> Duration {
        if self.polled { LIMIT / 100 } else { Duration::ZERO }
    }

    fn rest(&self) {
        self.shared.hand_off.hand_over();
    }

    /// Ends the thread, and libfabric's own: they must not outlive the process's libraries.
    fn close(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let _ = rustix::io::write(&self.end, &1u64.to_ne_bytes());
        self.shared.hand_off.hand_over();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
            let (mut state, begun) = (self.turns.enter(), Instant::now());
            while !state.is_idle() && begun.elapsed() < LAST {
                state.progress(true);
            }
            state.slots.port.close();
        }
    }
}
