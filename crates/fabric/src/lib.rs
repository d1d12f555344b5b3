//! The interface of engines: the way in which a PE reaches the memory of PEs that it cannot map.
//!
//! This crate only defines the contract: the trait [`Engine`], the environment that a process gives
//! to one ([`Local`], [`EventSink`]), its errors ([`Lost`], [`FabricError`]), and liveness checks
//! that a network provides by itself ([`Signs`]). Each engine is a crate that depends on this one
//! and on no other engine; the crate `raidshmem` opens the engine that a job uses.
//!
//! ```text
//! atomic            the atomics and locks
//! hand_off          the hand-off of polling between an engine's thread and waiting threads
//! turns             turns inside a library that admits one thread at a time
//! ```
//!
//! The operations of an engine:
//!
//! ```text
//! put, get          bytes of peers' segments, by offset; the store can only be read
//! expect            announces ranges that will be read soon
//! update, post      atomic operations on words of 2, 4 or 8 bytes, with and without an answer
//! fence, quiet      order and completion, at the named peers
//! wake              wakes the peer's sleeping threads
//! connect           to one incarnation of a peer, by the address that it gave, on first use
//! disconnect        fences a dead incarnation: no further traffic to or from it
//! ```
//!
//! Guarantees of an engine, on which the rest of the library relies:
//!
//! - *No operation stays open.* Every call returns, either with its result or with [`Lost`]. It
//!   returns `Lost` when the connection to that incarnation breaks, when another thread calls
//!   [`Engine::disconnect`], or soon (some 10 ms) after [`EventSink::gone`] returns true for the
//!   incarnation. Nothing else ends a call: it waits for a peer that is slow or stopped.
//! - *A broken connection stays broken.* Puts may have been lost with it, so every later call that
//!   needs the peer, including [`Engine::quiet`], returns [`Lost`] until `disconnect`. The engine
//!   calls [`EventSink::suspect`] once and decides nothing: views decide.
//! - *Other peers are not affected.* `quiet` and `fence` finish their work at all other named peers
//!   before they return `Lost`; a call for many ranges or words returns `Lost` when its other
//!   ranges or words are complete.
//! - *Completion is per peer, not per caller.* `quiet` of a peer completes the operations that any
//!   thread has started there. Streams of the program (`pgas::stream`) name the peers that they
//!   have used, so one of them may wait for the operations of another to the same peer, but never
//!   for less than its own.
//! - *Incarnations are kept apart.* After `connect(pe, n)` the engine carries out nothing for a
//!   process with an incarnation of `pe` below `n`, and after `disconnect(pe)` nothing for that
//!   incarnation or older ones. Unprocessed messages of a dead peer are dropped. A newer
//!   incarnation may send before this process has connected to it.
//! - *One-sided.* A peer that computes and makes no calls can still be reached.
//! - *Order.* Operations between the same two PEs are not ordered, except: `post` after `post`, and
//!   everything before a `fence` precedes everything after it, as seen by the target's processor.
//! - *Atomics are those of the target's processor*: atomic with the updates that PEs on the
//!   target's node make directly. They wake sleepers of the target like [`EventSink::arrived`].
//! - `put` may return before the bytes arrive; the caller may then change the source. `get` and
//!   `update` return when they are complete, and the requests of one call are in flight together.
//!   `quiet` returns when all puts and posts are complete.
//! - Any call may be made by several threads at a time, and while `disconnect` runs.
//!
//! Obligations of the callers: offsets and lengths lie inside the segment's layout; a peer is
//! connected before it is used; `connect` and `disconnect` are called by one thread at a time.
//!
//! Left out: mapped peers, which need no engine; the choice of an engine; failure detection. The
//! items are public only for the programs and tests of the workspace, and may change at any time.

#![forbid(unsafe_code)]

mod atomic;
pub mod hand_off;
pub mod turns;

use std::fmt::Debug;
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use raidshmem_core::message::Beat;
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::settings::Fabric;
use raidshmem_core::update::{Change, WordAt};
use raidshmem_segment::Segment;
use raidshmem_sys::exit;

/// The connection to this incarnation is broken, or the view declares it dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("PE {pe} (incarnation {incarnation}) is lost")]
pub struct Lost {
    /// The PE.
    pub pe: Pe,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

/// The reason why a fabric cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FabricError {
    /// A library that it needs cannot be loaded.
    #[error("fabric {}: {why}; expected {}", .fabric.name(), needed(*.fabric))]
    NotLoaded {
        /// The fabric.
        fabric: Fabric,
        /// The loader's message, which names the file or function.
        why: String,
    },
    /// The network library or the network reported an error.
    #[error("fabric {}: {what}: {why}", .fabric.name())]
    Refused {
        /// The fabric.
        fabric: Fabric,
        /// The operation that failed.
        what: &'static str,
        /// The message of the library or kernel.
        why: String,
    },
}

/// Maximum bytes of a message of [`Engine::tell`].
pub const TOLD_MAX: usize = 4096;

/// One range of a get.
#[derive(Debug)]
pub struct Read<'a> {
    /// The PE to read from.
    pub pe: Pe,
    /// The offset in its segment.
    pub offset: usize,
    /// The destination.
    pub into: &'a mut [u8],
}

/// One range of a put.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// The PE to write to.
    pub pe: Pe,
    /// The offset in its segment.
    pub offset: usize,
    /// The source.
    pub from: &'a [u8],
}

/// An atomic update of a word of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmoRequest {
    /// The PE that owns the word.
    pub pe: Pe,
    /// The word in its segment.
    pub word: WordAt,
    /// The change to make.
    pub change: Change,
}

/// The engine's queries and notifications about its peers and its own process.
pub trait EventSink: Send + Sync {
    /// Returns true once the view declares this incarnation of `pe` dead.
    fn gone(&self, pe: Pe, incarnation: Incarnation) -> bool;
    /// Reports that the connection to it broke. Called once for each, from any thread; must not
    /// block.
    fn suspect(&self, pe: Pe, incarnation: Incarnation);
    /// Reports that something arrived in this process's segment, so that its sleeping threads look
    /// again. Engines that involve the target's processor call it after every batch.
    fn arrived(&self);
    /// Receives bytes that this incarnation of `pe` has passed to [`Engine::tell`]. Returns
    /// messages to be passed back to it. Called from any thread, which may be inside the engine:
    /// must not call it.
    fn heard(&self, _pe: Pe, _incarnation: Incarnation, _bytes: &[u8]) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

impl Debug for dyn EventSink {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("EventSink")
    }
}

/// A process that opens an engine.
pub struct Local {
    /// Its PE number.
    pub me: Pe,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Number of PEs.
    pub n_pes: usize,
    /// The job's random number; messages of another job are rejected.
    pub job: u64,
    /// Its segment: peers write the visible part and read all of it.
    pub segment: &'static Segment,
    /// True if there are more threads than processors: waiting should not spin.
    pub oversubscribed: bool,
    /// Answers the engine's queries and receives its events.
    pub events: Arc<dyn EventSink>,
}

impl Local {
    /// Ends this process, because its engine cannot keep its guarantees to peers.
    pub fn fatal(&self, fabric: Fabric, what: &str, why: &str) -> ! {
        let words = format!("raidshmem: PE {}: fabric {}: {what}: {why}\n", self.me, fabric.name());
        let _ = std::io::stderr().write_all(words.as_bytes());
        exit::end(1) // the caller may hold locks
    }
}

impl Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Local {{ me: {}, incarnation: {} }}", self.me, self.incarnation)
    }
}

/// Heartbeats of other agents that cost their processors nothing.
pub trait Signs: Send {
    /// Watches only `node` from now on. Returns the message to send to its agent, if any, and true
    /// if its heartbeat has advanced since the last call. Must be called at least every period.
    fn look(&mut self, node: Option<u32>, now: Duration) -> (Option<Beat>, bool);

    /// Handles a message of the agent of `node`. Returns the answer, if any.
    fn hear(&mut self, node: u32, beat: Beat) -> Option<Beat>;
}

/// A way to reach peers that are not mapped. See the module for its guarantees.
pub trait Engine: Send + Sync + Debug {
    /// Returns the data that a peer needs to connect to this process; at most a few KiB.
    fn address(&self) -> Vec<u8>;

    /// Sets `pe` to this incarnation, which gave `address`. The connection is made when an
    /// operation first needs it; a process that cannot make it ends.
    ///
    /// # Errors
    /// [`FabricError::Refused`] if the address is invalid.
    fn connect(&self, pe: Pe, incarnation: Incarnation, address: &[u8]) -> Result<(), FabricError>;

    /// Ends every operation to `pe` at once, and rejects whatever still arrives from it.
    fn disconnect(&self, pe: Pe);

    /// Copies all of `writes` to the visible parts of their peers.
    ///
    /// # Errors
    /// [`Lost`] if one of them could not be written; the others are.
    fn put(&self, writes: &[Write]) -> Result<(), Lost>;

    /// Reads all of `reads`, keeping as many in flight together as the engine can.
    ///
    /// # Errors
    /// [`Lost`] if one of them could not be read; its destination is then undefined.
    fn get(&self, reads: &mut [Read]) -> Result<(), Lost>;

    /// Announces that bytes of `pe` will be read soon, so that an engine that needs to prepare can
    /// start; does not wait for it. Reads that were not announced are only slower.
    ///
    /// # Errors
    /// [`Lost`].
    fn expect(&self, pe: Pe, range: Range<usize>) -> Result<(), Lost> {
        let _ = (pe, range); // for those that prepare
        Ok(())
    }

    /// Updates each word atomically, in no particular order; `before[i]` receives the value that
    /// `asks[i]` found.
    ///
    /// # Errors
    /// [`Lost`]: updates of that peer may or may not have been carried out, and their results are
    /// undefined.
    fn update(&self, asks: &[AmoRequest], before: &mut [u64]) -> Result<(), Lost>;

    /// Like `update` of one word, without waiting and without an answer.
    ///
    /// # Errors
    /// [`Lost`].
    fn post(&self, ask: AmoRequest) -> Result<(), Lost>;

    /// Orders everything put and posted to each of `peers` so far before everything that follows.
    /// Skips peers that are not connected.
    ///
    /// # Errors
    /// [`Lost`] if the connection to one of them is broken; the order holds for the others.
    fn fence(&self, peers: &[Pe]) -> Result<(), Lost>;

    /// Waits until everything put and posted to `peers` has arrived. Skips peers that are not
    /// connected.
    ///
    /// # Errors
    /// [`Lost`] if the connection to one of them is broken; for the others the wait has completed.
    fn quiet(&self, peers: &[Pe]) -> Result<(), Lost>;

    /// Passes bytes, at most [`TOLD_MAX`], to [`EventSink::heard`] of `pe`, after all that were
    /// passed before. Nothing waits for their arrival; some engines wait until `pe` has connected
    /// to this process. By default they are refused.
    ///
    /// # Errors
    /// [`Lost`].
    fn tell(&self, pe: Pe, bytes: &[u8]) -> Result<(), Lost> {
        let _ = bytes;
        Err(Lost { pe, incarnation: Incarnation::FIRST })
    }

    /// Makes the sleeping threads of `pe` look again, after all earlier puts have arrived. A no-op
    /// for an engine that wakes by itself.
    fn wake(&self, pe: Pe);

    /// Returns true if the puts of peers are written here by this process and its system calls, so
    /// that its page tables record them; false if a device may write them.
    fn writes_are_seen(&self) -> bool {
        false
    }

    /// Like `put` followed by `wake` for each peer: for data that a program may wait for.
    ///
    /// # Errors
    /// As [`Engine::put`].
    fn put_and_wake(&self, writes: &[Write]) -> Result<(), Lost> {
        let put = self.put(writes);
        writes.chunk_by(|a, b| a.pe == b.pe).for_each(|to| self.wake(to[0].pe));
        put
    }

    /// Ensures that the death of a peer never ends this process, at any cost to its puts and gets.
    /// Called before the first of them, by all processes of the job or by none.
    fn outlive_peers(&self) {}

    /// Stops the engine's threads: this process serves no more requests. No call follows.
    fn close(&self) {}

    /// Lets the engine make progress. Called by waiting threads.
    fn progress(&self) {}

    /// Returns how long a waiting thread should poll before it sleeps, if it has a processor to
    /// itself: operations under way take about that long, and a wake-up costs more than the
    /// polling.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }

    /// Reports that a waiting thread is about to sleep: the engine must make progress by itself
    /// now.
    fn rest(&self) {}
}

/// Returns the requirements of a fabric, and the package that meets them.
fn needed(fabric: Fabric) -> &'static str {
    match fabric {
        Fabric::Auto | Fabric::Shm => "nothing",
        Fabric::Ofi => "libfabric 1.17 or newer (Debian: apt-get install libfabric1)",
        Fabric::Ucx => "UCX 1.13 or newer (Debian: apt-get install libucx0)",
        Fabric::Verbs => "libibverbs (Debian: apt-get install libibverbs1 ibverbs-providers)",
    }
}
