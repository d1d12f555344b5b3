//! The memory of a job's PEs, as held by the launcher: for tests to read, and to damage.
//!
//! The launcher holds the memory files of all nodes, so `/proc` gives them to any process that may
//! trace the launcher, as the test may. The test reads exactly what the processes see.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use raidshmem_core::layout::{Layout, STAMP, TILE};
use raidshmem_core::page::PAGE;
use raidshmem_core::protocol::{ALL, meeting};
use raidshmem_core::rounds::LEVELS;
use raidshmem_core::store::phase::Phase;
use raidshmem_core::tree::post::{MeetingId, WORDS, Way};
use raidshmem_segment::header::Header;
use raidshmem_segment::words::{Barrier, BarrierCounter, Line, Words};
use rustix::fs::{SeekFrom, seek};

/// The memory of one PE.
pub struct Image {
    pub pe: usize,
    pub layout: Layout,
    file: Arc<File>,
    /// The start of its memory in the file of its node.
    from: usize,
}

/// Returns the memory of every started PE, by PE, that a process holds: the launcher if nodes map
/// each other, otherwise the agent of a node.
pub fn all(holder: u32) -> Vec<Image> {
    let mut found = BTreeMap::new();
    let links = fs::read_dir(format!("/proc/{holder}/fd")).into_iter().flatten().flatten();
    for path in links.map(|link| link.path()) {
        let names = ["/memfd:raidshmem-node (deleted)", "/raidshmem-node (deleted)"];
        let named = fs::read_link(&path).is_ok_and(|to| names.map(Path::new).contains(&&*to));
        let file = OpenOptions::new().read(true).write(true).open(&path);
        if let (true, Ok(file)) = (named, file) {
            found.extend(images(file).into_iter().map(|image| (image.pe, image)));
        }
    }
    found.into_values().collect()
}

/// Returns the memories of the PEs in a node's file. It has a place for every PE of the job.
fn images(file: File) -> Vec<Image> {
    let Ok(len) = file.metadata().map(|data| data.size() as usize) else { return Vec::new() };
    let file = Arc::new(file);
    for pes in (1..=MOST).filter(|&pes| len.is_multiple_of(pes)) {
        let layout = layout_of(len / pes, pes);
        if layout.total != len / pes {
            continue;
        }
        let image =
            |pe: usize| Image { pe, layout, file: Arc::clone(&file), from: pe * layout.total };
        let begun = |image: &Image| {
            let word = |at: usize| image.word(layout.store + at);
            word(0) == raidshmem_segment::header::MAGIC && word(16) == image.pe as u64
        };
        let images: Vec<Image> = (0..pes).map(image).filter(begun).collect();
        if !images.is_empty() {
            return images;
        }
    }
    Vec::new()
}

/// The most PEs of an examined job.
const MOST: usize = 64;

/// Finds the layout with segments of `total` bytes: the longer the heap, the longer the segment.
fn layout_of(total: usize, pes: usize) -> Layout {
    let (mut low, mut high) = (0, total / PAGE);
    while low < high {
        let middle = low.midpoint(high);
        match Layout::new(middle * PAGE, pes).total < total {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    Layout::new(low * PAGE, pes)
}

impl Image {
    /// Returns `len` bytes at `at`.
    pub fn read(&self, at: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, (self.from + at) as u64).expect("inside the file");
        bytes
    }

    /// Writes `bytes` at `at`.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, (self.from + at) as u64).expect("inside the file");
    }

    /// Returns the word at `at`.
    pub fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.read(at, 8).try_into().expect("eight bytes"))
    }

    /// Flips one bit of the byte at `at`.
    pub fn flip(&self, at: usize, bit: u32) {
        let byte = self.read(at, 1)[0];
        self.write(at, &[byte ^ 1 << (bit % 8)]);
    }

    /// Returns the length of the snapshot, from its record.
    pub fn snapshot_len(&self) -> usize {
        self.word(self.layout.store + offset_of!(Header, snapshots) + 8) as usize
    }

    /// Returns the offset of byte `at` of tile `tile` of a region; from `TILE` on, of its stamp.
    pub fn place(&self, region: usize, tile: usize, at: usize) -> usize {
        assert!(at < TILE + STAMP);
        match at.checked_sub(TILE) {
            None => region + tile * TILE + at,
            Some(at) => self.layout.stamps(region) + tile * STAMP + at,
        }
    }

    /// Returns the number of its allocated bytes.
    pub fn allocated(&self) -> usize {
        let end = self.from + self.layout.total;
        let (mut at, mut sum) = (self.from, 0);
        while let Ok(data) = seek(&*self.file, SeekFrom::Data(at as u64))
            && (data as usize) < end
        {
            let hole = seek(&*self.file, SeekFrom::Hole(data)).expect("every file ends with one");
            at = (hole as usize).min(end);
            sum += at - data as usize;
        }
        sum
    }

    /// Describes the PE's progress in one line: for a run that hangs.
    pub fn describe(&self) -> String {
        let header = |at| self.word(self.layout.store + at);
        let post = |way: Way| {
            let each = size_of::<Line<[u64; WORDS]>>();
            MeetingId::of(self.word(offset_of!(Words, posts) + way as usize * each))
        };
        let last = post(Way::Up).max(post(Way::Down));
        let at = ALL.into_iter().find(|&at| meeting(at) == Some(last.number));
        let phase = Phase::unpack(header(offset_of!(Header, phase)));
        let decided = header(offset_of!(Header, decision)).checked_sub(1);
        let gate = |whose: Barrier, at| {
            let gates = offset_of!(Words, gates)
                + whose as usize * LEVELS * size_of::<Line<BarrierCounter>>();
            self.word(gates + at)
        };
        let holds = [offset_of!(Header, snapshots), offset_of!(Header, slots)].map(header);
        format!(
            "PE {}: last post for meeting {} ({at:?}) of view {}, phase {phase:?}, decided \
             {decided:?}, snapshot of {}, slot 0 of {}, barriers of the program arrived {} \
             released {}, of the protocol {} and {}",
            self.pe,
            last.number,
            last.view,
            holds[0],
            holds[1],
            gate(Barrier::Program, 0),
            gate(Barrier::Program, 8),
            gate(Barrier::Protocol, 0),
            gate(Barrier::Protocol, 8)
        )
    }
}
