//! The block at the start of every symmetric heap: the location of the program's state, and a flag
//! for this PE being inside an exchange.
//!
//! It is the first allocation of every process, so it is at heap offset 0 in originals and
//! substitutes alike; no handle reaches it (`handle.rs`). As symmetric data it is saved and
//! restored with everything else, and tells a substitute where the state of the program lies.
//!
//! A PE whose exchange ended with a loss reads the `inside` words of its peers. A peer that is
//! still inside its exchange may be in the middle of a transfer to this PE's memory, so the PE
//! waits until all have left ([`settle`]) before it lends references again; a substitute does so
//! when it begins. If only the lost PEs roll back, no PE waits: the others log their transfers to
//! a lost one.
//!
//! Invariants: everything in the block is an atomic; a PE that is not inside an exchange transfers
//! nothing, and one that sees a loss after setting `inside` does not begin. Fresh memory is zero,
//! the initial state.
//!
//! Unsafe code: the step from an address in the local segment to the block.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use raidshmem_core::quantity::Pe;
use raidshmem_core::view::State;
use raidshmem_runtime::pgas::{Segments, World};

/// Size of the block in bytes.
pub(super) const ROOT_BYTES: usize = size_of::<Root>();

/// The progress of the loop of `ft::run`; 0 initially.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopProgress {
    /// The initialiser has not run.
    Fresh = 0,
    /// Steps are running.
    Stepping,
    /// The last step is done.
    Done,
}

/// The root block.
#[repr(C, align(64))]
pub(super) struct Root {
    /// 1 during an exchange.
    inside: AtomicU64,
    /// Handle of the program's root object; zeroes until it is set.
    object: [AtomicU64; 2],
    progress: AtomicU64,
}

/// Returns the address of the local block.
fn block(segments: &Segments) -> usize {
    segments.own().base() as usize + segments.layout().heap
}

/// Returns the local block.
fn root(segments: &Segments) -> &Root {
    // SAFETY: the heap begins with this block (`Shmem::init` allocated it first), page-aligned; it
    // is made of atomics, for which any bytes are a valid value, and the segment stays mapped until
    // the process ends. Other processes access it as atomic words only, and the library's plain
    // copies (checkpoint, restore) are made while no PE runs its program.
    unsafe { &*std::ptr::with_exposed_provenance::<Root>(block(segments)) }
}

/// Announces that this PE is about to transfer. Returns false after a loss: then it must not.
pub(super) fn enter(world: &World) -> bool {
    root(world.segments).inside.store(1, Ordering::SeqCst);
    // Either this PE sees the loss now, or a peer that has seen it sees the word above.
    fence(Ordering::SeqCst);
    !world.loss_response().cut_short()
}

/// Announces that this PE has no more transfers.
pub(super) fn leave(segments: &Segments) {
    root(segments).inside.store(0, Ordering::SeqCst);
}

/// Leaves after a loss. Waits until all PEs have stopped transferring, unless they continue.
pub(super) fn settle(world: &World) {
    leave(world.segments);
    if world.members.view().local {
        return;
    }
    let word = world.segments.layout().heap + offset_of!(Root, inside);
    let mut view = world.members.view();
    let alive = |view: &raidshmem_core::view::View| -> Vec<Pe> {
        Pe::all(world.n_pes()).filter(|&pe| view.pes[pe.at()].state == State::Alive).collect()
    };
    world.refresh(&view);
    alive(&view).iter().for_each(|&pe| world.comm.nudge(pe));
    world.wait_raw(
        || world.waiting_for_all("exchange"),
        || {
            if world.members.view_number() != view.number {
                view = world.members.view();
                world.refresh(&view);
            }
            // An unreachable PE does not end the wait: the view decides its fate.
            let inside = |pe: Pe| world.comm.look(pe, word) != Some(0);
            !alive(&view).into_iter().any(inside)
        },
    );
}

/// Returns the words of the root object's handle.
pub(super) fn object(segments: &Segments) -> [u64; 2] {
    // Relaxed: only this PE accesses its own.
    root(segments).object.each_ref().map(|word| word.load(Ordering::Relaxed))
}

/// Sets the words of the root object's handle.
pub(super) fn set_object(segments: &Segments, words: [u64; 2]) {
    for (kept, word) in root(segments).object.iter().zip(words) {
        kept.store(word, Ordering::Relaxed); // as above
    }
}

/// Returns the progress of the loop.
pub(super) fn progress(segments: &Segments) -> LoopProgress {
    match root(segments).progress.load(Ordering::Relaxed) {
        0 => LoopProgress::Fresh,
        1 => LoopProgress::Stepping,
        _ => LoopProgress::Done,
    }
}

/// Records the progress of the loop.
pub(super) fn set_progress(segments: &Segments, progress: LoopProgress) {
    root(segments).progress.store(progress as u64, Ordering::Relaxed);
}
