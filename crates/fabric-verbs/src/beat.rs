//! Heartbeats between agents that cost the watched node's processor next to nothing: a thread
//! increments a counter, and another agent reads it by RDMA (fault-tolerant ARMCI, section IV-C).
//!
//! ```text
//! reader -- Reader: its queue pair -------------> watched    creates a queue pair for it
//! reader <- Counter: that queue pair, address --- watched
//! reader ===== RDMA read of the counter, every period =====  without work for the watched agent
//! ```
//!
//! Invariants: nothing here blocks; at most one read is under way. A counter that stands still is
//! no heartbeat, even if it can be read: in a stopped process, that thread is stopped too.
//!
//! Left out: the meaning of a heartbeat, and of its absence; the failure detector decides that.
//! Messages here may be lost: the reader repeats its own.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use raidshmem_core::message::{Beat, CounterEnd};
use raidshmem_core::settings;
use raidshmem_fabric::Signs;

use crate::device::Device;
use crate::objects::{Completion, Inbox, Queue, Region};
use crate::pair::{Local as Bytes, Pair, What, Work};
use crate::shared::psn;
use crate::wire::Address;

/// Work requests of a queue pair, and completions of all queue pairs.
const DEPTH: usize = 4;
const COMPLETIONS: usize = 64;
/// The offset in the page to which another agent's counter is read; the own counter is at offset 0.
const READ_AT: usize = 64;
/// Increments per period, so that every read finds a new value.
const BEATS: u32 = 4;

/// The own counter, its readers, and the counter that is being watched.
#[derive(Debug)]
pub struct Beats {
    device: Arc<Device>,
    queue: Arc<Queue>,
    inbox: Arc<Inbox>,
    page: Region,
    period: Duration,
    /// By node: the number of its queue pair, and the one created for it.
    readers: BTreeMap<u32, (u32, Pair)>,
    watched: Option<Watched>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Watched {
    node: u32,
    pair: Pair,
    /// Address and key of its counter, once connected.
    place: Option<(u64, u32)>,
    value: u64,
    /// True if a read is under way.
    open: bool,
    /// The time of the next action.
    next: Duration,
}

impl Beats {
    /// Opens `device`, and starts to increment the counter, several times every `period`.
    ///
    /// # Errors
    /// A message that describes the failure.
    pub fn open(device: Option<&settings::Device>, period: Duration) -> Result<Beats, String> {
        let device = Device::open(device)?;
        let queue = Arc::new(Queue::new(&device, COMPLETIONS)?);
        let inbox = Arc::new(Inbox::new(&device, 1)?);
        let (page, counter) = Region::counter(&device)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (end, pause) = (Arc::clone(&stop), period / BEATS);
        let builder = std::thread::Builder::new().name("shmem-beat".into());
        let thread = builder.spawn(move || {
            let _own = raidshmem_sys::threads::own();
            raise(counter, pause, &end)
        });
        let thread = Some(thread.map_err(|error| format!("a thread for heartbeats: {error}"))?);
        let (readers, watched) = (BTreeMap::new(), None);
        Ok(Beats { device, queue, inbox, page, period, readers, watched, stop, thread })
    }

    fn pair(&self) -> Option<Pair> {
        Pair::new(&self.device, &self.queue, Some(&self.inbox), DEPTH).ok()
    }

    fn watch(&self, node: u32) -> Option<Watched> {
        let (place, value, open, next) = (None, 0, false, Duration::ZERO);
        Some(Watched { node, pair: self.pair()?, place, value, open, next })
    }

    /// Returns this end of a queue pair whose other end is `peer`, or 0 if unknown.
    fn end(&self, pair: &Pair, peer: u32) -> CounterEnd {
        let (d, (place, key)) = (&self.device, self.page.remote());
        let (gid, lid, mtu, reads) = (d.gid, d.lid, d.mtu, d.reads.0);
        CounterEnd { gid, lid, mtu, reads, qpn: pair.number(), peer, place, key }
    }

    /// Processes completed reads. Returns true if the counter has changed.
    fn harvest(&mut self) -> bool {
        let (mut done, mut moved): (Vec<Completion>, _) = (Vec::new(), false);
        self.queue.poll(&mut done, COMPLETIONS);
        for done in done {
            let Some(watched) = &mut self.watched else { continue };
            if watched.pair.number() != done.qpn {
                continue; // of an earlier one
            }
            if !done.ok {
                let node = watched.node;
                self.watched = self.watch(node);
                continue;
            }
            let mut bytes = [0; 8];
            self.page.read(READ_AT, &mut bytes);
            let value = u64::from_ne_bytes(bytes);
            moved |= value != watched.value;
            (watched.value, watched.open) = (value, false);
        }
        moved
    }
}

fn raise(counter: &AtomicU64, pause: Duration, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        counter.fetch_add(1, Ordering::Relaxed);
        std::thread::park_timeout(pause);
    }
}

fn connect(pair: &Pair, to: &CounterEnd) -> bool {
    let &CounterEnd { gid, lid, mtu, reads, qpn, .. } = to;
    let sane = (1..=5).contains(&mtu) && reads > 0;
    let peer = Address { gid, lid, mtu, reads, atomics: false, qpn };
    sane && pair.connect(&peer, qpn, (psn(pair.number()), psn(qpn)), false).is_ok()
}

impl Signs for Beats {
    fn look(&mut self, node: Option<u32>, now: Duration) -> (Option<Beat>, bool) {
        if self.watched.as_ref().map(|watched| watched.node) != node {
            self.watched = node.and_then(|node| self.watch(node));
        }
        let moved = self.harvest();
        let Some(watched) = self.watched.as_mut().filter(|watched| now >= watched.next) else {
            return (None, moved);
        };
        watched.next = now + self.period;
        if let Some((place, key)) = watched.place {
            let local = Bytes::Span(self.page.span(READ_AT, 8));
            let read = Work { id: 0, what: What::Read((place, key)), local, signal: true };
            watched.open = watched.open || watched.pair.post(&[read]).is_ok();
            return (None, moved);
        }
        let end = self.watched.as_ref().map(|watched| self.end(&watched.pair, 0));
        (end.map(Beat::Reader), moved)
    }

    fn hear(&mut self, node: u32, beat: Beat) -> Option<Beat> {
        match beat {
            Beat::Reader(end) => {
                let known = self.readers.get(&node).is_some_and(|(qpn, _)| *qpn == end.qpn);
                if !known {
                    let pair = self.pair().filter(|pair| connect(pair, &end))?;
                    self.readers.insert(node, (end.qpn, pair));
                }
                let (_, pair) = self.readers.get(&node)?;
                Some(Beat::Counter(self.end(pair, end.qpn)))
            }
            Beat::Counter(end) => {
                let watched = self.watched.as_mut().filter(|watched| watched.node == node)?;
                let mine = watched.place.is_none() && watched.pair.number() == end.peer;
                if mine && connect(&watched.pair, &end) {
                    (watched.place, watched.next) = (Some((end.place, end.key)), Duration::ZERO);
                }
                None
            }
            _ => None,
        }
    }
}

impl Drop for Beats {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
