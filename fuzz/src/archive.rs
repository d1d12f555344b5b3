//! Files of a checkpoint on disk.

use raidshmem_archive::manifest::Manifest;
use raidshmem_archive::part::{Area, Extent, Head, Object, Region};
use raidshmem_archive::program;
use raidshmem_core::disk::Entry;
use raidshmem_core::heap::Heap;
use raidshmem_core::layout::TILE;
use raidshmem_core::quantity::{CheckpointNumber, Pe};

/// What a file of a set begins with, and a program: what is taken is written as the same bytes.
pub fn archive(bytes: &[u8]) {
    if let Ok(head) = Head::decode(bytes) {
        let len = Head::len_of(bytes).expect("it was read");
        assert_eq!(head.encode(), bytes[..len]);
        assert_eq!(head.sums.len() as u64, head.data_len().div_ceil(TILE as u64));
        assert!(head.allocator().is_ok() && Head::data_at(len) >= len as u64);
    }
    if let Ok(manifest) = Manifest::decode(bytes) {
        assert_eq!(manifest.encode(), bytes);
    }
    assert!(!program::read(bytes).build.is_empty());
}

/// A head and a manifest.
pub fn examples() -> Vec<Vec<u8>> {
    let extent = |area, offset, len| Extent { area, offset, len };
    let head = Head {
        job: 7,
        number: CheckpointNumber(3),
        pe: Pe(1),
        n_pes: 2,
        heap_len: 1 << 20,
        heap_at: 1 << 45,
        build: vec![9; 20],
        heap: Heap::new(1 << 20).encode(),
        excluded: vec![extent(Area::Heap, 64, 64)],
        extents: vec![extent(Area::Heap, 0, 4096), extent(Area::Statics, 8, 100)],
        regions: vec![Region { name: "step".into(), len: 8 }],
        objects: vec![Object { name: "x".into(), file: "a.c".into(), offset: 8, len: 8 }],
        sums: vec![5],
    };
    let manifest = Manifest {
        job: 7,
        number: CheckpointNumber(3),
        heap_len: 1 << 20,
        seconds: 1,
        mode: "raid5".into(),
        program: "jacobi".into(),
        entries: vec![Entry { len: 9000, sum: 1 }; 2],
    };
    vec![head.encode(), manifest.encode()]
}
