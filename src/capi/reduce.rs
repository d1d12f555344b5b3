//! Reductions and scans.
//!
//! Each PE has a share of the elements: it reads them from everybody's source, in the order of the
//! PEs, and stores what comes out into everybody's destination (a reduce-scatter, and the
//! allgather that goes with it). So the work is spread, the bits depend on the order of the PEs
//! alone, and the source may be the destination: nobody else reads or writes the elements of a
//! share. What a scan stores differs from PE to PE. Between nodes that do not share memory the
//! leaders spread the shares (`relay.rs`).

use std::ffi::{c_int, c_long};

use super::bits::Zero;
use super::coll::{set, status};
use super::group::Group;
use super::guard::{bytes_of, misuse};
use super::memory_ops::{self, Sym, SymIn};
use super::number::{Bitwise, Number, Ordered};
use super::relay::{Relay, joined};
use super::team::{self, Team};
use crate::pgas::{Fault, schedule};

/// Elements reduced at a time: the accumulator and a piece of a source stay in the cache.
const PIECE: usize = 1024;

/// Most elements of several PEs that are read at a time.
const ROOM: usize = 8 * PIECE;

/// Goes through the share of this PE piece by piece. `each` is given the first element of a piece,
/// the number of a PE and its piece, in the order of the PEs; `after` the first element.
fn over_share<T: Copy + Zero>(
    group: &Group,
    source: SymIn<T>,
    count: usize,
    mut each: impl FnMut(usize, usize, &[T]),
    mut after: impl FnMut(usize),
) {
    let share = schedule::share(count, group.index, group.size);
    let at_a_time = group.size.min(ROOM / PIECE);
    let mut room = vec![T::zero(); at_a_time * PIECE.min(share.len())];
    for first in share.clone().step_by(PIECE) {
        let piece = PIECE.min(share.end - first);
        for index in (0..group.size).step_by(at_a_time) {
            let pes: Vec<c_int> =
                (index..group.size.min(index + at_a_time)).map(|index| group.pe(index)).collect();
            let theirs = &mut room[..pes.len() * piece];
            memory_ops::fetch_from_each(group.call, theirs, source.element(first), &pes);
            for (more, theirs) in theirs.chunks_exact(piece).enumerate() {
                each(first, index + more, theirs);
            }
        }
        after(first);
    }
}

/// `into := into op theirs`; the first one's are taken as they are.
fn fold<T: Copy>(into: &mut Vec<T>, (index, theirs): (usize, &[T]), op: impl Fn(T, T) -> T) {
    if index == 0 {
        into.clear();
        return into.extend_from_slice(theirs);
    }
    into.iter_mut().zip(theirs).for_each(|(a, b)| *a = op(*a, *b));
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
    let nodes = group.nodes(None);
    group.meet_by(nodes.as_ref())?;
    let result = std::cell::RefCell::new(Vec::new());
    let to: Vec<usize> = match &nodes {
        Some(nodes) => vec![nodes.leaders[nodes.own]],
        None => group.partners().collect(),
    };
    let send = |first| {
        for &index in &to {
            let (dest, result) = (dest.element(first), result.borrow());
            memory_ops::send(group.call, dest, &result, group.pe(index));
        }
    };
    let add = |_, index, theirs: &[T]| fold(&mut result.borrow_mut(), (index, theirs), &op);
    over_share(&group, source, count, add, send);
    let Some(nodes) = &nodes else {
        return group.meet();
    };
    spread(&Relay { group: &group, nodes, dest: dest.erase() }, count, size_of::<T>())
}

/// Leaders spread the shares of `count` elements of so many bytes.
fn spread(relay: &Relay, count: usize, element_bytes: usize) -> Result<(), Fault> {
    let share = |index: &usize| {
        let share = schedule::share(count, *index, relay.group.size);
        share.start * element_bytes..share.end * element_bytes
    };
    let of = |node: usize| joined(relay.nodes.members[node].iter().map(share));
    relay.complete(count * element_bytes, &of)
}

/// The same over the PEs up to this one, itself included if `inclusive`; zero before the first.
pub fn scan<T: Copy + Zero>(
    group: Group,
    dest: Sym<T>,
    source: SymIn<T>,
    count: usize,
    (inclusive, op): (bool, impl Fn(T, T) -> T),
) -> Result<(), Fault> {
    bytes_of(group.call, count, size_of::<T>());
    group.meet()?;
    let mut sums = Vec::new();
    let add = |first: usize, index: usize, theirs: &[T]| {
        let send = |sums: &[T]| {
            memory_ops::send(group.call, dest.element(first), sums, group.pe(index));
        };
        if !inclusive && index == 0 {
            send(&vec![T::zero(); theirs.len()]);
        } else if !inclusive {
            send(&sums);
        }
        fold(&mut sums, (index, theirs), &op);
        if inclusive {
            send(&sums);
        }
    };
    over_share(&group, source, count, add, |_| ());
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
