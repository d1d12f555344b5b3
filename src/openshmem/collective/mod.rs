//! Collectives: as data, and carried out in the one way that a job has.
//!
//! ```text
//! merge      one member combines the operands of all
//! data       movement  bytes from sources to destinations     reduction  elements combined
//! executors  direct    members read each other's sources, or pass on (relay, exchange)
//!            logged    what all bring is in logs
//!            living    those that live agree on what they have read
//! entries    what the interfaces call
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
pub mod movement;
pub mod reduction;
mod relay;

use movement::Movement;
use reduction::Reduction;

use super::bits::Zero;
use super::group::Group;
use super::memory::address::Sym;
use super::memory::prelude;
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

/// Combines elements.
fn combine<T: Copy + Zero, F: Fn(T, T) -> T>(of: &Reduction<T, F>) -> Result<(), Fault> {
    carry_out(
        &of.group,
        || living::reduction(of),
        || logged::reduction(of),
        || direct::reduction(of),
    )
}

/// The PEs of a group meet.
pub fn sync(group: Group) -> Result<(), Fault> {
    if pgas::world().prelude.is_given() {
        return Ok(());
    }
    let meet = || group.meet();
    carry_out(&group, meet, || logged::barrier(group.call, 0), meet)
}

/// The numbers of all PEs, by index, from the number of each.
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

/// A number for arguments that are alike on all members.
fn digest<const N: usize>(arguments: [usize; N]) -> u64 {
    arguments.iter().fold(0, |all: u64, &one| all.wrapping_mul(0x100_0001).wrapping_add(one as u64))
}
