//! One PE of the suite: a segment, an engine, and a view that the test controls.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use raidshmem_core::layout::Layout;
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::settings::Fabric;
use raidshmem_core::update::{Change, Update, WordAt};
use raidshmem_engines::{self as engines, Chosen};
use raidshmem_fabric::{AmoRequest, Engine, EventSink, Local};
use raidshmem_segment::{OpenParts, Segment};
use raidshmem_sys::memory::{self, Part};

use super::mapped::Mapped;

/// PEs of the suite: the driver, its partner, and a bystander.
pub const PES: usize = 3;
/// The driver.
pub const DRIVER: Pe = Pe(0);
/// Its partner, which dies.
pub const PARTNER: Pe = Pe(1);
/// The PE that is never disturbed.
pub const BYSTANDER: Pe = Pe(2);
/// The limit of every call and wait, on a busy machine or an emulated one.
pub const LONG: Duration = Duration::from_secs(30);
/// The job's number.
pub const JOB: u64 = 0x5eed;

/// Returns the layout of all segments.
pub fn layout() -> Layout {
    Layout::new(4 << 20, PES)
}

/// Kinds of messages for events: one that is answered, and its two answers.
pub const ASKED: u8 = 0;
pub const ANSWERS: [u8; 2] = [1, 2];
/// Bytes of a message for events before its padding: its kind, its play and its number.
pub const HEAD: usize = 17;

/// A message that a PE's events have received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    pub pe: Pe,
    pub incarnation: Incarnation,
    pub bytes: Vec<u8>,
}

/// The peer status that a PE receives, and the events that it reports.
#[derive(Debug, Default)]
pub struct View {
    dead: Mutex<BTreeSet<(usize, u32)>>,
    /// Messages for its events, by play.
    heard: Mutex<BTreeMap<u64, Vec<Heard>>>,
    pub suspected: AtomicU64,
    pub arrivals: AtomicU64,
}

impl View {
    /// Declares this incarnation dead.
    pub fn bury(&self, pe: Pe, incarnation: Incarnation) {
        self.dead.lock().unwrap().insert((pe.at(), incarnation.0));
    }

    /// Returns the number of messages of this play that have been received.
    pub fn count_heard(&self, play: u64) -> usize {
        self.heard.lock().unwrap().get(&play).map_or(0, Vec::len)
    }

    /// Takes the messages of this play that have been received.
    pub fn take_heard(&self, play: u64) -> Vec<Heard> {
        self.heard.lock().unwrap().remove(&play).unwrap_or_default()
    }
}

impl EventSink for View {
    fn gone(&self, pe: Pe, incarnation: Incarnation) -> bool {
        self.dead.lock().unwrap().contains(&(pe.at(), incarnation.0))
    }

    fn suspect(&self, _: Pe, _: Incarnation) {
        self.suspected.fetch_add(1, Ordering::SeqCst);
    }

    fn arrived(&self) {
        self.arrivals.fetch_add(1, Ordering::SeqCst);
    }

    fn heard(&self, pe: Pe, incarnation: Incarnation, bytes: &[u8]) -> Vec<Vec<u8>> {
        let play = u64::from_ne_bytes(bytes[1..9].try_into().expect("eight bytes"));
        let heard = Heard { pe, incarnation, bytes: bytes.to_vec() };
        self.heard.lock().unwrap().entry(play).or_default().push(heard);
        let kinds = if bytes[0] == ASKED { &ANSWERS[..] } else { &[] };
        kinds.iter().map(|&kind| [&[kind], &bytes[1..]].concat()).collect()
    }
}

/// A memory file for one incarnation.
pub struct Memory(OwnedFd);

impl Memory {
    pub fn new() -> Memory {
        Memory(memory::create("engines", layout().total).expect("a memory file"))
    }

    /// Returns a path under which other processes open it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Truncates it to `len`.
    pub fn cut(&self, len: usize) {
        rustix::fs::ftruncate(&self.0, len as u64).expect("it is not sealed");
    }

    /// Maps it as a peer does.
    pub fn segment(&self) -> &'static Segment {
        Segment::peer(&part(&self.path()), layout(), OpenParts::default())
            .expect("it is mapped")
            .leak()
    }
}

/// Opens the memory under this path.
pub fn part(path: &str) -> Part {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("the memory is there");
    Part::new(Arc::new(file.into()), 0, layout().total)
}

/// Maps the memory under this path as its owner does.
pub fn own(path: &str) -> &'static Segment {
    Segment::own(&part(path), layout()).expect("it is mapped").0.leak()
}

/// One PE.
pub struct Node {
    pub me: Pe,
    pub segment: &'static Segment,
    pub engine: Box<dyn Engine>,
    pub view: Arc<View>,
}

impl Node {
    /// Opens a PE with this engine over the memory under `path`.
    pub fn open(engine: &str, me: Pe, incarnation: Incarnation, path: &str) -> Node {
        let (segment, view) = (own(path), Arc::new(View::default()));
        let events: Arc<dyn EventSink> = view.clone();
        let local =
            Local { me, incarnation, n_pes: PES, job: JOB, segment, oversubscribed: true, events };
        let engine: Box<dyn Engine> = match engine {
            "self" | "shm" => Box::new(Mapped::new(path)),
            "verbs-atomics" => {
                use raidshmem_fabric_verbs::{Atomics, Verbs};
                Box::new(Verbs::with_atomics(local, None, Atomics::Own).expect("it opens"))
            }
            name => {
                let (name, provider) = name.split_once(':').unzip();
                let name = name.unwrap_or(engine);
                let fabric = Fabric::ALL.into_iter().find(|fabric| fabric.name() == name);
                let chosen = Chosen { device: None, provider };
                let opened = engines::open(fabric.expect("an engine"), chosen, local);
                opened.expect("it opens").expect("it has an engine")
            }
        };
        Node { me, segment, engine, view }
    }

    /// Returns the PE's own 8-byte word at `at` of the heap.
    pub fn word(&self, at: usize) -> u64 {
        read(self.segment, at, 8)
    }

    /// Waits until `ready`, and makes progress meanwhile.
    #[track_caller]
    pub fn wait(&self, what: &str, mut ready: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !ready() {
            assert!(begun.elapsed() < LONG, "PE {}: waited for {what} in vain", self.me);
            self.engine.progress();
            std::thread::yield_now();
        }
    }
}

impl Drop for Node {
    /// Closes the engine: a thread that outlives the process's libraries ends it with an error.
    fn drop(&mut self) {
        self.engine.close();
    }
}

/// Returns the offset in a segment of byte `at` of the heap.
pub fn heap(at: usize) -> usize {
    layout().heap + at
}

/// Writes a segment's bytes directly, while the engine moves none of them.
pub fn fill(segment: &Segment, at: usize, bytes: &[u8]) {
    // SAFETY: a test makes its calls one after another, and this write is between two of them.
    unsafe { segment.bytes_mut(at, bytes.len()) }.copy_from_slice(bytes);
}

/// Reads the word of `bytes` bytes at `at` of a segment's heap.
pub fn read(segment: &Segment, at: usize, bytes: usize) -> u64 {
    let change = Change { how: Update::Load, operand: 0 };
    segment.update(WordAt { offset: heap(at), bytes }, change).expect("a word of the heap")
}

/// Returns an update of the 8-byte word at `at` of a heap.
pub fn ask(pe: Pe, at: usize, how: Update, operand: u64) -> AmoRequest {
    ask_of(pe, (at, 8), how, operand)
}

/// Like [`ask`], but for a word of any size.
pub fn ask_of(pe: Pe, (at, bytes): (usize, usize), how: Update, operand: u64) -> AmoRequest {
    AmoRequest { pe, word: WordAt { offset: heap(at), bytes }, change: Change { how, operand } }
}
