//! Calls of the Rust interface, in a PE that kills itself before one of them:
//! `local_rollback PE CALL`; with CALL 0 no PE dies. PE 0 prints the sum of all that the PEs got,
//! and PE `PE` the number of its calls.

use std::cell::Cell;
use std::ops::ControlFlow::{Break, Continue};

use raidshmem::bytemuck::{Pod, Zeroable};
use raidshmem::{Error, Fault, Lock, Peers, Shmem, Signal, SymRef, SymSlice, Team, ft};
use rustix::process::{Pid, Signal as Killer, getpid, kill_process};

const ROUNDS: u64 = 9;
const WORDS: usize = 8;

/// Counts calls, and kills this process before one of them.
struct Victim {
    is_it: bool,
    at: u64,
    calls: Cell<u64>,
}

impl Victim {
    fn call<R>(&self, call: impl FnOnce() -> R) -> R {
        self.calls.set(self.calls.get() + 1);
        if self.is_it && self.calls.get() == self.at {
            let me: Pid = getpid();
            let _ = kill_process(me, Killer::KILL);
        }
        call()
    }
}

/// The state of a PE: its round, its value, its memory, and its team.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct State {
    round: u64,
    value: u64,
    boxes: SymSlice<u64>,
    wide: SymSlice<u64>,
    flag: SymRef<u64>,
    count: SymRef<u64>,
    guarded: SymRef<u64>,
    lock: SymRef<Lock>,
    row: Team,
}

impl State {
    fn new(shmem: &mut Shmem) -> Result<State, Error> {
        Ok(State {
            round: 0,
            value: shmem.my_pe() as u64 + 1,
            boxes: shmem.alloc(WORDS)?,
            wide: shmem.alloc(4 * WORDS)?,
            flag: shmem.alloc_one(0)?,
            count: shmem.alloc_one(0)?,
            guarded: shmem.alloc_one(0)?,
            lock: shmem.alloc_one(Lock::default())?,
            row: shmem.split_2d(shmem.team_world(), 2)?[0],
        })
    }
}

/// Makes the transfers of a round; returns a digest of what this PE got.
fn transfers(peers: &Peers, on: &State, victim: &Victim) -> Result<u64, Fault> {
    let State { round, value, .. } = *on;
    let (me, n) = (peers.my_pe(), peers.n_pes());
    let (right, left) = ((me + 1) % n, (me + n - 1) % n);
    let mut sum = value;
    let mut mix = |got: u64| sum = sum.wrapping_mul(31).wrapping_add(got);
    let words: Vec<u64> =
        (0..WORDS as u64).map(|at| value.wrapping_mul(7).wrapping_add(at + round)).collect();
    victim.call(|| peers.put(right, on.boxes, &words));
    victim
        .call(|| peers.put_signal(right, on.wide.range(0..WORDS), &words, on.flag, Signal::Add(1)));
    mix(victim.call(|| peers.wait_until(on.flag, |times| times > round))?);
    victim.call(|| peers.barrier())?;
    let mut got = [0; WORDS];
    victim.call(|| peers.get(left, on.boxes, &mut got));
    got.iter().for_each(|&word| mix(word));
    victim.call(|| peers.fetch_add(0, on.count, me as u64 + 1)); // in any order
    victim.call(|| peers.barrier())?;
    mix(victim.call(|| peers.fetch(0, on.count)));
    {
        let _held = victim.call(|| peers.lock(on.lock))?;
        let before = victim.call(|| peers.read(0, on.guarded));
        victim.call(|| peers.write(0, on.guarded, before.wrapping_add(round + me as u64)));
    }
    victim.call(|| peers.barrier())?;
    mix(victim.call(|| peers.read(0, on.guarded)));
    mix(victim.call(|| peers.reduce(value, u64::wrapping_add))?);
    victim.call(|| peers.broadcast(1, on.wide.range(WORDS..2 * WORDS), on.boxes))?;
    mix(peers.own(on.wide.at(WORDS)));
    Ok(sum)
}

fn main() -> Result<(), Error> {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [pe, at] = numbers[..] else { panic!("usage: local_rollback PE CALL") };
    let mut shmem = Shmem::init();
    let is_original = ft::algo_init(&shmem);
    let me = shmem.my_pe() as u64;
    let victim = Victim { is_it: is_original && me == pe, at, calls: Cell::new(0) };
    // Ends with a fault in a substitute, which has not come to its checkpoint yet.
    let all_began = shmem.exchange(|peers| peers.barrier()).and_then(|met| met).is_ok();
    assert!(all_began || !is_original, "nothing is lost yet");
    let step = |shmem: &mut Shmem, state: &mut State| {
        let drawn = victim.call(|| ft::event(shmem, u64::from(std::process::id())));
        std::hint::black_box(drawn);
        state.value = shmem.exchange(|peers| transfers(peers, state, &victim))??;
        let part = |peers: &Peers| victim.call(|| peers.reduce(state.value, u64::max));
        state.value = state.value.wrapping_add(shmem.exchange_in(state.row, part)??);
        victim.call(|| shmem.barrier_all())?;
        state.round += 1;
        Ok(if state.round == ROUNDS { Break(()) } else { Continue(()) })
    };
    let value = ft::run(&mut shmem, State::new, step)?.value;
    let all = shmem.exchange(|peers| peers.gather(value))??;
    if me == 0 {
        let sum =
            all.iter().fold(0u64, |sum, value| sum.wrapping_mul(1_000_003).wrapping_add(*value));
        println!("sum {sum}");
    }
    if me == pe {
        println!("calls {}", victim.calls.get());
    }
    Ok(())
}
