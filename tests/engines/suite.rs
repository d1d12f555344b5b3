//! The guarantees of the engine trait, tested on one engine.
//!
//! The order of the cases does not matter: each begins with a live partner.

use std::sync::Arc;
use std::time::{Duration, Instant};

use raidshmem_core::quantity::Incarnation;
use raidshmem_core::update::Update;
use raidshmem_fabric::{Lost, Read, Write};

use super::bench::{Bench, Processes};
use super::node::{BYSTANDER, LONG, ask, ask_of, fill, heap, layout, read};
use super::random::Random;
use super::roles::{ADDED, COUNTER, HAMMERED, SWAPPED, rounds};

/// The start of the area for bytes in heaps.
const BULK: usize = 1 << 20;
/// Peers that are used for the first time, and as many that die at their first use.
const FIRST_USES: u64 = 6;
/// Threads that use a peer at the same time.
const THREADS: u64 = 4;
/// More operations than any queue holds.
const PRESSURE: u64 = 5000;

/// Runs all cases.
pub fn conform(bench: &mut dyn Bench, seed: u64) {
    let case = |what: &str| println!("engines: {what}");
    case("bytes of every length");
    lengths(bench);
    case("strides");
    strides(bench);
    case("the store");
    store(bench);
    case("words of every width");
    words(bench);
    case("counting together");
    counting(bench);
    case("back-pressure");
    pressure(bench);
    for role in ["passing", "buffering", "signals"] {
        case(role);
        bench.play(role);
    }
    if !bench.mortal() {
        return;
    }
    case("two who count in the same words");
    adding(bench);
    case("a stale incarnation");
    stale(bench);
    case("the first use");
    first_use(bench, seed);
    case("deaths");
    deaths(bench, seed, |_| true);
    case("a new incarnation");
    lengths(bench);
    bench.play("passing");
}

/// Runs the cases for an engine whose device updates words: no processor of the target takes part
/// in updates, nor in expected reads, and all guarantees for updates by peers hold. Updates by the
/// target's own processor are not mixed in, since the device of a test does not promise atomicity
/// with them.
pub fn conform_by_device(bench: &mut Processes, seed: u64) {
    let case = |what: &str| println!("engines: by the device: {what}");
    case("words of every width");
    words(bench);
    case("a peer that stands still");
    still(bench);
    case("what was expected of a peer that stands still");
    expected(bench);
    case("what cannot be prepared");
    refused(bench);
    case("two who count in the same words");
    adding(bench);
    case("passing");
    bench.play("passing");
    case("deaths");
    deaths(bench, seed, |what| what == "updates");
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + len * 13 + seed) as u8).collect()
}

/// Bytes of every length arrive unchanged, at any offset, and no byte more; gets return them.
fn lengths(bench: &mut dyn Bench) {
    let (engine, pe, memory) = (&bench.node().engine, bench.other(), bench.memory());
    let small = (1..140).chain([255, 256, 257, 4095, 4096, 4097, 65535, 65536, 65537]);
    for len in small.chain([1 << 20, (1 << 20) + 4095]) {
        for offset in [BULK + 1, BULK + 64, BULK + 4096 - len.min(4000) / 2] {
            let (bytes, at) = (pattern(len, offset), heap(offset));
            fill(memory, at - 1, &vec![0x55; len + 2]);
            engine.put(&[Write { pe, offset: at, from: &bytes }]).expect("a living peer");
            engine.quiet(&[pe]).expect("a living peer");
            assert_eq!(memory.bytes(at, len), bytes, "{len} bytes at {offset}");
            assert_eq!(
                (memory.bytes(at - 1, 1), memory.bytes(at + len, 1)),
                (&[0x55][..], &[0x55][..])
            );
            let mut back = vec![0; len];
            engine.get(&mut [Read { pe, offset: at, into: &mut back }]).expect("a living peer");
            assert!(back == bytes, "{len} bytes from {offset}");
        }
    }
    engine.put(&[]).and(engine.get(&mut [])).expect("nothing is done");
}

/// One call moves hundreds of pieces, each to its place, and changes nothing between them.
fn strides(bench: &mut dyn Bench) {
    let (engine, pe, memory) = (&bench.node().engine, bench.other(), bench.memory());
    for (bytes, step) in [(1, 3), (8, 24), (100, 256), (200, 300)] {
        const COUNT: usize = 300;
        let all = pattern(COUNT * bytes, step);
        fill(memory, heap(BULK), &vec![0x55; COUNT * step]);
        let place = |piece: usize| heap(BULK) + piece * step;
        let pieces = all.chunks(bytes).enumerate();
        let write = |(piece, from)| Write { pe, offset: place(piece), from };
        engine.put(&pieces.map(write).collect::<Vec<_>>()).expect("a living peer");
        engine.quiet(&[pe]).expect("a living peer");
        for (piece, want) in all.chunks(bytes).enumerate() {
            assert_eq!(memory.bytes(place(piece), bytes), want, "piece {piece} of {bytes}");
            let between = memory.bytes(place(piece) + bytes, step - bytes);
            assert!(between.iter().all(|byte| *byte == 0x55), "behind piece {piece} of {bytes}");
        }
        let mut back = vec![0; all.len()];
        let pieces = back.chunks_mut(bytes).enumerate();
        let read = |(piece, into)| Read { pe, offset: place(piece), into };
        engine.get(&mut pieces.map(read).collect::<Vec<_>>()).expect("a living peer");
        assert!(back == all, "{COUNT} pieces of {bytes}");
    }
}

/// Memory beyond the visible part can be read.
fn store(bench: &mut dyn Bench) {
    let node = bench.node();
    for offset in [layout().store, layout().snapshots[0], layout().slots[1]] {
        let mut bytes = [1; 64];
        let read = Read { pe: bench.other(), offset, into: &mut bytes };
        node.engine.get(&mut [read]).expect("a living peer");
        assert_eq!(bytes, *bench.memory().bytes(offset, 64), "at {offset}");
    }
}

/// Every update of every width, with and without an answer; adjacent bytes do not change.
fn words(bench: &mut dyn Bench) {
    let (engine, pe, memory) = (&bench.node().engine, bench.other(), bench.memory());
    for bytes in [2usize, 4, 8] {
        let mask = u64::MAX >> (64 - 8 * bytes);
        let at = BULK + 64 + bytes; // not aligned to more
        fill(memory, heap(BULK + 48), &[0x55; 64]);
        let mut word = read(memory, at, bytes);
        for round in 0..3u64 {
            for (how, operand) in [
                (Update::Load, 0),
                (Update::Store, u64::MAX - round),
                (Update::Add, u64::MAX),
                (Update::And, 0x0ff0_0ff0_0ff0_0ff0),
                (Update::Or, 0x1234_5678_9abc_def1),
                (Update::Xor, 0x5555_aaaa_5555_aaaa),
                (Update::Swap, 7 + round),
                (Update::CompareSwap(8), 1),
                (Update::CompareSwap(7 + round), 99),
            ] {
                let after = match how {
                    Update::Load => word,
                    Update::Store | Update::Swap => operand,
                    Update::Add => word.wrapping_add(operand),
                    Update::And => word & operand,
                    Update::Or => word | operand,
                    Update::Xor => word ^ operand,
                    Update::CompareSwap(expected) if word == expected => operand,
                    Update::CompareSwap(_) => word,
                } & mask;
                let (ask, mut before) = (ask_of(pe, (at, bytes), how, operand), [0]);
                if round == 1 {
                    engine.post(ask).expect("a living peer");
                    engine.quiet(&[pe]).expect("a living peer");
                } else {
                    engine.update(&[ask], &mut before).expect("a living peer");
                    let told = if how == Update::Store { 0 } else { word };
                    assert_eq!(before[0], told, "{how:?} of {bytes} bytes");
                }
                word = after;
                assert_eq!(read(memory, at, bytes), word, "{how:?} of {bytes} bytes");
            }
        }
        let around =
            [memory.bytes(heap(BULK + 48), 16 + bytes), memory.bytes(heap(at) + bytes, 16)];
        assert!(around.concat().iter().all(|byte| *byte == 0x55), "round a word of {bytes}");
    }
}

/// Updates by an engine and by the target's own processor are atomic with each other.
fn counting(bench: &mut dyn Bench) {
    let (pe, memory) = (bench.other(), bench.memory());
    let before = read(memory, COUNTER, 8);
    if bench.mortal() {
        bench.start("counting");
    }
    let engine = &bench.node().engine;
    for _ in 0..rounds() / 100 {
        let asks = [ask(pe, COUNTER, Update::Add, 1); 50];
        engine.update(&asks, &mut [0; 50]).expect("a living peer");
        (0..50).for_each(|_| engine.post(asks[0]).expect("a living peer"));
    }
    engine.quiet(&[pe]).expect("a living peer");
    let by_itself = if bench.mortal() { rounds() } else { 0 };
    let wanted = before + rounds() / 100 * 100 + by_itself;
    bench.node().wait("the count", || read(memory, COUNTER, 8) >= wanted);
    assert_eq!(read(memory, COUNTER, 8), wanted);
}

/// Two PEs update words of a third, which reads them only at the end.
fn adding(bench: &mut dyn Bench) {
    let before = [ADDED, SWAPPED].map(|at| bench.node().word(at));
    bench.play_at_driver("adding");
    let after = [ADDED, SWAPPED].map(|at| bench.node().word(at));
    assert_eq!(after, before.map(|count| count + 2 * rounds()));
}

/// Words are updated although their PE is stopped: its processor could not do it.
fn still(bench: &mut Processes) {
    let (pe, memory) = (bench.other(), bench.memory());
    let mut word = read(memory, BULK, 8);
    bench.halt(true);
    for round in 0..20 {
        for (how, operand, after) in [
            (Update::Add, round, word.wrapping_add(round)),
            (Update::Load, 0, word.wrapping_add(round)),
            (Update::CompareSwap(word.wrapping_add(round)), 7, 7),
            (Update::CompareSwap(8), 9, 7),
        ] {
            let (asks, mut before) = ([ask(pe, BULK, how, operand)], [0]);
            bench.node().engine.update(&asks, &mut before).expect("a living peer");
            assert_eq!(before[0], word, "{how:?} found something else");
            assert_eq!(read(memory, BULK, 8), after, "{how:?} left something else");
            word = after;
        }
    }
    bench.halt(false);
}

/// A get of expected data completes although its PE is stopped: it was prepared before.
fn expected(bench: &mut Processes) {
    let (pe, at, bytes) = (bench.other(), heap(2 * BULK), pattern(BULK, 5));
    fill(bench.memory(), at, &bytes);
    let engine = &bench.node().engine;
    engine.expect(pe, at..at + BULK).expect("a living peer");
    // A post is executed after the engine's own request.
    engine.post(ask(pe, COUNTER, Update::Add, 1)).expect("a living peer");
    engine.quiet(&[pe]).expect("a living peer");
    bench.halt(true);
    let mut back = vec![0; BULK];
    bench.node().engine.get(&mut [Read { pe, offset: at, into: &mut back }]).expect("it lives");
    bench.halt(false);
    assert!(back == bytes, "what was expected");
}

/// A peer that cannot prepare what is expected of it ends, which is a death like any other: the
/// caller gets an error, other peers are not disturbed, and a new incarnation works like the first.
fn refused(bench: &mut Processes) {
    let (pe, incarnation, end) = (bench.other(), bench.incarnation(), heap(3 * BULK));
    bench.cut(end);
    bench.node().engine.expect(pe, heap(2 * BULK)..end + BULK).expect("a living peer");
    assert_eq!(bench.ended(), Some(1), "it says why, and ends");
    bench.node().view.bury(pe, Incarnation(incarnation));
    for offset in [heap(2 * BULK), end] {
        let mut bytes = [[0; 64]; 3];
        let [one, two, again] = &mut bytes;
        let of = |pe, into| Read { pe, offset, into };
        let engine = &bench.node().engine;
        let got = engine.get(&mut [of(pe, one), of(BYSTANDER, two)]);
        assert_eq!(got, Err(Lost { pe, incarnation: Incarnation(incarnation) }), "at {offset}");
        engine.get(&mut [of(BYSTANDER, again)]).expect("a living peer");
    }
    bench.replace();
    expected(bench);
}

/// More operations than any queue holds, to a peer that makes no call meanwhile.
fn pressure(bench: &mut dyn Bench) {
    let (engine, pe, memory) = (&bench.node().engine, bench.other(), bench.memory());
    let before = read(memory, COUNTER, 8);
    for number in 0..PRESSURE {
        let offset = heap(BULK) + number as usize * 8;
        let from = &number.to_ne_bytes();
        engine.put(&[Write { pe, offset, from }]).expect("a living peer");
        engine.post(ask(pe, COUNTER, Update::Add, 1)).expect("a living peer");
    }
    let large = pattern(200_000, 3);
    for number in 0..20 {
        let offset = heap(BULK) + (1 << 16) + number * 100_001;
        engine.put(&[Write { pe, offset, from: &large[..100_001] }]).expect("a living peer");
    }
    engine.quiet(&[pe]).expect("a living peer");
    assert_eq!(read(memory, COUNTER, 8), before + PRESSURE);
    for number in 0..PRESSURE {
        assert_eq!(read(memory, BULK + number as usize * 8, 8), number);
    }
    for number in 0..20 {
        let at = heap(BULK) + (1 << 16) + number * 100_001;
        assert!(memory.bytes(at, 100_001) == &large[..100_001], "large put {number}");
    }
}

/// After a disconnect nothing from that incarnation arrives, although its process lives on.
fn stale(bench: &mut dyn Bench) {
    if !bench.loses() {
        return; // it has the memory mapped: only its death keeps it out
    }
    bench.start("hammer");
    let node = bench.node();
    let first = node.word(HAMMERED);
    node.wait("a first blow", || node.word(HAMMERED) > first);
    node.engine.disconnect(bench.other());
    let after = node.word(HAMMERED);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(200) {
        node.engine.progress();
        assert_eq!(node.word(HAMMERED), after, "a blow of one that was shut out");
    }
    bench.killer()();
    bench.node().view.bury(bench.other(), Incarnation(bench.incarnation()));
    bench.replace();
}

/// The first use of a connection establishes it, from any of several threads. A peer that has died
/// unused, or dies meanwhile, is lost like any other.
fn first_use(bench: &mut dyn Bench, seed: u64) {
    let mut random = Random::new(seed);
    for round in 0..FIRST_USES {
        bench.replace();
        used_first(bench, (seed + round) * THREADS);
        if bench.loses() {
            bench.replace();
            let wait = random.below(4000) as u64 * (round % 3); // already dead in every third
            dies_at_first(bench, Duration::from_micros(wait));
        }
    }
    bench.replace();
}

/// Calls `body` in several threads, each with its number.
fn in_threads(body: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let body = &body;
            scope.spawn(move || body(thread));
        }
    });
}

/// Threads use a new peer at once: each with a put and an update.
fn used_first(bench: &dyn Bench, first: u64) {
    let (engine, pe, memory) = (&bench.node().engine, bench.other(), bench.memory());
    let before = read(memory, COUNTER, 8);
    in_threads(|thread| {
        let from = &(first + thread).to_ne_bytes();
        let put = Write { pe, offset: heap(BULK) + 8 * thread as usize, from };
        engine.put(&[put]).expect("a living peer");
        let counts = [ask(pe, COUNTER, Update::Add, 1)];
        engine.update(&counts, &mut [0]).expect("a living peer");
        engine.quiet(&[pe]).expect("a living peer");
    });
    assert_eq!(read(memory, COUNTER, 8), before + THREADS);
    for thread in 0..THREADS {
        assert_eq!(read(memory, BULK + 8 * thread as usize, 8), first + thread);
    }
}

/// Threads use a new peer that is killed: each thread gets an error, other peers are not disturbed.
fn dies_at_first(bench: &mut dyn Bench, wait: Duration) {
    let dead = Lost { pe: bench.other(), incarnation: Incarnation(bench.incarnation()) };
    let (kill, view) = (bench.killer(), Arc::clone(&bench.node().view));
    let engine = &bench.node().engine;
    let thread = std::thread::spawn(move || {
        std::thread::sleep(wait);
        kill();
        std::thread::sleep(Duration::from_millis(20)); // until the view is updated
        view.bury(dead.pe, dead.incarnation);
    });
    in_threads(|thread| {
        let offset = heap(BULK) + 8 * thread as usize;
        let put = Write { pe: dead.pe, offset, from: &[1; 8] };
        let begun = Instant::now();
        let lost = loop {
            assert!(begun.elapsed() < LONG, "no call reports the death");
            if let Err(lost) = engine.put(&[put]).and_then(|()| engine.quiet(&[dead.pe])) {
                break lost;
            }
        };
        assert_eq!(lost, dead, "killed after {wait:?}");
    });
    thread.join().expect("it was killed");
    let other = Write { pe: BYSTANDER, offset: heap(BULK), from: &[9; 64] };
    engine.put(&[other]).and_then(|()| engine.quiet(&[BYSTANDER])).expect("it lives");
}

type Call = fn(&dyn Bench) -> Result<(), Lost>;

/// The operations during which the partner dies.
const CALLS: &[(&str, Call)] = &[
    ("small puts", |b| {
        let write = Write { pe: b.other(), offset: heap(BULK), from: &[1; 8] };
        b.node().engine.put(&[write]).and_then(|()| b.node().engine.quiet(&[b.other()]))
    }),
    ("puts without a quiet", |b| {
        b.node().engine.put(&[Write { pe: b.other(), offset: heap(BULK), from: &[1; 8] }])
    }),
    ("large puts", |b| {
        let write = Write { pe: b.other(), offset: heap(BULK), from: &[2; 300_000] };
        b.node().engine.put(&[write])
    }),
    ("gets", |b| {
        let mut into = vec![0; 200_000];
        b.node().engine.get(&mut [Read { pe: b.other(), offset: heap(BULK), into: &mut into }])
    }),
    ("gets of what was expected", |b| {
        let (pe, end, mut into) = (b.other(), heap(4 * BULK), vec![0; 200_000]);
        b.node().engine.expect(pe, heap(0)..end)?;
        b.node().engine.get(&mut [Read { pe, offset: end - into.len(), into: &mut into }])
    }),
    ("gets of two peers", |b| {
        let (mut one, mut two) = ([0; 64], [0; 64]);
        let of = |pe, into| Read { pe, offset: heap(BULK), into };
        let got = b.node().engine.get(&mut [of(b.other(), &mut one), of(BYSTANDER, &mut two)]);
        assert!(got.is_err() || two == [9; 64], "the bystander's bytes");
        got
    }),
    ("updates", |b| {
        let asks = [ask(b.other(), COUNTER, Update::Add, 1); 8];
        b.node().engine.update(&asks, &mut [0; 8])
    }),
    ("posts", |b| {
        b.node().engine.post(ask(b.other(), COUNTER, Update::Add, 1))?;
        b.node().engine.fence(&[b.other()])
    }),
    ("quiet", |b| {
        b.node().engine.post(ask(b.other(), COUNTER, Update::Add, 1))?;
        b.node().engine.quiet(&[BYSTANDER, b.other()])
    }),
];

/// The partner is killed at any moment of any call: the caller gets an error, soon, and from then
/// on until it disconnects; other peers are not disturbed, and a new incarnation works like the
/// first.
fn deaths(bench: &mut dyn Bench, seed: u64, wanted: fn(&str) -> bool) {
    let mut random = Random::new(seed);
    let marked = Write { pe: BYSTANDER, offset: heap(BULK), from: &[9; 64] };
    bench.node().engine.put(&[marked]).expect("a living peer");
    bench.node().engine.quiet(&[BYSTANDER]).expect("a living peer");
    for (what, call) in CALLS.iter().filter(|(what, _)| wanted(what)) {
        let (dead, old) = ((bench.other(), bench.incarnation()), bench.memory());
        let view = Arc::clone(&bench.node().view);
        let (kill, wait) = (bench.killer(), Duration::from_micros(random.below(20_000) as u64));
        let thread = std::thread::spawn(move || {
            std::thread::sleep(wait);
            kill();
            std::thread::sleep(Duration::from_millis(20)); // until the view is updated
            view.bury(dead.0, Incarnation(dead.1));
        });
        if bench.loses() {
            let begun = Instant::now();
            let lost = loop {
                assert!(begun.elapsed() < LONG, "{what}: no call reports the death");
                if let Err(lost) = call(&*bench) {
                    break lost;
                }
            };
            thread.join().expect("it was killed");
            assert_eq!(lost, Lost { pe: dead.0, incarnation: Incarnation(dead.1) }, "{what}");
            let again = Instant::now();
            for (other, call) in CALLS {
                assert!(call(&*bench).is_err(), "{other} to the dead, after {what}");
            }
            assert!(again.elapsed() < LONG, "{what}: slow to say so again");
            bench.node().engine.disconnect(dead.0);
            let quiet = bench.node().engine.quiet(&[dead.0, BYSTANDER]);
            quiet.expect("what is not connected is passed over");
        } else {
            thread.join().expect("it was killed");
            call(&*bench).expect("memory that is mapped outlives its process");
        }
        bench.replace();
        // The new incarnation has its own memory, and data for it goes there.
        let kept = old.bytes(heap(BULK), 64).to_vec();
        let (engine, pe) = (&bench.node().engine, bench.other());
        engine.put(&[Write { pe, offset: heap(BULK), from: &[7; 64] }]).expect("a living peer");
        engine.quiet(&[pe]).expect("a living peer");
        assert_eq!(bench.memory().bytes(heap(BULK), 64), [7; 64], "after {what}");
        assert_eq!(old.bytes(heap(BULK), 64), kept, "the memory of the dead, after {what}");
    }
}
