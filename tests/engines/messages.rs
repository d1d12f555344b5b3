//! Bytes for the events of a peer (`Engine::tell`), over engines that carry them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use raidshmem_core::quantity::Incarnation;
use raidshmem_core::update::Update;
use raidshmem_fabric::Lost;

use super::bench::{Bench, Processes};
use super::node::{BYSTANDER, LONG, ask};
use super::random::Random;
use super::roles::{COUNTER, in_order, tell};

/// Deaths of the partner.
const DEATHS: u64 = 8;
/// Messages without an answer while the partner dies.
const OPEN: u64 = 1000;

/// Runs the cases of all engines.
pub fn conform(bench: &mut Processes, seed: u64) {
    case("order");
    bench.play("telling");
    case("deaths");
    deaths(bench, seed);
    case("a stale incarnation");
    stale(bench);
}

/// Messages of a new incarnation arrive before this process connects to it. Over verbs it waits.
pub fn first_words(bench: &mut Processes) {
    for connected in [true, false] {
        case("the first words of a new incarnation");
        if !connected {
            bench.node().engine.disconnect(bench.other());
        }
        drop(bench.replace_by(Some("asking")));
        bench.play("telling");
    }
}

fn case(what: &str) {
    println!("engines: messages: {what}");
}

/// The partner is killed at any moment: what it has answered is in order, a call says that it is
/// lost, and the bystander answers.
fn deaths(bench: &mut Processes, seed: u64) {
    let mut random = Random::new(seed);
    for round in 0..DEATHS {
        let dead = Lost { pe: bench.other(), incarnation: Incarnation(bench.incarnation()) };
        let (kill, view) = (bench.killer(), Arc::clone(&bench.node().view));
        let wait = Duration::from_micros(random.below(20_000) as u64);
        let thread = std::thread::spawn(move || {
            std::thread::sleep(wait);
            kill();
            std::thread::sleep(Duration::from_millis(20)); // until the view is updated
            view.bury(dead.pe, dead.incarnation);
        });
        let (node, play) = (bench.node(), u64::MAX - round);
        let (mut sent, begun) = (0, Instant::now());
        let lost = loop {
            assert!(begun.elapsed() < LONG, "no call reports the death");
            let answered = node.view.count_heard(play) as u64 / 2;
            let told = if sent < answered + OPEN {
                sent += 1;
                tell(node, dead.pe, (play, sent - 1))
            } else {
                let asks = [ask(dead.pe, COUNTER, Update::Add, 1)];
                node.engine.update(&asks, &mut [0])
            };
            if let Err(lost) = told {
                break lost;
            }
        };
        thread.join().expect("it was killed");
        assert_eq!(lost, dead, "killed after {wait:?}");
        assert!(tell(node, dead.pe, (play, sent)).is_err(), "it is still lost");
        let answers = in_order(&node.view.take_heard(play));
        assert!(answers as u64 <= 2 * sent, "{answers} answers to {sent} messages");
        let other = play - DEATHS;
        tell(node, BYSTANDER, (other, 0)).expect("a living peer");
        node.wait("the bystander", || node.view.count_heard(other) == 2);
        bench.replace();
    }
    bench.play("telling");
}

/// After the connection to a new incarnation, no message of an older one arrives, although its
/// process lives and talks on.
fn stale(bench: &mut Processes) {
    bench.start("chatting");
    let play = bench.number();
    bench.node().wait("the first words", || bench.node().view.count_heard(play) > 100);
    let old = bench.replace_by(None);
    let after = bench.node().view.count_heard(play);
    bench.play("telling");
    assert_eq!(bench.node().view.count_heard(play), after, "of one that was replaced");
    drop(old);
}
