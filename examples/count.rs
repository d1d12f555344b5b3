//! Sums rounds over all PEs, even if some are lost: `cargo build --release --example count`.

use std::ops::ControlFlow::{self, Break, Continue};

use raidshmem::bytemuck::{Pod, Zeroable};
use raidshmem::{Error, Shmem, SymRef, ft};

/// The state of a step: plain data, which refers to symmetric memory by handles.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
#[bytemuck(crate = "raidshmem::bytemuck")]
struct State {
    mine: SymRef<u64>,
    sum: SymRef<u64>,
    round: u64,
    total: u64,
}

fn begin(shmem: &mut Shmem) -> Result<State, Error> {
    Ok(State { mine: shmem.alloc_one(0)?, sum: shmem.alloc_one(0)?, round: 0, total: 0 })
}

fn step(shmem: &mut Shmem, state: &mut State) -> Result<ControlFlow<()>, Error> {
    shmem.write(state.mine, state.round);
    let (world, sum, mine) = (shmem.team_world(), state.sum.as_slice(), state.mine.as_slice());
    shmem.exchange_in(world, |all| all.sum(sum, mine))??; // an Error::Fault also rolls back
    (state.total, state.round) = (state.total + shmem.read(state.sum), state.round + 1);
    Ok(if state.round == 20 { Break(()) } else { Continue(()) })
}

fn main() -> Result<(), Error> {
    let mut shmem = Shmem::init();
    let state = ft::run(&mut shmem, begin, step)?;
    if shmem.my_pe() == 0 {
        println!("total {}", state.total); // 190 per PE, regardless of losses
    }
    Ok(())
}
