//! The block at the start of every symmetric heap: where the program's state is, and whether this
//! PE is inside an exchange.
//!
//! It is the first allocation of every process, so it is at heap offset 0 in originals and
//! substitutes alike; no handle reaches it (`handle.rs`). Being symmetric data it is saved and
//! restored with everything else: a substitute reads here where the state of the program lies.
//!
//! `inside` is what a PE looks at whose exchange ended with a loss. Others that are still inside
//! theirs may be in the middle of a transfer to its memory, so it waits until all of them have left
//! ([`settle`]) before it gives out references again; a substitute does the same when it begins.
//!
//! Invariants: everything in the block is an atomic; a PE that is not inside an exchange transfers
//! nothing, and one that sees a loss after it has said that it is inside does not begin. Fresh
//! memory is zero, which is the beginning.
//!
//! Unsafe code: the step from an address in the own segment to the block.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use raidshmem_core::quantity::Pe;
use raidshmem_core::view::State;

use crate::pgas::{Segments, World};

/// Bytes of the block.
pub(super) const ROOT_BYTES: usize = size_of::<Root>();

/// How far the loop of `ft::run` is; 0 is the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopProgress {
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
    /// 1 during an exchange.
    inside: AtomicU64,
    /// Handle of the program's root object; zeroes while there is none.
    object: [AtomicU64; 2],
    progress: AtomicU64,
}

/// Address of the own block.
fn block(segments: &Segments) -> usize {
    segments.own().base() as usize + segments.layout().heap
}

/// The own block.
fn root(segments: &Segments) -> &Root {
    // SAFETY: the heap begins with this block (`Shmem::init` allocated it first), page-aligned; it
    // is made of atomics, for which any bytes are a value, and the segment stays mapped until the
    // process ends. Other processes access it as atomic words only, and the library's plain copies
    // (checkpoint, restore) are made while no PE runs its program.
    unsafe { &*std::ptr::with_exposed_provenance::<Root>(block(segments)) }
}

/// This PE is about to transfer. False after a loss: then it must not.
pub(super) fn enter(world: &World) -> bool {
    root(world.segments).inside.store(1, Ordering::SeqCst);
    // Either this PE sees the loss now, or whoever has seen it sees the word above.
    fence(Ordering::SeqCst);
    !world.cut_short()
}

/// This PE transfers nothing any more.
pub(super) fn leave(segments: &Segments) {
    root(segments).inside.store(0, Ordering::SeqCst);
}

/// Leaves after a loss, and waits until nobody transfers any more.
pub(super) fn settle(world: &World) {
    leave(world.segments);
    let word = world.segments.layout().heap + offset_of!(Root, inside);
    let mut view = world.members.view();
    let alive = |view: &raidshmem_core::view::View| -> Vec<Pe> {
        Pe::all(world.n_pes()).filter(|&pe| view.pes[pe.at()].state == State::Alive).collect()
    };
    world.refresh(&view);
    alive(&view).iter().for_each(|&pe| world.nudge(pe));
    world.wait_raw(
        || world.waiting_for_all("exchange"),
        || {
            if world.members.view_number() != view.number {
                view = world.members.view();
                world.refresh(&view);
            }
            // A PE that cannot be reached is no way out of here: the view says what became of it.
            let inside = |pe: Pe| world.look(pe, word) != Some(0);
            !alive(&view).into_iter().any(inside)
        },
    );
}

/// The words of the root object's handle.
pub(super) fn object(segments: &Segments) -> [u64; 2] {
    // Relaxed: only this PE touches its own.
    root(segments).object.each_ref().map(|word| word.load(Ordering::Relaxed))
}

/// Sets them.
pub(super) fn set_object(segments: &Segments, words: [u64; 2]) {
    for (kept, word) in root(segments).object.iter().zip(words) {
        kept.store(word, Ordering::Relaxed); // as above
    }
}

/// How far the loop is.
pub(super) fn progress(segments: &Segments) -> LoopProgress {
    match root(segments).progress.load(Ordering::Relaxed) {
        0 => LoopProgress::Fresh,
        1 => LoopProgress::Stepping,
        _ => LoopProgress::Done,
    }
}

/// Notes how far the loop is.
pub(super) fn set_progress(segments: &Segments, progress: LoopProgress) {
    root(segments).progress.store(progress as u64, Ordering::Relaxed);
}
