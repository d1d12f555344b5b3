//! Round-trip tests of writing and reading a log.

use raidshmem_core::page::PAGE;

use super::*;

const PLACE: CallPlace = CallPlace { whole: 9, source: 8 };

fn record(kind: Kind, len: u32) -> LogRecord {
    let (target, time, at, block) = (3, 77, 4096, (8, 24));
    LogRecord { kind, target, time, at, block, len, digest: 5 }
}

/// Words of a log of some records; its head takes a page.
const WORDS: usize = 4096 + PAGE / 8;

fn words(n: usize) -> Vec<AtomicU64> {
    (0..n).map(|_| AtomicU64::new(0)).collect()
}

#[test]
fn records_are_read_as_they_were_written() {
    let words = words(WORDS);
    let log = Log::of(&words, 4, 1 << 20);
    log.clear((1, 2), PLACE);
    assert_eq!(log.read(0), None);
    let mut ends = vec![0];
    for len in [0, 1, 16, 17, 100] {
        let from = *ends.last().unwrap();
        log.append(from, &record(Kind::Put, len));
        let found = log.read(from).unwrap();
        assert_eq!(found.record, record(Kind::Put, len));
        assert_eq!(
            (found.next, found.payload),
            (from + bytes_for(len as usize), log.payload(from))
        );
        ends.push(found.next);
    }
    assert_eq!(log.read(*ends.last().unwrap()), None);
    log.set_state(0, Carried::Logged);
    assert_eq!((log.state(0), log.state(ends[1])), (Carried::Logged, Carried::Begun));
    assert_eq!(log.read(0).unwrap().record, record(Kind::Put, 0));
    log.clear((1, 3), PLACE);
    assert_eq!(log.read(0), None);
}

#[test]
fn the_value_found_by_an_atomic_operation_is_added_later() {
    let words = words(WORDS);
    let log = Log::of(&words, 2, 0);
    log.clear((1, 0), CallPlace::NONE);
    log.set_compared(0, 6);
    log.append(0, &record(Kind::Atomic, 24));
    log.append(bytes_for(24), &record(Kind::Answer, 8));
    log.set_state(0, Carried::Underway);
    assert_eq!(log.state(0), Carried::Underway);
    log.set_found(0, AtomicOutcome { old: 9, seen: 78 });
    assert_eq!((log.state(0), log.found(0)), (Carried::Done, AtomicOutcome { old: 9, seen: 78 }));
    assert_eq!((log.compared(0), log.read(0).unwrap().record), (6, record(Kind::Atomic, 24)));
    log.repeat(bytes_for(24));
    log.repeat(bytes_for(24));
    assert_eq!(log.repeats(bytes_for(24)), 2);
}

#[test]
fn a_record_holds_exactly_what_its_operation_finds() {
    let words = words(WORDS);
    let log = Log::of(&words, 2, 0);
    log.clear((1, 0), CallPlace::NONE);
    for (len, seen) in [(8, 0), (16, 78)] {
        let next = bytes_for(len as usize);
        log.append(0, &record(Kind::Atomic, len));
        log.append(next, &record(Kind::Put, 0));
        log.set_found(0, AtomicOutcome { old: 9, seen: 78 });
        assert_eq!((log.found(0), log.compared(0)), (AtomicOutcome { old: 9, seen }, 0));
        assert_eq!(log.read(next).unwrap().record, record(Kind::Put, 0));
    }
}

#[test]
fn an_unmapped_log_is_empty() {
    let log = Log::unmapped(PES_MAX);
    let last = Pe::of(PES_MAX - 1);
    assert!(!log.is_of(0, Pe(0)) && !log.is_at(0, Stage::Direct) && log.capacity() == 0);
    assert_eq!((log.read(0), log.meeting(None), log.has_taken(last, 0)), (None, None, 0));
    assert_eq!((log.against(), log.get(Word::Met)), (String::new(), 0));
}

#[test]
fn meetings_follow_each_other() {
    let words = words(WORDS);
    let log = Log::of(&words, 2, 0);
    log.clear((1, 0), CallPlace::NONE);
    let (mut last, mut from, mut made) = (None, 0, Vec::new());
    for kind in [Kind::Put, Kind::Meeting, Kind::Get, Kind::Wait, Kind::Meeting, Kind::Meeting] {
        log.append(from, &record(kind, 8));
        if kind == Kind::Meeting {
            log.link(last, from);
            last = Some(from);
            made.push(from);
        }
        from += bytes_for(8);
    }
    let mut seen = None;
    for expected in made {
        let found = log.meeting(seen).unwrap();
        assert_eq!((found.from, found.record.kind), (expected, Kind::Meeting));
        seen = Some(found.from);
    }
    assert_eq!(log.meeting(seen), None);
}

#[test]
fn a_replica_equals_the_log() {
    let (all, copy, new) = (words(WORDS), words(WORDS), words(WORDS));
    let [log, copy, new] = [&all, &copy, &new].map(|words| Log::of(words, 4, 0));
    let log = log.with_replica(copy);
    log.set(Word::Job, 5);
    log.set(Word::Owner, 3);
    log.set(Word::Light, 1);
    log.clear((1, 7), PLACE);
    log.replicate(0, &[7; 19]);
    log.append(0, &record(Kind::Get, 19));
    let (second, third) = (bytes_for(19), bytes_for(19) + bytes_for(24));
    log.append(second, &record(Kind::Atomic, 24));
    log.append(third, &record(Kind::Meeting, 0));
    log.set_found(second, AtomicOutcome { old: 9, seen: 78 });
    log.repeat(0);
    log.link(None, third);
    log.take(Pe(3), 64);
    log.set_against("it called shmem_ptr");
    assert!(copy.is_of(5, Pe(2)) && !copy.is_of(5, Pe(1)) && !new.is_of(5, Pe(2)));
    new.clear((0, NO_INTERVAL), CallPlace::NONE);
    new.set_stage(2, Stage::Replaying);
    assert_eq!(new.fetch(&copy), 7);
    let place = CallPlace { whole: new.get(Word::Site), source: new.get(Word::Source) };
    assert_eq!(place, PLACE);
    assert_eq!(new.get(Word::Interval), NO_INTERVAL, "the caller shows it");
    assert!(new.is_at(2, Stage::Replaying) && new.get(Word::Light) == 0, "its own");
    for from in [0, second, third] {
        assert_eq!(new.read(from), log.read(from));
    }
    assert_eq!((new.found(second).old, new.state(second)), (9, Carried::Done));
    assert_eq!((new.repeats(0), new.meeting(None)), (1, log.read(third)));
    assert_eq!((new.has_taken(Pe(3), 0), new.against()), (0, "it called shmem_ptr".to_owned()));
    let bytes = new.records + HEAD;
    let payload = new.words[bytes..].iter().flat_map(|w| w.load(Ordering::SeqCst).to_ne_bytes());
    assert_eq!(payload.take(19).collect::<Vec<u8>>(), [7; 19]);
}

#[test]
fn reasons_against_local_rollback_are_text() {
    let words = words(2048);
    let log = Log::of(&words, 2, 0);
    assert_eq!(log.against(), "");
    for text in ["it called shmem_ptr, which is not logged", "x", ""] {
        log.set_against(text);
        assert_eq!(log.against(), text);
    }
    log.clear((1, 7), CallPlace::NONE);
    log.take(Pe(1), 4096);
    assert_eq!([7, 8].map(|interval| log.has_taken(Pe(1), interval)), [4096, 0]);
    log.set_stage(3, Stage::Draining);
    assert!(log.is_at(3, Stage::Draining) && !log.is_at(2, Stage::Draining));
}
