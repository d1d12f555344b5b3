//! Collectives: as data, and carried out in the one way that a job has.
//!
//! ```text
//! merge      one member combines the operands of all
//! data       movement  bytes from sources to destinations     reduction  elements combined
//! executors  direct    members read each other's sources, or pass on (relay, exchange)
//!            logged    what all bring is in logs
//!            living    those that live agree on what they have read
//! ```
//!
//! Invariants: a collective meets nobody before [`carry_out`] has chosen its way, whatever its size
//! is: a replay of one that met otherwise would wait for PEs that have left it. An executor knows
//! the data and no collective; the data knows no executor.

mod direct;
mod exchange;
mod living;
mod logged;
mod merge;
mod movement;
mod reduction;
mod relay;

use movement::Movement;
use reduction::{Order, Reduction};

use super::bits::Zero;
use super::group::Group;
use super::memory::address::{Sym, SymIn};
use super::memory::prelude;
use super::memory::strides::Strided;
use crate::pgas::{self, Fault};

/// Carries a collective out in the one way that its job has. Logs that cannot hold it leave it to
/// `direct`.
fn carry_out<R>(
    group: &Group,
    living: impl FnOnce() -> Result<R, Fault>,
    logged: impl FnOnce() -> Option<Result<R, Fault>>,
    direct: impl FnOnce() -> Result<R, Fault>,
) -> Result<R, Fault> {
    if living::applies() {
        return living();
    }
    let logged = logged::applies(group).then(logged).flatten();
    logged.unwrap_or_else(direct)
}

/// Moves bytes; how many lie in the destination, where members say how many they bring.
fn move_bytes(of: &Movement) -> Result<usize, Fault> {
    carry_out(&of.group, || living::movement(of), || logged::movement(of), || direct::movement(of))
}

/// Combines elements, or gives what came out before.
fn combine<T: Copy + Zero, F: Fn(T, T) -> T>(of: &Reduction<T, F>) -> Result<(), Fault> {
    let bytes = of.checked();
    let act = || {
        let (living, logged) = (|| living::reduction(of), || logged::reduction(of));
        carry_out(&of.group, living, logged, || direct::reduction(of)).map(|()| bytes)
    };
    made(&of.group, of.dest.erase(), bytes, act).map(drop)
}

/// Waits until all PEs of a group are here.
pub fn sync(group: Group) -> Result<(), Fault> {
    if pgas::world().prelude.is_given() {
        return Ok(());
    }
    let meet = || group.meet();
    carry_out(&group, meet, || logged::barrier(group.call, 0), meet)
}

/// Gathers the numbers of all PEs, by index, from the number of each.
pub fn gather(group: &Group, number: u64) -> Result<Vec<u64>, Fault> {
    match living::applies() {
        true => living::gather(group, number),
        false => exchange::gather(group, number),
    }
}

/// Makes a collective by `act`, which says how many bytes of the own destination it has filled, or
/// fills them as before in a substitute that makes the call again; `own` stands for its arguments.
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

/// Moves bytes, or gives what was moved before; how many lie in the destination, where members say
/// how many they bring.
fn make(of: &Movement) -> Result<usize, Fault> {
    let filled = of.filled();
    let act = || move_bytes(of).map(|all| if of.has_lengths() { all } else { filled });
    made(&of.group, of.dest, filled, act)
}

/// Copies bytes from the root to all; `to_itself` says whether to the root's destination too.
pub fn broadcast(
    group: Group,
    dest: Sym<u8>,
    source: SymIn<u8>,
    bytes: usize,
    root: (i32, bool),
) -> Result<(), Fault> {
    make(&Movement::broadcast(group, (dest, source), bytes, root)).map(drop)
}

/// Gathers the same number of bytes from each, by index.
pub fn fcollect(group: Group, dest: Sym<u8>, source: SymIn<u8>, bytes: usize) -> Result<(), Fault> {
    make(&Movement::fcollect(group, (dest, source), bytes)).map(drop)
}

/// Gathers from each as many bytes as it says, one after another by index; hands back how many in
/// all. `room` is how many bytes `dest` has, where that is known.
pub fn collect(
    group: Group,
    (dest, room): (Sym<u8>, usize),
    source: SymIn<u8>,
    bytes: usize,
) -> Result<usize, Fault> {
    make(&Movement::collect(group, (dest, source), bytes, room))
}

/// Copies block `i` of each to PE `i`, there by index.
pub fn alltoall(group: Group, dest: Sym<u8>, source: SymIn<u8>, bytes: usize) -> Result<(), Fault> {
    make(&Movement::alltoall(group, (dest, source), bytes)).map(drop)
}

/// Does so with elements that are `dst` and `sst` elements apart; `shape` is that of one block.
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
