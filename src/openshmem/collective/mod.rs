//! Collectives, described as data and executed on the one path that a job has.
//!
//! ```text
//! merge      one member combines the operands of all
//! data       movement  bytes from sources to destinations     reduction  elements combined
//! executors  direct    members read each other's sources, or forward data (relay, exchange, push)
//!            logged    the contributions of all members are in logs
//!            living    the live members agree on the data they have read
//! ```
//!
//! Invariants: a collective meets no PE before [`carry_out`] has chosen its path, whatever its
//! size; otherwise a replay would wait for PEs that have already left it. An executor knows the
//! data and no collective; the data knows no executor.

mod direct;
mod exchange;
mod living;
mod logged;
mod merge;
mod movement;
pub mod push;
mod reduction;
mod relay;

use movement::Movement;
use raidshmem_runtime::pgas::{self, Fault};
use reduction::{Order, Reduction};

use super::bits::Zero;
use super::group::Group;
use super::memory::address::{Sym, SymIn};
use super::memory::prelude;
use super::memory::strides::Strided;

/// Runs a collective on the one path that its job has. Logs that cannot hold it leave it to
/// `direct`.
fn carry_out<R>(
    living: impl FnOnce() -> Result<R, Fault>,
    logged: impl FnOnce() -> Option<Result<R, Fault>>,
    direct: impl FnOnce() -> Result<R, Fault>,
) -> Result<R, Fault> {
    if living::applies() {
        return living();
    }
    let logged = logged::applies().then(logged).flatten();
    logged.unwrap_or_else(direct)
}

/// Moves bytes; returns the bytes in the destination if members contribute different lengths.
fn move_bytes(of: &Movement) -> Result<usize, Fault> {
    carry_out(|| living::movement(of), || logged::movement(of), || direct::movement(of))
}

/// Combines elements, or returns the recorded result.
fn combine<T: Copy + Zero>(of: &Reduction<T>) -> Result<(), Fault> {
    let bytes = of.checked();
    let act = || {
        let (living, logged) = (|| living::reduction(of), || logged::reduction(of));
        carry_out(living, logged, || direct::reduction(of)).map(|()| bytes)
    };
    made(&of.group, of.dest.erase(), bytes, act).map(drop)
}

/// Waits until all PEs of a group have arrived.
pub fn sync(group: Group) -> Result<(), Fault> {
    if pgas::world().prelude.is_given() {
        return Ok(());
    }
    pass(group)
}

/// Waits until all PEs of a group have arrived at its gate.
pub fn pass(group: Group) -> Result<(), Fault> {
    let meet = || group.meet();
    carry_out(meet, || logged::barrier(&group), meet)
}

/// Gathers one number from each PE over the word `at` of the group; returns them by index. The call
/// has no other collective.
pub fn all_gather(group: &Group, at: usize, number: u64) -> Result<Vec<u64>, Fault> {
    let living = || living::gather(group, number);
    carry_out(living, || logged::gather(group, number), || group.all_gather(at, number))
}

/// Gathers one number from each PE; returns them by index.
pub fn gather(group: &Group, number: u64) -> Result<Vec<u64>, Fault> {
    let living = || living::gather(group, number);
    carry_out(living, || logged::gather(group, number), || exchange::gather(group, number))
}

/// Runs a collective by `act`, which returns the bytes of the local destination that it filled; in
/// a substitute that repeats the call, fills them from the record instead. `own` identifies its
/// arguments.
fn made(
    group: &Group,
    dest: Sym<u8>,
    own: usize,
    act: impl FnOnce() -> Result<usize, Fault>,
) -> Result<usize, Fault> {
    if !prelude::applies() {
        return act();
    }
    let of = [group.start as u64, group.stride as u64, group.size as u64, own as u64];
    let with = prelude::with([prelude::with(of), prelude::offset(dest)]);
    prelude::made(group.call, with, dest, act)
}

/// Moves bytes, or restores the recorded ones; returns the bytes in the destination if members
/// contribute different lengths.
fn make(of: &Movement) -> Result<usize, Fault> {
    let filled = of.filled();
    let act = || move_bytes(of).map(|all| if of.has_lengths() { all } else { filled });
    made(&of.group, of.dest, filled, act)
}

/// Copies bytes from the root to all; `root` is its index, and true if its own destination is
/// written too.
pub fn broadcast(
    group: Group,
    dest: Sym<u8>,
    source: SymIn<u8>,
    bytes: usize,
    root: (i32, bool),
) -> Result<(), Fault> {
    make(&Movement::broadcast(group, (dest, source), bytes, root)).map(drop)
}

/// Gathers an equal number of bytes from each PE, by index.
pub fn fcollect(group: Group, dest: Sym<u8>, source: SymIn<u8>, bytes: usize) -> Result<(), Fault> {
    make(&Movement::fcollect(group, (dest, source), bytes)).map(drop)
}

/// Gathers a different number of bytes from each PE, one after another by index; returns the total.
/// `capacity` is the size of `dest` in bytes, or `usize::MAX` if unknown.
pub fn collect(
    group: Group,
    (dest, capacity): (Sym<u8>, usize),
    source: SymIn<u8>,
    bytes: usize,
) -> Result<usize, Fault> {
    make(&Movement::collect(group, (dest, source), bytes, capacity))
}

/// Copies block `i` of each PE to PE `i`, where the blocks lie by index.
pub fn alltoall(group: Group, dest: Sym<u8>, source: SymIn<u8>, bytes: usize) -> Result<(), Fault> {
    make(&Movement::alltoall(group, (dest, source), bytes)).map(drop)
}

/// Like [`alltoall`], with elements that are `dst` and `sst` elements apart; `shape` describes one
/// block.
pub fn alltoalls(
    group: Group,
    dest: Sym<u8>,
    source: SymIn<u8>,
    shape: Strided,
) -> Result<(), Fault> {
    make(&Movement::alltoalls(group, (dest, source), shape)).map(drop)
}

/// Reduces the elements of all members one by one; all get the result.
pub fn reduce<T: Copy + Zero>(
    group: Group,
    dest: Sym<T>,
    source: SymIn<T>,
    count: usize,
    op: impl Fn(T, T) -> T,
) -> Result<(), Fault> {
    combine(&Reduction { group, dest, source, count, op: &op, order: Order::Tree })
}

/// Reduces over the PEs up to this one, itself included if `inclusive`; zero before the first.
pub fn scan<T: Copy + Zero>(
    group: Group,
    dest: Sym<T>,
    source: SymIn<T>,
    count: usize,
    (inclusive, op): (bool, impl Fn(T, T) -> T),
) -> Result<(), Fault> {
    combine(&Reduction { group, dest, source, count, op: &op, order: Order::Before { inclusive } })
}
