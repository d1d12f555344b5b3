//! Tests with checkpoints that come while one is read: that one is written, or nothing.

use raidshmem_core::page::PAGE;
use raidshmem_core::protocol::operation::StorePart;

use super::*;
use crate::spill::SpillCopier;

const FIRST: CheckpointNumber = CheckpointNumber(1);
/// More spilled tiles than there are.
const ENOUGH: usize = 1000;

/// The private memory of a PE.
const PRIVATE: &[u8] = b"three";

/// A PE and its memory, right after the first checkpoint.
struct Overwriter {
    memory: Memory,
    /// The expected contents of its file and its parity file.
    data: Vec<u8>,
    parity: Vec<u8>,
    protection: Protection,
    pool: WorkerPool,
}

impl Overwriter {
    fn new(pe: Pe) -> Overwriter {
        let (memory, mut data, parity) = Memory::after(pe, FIRST);
        let (protection, pool) = (protection(), WorkerPool::new(1, process::usable()));
        let record = &memory.segment.header().snapshots[protection.snapshot_of(FIRST)];
        data.truncate(record.holds(JOB, FIRST).expect("it was sealed"));
        data.extend(PRIVATE); // the file holds it a second time
        Overwriter { memory, data, parity, protection, pool }
    }

    /// Makes checkpoint `number`, overwriting existing memory with junk.
    fn overwrite(&self, number: CheckpointNumber) {
        let junk = |len: usize| vec![number.0 as u8 ^ 0x5a; len.next_multiple_of(TILE)];
        self.make(number, &junk(self.data.len()), &junk(self.parity.len()));
    }

    /// Makes checkpoint `number` of these tiles of snapshot and parity.
    fn make(&self, number: CheckpointNumber, data: &[u8], parity: &[u8]) {
        let Memory { segment: own, part, layout, pe } = &self.memory;
        let (protection, pool) = (&self.protection, &self.pool);
        SpillCopier { own, part, pe: *pe, job: JOB, protection, pool, sharing: 1 }.keep(number);
        let (snapshot, slot) = (protection.snapshot_of(number), protection.slot_of(number));
        let parts = [
            (&own.header().snapshots[snapshot], layout.snapshots[snapshot], data),
            (&own.header().slots[slot], layout.slots[slot], parity),
        ];
        for (record, region, bytes) in parts {
            record.void();
            self.memory.write(region, number, bytes);
            record.seal(JOB, number, self.data.len() - PRIVATE.len());
        }
    }

    /// Makes several more checkpoints.
    fn go_on(&self) {
        (2..5).for_each(|number| self.overwrite(CheckpointNumber(number)));
    }

    /// Returns the bytes of memory that the spill occupies.
    fn spill(&self) -> u64 {
        let [from, _] = self.memory.layout.spills;
        let len = self.memory.layout.total - from;
        len as u64 - self.memory.part.absent(from, len)
    }

    fn spill_words(&self) -> &raidshmem_segment::spill::Spill {
        &self.memory.segment.header().spill
    }
}

fn order(of: &[&Overwriter]) -> Order {
    let shares = Code::shares(&protection());
    Order {
        job: JOB,
        sets: JOB,
        n_pes: PES,
        heap_len: HEAP,
        number: FIRST,
        folder: PathBuf::new(),
        pes: of.iter().map(|it| (it.memory.pe, it.memory.part.clone())).collect(),
        parity: of.iter().map(|it| shares[it.memory.pe.at()]).collect(),
        how: How { checksum: true, ..How::default() },
        program: SavedProgram::default(),
    }
}

/// Reads the data of an order, and calls `between` before taking each piece.
fn read_all(
    order: &Order,
    spilled_max: usize,
    mut between: impl FnMut(usize),
) -> (Result<u64, Failure>, Vec<Piece>) {
    let (pieces, queue) = sync_channel::<Piece>(0);
    let stop = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let claims = order.claims(spilled_max).expect("it can be mapped");
        let reader = scope.spawn(|| read(order, claims, pieces, &stop));
        let mut all = Vec::new();
        for piece in queue {
            between(all.len());
            all.push(piece);
        }
        (reader.join().expect("no panic"), all)
    })
}

/// Fails unless these are the files of `of`.
#[track_caller]
fn are_its(of: &Overwriter, pieces: &[Piece], what: &str) {
    let (mut data, mut parity, mut is_data) = (Vec::<u8>::new(), Vec::<u8>::new(), true);
    for piece in pieces {
        match piece {
            Piece::Begin(pe, Begin::Data(head)) => {
                assert_eq!((*pe, head.owner.number), (of.memory.pe, FIRST), "{what}");
                data.extend(&head.begin);
            }
            Piece::Begin(..) => is_data = false,
            Piece::Tile(bytes) if is_data => data.extend(bytes),
            Piece::Tile(bytes) => parity.extend(bytes),
        }
    }
    assert!(data == of.data, "data, {what}");
    assert!(parity == of.parity, "parity, {what}");
}

#[test]
fn files_belong_to_the_claimed_checkpoint_whenever_others_follow() {
    for after in 0.. {
        let of = Overwriter::new(Pe(1));
        let (result, pieces) = read_all(&order(&[&of]), ENOUGH, |taken| {
            if taken == after {
                of.go_on();
                let tiles = of.spill_words().copied(FIRST);
                let most = tiles * TILE + 2 * PAGE; // and their stamps
                assert!(of.spill() <= most as u64, "{} bytes for {tiles} tiles", of.spill());
            }
        });
        are_its(&of, &pieces, &format!("after {after} pieces"));
        let spill = result.expect("free memory");
        assert_eq!(of.spill(), 0, "it is given back");
        if after == 0 {
            assert!(spill > of.data.len() as u64 / 2, "most was to be copied, not {spill}");
        }
        if after > pieces.len() {
            assert_eq!(spill, 0, "nothing was to be copied");
            break;
        }
    }
}

#[test]
fn all_of_a_checkpoint_may_be_aside_before_its_first_tile_is_read() {
    let of = Overwriter::new(Pe(2));
    let (order, (pieces, queue)) = (order(&[&of]), sync_channel(100));
    let Memory { part, layout, pe, .. } = &of.memory;
    let claim =
        SnapshotPin::new(part.clone(), *layout, FIRST, true, ENOUGH).expect("it can be mapped");
    of.go_on();
    read_pe(&order, *pe, &claim, &pieces, &AtomicU64::new(0)).expect("free memory");
    drop(pieces);
    are_its(&of, &queue.into_iter().collect::<Vec<_>>(), "all spilled");
}

/// A checkpoint that is claimed before it is made is preserved whole, however many follow.
#[test]
fn a_checkpoint_claimed_ahead_is_kept_though_others_follow_at_once() {
    let third = CheckpointNumber(3);
    for claimed in [false, true] {
        let of = Overwriter::new(Pe(1));
        let order = Order { number: third, ..order(&[&of]) };
        let before = claimed.then(|| order.claims(ENOUGH).expect("it can be mapped"));
        let mut data = of.data[..of.data.len() - PRIVATE.len()].to_vec();
        data.resize(data.len().next_multiple_of(TILE), 0);
        of.overwrite(third.previous());
        of.make(third, &data, &of.parity);
        (4..9).for_each(|number| of.overwrite(CheckpointNumber(number)));
        let claims = before.unwrap_or_else(|| order.claims(ENOUGH).expect("it can be mapped"));
        let (pieces, queue) = sync_channel(100);
        let result = read(&order, claims, pieces, &AtomicU64::new(0));
        if !claimed {
            assert_eq!(result, Err(Failure::Late));
            continue;
        }
        let spill = result.expect("free memory");
        assert!(spill > of.data.len() as u64, "data and parity were to be spilled, not {spill}");
        let heads = |piece: &Piece| matches!(piece, Piece::Begin(..));
        assert_eq!(queue.iter().filter(heads).count(), 2, "data and parity");
        assert_eq!(of.spill(), 0, "it is given back");
    }
}

/// If the spill is too small, no set is written and no more tiles are copied than fit; tiles that
/// have been read are not spilled.
#[test]
fn a_checkpoint_that_does_not_fit_is_abandoned() {
    let of = Overwriter::new(Pe(0));
    let (result, _) = read_all(&order(&[&of]), 1, |taken| {
        if taken == 0 {
            of.go_on();
            assert!(of.spill_words().kept(StorePart::Snapshot, FIRST).is_some());
            let copied = of.spill_words().copied(FIRST);
            assert!(copied <= 1, "{copied} tiles"); // one tile of the slot was not read
        }
    });
    assert_eq!(result, Err(Failure::Overtaken));
    assert_eq!((of.spill(), of.spill_words().wanted()), (0, None));
}

/// The spill share of a PE that was read goes to the other PEs.
#[test]
fn the_spill_share_goes_to_pes_not_yet_read() {
    let tiles = |of: &Overwriter| (of.data.len() + of.parity.len()).div_ceil(TILE);
    for is_late in [false, true] {
        let pes = [Overwriter::new(Pe(0)), Overwriter::new(Pe(1))];
        let spilled_max = tiles(&pes[1]) + 1;
        let (result, pieces) = read_all(&order(&[&pes[0], &pes[1]]), spilled_max, |_| {
            // The second PE is overtaken at once, or when the first has been read.
            let is_read = pes[0].spill_words().wanted().is_none();
            let first = pes[1].spill_words().kept(StorePart::Snapshot, FIRST).is_none();
            if first && is_read == is_late {
                pes[1].go_on();
            }
        });
        match is_late {
            false => assert_eq!(result, Err(Failure::Overtaken)),
            true => {
                let second = |piece: &Piece| matches!(piece, Piece::Begin(Pe(1), _));
                let at = pieces.iter().position(second).expect("it begins");
                are_its(&pes[0], &pieces[..at], "the first");
                are_its(&pes[1], &pieces[at..], "the second");
            }
        }
    }
}

/// Reader and PE run concurrently, in any interleaving.
#[test]
fn a_checkpoint_at_any_moment_changes_nothing() {
    for turns in 0..400u64 {
        let of = Overwriter::new(Pe(1));
        let (pieces, queue) = sync_channel(100);
        let (order, stop) = (order(&[&of]), AtomicU64::new(0));
        let result = std::thread::scope(|scope| {
            let reader = || read(&order, order.claims(ENOUGH)?, pieces, &stop);
            let reader = scope.spawn(reader);
            while of.spill_words().wanted().is_none() && !reader.is_finished() {
                std::hint::spin_loop();
            }
            (0..turns * turns / 4).for_each(|_| std::hint::spin_loop());
            of.go_on();
            reader.join().expect("no panic")
        });
        result.expect("free memory");
        are_its(&of, &queue.into_iter().collect::<Vec<_>>(), &format!("after {turns} turns"));
    }
}
