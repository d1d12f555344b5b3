//! Shrink mode, call by call, in safe Rust; PE 1 kills itself.
//!
//! ```text
//! SHMEM_FT_SUBSTITUTE=shrink SHMEM_FT_ROLLBACK=none oshrun -n 4 --mode raid5 fewer
//! ```
//!
//! The data of PE 1 is read from its last checkpoint, and then the survivors protect each other.

use std::sync::{Arc, Mutex};

use raidshmem::ft::Loss;
use raidshmem::{Error, Shmem, SymSlice, Team, ft};

/// The PE that is lost.
const LOST: usize = 1;
/// Cells of each PE.
const CELLS: usize = 40_000;

/// Returns the value of a PE's cell after a step.
fn value(pe: usize, step: u64, cell: usize) -> u64 {
    (pe as u64 + 1) << 40 | step << 32 | cell as u64
}

fn fill(shmem: &mut Shmem, cells: SymSlice<u64>, step: u64) {
    let me = shmem.my_pe();
    for (at, cell) in shmem.local_mut(cells).iter_mut().enumerate() {
        *cell = value(me, step, at);
    }
}

/// Returns the checkpoint that holds a PE's data after a step; `None` if it cannot be read.
fn read(shmem: &mut Shmem, cells: SymSlice<u64>, (pe, step): (usize, u64)) -> Option<u64> {
    let mut theirs = vec![0; CELLS];
    let number = ft::get_checkpoint(shmem, pe, cells, &mut theirs)?;
    let is_right = |(at, cell): (usize, &u64)| *cell == value(pe, step, at);
    assert!(theirs.iter().enumerate().all(is_right), "what PE {pe} had after step {step}");
    Some(number)
}

/// Waits until the survivors agree that all of them know of the loss.
fn await_loss(shmem: &mut Shmem, team: Team) {
    loop {
        let knows = u64::from(ft::failed(shmem, team) == [LOST]);
        let agreed = ft::agree(shmem, team, knows);
        if agreed.value == 1 {
            return assert!(!agreed.acknowledged, "no PE has called restart_pes");
        }
    }
}

/// Checks that both copies have the written value, in an exchange of the survivors.
fn two_copies(shmem: &mut Shmem, team: Team, cells: SymSlice<u64>) -> Result<(), Error> {
    let me = shmem.team_pe(team).expect("a member");
    let pair = cells.range(2 * me..2 * me + 2); // several PEs may share a shadow
    let shadow = ft::shadow(shmem, team, me).expect("there are others");
    let ours = [me as u64 + 7, 9];
    shmem.exchange_in(team, |peers| peers.put2([me, shadow], pair, &ours))??;
    let there = shmem.exchange_in(team, |peers| {
        let mut there = [0; 2];
        peers.try_get(shadow, pair, &mut there).map(|()| there)
    })??;
    assert_eq!(there, ours);
    Ok(())
}

fn main() -> Result<(), Error> {
    let mut shmem = Shmem::init();
    let (me, world) = (shmem.my_pe(), shmem.team_world());
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    ft::on_fault(&mut shmem, move |pe, how| heard.lock().unwrap().push((pe, how)));
    let cells = shmem.alloc::<u64>(CELLS)?;
    assert!(ft::failed(&shmem, world).is_empty());
    assert_eq!(read(&mut shmem, cells, (LOST, 0)), None, "there is no checkpoint yet");
    let agreed = ft::agree(&mut shmem, world, 6 | 1 << (me + 8));
    assert_eq!(agreed, ft::Agreed { value: 6, acknowledged: true });
    fill(&mut shmem, cells, 1);
    ft::checkpoint_all(&mut shmem)?;
    if me == LOST {
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
    }
    await_loss(&mut shmem, world);
    assert_eq!(*told.lock().unwrap(), [(LOST, Loss::Process)]);
    assert!(shmem.exchange(|_| ()).is_err(), "a member is lost");
    assert!(matches!(ft::checkpoint_all(&mut shmem), Err(Error::Fault(_))));
    assert_eq!(ft::query_fault(&shmem), [(LOST, Loss::Process)]);
    ft::restart_pes(&mut shmem);
    assert_eq!(read(&mut shmem, cells, (LOST, 1)), Some(1), "decoded from the others");
    let living = ft::shrink(&mut shmem, world)?;
    two_copies(&mut shmem, living, cells)?;
    fill(&mut shmem, cells, 2);
    ft::checkpoint_all(&mut shmem)?;
    assert_eq!(read(&mut shmem, cells, (LOST, 1)), None, "it is in the checkpoint no more");
    for pe in (0..shmem.n_pes()).filter(|&pe| pe != LOST) {
        assert_eq!(read(&mut shmem, cells, (pe, 2)), Some(2));
    }
    shmem.exchange_in(living, |_| ())?; // no PE ends while another reads from it
    if me == 0 {
        println!("fewer: ok");
    }
    Ok(())
}
