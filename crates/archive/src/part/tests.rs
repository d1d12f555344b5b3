//! Tests that a head survives encoding and decoding, and that other bytes are rejected.

use raidshmem_core::disk::Entry;
use raidshmem_core::message::HEAP_MAX;
use raidshmem_core::quantity::{CheckpointNumber, Pe};

use super::*;
use crate::bytes::tests::nothing_else_is_taken;
use crate::references::Base;

/// Returns a head with every field filled.
pub(crate) fn head() -> Head {
    let mut heap = Heap::new(1 << 20);
    heap.alloc(100, 64).expect("free memory");
    heap.alloc(70_000, 64).expect("free memory");
    let extent = |area, offset, len| Extent { area, offset, len };
    let number = CheckpointNumber(12);
    Head {
        owner: Owner { job: 77, number, pe: Pe(1), n_pes: 4, heap_len: 1 << 20 },
        heap_at: 1 << 45,
        build: vec![1, 2, 3],
        program: "jacobi".into(),
        image: 1 << 22..1 << 23,
        heap: heap.encode(),
        excluded: vec![extent(Area::Heap, 4096, 64)],
        extents: vec![extent(Area::Heap, 0, 4096), extent(Area::Statics, 64, 200_000)],
        regions: vec![Region { name: "step".into(), len: 8 }],
        objects: vec![Object { name: "x".into(), file: "a.c".into(), offset: 64, len: 8 }],
        begin: vec![9; 4096],
        stored: Vec::new(),
        references: References::default(),
        sums: vec![1, 2, 3, 4],
    }
}

/// Returns such a head with compressed tiles.
fn compressed() -> Head {
    Head { stored: vec![1 << 16, 1, 999, 7], ..head() }
}

/// Returns such a head with tiles in files of two earlier sets.
fn referring() -> Head {
    let base = |number: u32| Base {
        number: CheckpointNumber(number.into()),
        entry: Entry { len: 9000, sum: number },
    };
    let references = References { bases: vec![base(3), base(9)], sources: vec![0, 1, 2, 2] };
    Head { references, ..head() }
}

#[test]
fn a_head_is_read_back_as_it_was_written() {
    let both = Head { stored: vec![9, 0, 0, 0], ..referring() };
    for head in [head(), compressed(), referring(), both] {
        let bytes = head.encode();
        assert_eq!(Head::decode(&bytes).as_ref(), Ok(&head));
        assert_eq!(Head::len_of(&bytes), Ok(bytes.len()));
        let longer = [bytes.clone(), vec![9; 5000]].concat();
        assert_eq!(Head::decode(&longer), Ok(head), "what follows is not the head's");
    }
}

/// A head without compressed tiles has the version that older builds read.
#[test]
fn only_a_head_of_compressed_tiles_has_the_new_version_and_their_lengths() {
    let (plain, new) = (head().encode(), compressed().encode());
    assert_eq!((plain[8], new[8], new.len()), (3, 4, plain.len() + 8 + 4 * 4));
    let (body, sums) = (plain.len() - 4 - 4 * 4 - 8, 8 + 4 * 4);
    assert_eq!(plain[16..body], new[16..body]);
    assert_eq!(plain[body..body + sums], new[body + sums..body + 2 * sums]);
    assert_eq!(referring().encode()[8], 5);
}

#[test]
fn a_head_that_is_cut_or_has_a_flipped_bit_anywhere_is_refused() {
    nothing_else_is_taken(head().encode(), Head::decode);
    nothing_else_is_taken(compressed().encode(), Head::decode);
    nothing_else_is_taken(referring().encode(), Head::decode);
}

#[test]
fn an_inconsistent_head_is_refused() {
    type Change = fn(&mut Head);
    let changes: [Change; 22] = [
        |head| head.owner.pe = Pe(4),
        |head| head.owner.heap_len = HEAP_MAX + 1,
        |head| head.owner.heap_len = 4096,
        |head| head.heap.truncate(20),
        |head| head.extents[0].len = 1 << 21,
        |head| head.extents[0].offset = u64::MAX,
        |head| head.excluded[0].offset = 1 << 20,
        |head| head.regions[0].name.clear(),
        |head| head.regions.push(head.regions[0].clone()),
        |head| head.regions[0].len = u64::MAX,
        |head| head.sums.truncate(3),
        |head| head.stored = vec![1; 3],
        |head| head.stored = vec![1, 1, 0, 1],
        |head| head.stored = vec![(1 << 16) + 1, 1, 1, 1],
        |head| head.stored = vec![1, 1, 1, u32::MAX],
        |head| head.references.sources = vec![0, 1, 2, 3],
        |head| head.references.sources = vec![0, 1, 2],
        |head| head.references.bases[1].number = head.owner.number,
        |head| head.references.bases[1].number = CheckpointNumber(13),
        |head| head.references.bases[0].number = CheckpointNumber(9),
        |head| head.references.bases = vec![head.references.bases[0]; 8],
        |head| head.stored = vec![1; 4],
    ];
    for (nth, change) in changes.into_iter().enumerate() {
        let mut head = if nth < 15 { head() } else { referring() };
        change(&mut head);
        let refused = Head::decode(&head.encode());
        assert!(matches!(refused, Err(FormatError::Impossible(_))), "{nth}: {refused:?}");
    }
}

#[test]
fn another_version_and_another_file_are_named() {
    let bytes = head().encode();
    let mut newer = bytes.clone();
    for found in [2, 6] {
        newer[8] = found;
        let version = FormatError::Version { found: found.into(), oldest: 3, newest: 5 };
        assert_eq!(Head::decode(&newer), Err(version));
    }
    let mut other = bytes;
    other[0] = b'X';
    assert_eq!(Head::decode(&other), Err(FormatError::Magic("file of a PE")));
}
