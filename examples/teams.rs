//! Teams, collectives, signals and locks in safe Rust, surviving the death of PEs.
//!
//! The PEs are laid out in rows of two. In every step each PE computes a number from its own and
//! that of the step; rows and columns, a ring, a lock, a team made for the step, a batch and
//! contexts work on these, and each PE compares the results with its own computation. At the end
//! all agree on a digest, which does not depend on deaths.

use std::ops::ControlFlow::{self, Break, Continue};

use raidshmem::bytemuck::{Pod, Zeroable};
use raidshmem::{Error, Fault, Lock, Shmem, Signal, SymRef, SymSlice, Team, TeamConfig, ft};

const STEPS: u64 = 12;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
#[bytemuck(crate = "raidshmem::bytemuck")]
struct State {
    row: Team,
    column: Team,
    mine: SymRef<u64>,
    result: SymRef<u64>,
    from: SymSlice<u64>,
    to: SymSlice<u64>,
    arrived: SymRef<u64>,
    lock: SymRef<Lock>,
    count: SymRef<u64>,
    step: u64,
    digest: u64,
}

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Returns the number of a PE in a step.
fn number(pe: usize, step: u64) -> u64 {
    mix(pe as u64 + 1 + (step << 32))
}

fn begin(shmem: &mut Shmem) -> Result<State, Error> {
    let n = shmem.n_pes();
    let [row, column] = shmem.split_2d(shmem.team_world(), 2)?;
    Ok(State {
        row,
        column,
        mine: shmem.alloc_one(0)?,
        result: shmem.alloc_one(0)?,
        from: shmem.alloc(n)?,
        to: shmem.alloc(n)?,
        arrived: shmem.alloc_one(0)?,
        lock: shmem.alloc_one(Lock::default())?,
        count: shmem.alloc_one(0)?,
        step: 0,
        digest: 0,
    })
}

/// Computes sums and scans over parts of the PEs.
fn rows_and_columns(shmem: &mut Shmem, state: &State) -> Result<u64, Error> {
    let (me, n, step) = (shmem.my_pe(), shmem.n_pes(), state.step);
    let (mine, result) = (state.mine.as_slice(), state.result.as_slice());
    shmem.write(state.mine, number(me, step));

    shmem.exchange_in(state.row, |row| row.sum(result, mine))??;
    let row = (me / 2 * 2..n.min(me / 2 * 2 + 2)).map(|pe| number(pe, step));
    let row_sum = row.fold(0, u64::wrapping_add);
    assert_eq!(shmem.read(state.result), row_sum);

    shmem.exchange_in(state.column, |column| column.exscan(result, mine, u64::wrapping_add))??;
    let above = (me % 2..me).step_by(2).map(|pe| number(pe, step)).fold(0, u64::wrapping_add);
    assert_eq!(shmem.read(state.result), above);
    Ok(mix(row_sum ^ above))
}

/// Sends a message to the next PE and a block to every PE, and takes turns at a counter.
fn all_together(shmem: &mut Shmem, state: &State) -> Result<u64, Error> {
    let (me, n, step) = (shmem.my_pe(), shmem.n_pes(), state.step);
    let (next, before) = ((me + 1) % n, (me + n - 1) % n);
    let blocks = shmem.local_mut(state.from).iter_mut().enumerate();
    blocks.for_each(|(pe, block)| *block = number(me, step) ^ pe as u64);
    let count = shmem.exchange(|peers| {
        let sent = [number(me, step)];
        peers.put_signal(next, state.result.as_slice(), &sent, state.arrived, Signal::Add(1));
        peers.wait_until(state.arrived, |times| times == step + 1)?;
        peers.alltoall(state.to, state.from)?;
        let held = peers.lock(state.lock)?;
        peers.write(0, state.count, peers.read(0, state.count) + 1);
        drop(held);
        assert!(peers.of(state.row).gather(me)?.contains(&me));
        peers.barrier()?;
        Ok::<u64, Fault>(peers.read(0, state.count))
    })??;
    assert_eq!(count, (step + 1) * n as u64);
    assert_eq!(shmem.read(state.result), number(before, step));
    let expected = (0..n).map(|pe| number(pe, step) ^ me as u64);
    assert!(shmem.local(state.to).iter().copied().eq(expected));
    Ok(count)
}

/// Exchanges numbers with all PEs by operations that are under way together; then writes through a
/// context and reads the value back after its `quiet`.
fn under_way(shmem: &mut Shmem, state: &State) -> Result<u64, Error> {
    let (me, n, step) = (shmem.my_pe(), shmem.n_pes(), state.step);
    shmem.write(state.mine, number(me, step));
    shmem.local_mut(state.to).fill(0);
    shmem.local_mut(state.from).fill(0);
    let (mut theirs, mut before) = (vec![[0]; n], vec![1; n]);
    let own = [number(me, step)];
    let last = shmem.exchange(|peers| {
        peers.nonblocking(|batch| {
            for (pe, (theirs, before)) in theirs.iter_mut().zip(&mut before).enumerate() {
                batch.get(pe, state.mine.as_slice(), theirs);
                batch.fetch_add(pe, state.to.at(me), number(me, step), before);
                batch.put(pe, state.from.range(me..me + 1), &own);
            }
        });
        let context = peers.context();
        context.write(me, state.result, step);
        context.quiet();
        peers.context_nostore().read(me, state.result)
    })?;
    assert!((last, &before[..]) == (step, &vec![0; n]));
    assert!(theirs.iter().enumerate().all(|(pe, theirs)| theirs[0] == number(pe, step)));
    let expected: Vec<u64> = (0..n).map(|pe| number(pe, step)).collect();
    assert!(shmem.local(state.to) == expected && shmem.local(state.from) == expected);
    Ok(expected.into_iter().fold(0, u64::wrapping_add))
}

/// Uses a team that lives for one step: the even PEs, the last of them first.
fn for_a_step(shmem: &mut Shmem, step: u64) -> Result<u64, Error> {
    let even = shmem.n_pes().div_ceil(2);
    let team = shmem.split_strided_with(
        shmem.team_world(),
        (2 * (even - 1), -2, even),
        TeamConfig { contexts: 1 },
    )?;
    let Some(team) = team else { return Ok(0) };
    let me = shmem.my_pe();
    let first = shmem.exchange_in(team, |peers| peers.gather(number(me, step)))??[0];
    assert_eq!(first, number(2 * (even - 1), step));
    shmem.destroy(team)?;
    Ok(first)
}

fn step(shmem: &mut Shmem, state: &mut State) -> Result<ControlFlow<()>, Error> {
    let parts = rows_and_columns(shmem, state)?;
    let count = all_together(shmem, state)?;
    let short = for_a_step(shmem, state.step)?;
    let sum = under_way(shmem, state)?;
    state.digest = mix(state.digest ^ parts ^ count ^ short ^ sum);
    state.step += 1;
    Ok(if state.step == STEPS { Break(()) } else { Continue(()) })
}

fn main() -> Result<(), Error> {
    let mut shmem = Shmem::init();
    let state = ft::run(&mut shmem, begin, step)?;
    let digest = shmem.exchange(|peers| peers.reduce(state.digest, |a, b| mix(a ^ b)))??;
    if shmem.my_pe() == 0 {
        println!("teams: ok digest={digest:016x}");
    }
    Ok(())
}
