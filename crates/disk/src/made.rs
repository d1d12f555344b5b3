//! Sets for tests, with real parity, written as agents write them.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
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
use super::write::{Order, Pasts, read_data, read_parity, transfer};

pub const PES: u32 = 4;
pub const HEAP: u64 = 1 << 20;
/// The elements of the array in the heap of each PE.
pub const CELLS: usize = 40_000;
const JOB: u64 = 77;
const NUMBER: u64 = 5;
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

/// Returns a cell of the array of a PE.
pub fn cell(pe: Pe, nth: usize) -> u64 {
    (nth as u64 / 5).wrapping_mul(0x9e37_79b9_7f4a_7c15 << (nth % 3)) ^ u64::from(pe.0)
}

/// The cells of a checkpoint.
pub type Cells<'a> = &'a dyn Fn(Pe, usize) -> u64;

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

/// A job that writes sets, one after another.
pub struct Writer<'a> {
    folder: &'a Path,
    /// The parity of sets on the disks of four nodes; None for sets in one folder.
    scheme: Option<&'a str>,
    level: u32,
    heap: u64,
    pasts: Vec<Pasts>,
}

impl Writer<'_> {
    /// Begins a job with that memory on each PE.
    pub fn new<'a>(folder: &'a Path, scheme: Option<&'a str>, level: u32, heap: u64) -> Writer<'a> {
        let pasts = (0..PES).map(|_| Pasts::new()).collect();
        Writer { folder, scheme, level, heap, pasts }
    }

    /// Returns the number of cells of each PE.
    pub fn cells(&self) -> usize {
        if self.heap == HEAP { CELLS } else { (self.heap as usize - (1 << 18)) / 8 }
    }

    fn layout(&self) -> Layout {
        Layout::new(self.heap as usize, PES as usize)
    }

    /// Returns the line of a PE: statics with a number, its PE and a pointer to the array, and a
    /// heap with a small block and the array.
    fn line(&self, pe: Pe, cell: Cells) -> Vec<u8> {
        let (layout, mut heap) = (self.layout(), Heap::new(self.heap as usize));
        heap.alloc(100, 64).expect("free memory");
        let array = heap.alloc(self.cells() * 8, 64).expect("free memory");
        let statics = layout.statics..layout.statics + 8192;
        let contents = [b"state of ", [b'0' + pe.0 as u8].as_slice()].concat();
        let private = [
            Saved { name: "load addresses", contents: b"400000 1000 \n" },
            Saved { name: "`state`", contents: &contents },
        ];
        let private = private::encode(private.into_iter());
        let excluded = layout.statics + 4096..layout.statics + 4100;
        let statics_of = std::slice::from_ref(&statics);
        let built = Coverage::build(&layout, statics_of, &heap, [&[excluded], &[]], &private);
        let (coverage, mut line) = built.expect("it fits");
        let mut memory = vec![0; layout.heap + self.heap as usize - layout.statics];
        let mut put = |at: usize, word: u64| {
            memory[at - layout.statics..][..8].copy_from_slice(&word.to_le_bytes());
        };
        put(statics.start + 16, 4711);
        put(statics.start + 24, u64::from(pe.0));
        put(statics.start + 32, super::heap_at(&layout) + array as u64);
        (0..self.cells()).for_each(|nth| put(layout.heap + array + nth * 8, cell(pe, nth)));
        for piece in coverage.pieces(line.len()..coverage.len()) {
            line.extend_from_slice(&memory[piece.at - layout.statics..][..piece.len]);
        }
        line
    }

    fn order(&self, number: u64, base: Option<u64>) -> Order {
        let share = ParityShare { pe: Pe(0), chunks: 1, held: 1 };
        let base = base.map(CheckpointNumber);
        let (compress, incremental) = (self.level, true);
        let how = How { memory: 1 << 20, rate: 0, compress, checksum: true, incremental, base };
        Order {
            job: JOB,
            sets: JOB,
            n_pes: PES,
            heap_len: self.heap,
            number: CheckpointNumber(number),
            folder: PathBuf::new(),
            pes: Vec::new(),
            parity: self.scheme.map(|_| share).into_iter().collect(),
            how,
            program: program(),
        }
    }

    /// Returns the folder of the sets with the files of a PE.
    fn home(&self, pe: Pe) -> PathBuf {
        match self.scheme {
            Some(_) => sets::node_folder(self.folder, pe.0),
            None => self.folder.to_owned(),
        }
    }

    /// Makes checkpoint `number` a set of that number, which may refer to `base`.
    pub fn write(&mut self, number: u64, base: Option<u64>, cell: Cells) -> Manifest {
        self.write_as(number, number, base, cell)
    }

    fn write_as(&mut self, number: u64, set: u64, base: Option<u64>, cell: Cells) -> Manifest {
        let lines: Vec<Vec<u8>> = Pe::all(PES as usize).map(|pe| self.line(pe, cell)).collect();
        let code = self.scheme.map(code);
        let parity: Vec<Option<Vec<u8>>> = match &code {
            Some(code) => parity(code, &lines).into_iter().map(Some).collect(),
            None => vec![None; PES as usize],
        };
        let (order, layout, mut all) = (self.order(number, base), self.layout(), Files::default());
        let parts: BTreeSet<PathBuf> = Pe::all(PES as usize).map(|pe| self.home(pe)).collect();
        let part = |home: &Path| sets::part_folder(home, JOB, order.number);
        for ((pe, bytes), parity) in Pe::all(PES as usize).zip(lines).zip(parity) {
            let folder = part(&self.home(pe));
            fs::create_dir_all(&folder).expect("a folder");
            let (stop, line) = (AtomicU64::new(0), bytes.len());
            let data = Bytes { line, bytes };
            let parity = parity.map(|bytes| Bytes { line, bytes });
            let read = |pieces: std::sync::mpsc::SyncSender<super::output::Piece>| {
                read_data(&order, (pe, &layout), &data, &pieces, &stop)?;
                let mut parity = parity.iter();
                parity.try_for_each(|it| read_parity(&order, pe, it, &pieces, &stop))
            };
            let pasts = &mut self.pasts[pe.at()];
            let written = transfer(&order, (&folder, pasts), 4, &stop, read);
            let (files, ()) = written.expect("written");
            all.data.extend(files.data);
            all.parity.extend(files.parity);
            all.raw += files.raw;
            all.bases.extend(files.bases);
        }
        let manifest = self.manifest(order.number, all, code);
        for home in &parts {
            sets::commit(home, &part(home), &manifest.encode(), set).expect("a set");
        }
        manifest
    }

    fn manifest(&self, number: CheckpointNumber, all: Files, code: Option<Code>) -> Manifest {
        let entries = |files: Vec<(Pe, Entry)>| files.into_iter().map(|(_, entry)| entry).collect();
        let parity = code.map(|code| Parity { code, entries: entries(all.parity) });
        Manifest {
            job: JOB,
            number,
            heap_len: self.heap,
            seconds: 1,
            mode: "raid5".into(),
            program: "p".into(),
            entries: entries(all.data),
            raw: (self.level > 0 || !all.bases.is_empty()).then_some(all.raw),
            bases: all.bases.into_iter().collect(),
            parity,
            pages: Vec::new(),
        }
    }
}

fn code(scheme: &str) -> Code {
    let parity = if scheme == "rs" { 2 } else { 1 };
    let order_of = vec![Pe(2), Pe(0), Pe(3), Pe(1)];
    Code { scheme: scheme.to_owned(), parity, groups: vec![order_of] }
}

/// Computes the parity that each PE keeps.
fn parity(code: &Code, lines: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let group = &code.groups().expect("a layout")[0];
    let chunk = group.chunk_len(lines[0].len());
    let data = |place: usize, nth: usize| {
        let mut line = lines[group.members[place].at()].clone();
        line.resize(group.layout.chunks() * chunk, 0);
        line[nth * chunk..(nth + 1) * chunk].to_vec()
    };
    let parity = |pe: Pe| {
        let place = group.members.iter().position(|&it| it == pe).expect("a member");
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
    Pe::all(PES as usize).map(parity).collect()
}

/// Makes a set in one folder; returns it.
pub fn shared(folder: &Folder, level: u32) -> PathBuf {
    Writer::new(&folder.0, None, level, HEAP).write_as(NUMBER, SET, None, &cell);
    folder.0.join(format!("set-{SET}"))
}

/// Makes a set on the disks of four nodes.
pub fn local(folder: &Folder, scheme: &str, level: u32) -> MadeSet {
    Writer::new(&folder.0, Some(scheme), level, HEAP).write_as(NUMBER, SET, None, &cell);
    MadeSet(folder.0.clone())
}
