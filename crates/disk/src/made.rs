//! Sets for tests, with real parity, written as agents write them.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use raidshmem_archive::code::Code;
use raidshmem_archive::manifest::{Manifest, Parity};
use raidshmem_archive::part::Object;
use raidshmem_core::disk::{Content, Entry, Failure, Files, How, ParityShare};
use raidshmem_core::heap::Heap;
use raidshmem_core::layout::{Layout, TILE};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::store::private::{self, Saved};

use super::files::name;
use super::sets;
use super::source::TileSource;
use super::variables::SavedProgram;
use super::write::{Order, read_data, read_parity, transfer};

pub const PES: u32 = 4;
pub const HEAP: u64 = 1 << 20;
/// The elements of the array in the heap of each PE.
pub const CELLS: usize = 40_000;
const JOB: u64 = 77;
const NUMBER: CheckpointNumber = CheckpointNumber(5);
/// The number of the set.
pub const SET: u64 = 3;

/// A folder that is removed with its value.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("made-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    /// Returns all files below it.
    pub fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut all, mut folders) = (BTreeMap::new(), vec![self.0.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder").flatten() {
                match entry.path() {
                    path if path.is_dir() => folders.push(path),
                    path => _ = all.insert(path.clone(), fs::read(path).expect("a file")),
                }
            }
        }
        all
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A set on the disks of four nodes.
pub struct MadeSet(PathBuf);

impl MadeSet {
    pub fn node(&self, node: u32) -> PathBuf {
        sets::node_folder(&self.0, node)
    }

    pub fn folder(&self, node: u32) -> PathBuf {
        self.node(node).join(format!("set-{SET}"))
    }

    /// Returns the files of all PEs that the manifest names.
    pub fn files(&self) -> Vec<PathBuf> {
        let both = [Content::Data, Content::Parity];
        let of = |pe: Pe| both.map(|content| self.folder(pe.0).join(name(content, pe)));
        Pe::all(PES as usize).flat_map(of).collect()
    }
}

/// The bytes of a line, or of parity.
struct Bytes {
    line: usize,
    bytes: Vec<u8>,
}

impl TileSource for Bytes {
    fn line(&self) -> usize {
        self.line
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn tile(&self, nth: usize) -> Result<Vec<u8>, Failure> {
        Ok(self.bytes[nth * TILE..self.bytes.len().min((nth + 1) * TILE)].to_vec())
    }
}

fn layout() -> Layout {
    Layout::new(HEAP as usize, PES as usize)
}

/// Returns a cell of the array of a PE.
pub fn cell(pe: Pe, nth: usize) -> u64 {
    (nth as u64 / 5).wrapping_mul(0x9e37_79b9_7f4a_7c15 << (nth % 3)) ^ u64::from(pe.0)
}

/// Returns the line of a PE: statics with a number, its PE and a pointer to the array, and a heap
/// with a small block and the array.
fn line(pe: Pe) -> Vec<u8> {
    let (layout, mut heap) = (layout(), Heap::new(HEAP as usize));
    heap.alloc(100, 64).expect("free memory");
    let array = heap.alloc(CELLS * 8, 64).expect("free memory");
    let statics = layout.statics..layout.statics + 8192;
    let contents = [b"state of ", [b'0' + pe.0 as u8].as_slice()].concat();
    let private = [
        Saved { name: "load addresses", contents: b"400000 1000 \n" },
        Saved { name: "`state`", contents: &contents },
    ];
    let private = private::encode(private.into_iter());
    let excluded = layout.statics + 4096..layout.statics + 4100;
    let built = Coverage::build(
        &layout,
        std::slice::from_ref(&statics),
        &heap,
        [&[excluded], &[]],
        &private,
    );
    let (coverage, mut line) = built.expect("it fits");
    let array_at = super::heap_at(&layout) + array as u64;
    let begin = line.len();
    for piece in coverage.pieces(begin..coverage.len()) {
        let mut memory = vec![0; layout.heap + HEAP as usize - layout.statics];
        let mut put = |at: usize, word: u64| {
            memory[at - layout.statics..][..8].copy_from_slice(&word.to_le_bytes());
        };
        put(statics.start + 16, 4711);
        put(statics.start + 24, u64::from(pe.0));
        put(statics.start + 32, array_at);
        (0..CELLS).for_each(|nth| put(layout.heap + array + nth * 8, cell(pe, nth)));
        line.extend_from_slice(&memory[piece.at - layout.statics..][..piece.len]);
    }
    line
}

fn program() -> SavedProgram {
    let object = |name: &str, file: &str, offset, len| {
        let (name, file) = (name.to_owned(), file.to_owned());
        Object { name, file, offset, len }
    };
    SavedProgram {
        build: vec![1, 2, 3],
        name: "jacobi".into(),
        image: 0x400_000..0x401_000,
        objects: vec![
            object("answer", "", 16, 8),
            object("me", "a.c", 24, 8),
            object("cells", "", 32, 8),
            object("hidden", "", 4096, 8),
            object("twice", "a.c", 64, 4),
            object("twice", "b.c", 72, 4),
        ],
    }
}

fn order(level: u32, has_parity: bool) -> Order {
    let share = ParityShare { pe: Pe(0), chunks: 1, held: 1 };
    Order {
        job: JOB,
        sets: JOB,
        n_pes: PES,
        heap_len: HEAP,
        number: NUMBER,
        folder: PathBuf::new(),
        pes: Vec::new(),
        parity: if has_parity { vec![share] } else { Vec::new() },
        how: How { memory: 1 << 20, rate: 0, compress: level, checksum: true },
        program: program(),
    }
}

/// Writes the files of a PE in a folder.
fn write(order: &Order, part: &Path, pe: Pe, data: &Bytes, parity: Option<&Bytes>) -> Files {
    fs::create_dir_all(part).expect("a folder");
    let (stop, layout) = (AtomicU64::new(0), layout());
    let read = |pieces: std::sync::mpsc::SyncSender<super::output::Piece>| {
        read_data(order, (pe, &layout), data, &pieces, &stop)?;
        parity.map_or(Ok(()), |parity| read_parity(order, pe, parity, &pieces, &stop))
    };
    transfer(order, part, 4, &stop, read).expect("written").0
}

fn manifest(all: Files, level: u32, code: Option<Code>) -> Manifest {
    let entries = |files: Vec<(Pe, Entry)>| files.into_iter().map(|(_, entry)| entry).collect();
    let parity = code.map(|code| Parity { code, entries: entries(all.parity) });
    Manifest {
        job: JOB,
        number: NUMBER,
        heap_len: HEAP,
        seconds: 1,
        mode: "raid5".into(),
        program: "p".into(),
        entries: entries(all.data),
        raw: (level > 0).then_some(all.raw),
        parity,
    }
}

/// Makes a set in one folder; returns it.
pub fn shared(folder: &Folder, level: u32) -> PathBuf {
    let (order, mut all) = (order(level, false), Files::default());
    let part = sets::part_folder(&folder.0, JOB, NUMBER);
    for pe in Pe::all(PES as usize) {
        let bytes = line(pe);
        let files = write(&order, &part, pe, &Bytes { line: bytes.len(), bytes }, None);
        all.data.extend(files.data);
        all.raw += files.raw;
    }
    let manifest = manifest(all, level, None).encode();
    sets::commit(&folder.0, &part, &manifest, SET).expect("a set");
    folder.0.join(format!("set-{SET}"))
}

/// Makes a set on the disks of four nodes.
pub fn local(folder: &Folder, scheme: &str, level: u32) -> MadeSet {
    let parity = if scheme == "rs" { 2 } else { 1 };
    let order_of = vec![Pe(2), Pe(0), Pe(3), Pe(1)];
    let code = Code { scheme: scheme.to_owned(), parity, groups: vec![order_of] };
    let group = &code.groups().expect("a layout")[0];
    let lines: Vec<Vec<u8>> = Pe::all(PES as usize).map(line).collect();
    let (len, chunk) = (lines[0].len(), group.chunk_len(lines[0].len()));
    let data = |place: usize, nth: usize| {
        let mut line = lines[group.members[place].at()].clone();
        line.resize(group.layout.chunks() * chunk, 0);
        line[nth * chunk..(nth + 1) * chunk].to_vec()
    };
    let parity = |place: usize| {
        let row = |parity: &raidshmem_codec::stripe::Parity| {
            let stripe = &group.layout.stripes()[parity.stripe];
            let shards: Vec<Vec<u8>> =
                stripe.data.iter().map(|it| data(it.member, it.chunk)).collect();
            let shards: Vec<&[u8]> = shards.iter().map(Vec::as_slice).collect();
            let mut out = vec![0; chunk];
            let code = &group.codes[parity.stripe];
            code.encode_row(parity.row, &shards, &mut out).expect("shards of one length");
            out
        };
        group.layout.parities_of(place).iter().flat_map(row).collect::<Vec<u8>>()
    };
    let (order, mut all) = (order(level, true), Files::default());
    let part = |pe: Pe| sets::part_folder(&sets::node_folder(&folder.0, pe.0), JOB, NUMBER);
    for pe in Pe::all(PES as usize) {
        let place = group.members.iter().position(|&it| it == pe).expect("a member");
        let parity = Bytes { line: len, bytes: parity(place) };
        let data = Bytes { line: len, bytes: lines[pe.at()].clone() };
        let files = write(&order, &part(pe), pe, &data, Some(&parity));
        all.data.extend(files.data);
        all.parity.extend(files.parity);
        all.raw += files.raw;
    }
    let manifest = manifest(all, level, Some(code)).encode();
    for pe in Pe::all(PES as usize) {
        let node = sets::node_folder(&folder.0, pe.0);
        sets::commit(&node, &part(pe), &manifest, SET).expect("a set");
    }
    MadeSet(folder.0.clone())
}
