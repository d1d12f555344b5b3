//! Streams: operations to PEs that are not mapped, each stream with a fence and quiet of its own.
//!
//! The contexts of OpenSHMEM and of the Rust API are streams; stream 0 is the default context's.
//! An operation on a mapped PE is complete when its call returns, and belongs to no stream.
//!
//! ```text
//! put, post          start at once; the stream records the peer, and its quiet asks the engine to
//!                    complete that peer. Two streams that use one peer wait for each other there.
//! get, fetch, later  are batched and issued together: when WINDOW of them are queued, at the next
//!                    fence or quiet of the stream, or when the program blocks in another call
//! put, later         likewise in a session for batches; otherwise as a put
//! ```
//!
//! So a call that may complete later costs a part of a round trip instead of a whole one; it does
//! not overlap with the program's own work. A stream without stores (`SHMEM_CTX_NOSTORE`) completes
//! what is gathered and waits for no put.
//!
//! Between a death and the restart nothing is sent, and reads return zero.
//!
//! Left out: the execution of operations (`pgas/nonblocking.rs`).
//!
//! Unsafe code: gathered pointers move from thread to thread.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use raidshmem_core::quantity::Pe;
use raidshmem_fabric::AmoRequest;

/// Number of a stream; 0 is the default one.
pub type Id = u16;
/// Streams besides the default one.
pub const STREAMS: usize = 256;
/// The number of operations that are gathered before they are sent.
pub(in crate::pgas) const WINDOW: usize = 64;

/// The target of an operation, and what completes it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The PE as the caller named it, unchecked.
    pub pe: i32,
    /// The stream that completes it.
    pub stream: Id,
    /// True if it may complete after the call returns.
    pub later: bool,
}

impl From<i32> for Target {
    fn from(pe: i32) -> Target {
        Target { pe, stream: 0, later: false }
    }
}

impl Target {
    /// Returns the target of an operation that may complete after the call returns.
    pub fn later(self) -> Target {
        Target { later: true, ..self }
    }
}

/// Bytes of a peer, and their place in this process.
#[derive(Debug)]
pub(in crate::pgas) struct Bytes<P> {
    pub pe: Pe,
    pub offset: usize,
    pub at: P,
    pub len: usize,
}

/// Operations that have not begun yet.
#[derive(Debug, Default)]
pub(in crate::pgas) struct Gathered {
    pub writes: Vec<Bytes<*const u8>>,
    pub reads: Vec<Bytes<*mut u8>>,
    pub asks: Vec<(AmoRequest, *mut u8)>,
}

// SAFETY: the pointers are to buffers that their owners leave alone until the operation is over, so
// any thread may use them (`World::later_get` and its like).
unsafe impl Send for Gathered {}

impl Gathered {
    fn len(&self) -> usize {
        self.writes.len() + self.reads.len() + self.asks.len()
    }
}

/// The number of operations begun at a peer, and of those complete.
#[derive(Debug, Default)]
pub(in crate::pgas) struct Note {
    pub begun: AtomicU64,
    pub over: AtomicU64,
}

/// A stream.
#[derive(Debug)]
pub(in crate::pgas) struct WriteStream {
    pub notes: Box<[Note]>,
    pub gathered: Mutex<Gathered>,
    /// The number of gathered operations, to be read without the lock.
    pub waiting: AtomicUsize,
    /// True if puts are gathered too.
    pub batch: AtomicBool,
    /// True if its fence and quiet do not cover puts.
    pub no_store: AtomicBool,
}

impl WriteStream {
    fn new(n_pes: usize) -> WriteStream {
        WriteStream {
            notes: (0..n_pes).map(|_| Note::default()).collect(),
            gathered: Mutex::default(),
            waiting: AtomicUsize::new(0),
            batch: AtomicBool::new(false),
            no_store: AtomicBool::new(false),
        }
    }

    pub fn note(&self, pe: Pe) {
        self.notes[pe.at()].begun.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the peers with operations that may be incomplete, and the number begun at each.
    pub fn open(&self) -> (Vec<Pe>, Vec<u64>) {
        let begun = |note: &Note| {
            let begun = note.begun.load(Ordering::SeqCst);
            (begun > note.over.load(Ordering::SeqCst)).then_some(begun)
        };
        let open = |(pe, note)| Some((Pe::of(pe), begun(note)?));
        self.notes.iter().enumerate().filter_map(open).unzip()
    }
}

/// All streams of a process.
#[derive(Debug)]
pub(in crate::pgas) struct Streams {
    pub table: Box<[OnceLock<WriteStream>]>,
    pub n_pes: usize,
    /// The number of streams with gathered operations.
    pub waiting: AtomicUsize,
}

impl Streams {
    pub fn new(n_pes: usize) -> Streams {
        let table = (0..=STREAMS).map(|_| OnceLock::new()).collect();
        Streams { table, n_pes, waiting: AtomicUsize::new(0) }
    }

    pub fn of(&self, id: Id) -> &WriteStream {
        self.table[usize::from(id)].get_or_init(|| WriteStream::new(self.n_pes))
    }

    pub fn made(&self) -> impl Iterator<Item = &WriteStream> {
        self.table.iter().filter_map(OnceLock::get)
    }

    /// Changes the gathered operations, and updates both counts.
    pub fn change<R>(
        &self,
        stream: &WriteStream,
        mut gathered: MutexGuard<Gathered>,
        with: impl FnOnce(&mut Gathered) -> R,
    ) -> R {
        let before = gathered.len();
        let result = with(&mut gathered);
        let after = gathered.len();
        stream.waiting.store(after, Ordering::SeqCst);
        match (before, after) {
            (0, 1..) => drop(self.waiting.fetch_add(1, Ordering::SeqCst)),
            (1.., 0) => drop(self.waiting.fetch_sub(1, Ordering::SeqCst)),
            _ => {}
        }
        result
    }
}
