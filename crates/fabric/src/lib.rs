//! What an engine is: how a PE reaches the memory of PEs that it cannot map.
//!
//! This crate is the contract and no more: the trait [`Engine`], what a process gives to one
//! ([`Local`], [`EventSink`]), what goes wrong ([`Lost`], [`FabricError`]), and signs of life that
//! a network carries by itself ([`Signs`]). Each engine is a crate that stands on this one and
//! knows no other; the crate `raidshmem` opens the one that a job uses.
//!
//! ```text
//! put, get          bytes of peers' segments, by offset; the store can only be read
//! expect            what will be got soon
//! update, post      words of 2, 4 or 8 bytes, changed in one step, with and without an answer
//! fence, quiet      order, completion, at the peers that are named
//! wake              the peer's sleeping threads look again
//! connect           to one incarnation of a peer, by the address that it gave, when first used
//! disconnect        the fence round a dead incarnation: nothing of it goes or comes any more
//! ```
//!
//! What an engine promises, and what the rest of the library stands on:
//!
//! - *No operation stays open.* Every call returns: with its result, or with [`Lost`] when the
//!   connection to that incarnation broke, when [`Engine::disconnect`] was called by another
//!   thread, or soon (some 10 ms) after [`EventSink::gone`] says that it is no more. Nothing else
//!   ends a call: a peer that is slow or stopped is waited for.
//! - *A broken connection stays broken.* Puts may have been lost with it, so every later call that
//!   needs the peer, [`Engine::quiet`] among them, gives [`Lost`] until `disconnect`. The engine
//!   tells [`EventSink::suspect`] once, and decides nothing: views decide.
//! - *Others are not disturbed.* `quiet` and `fence` do their work at all other peers that were
//!   named before they give `Lost`; a call for many ranges or words gives `Lost` when all the
//!   others of it are over.
//! - *Peers are told apart, callers are not.* `quiet` of a peer completes whatever any thread has
//!   begun there. Streams of the program (`pgas::stream`) name the peers that they have used, so
//!   one of them may wait for the operations of another, to the same peer, but never for less than
//!   its own.
//! - *Incarnations are kept apart.* After `connect(pe, n)` nothing is carried out for a process
//!   with an incarnation of `pe` below `n`, and after `disconnect(pe)` nothing for that one or for
//!   older ones. What a dead peer had sent and nobody has looked at yet is dropped. A newer one may
//!   come before this process has connected to it.
//! - *One-sided.* A peer that computes and makes no call is reached all the same.
//! - *Order.* Operations between the same two PEs are not ordered, except: `post` after `post`, and
//!   all that precedes a `fence` before all that follows it, as the target's processor sees it.
//! - *Atomics are those of the target's processor*: atomic with the updates that PEs on the
//!   target's node make directly. They wake sleepers of the target like [`EventSink::arrived`].
//! - `put` may return before the bytes are there; then the caller may change the source. `get` and
//!   `update` return when they are over, and what one call asks for is in flight together. `quiet`
//!   returns when all puts and posts are.
//! - Every call may be made by several threads at a time, and while `disconnect` runs.
//!
//! Invariants of the callers: offsets and lengths lie inside the segment's layout; a peer is
//! connected before it is used; `connect` and `disconnect` are called by one thread at a time.
//!
//! Left out: peers that are mapped, which need no engine; which engine is used; who is dead. The
//! items are public for the programs and tests of the workspace alone, and change at will.

#![forbid(unsafe_code)]

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

/// The connection to this incarnation is broken, or the view says that it is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("PE {pe} (incarnation {incarnation}) is lost")]
pub struct Lost {
    /// The PE.
    pub pe: Pe,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

/// Why a fabric cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FabricError {
    /// The library that it needs cannot be loaded.
    #[error("fabric {}: {why}; expected {}", .fabric.name(), needed(*.fabric))]
    NotLoaded {
        /// The fabric.
        fabric: Fabric,
        /// What the loader said: which file, or which function of it.
        why: String,
    },
    /// The network library or the network refused.
    #[error("fabric {}: {what}: {why}", .fabric.name())]
    Refused {
        /// The fabric.
        fabric: Fabric,
        /// What was being done.
        what: &'static str,
        /// What the library or kernel said.
        why: String,
    },
}

/// One range of a get.
#[derive(Debug)]
pub struct Read<'a> {
    /// The PE to read from.
    pub pe: Pe,
    /// Where in its segment.
    pub offset: usize,
    /// Where to.
    pub into: &'a mut [u8],
}

/// One range of a put.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// The PE to write to.
    pub pe: Pe,
    /// Where in its segment.
    pub offset: usize,
    /// What.
    pub from: &'a [u8],
}

/// A word of a peer that is to be updated in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// The PE that has it.
    pub pe: Pe,
    /// Which word of its segment.
    pub word: WordAt,
    /// What is done with it.
    pub change: Change,
}

/// What an engine asks and tells about its peers and its own process.
pub trait EventSink: Send + Sync {
    /// True once the view says that this incarnation of `pe` is no more.
    fn gone(&self, pe: Pe, incarnation: Incarnation) -> bool;
    /// The connection to it broke. Called once for each, from any thread; must not wait.
    fn suspect(&self, pe: Pe, incarnation: Incarnation);
    /// Something arrived in the own segment: threads of this process that sleep look again. Called
    /// by engines in which the target's processor takes part, after every batch.
    fn arrived(&self);
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
    /// The job's random number; what comes from another job is refused.
    pub job: u64,
    /// What it shows: peers write the visible part and read all of it.
    pub segment: &'static Segment,
    /// More threads than processors: waiting should not spin.
    pub oversubscribed: bool,
    /// Answers the engine's questions, and hears its events.
    pub events: Arc<dyn EventSink>,
}

impl Local {
    /// Ends this process: what its engine promised to its peers it cannot do.
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

/// Signs of life of other agents that cost their processors nothing.
pub trait Signs: Send {
    /// Looks at `node` alone from now on; what to tell its agent, and whether it gave a sign since
    /// the last look. To be called at least every period.
    fn look(&mut self, node: Option<u32>, now: Duration) -> (Option<Beat>, bool);

    /// The agent of `node` said something; what to answer.
    fn hear(&mut self, node: u32, beat: Beat) -> Option<Beat>;
}

/// A way to reach peers that are not mapped. The module says what it promises.
pub trait Engine: Send + Sync + Debug {
    /// What a peer needs to connect to this process; at most a few KiB.
    fn address(&self) -> Vec<u8>;

    /// From now on `pe` is this incarnation, which gave `address`. The connection is made when an
    /// operation first needs it; a process for which that cannot be done ends.
    ///
    /// # Errors
    /// [`FabricError::Refused`] if the address is none.
    fn connect(&self, pe: Pe, incarnation: Incarnation, address: &[u8]) -> Result<(), FabricError>;

    /// Ends every operation to `pe` at once, and refuses what still comes from it.
    fn disconnect(&self, pe: Pe);

    /// Copies all of `writes` to the visible parts of their peers.
    ///
    /// # Errors
    /// [`Lost`] if one of them could not be written; the others are.
    fn put(&self, writes: &[Write]) -> Result<(), Lost>;

    /// Reads all of `reads`, which are in flight together as far as the engine can.
    ///
    /// # Errors
    /// [`Lost`] if one of them could not be read; what was to be read is then undefined.
    fn get(&self, reads: &mut [Read]) -> Result<(), Lost>;

    /// Bytes of `pe` that will be read soon: an engine that has to prepare for that begins to, and
    /// does not wait for it. What is read otherwise is only read later.
    ///
    /// # Errors
    /// [`Lost`].
    fn expect(&self, pe: Pe, range: Range<usize>) -> Result<(), Lost> {
        let _ = (pe, range); // for those that prepare
        Ok(())
    }

    /// Updates each word in one step, in no order; `before[i]` is what `asks[i]` found.
    ///
    /// # Errors
    /// [`Lost`]: those to that peer may have been carried out or not, and what they found is
    /// undefined.
    fn update(&self, asks: &[Ask], before: &mut [u64]) -> Result<(), Lost>;

    /// As `update` of one, without waiting and without an answer.
    ///
    /// # Errors
    /// [`Lost`].
    fn post(&self, ask: Ask) -> Result<(), Lost>;

    /// What was put and posted to each of `peers` so far arrives there before what follows. Peers
    /// that are not connected are passed over.
    ///
    /// # Errors
    /// [`Lost`] if the connection to one of them is broken; for the others it holds.
    fn fence(&self, peers: &[Pe]) -> Result<(), Lost>;

    /// Waits until all that was put and posted to `peers` has arrived. Peers that are not connected
    /// are passed over.
    ///
    /// # Errors
    /// [`Lost`] if the connection to one of them is broken; for the others it holds.
    fn quiet(&self, peers: &[Pe]) -> Result<(), Lost>;

    /// Threads of `pe` that sleep look again, after what was put before has arrived; an engine that
    /// wakes by itself does nothing here.
    fn wake(&self, pe: Pe);

    /// True if what peers put here is written by this process and its system calls, so that its
    /// page tables show it; false if a device may write it.
    fn writes_are_seen(&self) -> bool {
        false
    }

    /// As `put`, and then `wake` for each peer: what a program may wait for.
    ///
    /// # Errors
    /// As of `put`.
    fn put_and_wake(&self, writes: &[Write]) -> Result<(), Lost> {
        let put = self.put(writes);
        writes.chunk_by(|a, b| a.pe == b.pe).for_each(|to| self.wake(to[0].pe));
        put
    }

    /// The death of a peer must never be that of this process, whatever that costs its puts and
    /// gets. Called before any is made, by all processes of the job or by none.
    fn outlive_peers(&self) {}

    /// Nothing more is asked of this process: the engine's threads end. No call follows.
    fn close(&self) {}

    /// Called by threads that wait, to let the engine do what it has to.
    fn progress(&self) {}

    /// How long they go on looking before they sleep, where each has a processor: what is on its
    /// way takes about that long, and to be woken costs more than it is worth.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }

    /// Called by them before they sleep: from now on the engine has to do it by itself.
    fn rest(&self) {}
}

/// What a machine must have for a fabric, and how it gets it.
fn needed(fabric: Fabric) -> &'static str {
    match fabric {
        Fabric::Auto | Fabric::Shm => "nothing",
        Fabric::Ucx => "UCX 1.13 or newer (Debian: apt-get install libucx0)",
        Fabric::Verbs => "libibverbs (Debian: apt-get install libibverbs1 ibverbs-providers)",
    }
}
