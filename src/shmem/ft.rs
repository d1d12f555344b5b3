//! Fault tolerance: the thesis' four calls as safe Rust, and a loop that hides them.
//!
//! Source: thesis, section 4.3.3 and its listing 4.1.

use std::ops::ControlFlow;
use std::panic::Location;

use raidshmem_core::replay::place::CallSource;
use raidshmem_runtime::fault_tolerance as ft;
use raidshmem_sys::site;

pub use super::error::Loss;
pub use super::fewer::{Agreed, agree, failed, get_checkpoint, on_fault, shadow, shrink};
use super::root::{self, LoopProgress};
pub use super::set::CheckpointSet;
use super::{Error, Fault, Protected, Shmem, SymSlice, Symmetric};
use crate::openshmem::check::misuse;
use crate::openshmem::memory::logged::unlogged;

/// Saves the symmetric heap of all PEs as the next checkpoint. Collective. With `SHMEM_FT_INTERVAL`
/// a call that comes too early saves nothing, but still reports losses.
///
/// # Errors
/// [`Error::Fault`] if a PE was lost since the last call: [`restart_pes`] must follow.
/// [`Error::Refused`] if the checkpoint could not be made on any PE; the last one stays valid. A
/// program that then calls [`restart_pes`] continues without one: further refusals are not errors.
///
/// ```
/// let mut shmem = raidshmem::Shmem::init();
/// raidshmem::ft::checkpoint_all(&mut shmem)?;
/// # Ok::<(), raidshmem::Error>(())
/// ```
#[track_caller]
pub fn checkpoint_all(shmem: &mut Shmem) -> Result<(), Error> {
    let _alone = shmem;
    from_here(Location::caller(), || outcome(ft::checkpoint_all()))
}

/// Makes a checkpoint call that the program wrote at `place`.
fn from_here<R>(place: &Location, call: impl FnOnce() -> R) -> R {
    site::set_source(Some(CallSource::of(place.file(), place.line(), place.column(), "")));
    let result = call();
    site::set_source(None);
    result
}

fn outcome(status: i32) -> Result<(), Error> {
    match status {
        ft::SUCCESS => Ok(()),
        _ => Err(ft::last_error().map_or(Error::Fault(Fault::new()), Error::Refused)),
    }
}

/// Returns true if the next [`checkpoint_all`] saves or reports a loss, and is not skipped because
/// of `SHMEM_FT_INTERVAL`. Collective: all PEs get the same answer unless one was lost.
///
/// ```
/// let mut shmem = raidshmem::Shmem::init();
/// if raidshmem::ft::need_checkpoint(&mut shmem) {
///     // put away what a checkpoint need not hold
///     raidshmem::ft::checkpoint_all(&mut shmem)?;
/// }
/// # Ok::<(), raidshmem::Error>(())
/// ```
pub fn need_checkpoint(shmem: &mut Shmem) -> bool {
    let _alone = shmem;
    ft::need_checkpoint()
}

/// Returns true if the job was asked to stop, and ends once its next checkpoint is on disk
/// (`SHMEM_FT_STORE`): a program that rarely calls [`checkpoint_all`] should do so now. Collective:
/// all PEs get the same answer unless one was lost.
///
/// ```
/// let mut shmem = raidshmem::Shmem::init();
/// for step in 0..100 {
///     // compute
///     if step % 10 == 0 || raidshmem::ft::should_stop(&mut shmem) {
///         raidshmem::ft::checkpoint_all(&mut shmem)?;
///     }
/// }
/// # Ok::<(), raidshmem::Error>(())
/// ```
pub fn should_stop(shmem: &mut Shmem) -> bool {
    let _alone = shmem;
    unlogged("ft::should_stop");
    ft::should_stop()
}

/// A part of the job that can be lost, for [`survives`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureDomain {
    /// The process of a PE.
    Pe(usize),
    /// A node.
    Node(usize),
    /// A failure domain above the node: the index of its kind in `SHMEM_FT_DOMAINS`, and its
    /// number.
    Above(usize, usize),
}

/// Returns true if the job, with its current placement, survives this loss; false before the first
/// checkpoint. None if the job has no such PE, node or domain. Not collective.
///
/// ```
/// use raidshmem::ft::{FailureDomain, survives};
/// let shmem = raidshmem::Shmem::init();
/// assert_eq!(survives(&shmem, FailureDomain::Pe(shmem.n_pes())), None);
/// ```
pub fn survives(_shmem: &Shmem, lost: FailureDomain) -> Option<bool> {
    let (kind, id) = match lost {
        FailureDomain::Pe(pe) => (0, pe),
        FailureDomain::Node(node) => (1, node),
        FailureDomain::Above(kind, domain) => (kind.checked_add(2)?, domain),
    };
    raidshmem_runtime::pgas::world().survival().survives(kind, id)
}

/// Returns the PEs lost since this PE last saw the job whole; in shrink mode, the losses that are
/// not acknowledged.
pub fn query_fault(_shmem: &Shmem) -> Vec<(usize, Loss)> {
    ft::query_fault().into_iter().map(|(pe, status)| (pe.at(), Loss::of(status))).collect()
}

/// Rolls every PE, substitutes included, back to the last checkpoint. Collective. Does nothing
/// without a fault; does not return if the losses exceed the parity.
///
/// With `SHMEM_FT_ROLLBACK=none` it is local: it acknowledges the losses last returned by
/// [`query_fault`], and leaves memory unchanged.
pub fn restart_pes(shmem: &mut Shmem) {
    let _alone = shmem;
    ft::restart_pes();
}

/// Records a value that the program obtained by itself, from a clock, a random number generator, or
/// as input. With local rollback the value is logged, and a PE that rolls back gets the recorded
/// one.
///
/// ```
/// let shmem = raidshmem::Shmem::init();
/// let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
/// let seconds = raidshmem::ft::event(&shmem, now.map_or(0, |now| now.as_secs()));
/// # let _ = seconds;
/// ```
pub fn event<T: Symmetric>(_shmem: &Shmem, mut drawn: T) -> T {
    ft::event(bytemuck::bytes_of_mut(&mut drawn));
    drawn
}

/// Returns true in an original PE, false in a substitute.
pub fn algo_init(_shmem: &Shmem) -> bool {
    ft::algo_init()
}

/// Returns the number of the last agreed checkpoint, 0 before the first.
pub fn checkpoint_number(_shmem: &Shmem) -> u64 {
    ft::checkpoint_number()
}

/// Returns true if a loss rolls the job back to checkpoint `number` or a later one. A checkpoint
/// whose parity is computed in the background (`SHMEM_FT_BACKGROUND`) protects some time after its
/// call has returned.
pub fn protected(_shmem: &Shmem, number: u64) -> bool {
    ft::protected(number)
}

/// Waits until the last checkpoint protects. Not collective.
///
/// # Errors
/// [`Error::Fault`] if a PE was lost before that; the next [`checkpoint_all`] reports it.
pub fn flush(shmem: &mut Shmem) -> Result<(), Error> {
    let _alone = shmem;
    match ft::flush() {
        ft::SUCCESS => Ok(()),
        _ => Err(Error::Fault(Fault::new())),
    }
}

/// Adds a private value of this PE to every later checkpoint, so that a restart restores it. A
/// substitute must protect these names, with types of the same size, in any order before its
/// [`restart_pes`]; otherwise the job ends with an error that names the mismatch. A rollback to a
/// checkpoint from before this call restores `value`. Protecting a name again replaces its value.
///
/// ```
/// let mut shmem = raidshmem::Shmem::init();
/// let mut steps = raidshmem::ft::protect(&mut shmem, "steps", 0u64);
/// *steps.get_mut(&mut shmem) += 1;
/// raidshmem::ft::checkpoint_all(&mut shmem)?;
/// assert_eq!(*steps.get(&shmem), 1);
/// # Ok::<(), raidshmem::Error>(())
/// ```
pub fn protect<T: Symmetric>(shmem: &mut Shmem, name: &str, value: T) -> Protected<T> {
    let _alone = shmem;
    Protected::new(name, value)
}

/// Excludes memory of one allocation from every later checkpoint, until it is freed: a restart
/// leaves it unchanged. Every PE excludes the same range.
///
/// # Panics
/// If the handle names no allocated memory.
///
/// ```
/// let mut shmem = raidshmem::Shmem::init();
/// let scratch = shmem.alloc::<u64>(1000)?;
/// raidshmem::ft::exclude(&mut shmem, scratch);
/// raidshmem::ft::include(&mut shmem, scratch); // and in again
/// # Ok::<(), raidshmem::Error>(())
/// ```
pub fn exclude<T: Symmetric>(shmem: &mut Shmem, slice: SymSlice<T>) {
    set_covered(shmem, slice, false);
}

/// Covers excluded memory again, in every later checkpoint. Every PE includes the same range.
///
/// # Panics
/// Like [`exclude`].
pub fn include<T: Symmetric>(shmem: &mut Shmem, slice: SymSlice<T>) {
    set_covered(shmem, slice, true);
}

/// Declares memory of one allocation read-only until [`writable`]: no copy of it is kept, and its
/// parity is computed once. Collective. A write ends the process with an error message. Returns
/// false if the memory is treated like other memory; PE 0 then prints the reason.
///
/// # Panics
/// If the handle names no allocated memory, or different memory on different PEs.
///
/// ```
/// let mut shmem = raidshmem::Shmem::init();
/// let table = shmem.alloc_from(&[1u64; 100_000])?;
/// raidshmem::ft::readonly(&mut shmem, table);
/// assert_eq!(shmem.local(table)[99_999], 1);
/// raidshmem::ft::writable(&mut shmem, table);
/// shmem.local_mut(table)[99_999] = 2;
/// # Ok::<(), raidshmem::Error>(())
/// ```
pub fn readonly<T: Symmetric>(shmem: &mut Shmem, slice: SymSlice<T>) -> bool {
    let addr = shmem.local(slice).as_ptr().addr();
    unlogged("ft::readonly");
    kept(ft::readonly("ft::readonly", addr, slice.bytes()))
}

/// Makes read-only memory writable again; `slice` is all of a declared range. Collective. Returns
/// false if a PE has no memory for a copy: it then stays read-only.
///
/// # Panics
/// Like [`readonly`].
pub fn writable<T: Symmetric>(shmem: &mut Shmem, slice: SymSlice<T>) -> bool {
    let addr = shmem.local(slice).as_ptr().addr();
    unlogged("ft::writable");
    kept(ft::writable("ft::writable", addr, slice.bytes()))
}

fn kept(result: Result<bool, String>) -> bool {
    result.unwrap_or_else(|words| panic!("{words}"))
}

fn set_covered<T: Symmetric>(shmem: &mut Shmem, slice: SymSlice<T>, covered: bool) {
    let addr = shmem.local(slice).as_ptr().addr();
    let known = slice.is_empty() || shmem.world.memory.set_covered(addr, slice.bytes(), covered);
    assert!(known, "{slice:?} is not allocated");
}

/// Returns the reason why the last checkpoint was refused, if it was.
pub fn last_error(_shmem: &Shmem) -> Option<String> {
    ft::last_error()
}

/// Runs a program as steps between checkpoints, through every loss that the parity covers.
///
/// `begin` makes the state of the program: plain data that names everything else by handles. `step`
/// advances it from one checkpoint to the next and breaks when the work is done. After a loss every
/// PE, a substitute included, continues with the state of the last checkpoint, so both may be
/// called again for work already done; they may return an [`Error::Fault`] to get there. A last
/// checkpoint confirms the end: every PE has reached the state returned. A refused checkpoint is
/// skipped: the work continues, and a loss rolls back to the last one ([`last_error`]).
///
/// With `SHMEM_FT_ROLLBACK=none`, which has no rollback, the job ends with an error message.
///
/// # Errors
/// The errors of `begin` and `step`, except faults.
///
/// ```
/// use std::ops::ControlFlow::{Break, Continue};
///
/// let mut shmem = raidshmem::Shmem::init();
/// let sum = raidshmem::ft::run(
///     &mut shmem,
///     |_| Ok([0u64, 0]),
///     |_, [step, sum]| {
///         (*step, *sum) = (*step + 1, *sum + *step);
///         Ok(if *step == 10 { Break(()) } else { Continue(()) })
///     },
/// )?;
/// assert_eq!(sum, [10, 45]);
/// # Ok::<(), raidshmem::Error>(())
/// ```
#[track_caller]
pub fn run<S: Symmetric>(
    shmem: &mut Shmem,
    mut begin: impl FnMut(&mut Shmem) -> Result<S, Error>,
    mut step: impl FnMut(&mut Shmem, &mut S) -> Result<ControlFlow<()>, Error>,
) -> Result<S, Error> {
    if shmem.world.shrinks() {
        misuse("ft::run", "SHMEM_FT_ROLLBACK=none: expected global, since the loop rolls back");
    }
    let place = Location::caller();
    loop {
        match from_here(place, || confirmed(shmem)) {
            Ok(()) => {}
            Err(Error::Fault(_) | Error::Refused(_)) => {
                restart_pes(shmem);
                continue;
            }
            Err(error) => return Err(error),
        }
        let object = SymSlice::<S>::of_words(root::object(shmem.world.segments));
        let done = match root::progress(shmem.world.segments) {
            LoopProgress::Fresh => begin(shmem).and_then(|state| keep(shmem, state)),
            LoopProgress::Stepping => advance(shmem, object, &mut step),
            LoopProgress::Done => return Ok(shmem.read(object.at(0))),
        };
        match done {
            Ok(()) | Err(Error::Fault(_)) => {} // the next checkpoint reports it
            Err(error) => return Err(error),
        }
    }
}

/// Makes the checkpoint between two steps; the one after the last step saves even if it is not due,
/// and protects.
fn confirmed(shmem: &mut Shmem) -> Result<(), Error> {
    match root::progress(shmem.world.segments) {
        LoopProgress::Done => outcome(ft::save_all()).and_then(|()| flush(shmem)),
        _ => outcome(ft::checkpoint_all()),
    }
}

fn keep<S: Symmetric>(shmem: &mut Shmem, state: S) -> Result<(), Error> {
    let object = shmem.alloc_from(&[state])?;
    root::set_object(shmem.world.segments, object.words());
    root::set_progress(shmem.world.segments, LoopProgress::Stepping);
    Ok(())
}

fn advance<S: Symmetric>(
    shmem: &mut Shmem,
    object: SymSlice<S>,
    step: &mut impl FnMut(&mut Shmem, &mut S) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    let mut state = shmem.read(object.at(0));
    let flow = step(shmem, &mut state)?;
    shmem.write(object.at(0), state);
    if flow.is_break() {
        root::set_progress(shmem.world.segments, LoopProgress::Done);
    }
    Ok(())
}
