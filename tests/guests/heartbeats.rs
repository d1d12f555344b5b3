//! Heartbeats by RDMA between machines: a moving counter proves that a node is alive when no
//! message comes through, and a counter that stands still does not.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::image;
use crate::machine::{Guest, Plan, Running, address};
use crate::switch::Switch;

/// Seconds of silence after which a node is lost: long, for a busy emulator.
const LIMIT: u64 = 6;

/// Boots three guests, with a program that prints `tick 1`, `tick 2` and so on, one per second.
fn boot(switch: &Switch) -> ([Guest; 3], PathBuf) {
    let ticks = switch.folder().join("ticks");
    let text = "#!/bin/sh\nfor i in $(seq $1); do echo tick $i; sleep 1; done\n";
    std::fs::write(&ticks, text).expect("a script");
    let executable = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&ticks, executable).expect("it is our own");
    let payload = image::add("ticks", &[Path::new(env!("CARGO_BIN_EXE_oshrun")), &ticks]);
    let mut guests = [1, 2, 3].map(|number| Plan::new(number).with(&payload).boot(switch));
    guests.iter_mut().for_each(Guest::ready);
    (guests, ticks)
}

/// Starts a job of one such program on each guest.
fn job<'a>(first: &'a mut Guest, ticks: &Path, seconds: u64, more: &str) -> Running<'a> {
    let hosts = [1, 2, 3].map(address).join(",");
    let words = format!("-v -n 3 --hosts {hosts} --launch-agent 'on {{host}}' --fabric verbs");
    let oshrun = env!("CARGO_BIN_EXE_oshrun");
    let program = format!("{} {seconds}", ticks.display());
    first.start(&format!("SHMEM_FT_NODE_TIMEOUT={LIMIT} {more} {oshrun} {words} {program}"))
}

/// Node 1 watches node 2. When messages no longer pass between them, its counter still moves.
#[test]
fn a_counter_that_moves_is_a_sign_of_life() {
    let switch = Switch::new();
    let (mut guests, ticks) = boot(&switch);
    let seconds = 4 * LIMIT;
    let mut running = job(&mut guests[0], &ticks, seconds, "");
    running.wait_for("tick 5");
    switch.silence(2, 3);
    let outcome = running.outcome();
    let whole = outcome.text.matches(&format!("tick {seconds}\n")).count() == 3;
    assert!(outcome.status == 0 && whole, "{outcome}");
    let line = "does not reach node 1";
    assert!(!outcome.text.contains(line), "its counter was moving: {outcome}");
    // Without a device there is no counter to read, and the silence is noticed.
    job(&mut guests[0], &ticks, seconds, "SHMEM_FT_DEVICE=absent").wait_for(line);
}

/// The counter of a stopped process stays readable.
#[test]
fn a_counter_that_stands_still_is_not_a_sign_of_life() {
    let switch = Switch::new();
    let (mut guests, ticks) = boot(&switch);
    let [first, _, last] = &mut guests;
    let seconds = 20 * LIMIT;
    let mut running = job(first, &ticks, seconds, "");
    running.wait_for("tick 5");
    last.must("killall -STOP oshrun");
    running.wait_for("lost");
    let outcome = running.outcome();
    let over = outcome.text.contains(&format!("tick {seconds}\n"));
    assert!(outcome.status != 0 && !over, "it should end before its program does: {outcome}");
}
