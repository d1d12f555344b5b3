//! The block at the start of every symmetric heap: gates, and where the program's state is.
//!
//! It is the first allocation of every process, so it is at heap offset 0 in originals and
//! substitutes alike; no handle reaches it (`handle.rs`). Being symmetric data it is saved and
//! restored with everything else: after a rollback the gates count on from the checkpoint, and a
//! substitute reads here where the state of the program lies.
//!
//! A gate is a counter on PE 0 through which all PEs pass together. There is one for each kind of
//! meeting, and none is shared with a checkpoint: PEs that disagree about what comes next then wait
//! for ever, as OpenSHMEM programs do, instead of taking one meeting for another. That matters more
//! here than in C: passing [`Meeting::Open`] is what proves that no PE holds a reference to its
//! memory any more.
//!
//! Invariants: everything in the block is an atomic; `released <= came <= released + 1` on every
//! PE, and `arrived <= n_pes * (released + 1)`. A substitute does not touch the block before its
//! restart, because others may still do so. Fresh memory is zero, which is the beginning.
//!
//! Unsafe code: the step from an address in a mapped segment to the block.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Fault;
use crate::pgas::{World, schedule};
use crate::segment::update::Update;
use crate::segment::words::ROUNDS;

/// Bytes of the block.
pub(super) const ROOT_BYTES: usize = size_of::<Root>();

/// What PEs come together for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meeting {
    /// `barrier_all`: nothing changes.
    Barrier,
    /// An exchange begins: all have given up their references.
    Open,
    /// A barrier inside an exchange.
    Inside,
    /// An exchange ends: nobody transfers any more.
    Close,
}

/// A gate: two words on PE 0, and one on every PE that says how often it has come. Where PEs do not
/// map each other they meet by dissemination instead, through the words that are `heard`.
#[repr(C, align(64))]
struct Gate {
    arrived: AtomicU64,
    released: AtomicU64,
    came: AtomicU64,
    heard: [AtomicU64; ROUNDS],
}

/// How far the loop of `ft::run` is; 0 is the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The initialiser has not been run.
    Fresh = 0,
    /// Steps are being done.
    Stepping,
    /// The last step is done.
    Done,
}

/// The block.
#[repr(C, align(64))]
pub(super) struct Root {
    gates: [Gate; 4],
    /// Handle of the program's root object; zeroes while there is none.
    object: [AtomicU64; 2],
    progress: AtomicU64,
}

/// The block of PE `pe`, which is mapped here.
fn root(world: &World, pe: usize) -> &Root {
    let base = world.base(pe);
    assert!(!base.is_null(), "the block of PE {pe} is out of reach");
    let at = base.wrapping_add(world.layout().heap).cast::<Root>();
    // SAFETY: the heap begins with this block (`Shmem::init` allocated it first), page-aligned; it
    // is made of atomics, for which any bytes are a value, and segments stay mapped until the
    // process ends. Other processes access it through this type only, and the library's plain
    // copies (checkpoint, restore) are made while no PE runs its program.
    unsafe { &*at }
}

/// Passes a gate together with all other PEs, or learns that a PE was lost. What any PE did before
/// is seen by every PE that passes.
pub(super) fn pass(world: &World, meeting: Meeting) -> Result<(), Fault> {
    if world.faulted() {
        return Err(Fault::new());
    }
    // SeqCst as in `World::barrier`: an arrival is also the full fence that `World::wake` needs
    // between the store and the look for sleepers.
    let own = &root(world, world.me()).gates[meeting as usize];
    let turn = own.came.fetch_add(1, Ordering::SeqCst) + 1;
    if world.has_engine() {
        return pass_by_rounds(world, meeting, turn);
    }
    let gate = &root(world, 0).gates[meeting as usize];
    let all = turn * world.n_pes() as u64;
    if gate.arrived.fetch_add(1, Ordering::SeqCst) + 1 == all {
        gate.released.store(turn, Ordering::SeqCst); // pairs with the loads below
        (0..world.n_pes()).filter(|&pe| pe != world.me()).for_each(|pe| world.wake(pe));
        return Ok(());
    }
    let mut met = false;
    world.wait_raw(|| {
        met = gate.released.load(Ordering::SeqCst) >= turn;
        met || world.faulted()
    });
    if met { Ok(()) } else { Err(Fault::new()) }
}

/// Passes gate number `turn` of a meeting by telling one PE and hearing of another in each round.
fn pass_by_rounds(world: &World, meeting: Meeting, turn: u64) -> Result<(), Fault> {
    let gate = world.layout().heap + meeting as usize * size_of::<Gate>();
    let heard = gate + std::mem::offset_of!(Gate, heard);
    let own = &root(world, world.me()).gates[meeting as usize].heard;
    for (number, round) in schedule::rounds(world.me(), world.n_pes()).enumerate().take(ROUNDS) {
        if world.is_far(round.to) {
            world.far_post(round.to, heard + number * 8, 8, Update::Store, turn);
        } else {
            let there = &root(world, round.to).gates[meeting as usize].heard[number];
            there.store(turn, Ordering::SeqCst); // pairs with the loads below
            world.wake(round.to);
        }
        let mut met = false;
        world.wait_raw(|| {
            met = own[number].load(Ordering::SeqCst) >= turn;
            met || world.faulted()
        });
        if !met {
            return Err(Fault::new());
        }
    }
    Ok(())
}

/// The words of the root object's handle.
pub(super) fn object(world: &World) -> [u64; 2] {
    let words = &root(world, world.me()).object;
    // Relaxed: only this PE touches its own.
    words.each_ref().map(|word| word.load(Ordering::Relaxed))
}

/// Sets them.
pub(super) fn set_object(world: &World, words: [u64; 2]) {
    for (kept, word) in root(world, world.me()).object.iter().zip(words) {
        kept.store(word, Ordering::Relaxed); // as above
    }
}

/// How far the loop is.
pub(super) fn progress(world: &World) -> Progress {
    match root(world, world.me()).progress.load(Ordering::Relaxed) {
        0 => Progress::Fresh,
        1 => Progress::Stepping,
        _ => Progress::Done,
    }
}

/// Notes how far the loop is.
pub(super) fn set_progress(world: &World, progress: Progress) {
    root(world, world.me()).progress.store(progress as u64, Ordering::Relaxed);
}
