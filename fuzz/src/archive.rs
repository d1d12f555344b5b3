//! Files of a checkpoint on disk, and their compressed tiles.

use raidshmem_archive::choose::{Wanted, choose};
use raidshmem_archive::code::Code;
use raidshmem_archive::compress::{TileCompressor, TileDecompressor};
use raidshmem_archive::manifest::{Manifest, Parity};
use raidshmem_archive::owner::Owner;
use raidshmem_archive::parity::ParityHead;
use raidshmem_archive::part::{Area, Extent, Head, Object, Region};
use raidshmem_archive::program;
use raidshmem_archive::references::{Base, References};
use raidshmem_archive::tiles::data_at;
use raidshmem_core::disk::{Content, Entry, Held};
use raidshmem_core::heap::Heap;
use raidshmem_core::layout::TILE;
use raidshmem_core::placement::pages::{PageRun, PageRuns};
use raidshmem_core::quantity::{CheckpointNumber, Pe};

/// Parses the head of a file of a set, and a program: accepted input is written as identical bytes.
pub fn archive(bytes: &[u8]) {
    if let Ok(head) = Head::decode(bytes) {
        let len = Head::len_of(bytes).expect("it was read");
        assert_eq!(head.encode(), bytes[..len]);
        assert_eq!(head.sums.len() as u64, head.data_len().div_ceil(TILE as u64));
        assert!(head.allocator().is_ok() && data_at(len) >= len as u64);
        let places = head.tiles().places(data_at(len));
        assert!(places.is_sorted() && places.len() == head.sums.len() + 1);
        assert!(places.last() <= Some(&(data_at(len) + head.data_len())));
    }
    if let Ok(head) = ParityHead::decode(bytes) {
        assert_eq!(head.encode(), bytes[..ParityHead::len_of(bytes).expect("it was read")]);
    }
    if let Ok(manifest) = Manifest::decode(bytes) {
        assert_eq!(manifest.encode(), bytes);
        chosen(&manifest, bytes);
    }
    assert!(!program::read(bytes).build.is_empty());
    tile(bytes);
}

/// Decompresses a tile: writes no byte outside its buffer; an accepted tile can be stored again.
fn tile(stored: &[u8]) {
    let (mut buffer, mut again) = (vec![0xa5; TILE + 64], [0; TILE]);
    let mut decompressor = TileDecompressor::default();
    let is_taken = decompressor.decompress(stored, &mut buffer[..TILE]);
    assert!(buffer[TILE..].iter().all(|&byte| byte == 0xa5));
    if is_taken {
        let mut compressor = TileCompressor::new(1).expect("a level");
        let stored = compressor.compress(&buffer[..TILE]);
        assert!(decompressor.decompress(stored, &mut again) && again == buffer[..TILE]);
    }
}

/// Checks that a job resumes from the only disk that has everything the manifest names.
fn chosen(manifest: &Manifest, bytes: &[u8]) {
    let files = |entries: &[Entry], content| {
        let of = |(pe, entry): (Pe, &Entry)| (content, pe, *entry);
        Pe::all(entries.len()).zip(entries).map(of).collect::<Vec<_>>()
    };
    let held = Held {
        folder: "set".into(),
        job: manifest.job,
        number: manifest.number,
        set: Some((1, bytes.to_vec())),
        files: files(&manifest.entries, Content::Data),
    };
    let home = vec![0; manifest.entries.len()];
    let (scheme, may_be) = (None, &|_: &_| true);
    let wanted = Wanted { set: None, home: &home, scheme, damages: &[], may_be, are_nodes: false };
    let chosen = choose(&[vec![held]], &wanted).expect("all is there");
    assert!(chosen.lost.is_empty() && chosen.host_of == [0] && chosen.groups.is_none());
}

/// Returns heads and manifests.
pub fn examples() -> Vec<Vec<u8>> {
    let extent = |area, offset, len| Extent { area, offset, len };
    let number = CheckpointNumber(3);
    let owner = Owner { job: 7, number, pe: Pe(1), n_pes: 2, heap_len: 1 << 20 };
    let head = Head {
        owner,
        heap_at: 1 << 45,
        build: vec![9; 20],
        program: "jacobi".into(),
        image: 1 << 22..1 << 23,
        heap: Heap::new(1 << 20).encode(),
        excluded: vec![extent(Area::Heap, 64, 64)],
        extents: vec![extent(Area::Heap, 0, 4096), extent(Area::Statics, 8, 100)],
        regions: vec![Region { name: "step".into(), len: 8 }],
        objects: vec![Object { name: "x".into(), file: "a.c".into(), offset: 8, len: 8 }],
        begin: Vec::new(),
        stored: Vec::new(),
        references: References::default(),
        sums: vec![5],
    };
    let (build, stored, references) = (vec![9; 20], Vec::new(), References::default());
    let parity = ParityHead { owner, build, line: 8296, stored, references, sums: vec![6] };
    let manifest = Manifest {
        job: 7,
        number,
        heap_len: 1 << 20,
        seconds: 1,
        mode: "raid5".into(),
        program: "jacobi".into(),
        entries: vec![Entry { len: 9000, sum: 1 }; 2],
        raw: None,
        bases: Vec::new(),
        parity: None,
        pages: Vec::new(),
    };
    let code = Code { scheme: "raid5".into(), parity: 1, groups: vec![vec![Pe(1), Pe(0)]] };
    let entries = manifest.entries.clone();
    let local = Manifest { parity: Some(Parity { code, entries }), ..manifest.clone() };
    let plain = [head.encode(), manifest.encode(), parity.encode(), local.encode()];
    let base = |number| Base { number: CheckpointNumber(number), entry: Entry { len: 9, sum: 1 } };
    let runs =
        vec![PageRun { first: 8, pages: 9, node: 0 }, PageRun { first: 17, pages: 1, node: 1 }];
    let runs = PageRuns::of(runs).expect("they ascend");
    let references = References { bases: vec![base(1), base(2)], sources: vec![2] };
    let refers = [
        Head { references: references.clone(), ..head.clone() }.encode(),
        ParityHead { references, ..parity.clone() }.encode(),
        Manifest { bases: vec![CheckpointNumber(2)], raw: Some(50_000), ..local.clone() }.encode(),
        Manifest { pages: vec![runs.clone(), runs], ..local.clone() }.encode(),
    ];
    let head = Head { stored: vec![1000], ..head };
    let parity = ParityHead { stored: vec![1000], ..parity };
    let local = Manifest { raw: Some(50_000), ..local };
    let mut compressor = TileCompressor::new(3).expect("a level");
    let tile: Vec<u8> = (0..TILE).map(|at| (at / 7) as u8 & 15).collect();
    let compressed =
        [head.encode(), parity.encode(), local.encode(), compressor.compress(&tile).to_vec()];
    plain.into_iter().chain(refers).chain(compressed).collect()
}
