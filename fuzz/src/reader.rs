//! The reader of objects, over a set on a disk whose heads are hostile but have right checksums; so
//! are those of the older files to which they refer.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use raidshmem_archive::code::Code;
use raidshmem_archive::manifest::{Manifest, Parity};
use raidshmem_archive::owner::Owner;
use raidshmem_archive::parity::ParityHead;
use raidshmem_archive::part::{Area, Extent, Head, Object, Region};
use raidshmem_archive::references::{Base, References};
use raidshmem_archive::tiles::data_at;
use raidshmem_codec::crc::crc32;
use raidshmem_core::disk::Entry;
use raidshmem_core::heap::Heap;
use raidshmem_core::layout::{Layout, TILE};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::store::private::{self, Saved};
use raidshmem_disk::reader::SetReader;

/// The most bytes of a file that is made.
const MOST: u64 = 1 << 20;

/// A folder that is removed with its value.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Reads every object of a set of two PEs. The head of both is `bytes`, with a right checksum. The
/// file of PE 1 is missing: it is decoded from its copy, the parity that PE 0 keeps.
pub fn reader(bytes: &[u8]) {
    let Some(head) = forged(bytes) else { return };
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("fuzz-reader-{}-{number}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    let Owner { job, number, heap_len, .. } = head.owner;
    let owner = |pe| Owner { job, number, pe: Pe(pe), n_pes: 2, heap_len };
    let data = vec![b'7'; head.data_len() as usize];
    let sums = |data: &[u8]| data.chunks(TILE).map(crc32).collect::<Vec<u32>>();
    let begin = head.begin.clone();
    let mut head = Head { owner: owner(0), stored: Vec::new(), sums: sums(&data), ..head };
    let line_len = head.memory_len() as usize;
    let mut line = [begin.as_slice(), data.as_slice()].concat();
    line.truncate(line_len);
    line.resize(line_len.next_multiple_of(TILE), 0);
    let (build, stored, line_len) = (Vec::new(), Vec::new(), line_len as u64);
    let (references, sums) = (References::default(), sums(&line));
    let parity = ParityHead { owner: owner(0), build, line: line_len, stored, references, sums };
    let file = |set: usize, name: &str, head: Vec<u8>, data: &[u8]| {
        let set = folder.0.join(format!("node-0/set-{set}"));
        fs::create_dir_all(&set).expect("a folder");
        let sum = head.last_chunk().copied().map_or(0, u32::from_le_bytes);
        let mut bytes = head;
        bytes.resize(data_at(bytes.len()) as usize, 0);
        bytes.extend_from_slice(data);
        fs::write(set.join(name), &bytes).expect("written");
        Entry { len: bytes.len() as u64, sum }
    };
    for nth in 0..head.references.bases.len() {
        let (bases, base) = head.references.bases.split_at(nth);
        let Base { number, entry } = base[0];
        if entry.sum % 2 == 1 {
            continue; // there is no such file
        }
        let mut references = References::new(bases.to_vec(), head.sums.len());
        if entry.len % 2 == 1 {
            references.sources.fill(nth as u8); // it has nothing itself
        }
        let older = Head { owner: Owner { number, ..head.owner }, references, ..head.clone() };
        let entry = file(nth + 2, "pe-0", older.encode(), &here(&older, &data));
        head.references.bases[nth].entry = entry;
    }
    let entry = file(1, "pe-0", head.encode(), &here(&head, &data));
    let copy = file(1, "parity-0", parity.encode(), &line);
    let code = Code { scheme: "mirror".into(), parity: 1, groups: vec![vec![Pe(0), Pe(1)]] };
    let manifest = Manifest {
        job,
        number,
        heap_len,
        seconds: 1,
        mode: "double".into(),
        program: String::new(),
        entries: vec![entry; 2],
        raw: None,
        bases: Vec::new(),
        parity: Some(Parity { code, entries: vec![copy; 2] }),
        pages: Vec::new(),
    };
    fs::write(folder.0.join("node-0/set-1/manifest"), manifest.encode()).expect("written");
    let Ok(reader) = SetReader::open(&folder.0.display().to_string()) else { return };
    (0..3).for_each(|pe| read(&reader, Pe(pe)));
}

/// Returns the tiles of `data` that a file with this head holds itself.
fn here(head: &Head, data: &[u8]) -> Vec<u8> {
    let tiles = data.chunks(TILE).enumerate();
    tiles
        .filter(|(tile, _)| head.tiles().is_here(*tile))
        .flat_map(|(_, tile)| tile)
        .copied()
        .collect()
}

/// Reads all of each object of a PE, and too much.
fn read(reader: &SetReader, pe: Pe) {
    let Ok(objects) = reader.objects(pe) else { return };
    for object in objects {
        assert!(reader.find(&object.name, pe).is_ok_and(|found| found == object));
        let mut bytes = vec![0; object.len.min(MOST) as usize];
        let _ = reader.read(&object.name, pe, 0, &mut bytes);
        for (offset, len) in [(1, object.len), (object.len, 1), (u64::MAX, 2)] {
            assert!(reader.check(&object.name, pe, offset, len).is_err() || len == 0);
        }
    }
}

/// Returns the head that the bytes are once their checksum is right, if its file is small.
fn forged(bytes: &[u8]) -> Option<Head> {
    let len = Head::len_of(bytes).ok().filter(|&len| len <= bytes.len())?;
    let mut bytes = bytes[..len].to_vec();
    let sum = crc32(&bytes[..len - 4]);
    bytes[len - 4..].copy_from_slice(&sum.to_le_bytes());
    let head = Head::decode(&bytes).ok()?;
    let small = head.data_len() <= MOST && head.memory_len() <= MOST && head.owner.number.0 > 0;
    small.then_some(head)
}

/// Returns heads as agents write them, without references and with some.
pub fn examples() -> Vec<Vec<u8>> {
    let (heap_len, mut heap) = (1u64 << 20, Heap::new(1 << 20));
    (1..4).for_each(|nth| _ = heap.alloc(nth * 1000, 64));
    let layout = Layout::new(heap_len as usize, 2);
    let private = private::encode([Saved { name: "`state`", contents: b"12345678" }].into_iter());
    let statics = layout.statics..layout.statics + 4096;
    let built = Coverage::build(&layout, &[statics], &heap, [&[], &[]], &private);
    let (coverage, begin) = built.expect("it fits");
    let extent = |at: usize, len: usize| {
        let (area, from) = match at >= layout.heap {
            true => (Area::Heap, layout.heap),
            false => (Area::Statics, layout.statics),
        };
        Extent { area, offset: (at - from) as u64, len: len as u64 }
    };
    let pieces = coverage.pieces(begin.len()..coverage.len());
    let object =
        |name: &str, offset, len| Object { name: name.into(), file: "a.c".into(), offset, len };
    let number = CheckpointNumber(3);
    let head = Head {
        owner: Owner { job: 7, number, pe: Pe(0), n_pes: 2, heap_len },
        heap_at: 0x3737_3737_3737_3737 - 1024, // the data says 7
        build: vec![9; 20],
        program: "jacobi".into(),
        image: 0..0,
        heap: heap.encode(),
        excluded: Vec::new(),
        extents: pieces.map(|piece| extent(piece.at, piece.len)).collect(),
        regions: vec![Region { name: "`state`".into(), len: 8 }],
        objects: vec![object("grid", 16, 8), object("rows", 32, 64), object("far", 4090, 40)],
        begin,
        stored: Vec::new(),
        references: References::default(),
        sums: Vec::new(),
    };
    let tiles = head.data_len().div_ceil(TILE as u64) as usize;
    let head = Head { sums: vec![0; tiles], ..head };
    let base =
        |number, len| Base { number: CheckpointNumber(number), entry: Entry { len, sum: 0 } };
    let refers = |bases: &[Base], source| {
        let references = References { bases: bases.to_vec(), sources: vec![source; tiles] };
        Head { references, ..head.clone() }.encode()
    };
    let two = [base(1, 0), base(2, 1)];
    vec![head.encode(), refers(&two[..1], 1), refers(&two, 1), refers(&two, 2)]
}
