//! Tests of the heap: rules one by one, then random calls against a model, then hostile bytes.

use super::*;

/// SplitMix64: small, seeded, the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_add(1);
        mix(self.0 as usize, 1) as usize
    }
    fn below(&mut self, n: usize) -> usize {
        self.next() % n
    }
}

/// Checks every invariant of the module doc from the outside and from the inside.
fn check(heap: &Heap) {
    let mut end = 0;
    let mut gaps = BTreeMap::new();
    let mut used = 0;
    for (&at, &size) in &heap.blocks {
        assert!(at >= end && at % GRANULE == 0 && size > 0);
        if at > end {
            gaps.insert(end, at - end);
        }
        end = at + block_len(size);
        used += block_len(size);
    }
    assert!(end <= heap.len);
    if end < heap.len {
        gaps.insert(end, heap.len - end);
    }
    assert_eq!(heap.free_at, gaps);
    let by_len: BTreeSet<_> = gaps.iter().map(|(&at, &len)| (len, at)).collect();
    assert_eq!(heap.free_by_len, by_len);
    assert_eq!(heap.used(), used);
    let sum = heap.blocks.iter().map(|(&at, &size)| mix(at, size));
    let digest = sum.fold(mix(heap.len, usize::MAX), u64::wrapping_add);
    assert_eq!(heap.digest(), digest);
}

#[test]
fn best_fit_takes_the_shortest_then_the_lowest() {
    let mut h = Heap::new(4096);
    let at: Vec<usize> = [128, 64, 64, 64, 64, 64, 128].map(|n| h.alloc(n, 1).unwrap()).into();
    assert_eq!(at, [0, 128, 192, 256, 320, 384, 448]);
    for i in [0, 2, 4] {
        h.free(at[i]).unwrap();
    }
    assert_eq!(h.alloc(1, 1), Some(192));
    assert_eq!(h.alloc(1, 1), Some(320));
    assert_eq!(h.alloc(1, 1), Some(0));
    assert_eq!(h.alloc(65, 1), Some(576));
    check(&h);
}

#[test]
fn alignment_is_of_addresses() {
    let origin = 3 << 21;
    for align in [1 << 12, 1 << 21, 1 << 22, 1 << 24] {
        let mut h = Heap::new(1 << 25);
        let at = h.alloc_from(origin, 100, align).unwrap();
        assert!((origin + at).is_multiple_of(align) && at < align);
        check(&h);
    }
    assert_eq!(Heap::new(1 << 20).alloc_from(origin, 1, 1 << 22), None);
    assert_eq!(Heap::new(1 << 20).alloc_from(usize::MAX - 63, 1, 1 << 22), None);
}

#[test]
fn alignment_leaves_the_front_free() {
    let mut h = Heap::new(1 << 16);
    h.alloc(1, 1).unwrap();
    assert_eq!(h.alloc(100, 4096), Some(4096));
    assert_eq!(h.alloc(64, 8), Some(64));
    assert_eq!(h.alloc(4096, 1 << 15), Some(1 << 15));
    assert_eq!(h.alloc(1, 1 << 16), None);
    assert_eq!(h.alloc(1, 1 << 63), None);
    check(&h);
}

#[test]
fn refused_allocations_change_nothing() {
    let mut h = Heap::new(1000);
    assert_eq!(h.capacity(), 960);
    let empty = h.clone();
    for (size, align) in [(0, 1), (1, 0), (1, 3), (961, 1), (usize::MAX, 1), (usize::MAX - 63, 64)]
    {
        assert_eq!(h.alloc(size, align), None);
    }
    assert_eq!(h, empty);
    assert_eq!(h.alloc(960, 1), Some(0));
    assert_eq!(h.alloc(1, 1), None);
    assert_eq!(h.free(0), Ok(960));
    assert_eq!(h, empty);
    assert_eq!(Heap::new(63).alloc(1, 1), None);
}

#[test]
fn wrong_frees_are_named() {
    let mut h = Heap::new(4096);
    h.alloc(200, 1).unwrap();
    let b = h.alloc(64, 1).unwrap();
    h.free(b).unwrap();
    let before = h.clone();
    assert_eq!(h.free(b), Err(HeapError::AlreadyFree { offset: b }));
    assert_eq!(h.free(64), Err(HeapError::InsideBlock { offset: 64, block: 0 }));
    assert_eq!(h.free(3), Err(HeapError::InsideBlock { offset: 3, block: 0 }));
    assert_eq!(h.free(4096), Err(HeapError::Unknown { offset: 4096, len: 4096 }));
    assert_eq!(h.free(1001), Err(HeapError::Unknown { offset: 1001, len: 4096 }));
    assert_eq!(h.resize(b, 1), Err(HeapError::AlreadyFree { offset: b }));
    assert_eq!(h.resize(0, 0), Err(HeapError::ZeroSize { offset: 0 }));
    assert_eq!(h, before);
}

#[test]
fn resize_in_place() {
    let mut h = Heap::new(1024);
    let a = h.alloc(100, 1).unwrap();
    let b = h.alloc(100, 1).unwrap();
    assert_eq!((a, b), (0, 128));
    assert_eq!(h.resize(a, 128), Ok(true));
    assert_eq!(h.resize(a, 129), Ok(false));
    assert_eq!(h.size_of(a), Some(128));
    assert_eq!(h.resize(b, 896), Ok(true));
    assert_eq!(h.used(), 1024);
    assert_eq!(h.resize(b, 897), Ok(false));
    assert_eq!(h.resize(b, usize::MAX), Ok(false));
    assert_eq!(h.resize(b, 1), Ok(true));
    assert_eq!(h.alloc(1, 1), Some(192));
    assert_eq!(h.resize(a, 1), Ok(true));
    assert_eq!(h.alloc(1, 1), Some(64));
    check(&h);
}

#[test]
fn block_at_covers_what_was_asked_for() {
    let mut h = Heap::new(1024);
    h.alloc(100, 1).unwrap();
    assert_eq!(h.block_at(0), Some(0..100));
    assert_eq!(h.block_at(99), Some(0..100));
    assert_eq!(h.block_at(100), None);
    assert_eq!(h.block_at(500), None);
}

#[test]
fn live_swallows_short_gaps_only() {
    let mut h = Heap::new(1 << 20);
    let blocks: Vec<usize> = (0..300).map(|_| h.alloc(64, 1).unwrap()).collect();
    let whole = 0..300 * 64;
    assert_eq!(h.live(), std::slice::from_ref(&whole));
    for b in &blocks[1..64] {
        h.free(*b).unwrap();
    }
    assert_eq!(h.live(), std::slice::from_ref(&whole), "63 granules are swallowed");
    h.free(blocks[64]).unwrap();
    assert_eq!(h.live(), [0..64, 65 * 64..300 * 64], "64 are 4096 bytes and are not");
    assert!(Heap::new(1 << 20).live().is_empty());
}

#[test]
fn equal_blocks_are_equal_heaps_whatever_the_history() {
    let mut a = Heap::new(1 << 16);
    let mut b = a.clone();
    a.alloc(128, 1).unwrap();
    b.alloc(64, 1).unwrap();
    b.alloc(64, 1).unwrap();
    assert_ne!(a.digest(), b.digest());
    b.free(64).unwrap();
    b.resize(0, 128).unwrap();
    assert_eq!((a.digest(), a.encode()), (b.digest(), b.encode()));
    assert_eq!(a, b);
    assert_ne!(Heap::new(64).digest(), Heap::new(128).digest());
}

/// Makes random calls; paints every block in a model of the memory to reveal overlaps.
fn model(seed: u64, len: usize, steps: usize) -> Heap {
    let mut r = Random(seed);
    let mut heap = Heap::new(len);
    let mut paint = vec![0usize; heap.capacity() / GRANULE];
    let mut live: Vec<(usize, usize)> = Vec::new();
    let cells = |at: usize, size: usize| at / GRANULE..(at + size).div_ceil(GRANULE);
    for id in 1..=steps {
        let magnitude = 1 + r.below(12);
        let size = 1 + r.below(1 << magnitude);
        match r.below(10) {
            0..5 => {
                let align = 1 << r.below(13);
                let Some(at) = heap.alloc(size, align) else { continue };
                assert!(at.is_multiple_of(align));
                assert!(paint[cells(at, size)].iter().all(|&c| c == 0));
                paint[cells(at, size)].fill(id);
                live.push((at, size));
            }
            5..8 if !live.is_empty() => {
                let (at, size) = live.swap_remove(r.below(live.len()));
                paint[cells(at, size)].fill(0);
                assert_eq!(heap.free(at), Ok(size));
                assert!(heap.free(at).is_err());
            }
            8 if !live.is_empty() => {
                let i = r.below(live.len());
                let (at, old) = live[i];
                if heap.resize(at, size).unwrap() {
                    let new = cells(at, size);
                    let grown = new.start.max(cells(at, old).end)..new.end;
                    assert!(grown.is_empty() || paint[grown].iter().all(|&c| c == 0));
                    paint[cells(at, old)].fill(0);
                    paint[new].fill(id);
                    live[i].1 = size;
                }
                assert_eq!(heap.size_of(at), Some(live[i].1));
            }
            _ => {
                let bytes = heap.encode();
                assert_eq!(bytes.len(), heap.encoded_len());
                let back = Heap::decode(&bytes).unwrap();
                assert_eq!(back, heap);
                heap = back;
            }
        }
        assert_eq!(heap.blocks(), live.len());
        assert_eq!(heap.used(), paint.iter().filter(|&&c| c != 0).count() * GRANULE);
        check(&heap);
    }
    heap
}

#[test]
fn random_calls_keep_every_invariant() {
    for seed in 0..20 {
        let a = model(seed * 1_000_000, 20_000 + 7_777 * seed as usize, 600);
        let b = model(seed * 1_000_000, 20_000 + 7_777 * seed as usize, 600);
        assert_eq!(a.encode(), b.encode(), "same calls, same state");
    }
}

#[test]
fn hostile_bytes_are_refused() {
    let heap = model(42, 1 << 16, 200);
    let good = heap.encode();
    for at in 0..good.len() {
        assert!(matches!(Heap::decode(&good[..at]), Err(HeapError::Length { .. })));
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            assert!(Heap::decode(&bad).is_err(), "byte {at} bit {bit}");
        }
    }
    let mut longer = good.clone();
    longer.push(0);
    assert!(matches!(Heap::decode(&longer), Err(HeapError::Length { .. })));
    assert_eq!(Heap::decode_prefix(&longer), Ok((heap, good.len())));
}

/// Builds a stored heap of arbitrary blocks with a matching digest.
fn forged(len: u64, count: u64, pairs: &[(u64, u64)]) -> Vec<u8> {
    let mut words = vec![u64::from_le_bytes(*b"RSHEAP01"), len, count];
    let mut digest = mix(len as usize, usize::MAX);
    for &(at, size) in pairs {
        words.extend([at, size]);
        digest = digest.wrapping_add(mix(at as usize, size as usize));
    }
    words.push(digest);
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

#[test]
fn forged_blocks_are_refused() {
    assert!(Heap::decode(&forged(4096, 2, &[(0, 64), (64, 1)])).is_ok());
    let refused: [&[(u64, u64)]; 9] = [
        &[(0, 0)],
        &[(1, 64)],
        &[(0, 4097)],
        &[(4096, 1)],
        &[(0, 65), (64, 64)],
        &[(64, 64), (0, 64)],
        &[(0, u64::MAX)],
        &[(u64::MAX - 63, 64)],
        &[(0, 64), (0, 64)],
    ];
    for pairs in refused {
        let error = Heap::decode(&forged(4096, pairs.len() as u64, pairs));
        assert!(matches!(error, Err(HeapError::BadBlock { .. })), "{pairs:?}: {error:?}");
    }
    assert_eq!(Heap::decode(&forged(4095, 0, &[])), Err(HeapError::BadLen { len: 4095 }));
    for count in [1, u64::MAX, u64::MAX / 16, 1 << 60] {
        assert!(matches!(Heap::decode(&forged(4096, count, &[])), Err(HeapError::Length { .. })));
    }
}

#[test]
fn garbage_never_panics() {
    let mut r = Random(7);
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..r.below(120)).map(|_| r.next() as u8).collect();
        if r.below(2) == 0 && bytes.len() >= 24 {
            bytes[..8].copy_from_slice(b"RSHEAP01");
            bytes[16..24].copy_from_slice(&(r.below(6) as u64).to_le_bytes());
        }
        assert!(Heap::decode(&bytes).is_err());
    }
}
