//! Protocols between two PEs: each plays its role and checks its observations.
//!
//! Each side writes only to the other's heap, at offsets of its own, so that both may share one
//! memory.

use raidshmem_core::quantity::Pe;
use raidshmem_core::update::{Change, Update, WordAt};
use raidshmem_fabric::{Engine, Lost, TOLD_MAX, Write};

use super::node::{ANSWERS, ASKED, DRIVER, HEAD, Heard, Node, PARTNER, ask, heap};

/// Returns the rounds of a litmus test.
pub fn rounds() -> u64 {
    let asked = std::env::var("ENGINE_ROUNDS").ok();
    asked.map_or(2000, |rounds| rounds.parse().expect("a number of rounds"))
}

/// Words in a message.
const WORDS: usize = 32;
/// Offsets for each side: data, flag, answer, and the words of store buffering.
fn data(side: usize) -> usize {
    (side + 1) << 12
}

fn flag(side: usize) -> usize {
    data(side) + 1024
}

fn own_turn(side: usize) -> usize {
    data(side) + 1088
}

fn seen(side: usize) -> usize {
    data(side) + 1152
}

fn told(side: usize) -> usize {
    data(side) + 1216
}

/// The word that both sides count in.
pub const COUNTER: usize = 64;
/// The word that the partner keeps adding to, in the driver's heap.
pub const HAMMERED: usize = 128;
/// Words of the driver that both its peers add to, and swap.
pub const ADDED: usize = 192;
pub const SWAPPED: usize = 256;

/// Plays one side of the role of this name; `other` is the PE on the other side. Each play has its
/// own number, so that leftovers of an earlier one are not mistaken for its data.
pub fn play(role: &str, number: u64, node: &Node, side: usize, other: Pe) {
    let base = number << 40;
    match role {
        "passing" => passing(node, base, side, other),
        "buffering" => buffering(node, base, side, other),
        "signals" => signals(node, base, side, other),
        "counting" => counting(node),
        "adding" => adding(node, other),
        "hammer" => hammer(node, other),
        "telling" => telling(node, number, other),
        "asking" => asking(node, number, other),
        "chatting" => chatting(node, number, other),
        _ => panic!("no role {role}"),
    }
}

fn send(engine: &dyn Engine, pe: Pe, at: usize, bytes: &[u8]) {
    engine.put(&[Write { pe, offset: heap(at), from: bytes }]).expect("a living peer");
    engine.wake(pe);
}

fn message(round: u64, side: usize) -> Vec<u8> {
    let words = (0..WORDS as u64).map(|word| (round << 16) + (word << 4) + side as u64);
    words.flat_map(u64::to_ne_bytes).collect()
}

/// Message passing: a PE that sees the flag sees what was put before the fence.
fn passing(node: &Node, base: u64, side: usize, other: Pe) {
    for round in base + 1..=base + rounds() {
        send(&*node.engine, other, data(side), &message(round, side));
        node.engine.fence(&[other]).expect("a living peer");
        if round % 2 == 0 {
            node.engine.post(ask(other, flag(side), Update::Store, round)).expect("a living peer");
        } else {
            send(&*node.engine, other, flag(side), &round.to_ne_bytes());
        }
        node.wait("the flag", || node.word(flag(1 - side)) >= round);
        let came = node.segment.bytes(heap(data(1 - side)), WORDS * 8);
        assert_eq!(came, message(round, 1 - side), "round {round}: the flag before the data");
        // The peer may write again only after this side has read.
        node.engine.post(ask(other, seen(side), Update::Store, round)).expect("a living peer");
        node.wait("the answer", || node.word(seen(1 - side)) >= round);
    }
}

/// Store buffering: of two PEs that write, complete and read, one sees the other's write.
fn buffering(node: &Node, base: u64, side: usize, other: Pe) {
    let (mine, theirs) = (own_turn(side), own_turn(1 - side));
    for round in base + 1..=base + rounds() {
        send(&*node.engine, other, mine, &round.to_ne_bytes());
        node.engine.quiet(&[other]).expect("a living peer");
        let saw = node.word(theirs) >= round;
        let word = round * 2 + u64::from(saw);
        node.engine.post(ask(other, told(side), Update::Store, word)).expect("a living peer");
        node.wait("what the other saw", || node.word(told(1 - side)) >= round * 2);
        let other_saw = node.word(told(1 - side)) == round * 2 + 1;
        assert!(saw || other_saw, "round {round}: neither saw the other");
        node.engine.post(ask(other, flag(side), Update::Store, round)).expect("a living peer");
        node.wait("the end of the round", || node.word(flag(1 - side)) >= round);
    }
}

/// Data and a counted signal, many in flight: the signal counts the data that has arrived.
fn signals(node: &Node, base: u64, side: usize, other: Pe) {
    let slots = 8;
    node.engine.post(ask(other, flag(side), Update::Store, base)).expect("a living peer");
    let slot = |side: usize, round: u64| data(side) + (round % slots) as usize * 64;
    for round in 1..=rounds() {
        if round > slots {
            node.wait("an answer", || node.word(seen(1 - side)) >= base + round - slots);
        }
        send(&*node.engine, other, slot(side, round), &[round as u8; 64]);
        node.engine.fence(&[other]).expect("a living peer");
        node.engine.post(ask(other, flag(side), Update::Add, 1)).expect("a living peer");
        node.wait("a signal", || node.word(flag(1 - side)) >= base + round);
        let came = node.segment.bytes(heap(slot(1 - side, round)), 64);
        assert_eq!(came, [round as u8; 64], "round {round}: the signal before the data");
        let told = ask(other, seen(side), Update::Store, base + round);
        node.engine.post(told).expect("a living peer");
    }
    node.wait("the last answer", || node.word(seen(1 - side)) >= base + rounds());
}

/// Adds to this PE's own counter without an engine, as a PE of the same node does.
fn counting(node: &Node) {
    let (word, change) = (WordAt { offset: heap(COUNTER), bytes: 8 }, Update::Add);
    for _ in 0..rounds() {
        node.segment.update(word, Change { how: change, operand: 1 });
    }
}

/// Counts in two words of the other PE, in which a third PE counts too: by sums and by swaps.
fn adding(node: &Node, other: Pe) {
    let update = |at: usize, how: Update, operand: u64| {
        let mut before = [0];
        let asks = [ask(other, at, how, operand)];
        node.engine.update(&asks, &mut before).expect("a living peer");
        before[0]
    };
    let mut last = None;
    for _ in 0..rounds() {
        let found = Some(update(ADDED, Update::Add, 1));
        assert!(found > last, "{found:?} after {last:?}");
        last = found;
        let mut guess = update(SWAPPED, Update::Load, 0);
        loop {
            let found = update(SWAPPED, Update::CompareSwap(guess), guess + 1);
            if found == guess {
                break;
            }
            guess = found;
        }
    }
}

/// Adds to a word of the other PE until it cuts the connection, or this process is killed.
fn hammer(node: &Node, other: Pe) {
    assert_eq!((node.me, other), (PARTNER, DRIVER));
    while node.engine.post(ask(other, HAMMERED, Update::Add, 1)).is_ok() {
        std::thread::yield_now();
    }
}

/// Returns the number of messages of a play for events.
fn messages() -> u64 {
    5 * rounds()
}

/// Passes a message to the events of `pe`, which answer it: some of the largest size.
pub fn tell(node: &Node, pe: Pe, (play, number): (u64, u64)) -> Result<(), Lost> {
    let largest = number.is_multiple_of(97);
    let len = if largest { TOLD_MAX } else { HEAD + (number % 50) as usize };
    let head = [&[ASKED][..], &play.to_ne_bytes(), &number.to_ne_bytes()].concat();
    let padding = std::iter::repeat_n(number as u8, len - HEAD);
    node.engine.tell(pe, &head.into_iter().chain(padding).collect::<Vec<u8>>())
}

/// Checks that messages are unchanged, without a gap and in order, and that so are answers. Returns
/// the number of answers.
#[track_caller]
pub fn in_order(heard: &[Heard]) -> usize {
    let (mut next, mut answers) = (0u64, 0);
    for Heard { bytes, .. } in heard {
        let number = u64::from_ne_bytes(bytes[9..HEAD].try_into().expect("eight bytes"));
        if bytes[0] == ASKED {
            assert_eq!(number, next, "a message out of order");
            next += 1;
        } else {
            let due = (answers as u64 / 2, ANSWERS[answers % 2]);
            assert_eq!((number, bytes[0]), due, "an answer out of order");
            answers += 1;
        }
        let len = if number.is_multiple_of(97) { TOLD_MAX } else { HEAD + (number % 50) as usize };
        assert_eq!(bytes.len(), len, "message {number}");
        assert!(bytes[HEAD..].iter().all(|&byte| byte == number as u8), "message {number}");
    }
    answers
}

/// Both sides pass messages to each other's events, which answer each of them twice.
fn telling(node: &Node, play: u64, other: Pe) {
    let count = messages();
    for number in 0..count {
        tell(node, other, (play, number)).expect("a living peer");
    }
    let all = 3 * count as usize;
    node.wait("all messages and answers", || node.view.count_heard(play) >= all);
    let heard = node.view.take_heard(play);
    assert_eq!((in_order(&heard), heard.len()), (2 * count as usize, all));
}

/// Passes messages to the events of the other PE, which may not be connected, until all are
/// answered.
fn asking(node: &Node, play: u64, other: Pe) {
    (0..100).for_each(|number| tell(node, other, (play, number)).expect("a living peer"));
    node.wait("the answers", || node.view.count_heard(play) >= 200);
    assert_eq!(in_order(&node.view.take_heard(play)), 200);
}

/// Passes messages to the events of the other PE until it is cut off, or this process is killed.
fn chatting(node: &Node, play: u64, other: Pe) {
    let mut numbers = 0..;
    while numbers.next().is_some_and(|number| tell(node, other, (play, number)).is_ok()) {
        std::thread::yield_now();
    }
}
