//! A model of each lock-free structure, explored as written and with each access weakened. The
//! table in `docs/memory-model.md` lists the orderings that the models need; an access that needs
//! one fails its model without it. `RAIDSHMEM_WRITE_DOCS=1` writes the table.
//!
//! Left out: structures whose words lie in mapped memory by their layout (mailbox, posts, log,
//! store header); the page names what orders those.

use std::cell::Cell;
use std::fmt::Write;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use memory_model::atomic::{AtomicU64, Ordering};
use memory_model::bell::Bell;
use memory_model::hand_off::{HandOff, Seen};
use memory_model::model::{Need, needs};
use memory_model::ring::Ring;
use memory_model::spill::{Kept, Spill};
use memory_model::turns::{DelegatedPut, Inside, Turns};
use memory_model::view_words::ViewWords;
use memory_model::waits::{Waiting, Waits};
use raidshmem_core::message::WaitTarget;
use raidshmem_core::protocol::operation::StorePart;
use raidshmem_core::quantity::{CheckpointNumber, Incarnation, Pe, ViewNumber};
use raidshmem_core::view::{Member, View};

const FOREVER: Duration = Duration::MAX;
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/memory-model.md");
const BEGIN: &str = "<!-- printed by tests/memory_model -->\n";
const END: &str = "<!-- end -->\n";

fn words(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// A reader of the last events while their owner writes two of them into one record.
fn ring() {
    let memory = Arc::new(words(32));
    let writer = {
        let memory = memory.clone();
        thread::spawn(move || {
            let ring = Ring::of(&memory);
            ring.write(1, Incarnation(1), "a");
            ring.write(2, Incarnation(2), "b");
        })
    };
    let reader = thread::spawn(move || {
        for event in Ring::of(&memory).events() {
            let whole = (event.micros, event.incarnation.0, event.text.as_str());
            assert!([(1, 1, "a"), (2, 2, "b")].contains(&whole), "{event:?}");
        }
    });
    writer.join().unwrap();
    reader.join().unwrap();
}

/// Two threads of the owner that write into one record; then it holds one of the events.
fn ring_of_two_writers() {
    let memory = Arc::new(words(32));
    let writer = {
        let memory = memory.clone();
        thread::spawn(move || Ring::of(&memory).write(1, Incarnation(1), "a"))
    };
    Ring::of(&memory).write(2, Incarnation(2), "b");
    writer.join().unwrap();
    for event in Ring::of(&memory).events() {
        let whole = (event.micros, event.incarnation.0, event.text.as_str());
        assert!([(1, 1, "a"), (2, 2, "b")].contains(&whole), "{event:?}");
    }
}

/// An agent that reads an entry while its thread ends a wait and begins another.
fn waits() {
    let waits = Arc::new(Waits::default());
    let owner = {
        let waits = waits.clone();
        thread::spawn(move || {
            for number in 1..3 {
                let whom = WaitTarget::Members { start: number, stride: number, size: 1 };
                let call = ["a", "b"][number as usize - 1];
                drop(waits.show(Waiting { call, whom }, CheckpointNumber(number as u64)));
            }
        })
    };
    let agent = thread::spawn(move || {
        if let Some(shown) = waits.entries()[0].read() {
            let number = shown.agreed.0 as i32;
            let whom = WaitTarget::Members { start: number, stride: number, size: 1 };
            let call = ["", "a", "b"][number as usize];
            assert_eq!((shown.call.as_str(), shown.whom), (call, whom), "{shown:?}");
        }
    });
    owner.join().unwrap();
    agent.join().unwrap();
}

fn bell() -> Arc<(Bell, AtomicU64)> {
    let bell = Bell {
        doorbell: Default::default(),
        sleepers: Default::default(),
        watchers: Default::default(),
    };
    Arc::new((bell, AtomicU64::new(0)))
}

/// A thread that sleeps until a word changes, and one that changes it and wakes.
fn sleeping() {
    let shared = bell();
    let sleeper = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (bell, word) = &*shared;
            let ready = || word.load(Ordering::Acquire) == 1;
            while !ready() {
                bell.sleep(false, || (!ready()).then_some(FOREVER));
            }
        })
    };
    shared.1.store(1, Ordering::Release);
    shared.0.wake();
    sleeper.join().unwrap();
}

/// The same, for a word that a plain put changes.
fn watching() {
    let shared = bell();
    let sleeper = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (bell, word) = &*shared;
            let ready = || word.load(Ordering::Relaxed) == 1;
            while !ready() {
                bell.sleep(true, || {
                    loom::sync::atomic::fence(Ordering::SeqCst); // the barrier
                    (!ready()).then_some(FOREVER)
                });
            }
        })
    };
    shared.1.store(1, Ordering::Relaxed);
    shared.0.wake_watchers();
    sleeper.join().unwrap();
}

/// An engine's thread that stays away while another polls, until that one goes to sleep.
fn hand_off() {
    let shared = Arc::new(HandOff::default());
    let engine = {
        let shared = shared.clone();
        thread::spawn(move || {
            let mut seen = Seen::default();
            loop {
                let alarm = shared.alarm();
                if !shared.others_poll(&mut seen, alarm) {
                    break;
                }
                shared.stay_away(alarm, FOREVER);
            }
        })
    };
    shared.look();
    shared.hand_over();
    engine.join().unwrap();
}

thread_local! {
    /// The sum of the values put so far in this run: all threads of a model are one of the system.
    static PUT: Cell<u64> = const { Cell::new(0) };
}

/// The state inside.
struct Sums;

impl Inside for Sums {
    fn begin(&mut self, place: &'static DelegatedPut) {
        let (pe, offset, len) = place.target();
        let value = u64::from_ne_bytes(place.word());
        assert_eq!((u64::from(pe.0), offset as u64, len), (value, value, 8));
        PUT.set(PUT.get() + value);
        place.over();
    }
}

fn put_through_turns(threads: u64) {
    PUT.set(0);
    let turns: &'static Turns<Sums, 2> = Box::leak(Box::new(Turns::new(Sums)));
    let put = move |value: u64| match turns.try_enter() {
        Some(turn) => {
            PUT.set(PUT.get() + value);
            thread::yield_now(); // the others may find this thread inside
            drop(turn);
        }
        None if turns.leave(Pe(value as u32), value as usize, &value.to_ne_bytes()) => {}
        None => {
            let _turn = turns.enter();
            PUT.set(PUT.get() + value);
        }
    };
    let others: Vec<_> = (1..threads).map(|n| thread::spawn(move || put(1 << n))).collect();
    put(1);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(PUT.get(), (1 << threads) - 1, "a put stays though no thread is inside");
}

/// Two threads that put.
fn turns_of_two() {
    put_through_turns(2);
}

/// Three threads that put, so that two may leave theirs.
fn turns_of_three() {
    put_through_turns(3);
}

fn view(number: u64) -> View {
    let member = |pe| Member { incarnation: Incarnation(number as u32), ..Member::first(pe) };
    View { number: ViewNumber(number), pes: vec![member(0), member(1)], local: number == 2 }
}

/// A PE that copies the view while its agent publishes two more.
fn view_words() {
    let memory = Arc::new(words(5));
    fn over(memory: &[AtomicU64]) -> ViewWords<'_> {
        let [first, number, local, members @ ..] = memory else { unreachable!("five words") };
        ViewWords { first, number, local, members: members.iter().collect() }
    }
    over(&memory).publish(&view(1));
    let agent = {
        let memory = memory.clone();
        thread::spawn(move || (2..4).for_each(|number| over(&memory).publish(&view(number))))
    };
    let read = over(&memory).read();
    assert_eq!(read, view(read.number.0));
    agent.join().unwrap();
}

/// An agent that wants a checkpoint, and a PE that keeps a tile of it.
fn spill() {
    let shared = Arc::new((Spill::default(), AtomicU64::new(0)));
    let pe = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (spill, copy) = &*shared;
            while spill.wanted() != Some(CheckpointNumber(3)) {
                thread::yield_now();
            }
            assert_eq!(spill.free_tiles(CheckpointNumber(3)), 1);
            copy.store(3, Ordering::Relaxed);
            let kept = Kept { from: 1, tiles: Some(1), len: 8 };
            spill.keep(StorePart::Snapshot, CheckpointNumber(3), kept);
        })
    };
    let agent = thread::spawn(move || {
        let (spill, copy) = &*shared;
        spill.want(CheckpointNumber(3), true, 1);
        let kept = loop {
            if let Some(kept) = spill.kept(StorePart::Snapshot, CheckpointNumber(3)) {
                break kept;
            }
            thread::yield_now();
        };
        assert_eq!(kept, Kept { from: 1, tiles: Some(1), len: 8 });
        assert_eq!(copy.load(Ordering::Relaxed), 3);
    });
    pe.join().unwrap();
    agent.join().unwrap();
}

type Model = fn();

/// The structures, each with its models.
const STRUCTURES: &[(&str, &[Model])] = &[
    ("bell", &[sleeping, watching]),
    ("hand-off", &[hand_off]),
    ("last events", &[ring, ring_of_two_writers]),
    ("spill", &[spill]),
    ("turns", &[turns_of_two, turns_of_three]),
    ("view", &[view_words]),
    ("waits", &[waits]),
];

fn row(structure: &str, (file, line, _): (&str, u32, u32), need: &Need) -> String {
    let source = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let code = source.lines().nth(line as usize - 1).unwrap_or_default();
    let code = code.split("//").next().unwrap_or_default().trim();
    let needed = match need.needed {
        Ordering::Relaxed => "-".to_owned(),
        needed => format!("{needed:?}"),
    };
    format!("| {structure} | `{code}` | {:?} | {needed} |\n", need.access)
}

#[test]
fn structures_need_the_orderings_that_the_page_lists() {
    let mut table = BEGIN.to_owned();
    table += "| structure | access | kind | needs |\n| --- | --- | --- | --- |\n";
    for (structure, models) in STRUCTURES {
        let begun = std::time::Instant::now();
        let needs = needs(models);
        eprintln!("{structure}: {} accesses, {:.1?}", needs.len(), begun.elapsed());
        for (site, need) in &needs {
            write!(table, "{}", row(structure, *site, need)).unwrap();
        }
    }
    table += END;
    let page = fs::read_to_string(PAGE).unwrap();
    let (from, to) = (page.find(BEGIN).unwrap(), page.find(END).unwrap() + END.len());
    if std::env::var_os("RAIDSHMEM_WRITE_DOCS").is_some() {
        fs::write(PAGE, page[..from].to_owned() + &table + &page[to..]).unwrap();
        return;
    }
    assert_eq!(page[from..to], table);
}
