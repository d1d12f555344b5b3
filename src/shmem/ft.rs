//! Fault tolerance: the thesis' four calls as safe Rust, and the loop that hides them.
//!
//! Source: thesis, section 4.3.3 and its listing 4.1.

use std::ops::ControlFlow;

pub use super::error::Loss;
pub use super::fewer::{Agreed, agree, failed, get_checkpoint, on_fault, shadow, shrink};
use super::root::{self, LoopProgress};
use super::{Error, Fault, Protected, Shmem, SymSlice, Symmetric};
use crate::faults;
use crate::openshmem::check::misuse;

/// Saves the symmetric heap of all PEs as the next checkpoint. Collective. With `SHMEM_FT_INTERVAL`
/// a call that comes too early saves nothing, and reports losses all the same.
///
/// # Errors
/// [`Error::Fault`] if a PE was lost since the last call: [`restart_pes`] must follow.
/// [`Error::Refused`] if it could not be made on any PE; the last checkpoint stays good. A program
/// that calls [`restart_pes`] then goes on without: further ones that are refused are no errors.
///
/// ```
/// let mut shmem = raidshmem::Shmem::init();
/// raidshmem::ft::checkpoint_all(&mut shmem)?;
/// # Ok::<(), raidshmem::Error>(())
/// ```
pub fn checkpoint_all(shmem: &mut Shmem) -> Result<(), Error> {
    let _alone = shmem;
    outcome(faults::checkpoint_all())
}

fn outcome(status: i32) -> Result<(), Error> {
    match status {
        faults::SUCCESS => Ok(()),
        _ => Err(faults::last_error().map_or(Error::Fault(Fault::new()), Error::Refused)),
    }
}

/// True if the next [`checkpoint_all`] saves or reports a loss, and is not passed over because of
/// `SHMEM_FT_INTERVAL`. Collective: all PEs ask, and have the same answer unless one was lost.
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
    faults::need_checkpoint()
}

/// True if the job was asked to stop, and ends once its next checkpoint is on disk
/// (`SHMEM_FT_STORE`): a program that rarely calls [`checkpoint_all`] does so now. Collective: all
/// PEs ask, and have the same answer unless one was lost.
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
    faults::should_stop()
}

/// A part of the job that can be lost, for [`survives`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureDomain {
    /// The process of a PE.
    Pe(usize),
    /// A node.
    Node(usize),
    /// A failure domain above the node: the kind by its place in `SHMEM_FT_DOMAINS`, and its
    /// number.
    Above(usize, usize),
}

/// Tells whether the job, as its PEs are placed now, survives this loss; false before the first
/// checkpoint. None where the job has no such PE, node or domain. Not collective.
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
    crate::pgas::world().survives(kind, id)
}

/// The PEs lost since this PE last saw the job whole; where nobody goes back, those that are not
/// acknowledged.
pub fn query_fault(_shmem: &Shmem) -> Vec<(usize, Loss)> {
    faults::query_fault().into_iter().map(|(pe, status)| (pe.at(), Loss::of(status))).collect()
}

/// Brings every PE, substitutes among them, back to the last checkpoint. Collective. Does nothing
/// without a fault; does not return if the loss is more than the parity covers.
///
/// With `SHMEM_FT_ROLLBACK=none` it is local: it acknowledges the losses that [`query_fault`] named
/// last, and leaves memory alone.
pub fn restart_pes(shmem: &mut Shmem) {
    let _alone = shmem;
    faults::restart_pes();
}

/// A value that the program has drawn by itself, from a clock, as a random number, or as input: it
/// is kept where lost PEs go back alone, and a PE that goes back gets what it drew before.
///
/// ```
/// let shmem = raidshmem::Shmem::init();
/// let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
/// let seconds = raidshmem::ft::event(&shmem, now.map_or(0, |now| now.as_secs()));
/// # let _ = seconds;
/// ```
pub fn event<T: Symmetric>(_shmem: &Shmem, mut drawn: T) -> T {
    faults::event(bytemuck::bytes_of_mut(&mut drawn));
    drawn
}

/// True in an original PE, false in a substitute.
pub fn algo_init(_shmem: &Shmem) -> bool {
    faults::algo_init()
}

/// Number of the last agreed checkpoint, 0 before the first.
pub fn checkpoint_number(_shmem: &Shmem) -> u64 {
    faults::checkpoint_number()
}

/// Keeps a private value of this PE in every later checkpoint, so that a restart brings it back. A
/// substitute protects the same names, with types of the same size, before its [`restart_pes`], in
/// whatever order, or the job ends with an error that names what does not fit. A restart that goes
/// back to a checkpoint from before this call brings back `value`. A name that is protected again
/// is that of the new value.
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

/// Leaves memory of one allocation out of every later checkpoint, until it is freed: a restart
/// leaves it as it is. Every PE excludes the same.
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

/// Takes memory that was excluded into every later checkpoint again. Every PE includes the same.
///
/// # Panics
/// As [`exclude`].
pub fn include<T: Symmetric>(shmem: &mut Shmem, slice: SymSlice<T>) {
    set_covered(shmem, slice, true);
}

/// Declares memory of one allocation that the program does not write until [`writable`]: no copy of
/// it is kept, and its parity is made once. Collective. A write ends the process with a line. False
/// if it stays as other memory, which PE 0 says with the reason.
///
/// # Panics
/// If the handle names no allocated memory, or not the same on every PE.
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
    kept(faults::readonly("ft::readonly", addr, slice.bytes()))
}

/// Lets memory be written again that was declared read-only as a whole. Collective. False if a PE
/// has no memory for a copy: it stays read-only then.
///
/// # Panics
/// As [`readonly`].
pub fn writable<T: Symmetric>(shmem: &mut Shmem, slice: SymSlice<T>) -> bool {
    let addr = shmem.local(slice).as_ptr().addr();
    kept(faults::writable("ft::writable", addr, slice.bytes()))
}

fn kept(result: Result<bool, String>) -> bool {
    result.unwrap_or_else(|words| panic!("{words}"))
}

fn set_covered<T: Symmetric>(shmem: &mut Shmem, slice: SymSlice<T>, covered: bool) {
    let addr = shmem.local(slice).as_ptr().addr();
    let known = slice.is_empty() || shmem.world.memory.set_covered(addr, slice.bytes(), covered);
    assert!(known, "{slice:?} is not allocated");
}

/// Why the last checkpoint was refused, if it was.
pub fn last_error(_shmem: &Shmem) -> Option<String> {
    faults::last_error()
}

/// Runs a program as steps between checkpoints, over every loss that the parity covers.
///
/// `begin` makes the state of the program: plain data that names everything else by handles. `step`
/// takes it from one checkpoint to the next and breaks when the work is done. After a loss every
/// PE, a substitute too, continues with the state of the last checkpoint, so both may be called
/// again for the same work; an [`Error::Fault`] they return leads there. A last checkpoint confirms
/// the end: the state returned is one that every PE has reached. A checkpoint that is refused is
/// passed over: the work goes on, and a loss takes it back to the last one ([`last_error`]).
///
/// With `SHMEM_FT_ROLLBACK=none`, where nobody goes back, the job ends with a line that says so.
///
/// # Errors
/// What `begin` or `step` fail with, but for faults.
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
pub fn run<S: Symmetric>(
    shmem: &mut Shmem,
    mut begin: impl FnMut(&mut Shmem) -> Result<S, Error>,
    mut step: impl FnMut(&mut Shmem, &mut S) -> Result<ControlFlow<()>, Error>,
) -> Result<S, Error> {
    if super::fewer::applies() {
        misuse("ft::run", "SHMEM_FT_ROLLBACK=none: expected global, since the loop goes back");
    }
    loop {
        match confirmed(shmem) {
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

/// The checkpoint between two steps; the one after the last step saves even if it is not due.
fn confirmed(shmem: &mut Shmem) -> Result<(), Error> {
    match root::progress(shmem.world.segments) {
        LoopProgress::Done => outcome(faults::save_all()),
        _ => checkpoint_all(shmem),
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
