//! Reductions and scans.
//!
//! Each PE reduces one slice of the elements, from everybody's source, in the order of the PEs, and
//! stores it into everybody's destination; so the work is spread, all get the same bits, and the
//! source may be the destination. A scan differs from PE to PE: each reads what comes before it and
//! writes only when all have read.

use std::ffi::{c_int, c_long};

use super::bits::Zero;
use super::coll::{set, status};
use super::group::Group;
use super::guard::{bytes_of, misuse};
use super::memory_ops::{self, Place, Sym, SymIn};
use super::number::{Bitwise, Number, Ordered};
use super::team::{self, Team};
use crate::pgas::{Fault, schedule};

/// Elements reduced at a time: the accumulator and one piece of a source stay in the cache.
const PIECE: usize = 1024;

/// `into := into op the source of PE index`, for the elements from `first` on.
fn fold<T: Copy + Zero>(
    group: &Group,
    into: &mut [T],
    source: SymIn<T>,
    (first, index): (usize, usize),
    op: impl Fn(T, T) -> T,
) {
    let mut piece = [T::zero(); PIECE];
    for (step, part) in into.chunks_mut(PIECE).enumerate() {
        let theirs = &mut piece[..part.len()];
        let from = source.element(first + step * PIECE);
        memory_ops::fetch(group.call, theirs, from, group.pe(index));
        for (a, b) in part.iter_mut().zip(theirs) {
            *a = op(*a, *b);
        }
    }
}

/// Of everybody's elements one by one, in the order of the PEs; all get the result.
pub fn reduce<T: Copy + Zero>(
    group: Group,
    dest: Sym<T>,
    source: SymIn<T>,
    count: usize,
    op: impl Fn(T, T) -> T,
) -> Result<(), Fault> {
    bytes_of(group.call, count, size_of::<T>());
    group.meet()?;
    let slice = schedule::share(count, group.index, group.size);
    let mut room = [T::zero(); PIECE];
    for first in slice.clone().step_by(PIECE) {
        let result = &mut room[..PIECE.min(slice.end - first)];
        memory_ops::fetch(group.call, result, source.element(first), group.pe(0));
        for index in 1..group.size {
            fold(&group, result, source, (first, index), &op);
        }
        for index in group.partners() {
            memory_ops::send(group.call, dest.element(first), result, group.pe(index));
        }
    }
    group.meet()
}

/// The same over the PEs up to this one, itself included if `inclusive`; zero before the first.
pub fn scan<T: Copy + Zero>(
    group: Group,
    dest: Sym<T>,
    source: SymIn<T>,
    count: usize,
    (inclusive, op): (bool, impl Fn(T, T) -> T),
) -> Result<(), Fault> {
    let bytes = bytes_of(group.call, count, size_of::<T>());
    // A claim on the destination first: the room for the sums is then no larger than what is there.
    Place::new(group.call, "dest", dest, bytes, group.pe(group.index));
    group.meet()?;
    let mut sums = vec![T::zero(); count];
    let end = group.index + usize::from(inclusive);
    if end > 0 {
        memory_ops::fetch(group.call, &mut sums, source, group.pe(0));
    }
    for index in 1..end {
        fold(&group, &mut sums, source, (0, index), &op);
    }
    group.meet()?;
    memory_ops::send(group.call, dest, &sums, group.pe(group.index));
    group.meet()
}

/// The number of elements of the old reductions, an `int`.
fn count(call: &'static str, nreduce: c_int) -> usize {
    match usize::try_from(nreduce) {
        Ok(count) => count,
        Err(_) => misuse(call, format_args!("nreduce {nreduce}: allowed are 0 and more")),
    }
}

macro_rules! reductions {
    ($list:ident: $($set:ident $post:literal $generic:literal $trait:ident $op:ident;)*) => {
        family! { $list: "Collectives: reductions"; $(
            $set "shmem_" $post [generic $generic]
            (team: Team, dest: Sym<T>, source: SymIn<T>, nreduce: usize) -> c_int {
                let group = team::group(NAME, team);
                status(reduce(group, dest, source, nreduce, <T as $trait>::$op))
            }
        )* }
    };
}

macro_rules! reductions_to_all {
    ($list:ident: $($set:ident $post:literal $trait:ident $op:ident;)*) => {
        family! { $list: "Collectives: reductions"; $(
            $set "shmem_" $post [deprecated "1.5"]
            (dest: Sym<T>, source: SymIn<T>, nreduce: c_int, PE_start: c_int, logPE_stride: c_int,
             PE_size: c_int, pWrk: Sym<T>, pSync: Sym<c_long>) {
                let _ = pWrk;
                let group = set(NAME, PE_start, logPE_stride, PE_size, pSync);
                let _ = reduce(group, dest, source, count(NAME, nreduce), <T as $trait>::$op);
            }
        )* }
    };
}

reductions! { TEAM:
    AND "_and_reduce" "shmem_and_reduce" Bitwise and;
    AND "_or_reduce" "shmem_or_reduce" Bitwise or;
    AND "_xor_reduce" "shmem_xor_reduce" Bitwise xor;
    RMA "_max_reduce" "shmem_max_reduce" Ordered max;
    RMA "_min_reduce" "shmem_min_reduce" Ordered min;
    SUM "_sum_reduce" "shmem_sum_reduce" Number sum;
    SUM "_prod_reduce" "shmem_prod_reduce" Number prod;
}

reductions_to_all! { SETS:
    OLDWAIT "_and_to_all" Bitwise and;
    OLDWAIT "_or_to_all" Bitwise or;
    OLDWAIT "_xor_to_all" Bitwise xor;
    OLDMAX "_max_to_all" Ordered max;
    OLDMAX "_min_to_all" Ordered min;
    OLDSUM "_sum_to_all" Number sum;
    OLDSUM "_prod_to_all" Number prod;
}

family! { SCAN: "Collectives: scan";
    SUM "shmem_" "_sum_inscan" [generic "shmem_sum_inscan"]
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize) -> c_int {
        status(scan(team::group(NAME, team), dest, source, nelems, (true, T::sum)))
    }
    SUM "shmem_" "_sum_exscan" [generic "shmem_sum_exscan"]
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize) -> c_int {
        status(scan(team::group(NAME, team), dest, source, nelems, (false, T::sum)))
    }
}
