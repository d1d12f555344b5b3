//! Reductions and scans.
//!
//! All PEs combine in one tree (`pgas::schedule::reduction`), whichever way they go:
//!
//! - *directly*, between PEs that map each other: each PE has a share of the elements. It reads
//!   them from everybody's source, in the order of the PEs, and stores what comes out into
//!   everybody's destination. So the work is spread, and the source may be the destination: nobody
//!   else reads or writes the elements of a share.
//! - *by passing on* partial results, between PEs that do not (`exchange.rs`). Where the tree fits,
//!   the PEs of a node reduce directly into the destination of their leader first, and copy the
//!   result from there; on other nodes every PE acts for itself.
//!
//! So the bits of a result depend on the number of PEs alone. Scans combine in the order of the
//! PEs, and always go directly: what a scan stores differs from PE to PE.

use std::ffi::{c_int, c_long};

use super::bits::Zero;
use super::coll::{set, status};
use super::exchange::{Actors, with_room};
use super::group::Group;
use super::guard::{bytes_of, misuse};
use super::memory_ops::{self, Sym, SymIn};
use super::number::{Bitwise, Number, Ordered};
use super::relay::Relay;
use super::team::{self, Team};
use crate::pgas::schedule::{Nodes, reduction};
use crate::pgas::{Fault, schedule};
use crate::segment::layout::WORK_SLOT;

/// Elements reduced at a time: the accumulator and a piece of a source stay in the cache.
const PIECE: usize = 1024;

/// PEs of which elements are read at a time.
const READS: usize = 8;

/// PEs that share the elements between them: this one is number `own` of `size`, and `pe` says
/// which PE the others are.
struct Sharers<F> {
    call: &'static str,
    own: usize,
    size: usize,
    pe: F,
}

impl<F: Fn(usize) -> c_int> Sharers<F> {
    /// Goes through the share of this PE piece by piece. `each` is given the first element of a
    /// piece, the number of a PE and its piece, in the order of the PEs; `after` the first element.
    fn over_share<T: Copy + Zero>(
        &self,
        source: SymIn<T>,
        count: usize,
        mut each: impl FnMut(usize, usize, &[T]),
        mut after: impl FnMut(usize, usize),
    ) {
        let share = schedule::share(count, self.own, self.size);
        let at_a_time = self.size.min(READS);
        with_room(at_a_time * PIECE.min(share.len()), |room| {
            for first in share.clone().step_by(PIECE) {
                let piece = PIECE.min(share.end - first);
                for index in (0..self.size).step_by(at_a_time) {
                    let n = at_a_time.min(self.size - index);
                    let pes: [c_int; READS] =
                        std::array::from_fn(|more| (self.pe)(index + more.min(n - 1)));
                    let theirs = &mut room[..n * piece];
                    let from = source.element(first);
                    memory_ops::fetch_from_each(self.call, theirs, from, &pes[..n]);
                    for (more, theirs) in theirs.chunks_exact(piece).enumerate() {
                        each(first, index + more, theirs);
                    }
                }
                after(first, piece);
            }
        });
    }

    /// Reduces the share of this PE in the tree; `give` gets the first element of a piece, and it.
    fn reduce<T: Copy + Zero>(
        &self,
        source: SymIn<T>,
        count: usize,
        op: &impl Fn(T, T) -> T,
        give: impl Fn(usize, &[T]),
    ) {
        let longest = PIECE.min(schedule::share(count, self.own, self.size).len());
        with_room(reduction::depth(self.size) * longest, |stack| {
            let stack = std::cell::RefCell::new(Stack { room: stack, top: 0 });
            let push = |_, index, theirs: &[T]| {
                stack.borrow_mut().push(theirs, reduction::merges(index, self.size), op);
            };
            let take = |first, piece| give(first, stack.borrow_mut().pop(piece));
            self.over_share(source, count, push, take);
        });
    }
}

/// Partial results of equal length, one on another.
struct Stack<'a, T> {
    room: &'a mut [T],
    top: usize,
}

impl<T: Copy> Stack<'_, T> {
    /// Puts another one on it, then combines the two topmost so often.
    fn push(&mut self, theirs: &[T], merges: usize, op: &impl Fn(T, T) -> T) {
        let mut upper = theirs;
        let (below, rest) = self.room.split_at_mut(self.top);
        if merges == 0 {
            rest[..upper.len()].copy_from_slice(upper);
            self.top += upper.len();
            return;
        }
        let mut below = below;
        for _ in 0..merges {
            let end = below.len() - theirs.len();
            let (under, lower) = below.split_at_mut(end);
            lower.iter_mut().zip(upper).for_each(|(a, b)| *a = op(*a, *b));
            (below, upper) = (under, lower);
        }
        self.top = below.len() + theirs.len();
    }

    /// Takes the last one, of so many elements, off.
    fn pop(&mut self, len: usize) -> &[T] {
        self.top -= len;
        &self.room[self.top..self.top + len]
    }
}

/// Of everybody's elements one by one; all get the result.
pub fn reduce<T: Copy + Zero>(
    group: Group,
    dest: Sym<T>,
    source: SymIn<T>,
    count: usize,
    op: impl Fn(T, T) -> T,
) -> Result<(), Fault> {
    bytes_of(group.call, count, size_of::<T>());
    if let Some(nodes) = group.nodes(None).as_deref() {
        return reduce_by_passing((&group, nodes), (dest, source), count, &op);
    }
    group.meet()?;
    let (call, own, size) = (group.call, group.index, group.size);
    let sharers = Sharers { call, own, size, pe: |index| group.pe(index) };
    sharers.reduce(source, count, &op, |first, result| {
        for index in group.partners() {
            memory_ops::send(group.call, dest.element(first), result, group.pe(index));
        }
    });
    group.meet()
}

/// The same where not all PEs map each other.
fn reduce_by_passing<T: Copy + Zero>(
    (group, nodes): (&Group, &Nodes),
    (dest, source): (Sym<T>, SymIn<T>),
    count: usize,
    op: &impl Fn(T, T) -> T,
) -> Result<(), Fault> {
    let bytes = count * size_of::<T>();
    let doubles = group.has_slots() && bytes <= WORK_SLOT && !group.is_long(bytes, group.size);
    let set = if doubles { group.turn() } else { 0 };
    let pass = |actors: Actors, source| match doubles {
        true => actors.double((dest, source), count, set, op),
        false => actors.halve((dest, source), count, op),
    };
    let here = &nodes.members[nodes.own];
    if !reduction::fits(&nodes.members) || here.len() == 1 {
        return pass(Actors::all(group), source);
    }
    group.meet_node(nodes)?;
    let leader = group.pe(nodes.leaders[nodes.own]);
    let own = group.index - here[0];
    let pe = |index: usize| group.pe(here[index]);
    let sharers = Sharers { call: group.call, own, size: here.len(), pe };
    sharers.reduce(source, count, op, |first, result| {
        memory_ops::send(group.call, dest.element(first), result, leader);
    });
    let relay = Relay { group, nodes, dest: dest.erase() };
    relay.through_leader(bytes, || pass(Actors::leaders(group, nodes), SymIn::at(dest.addr())))
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
    let (call, own, size) = (group.call, group.index, group.size);
    let sharers = Sharers { call, own, size, pe: |index| group.pe(index) };
    sharers.over_share(source, count, add, |_, _| ());
    group.meet()
}

/// `into := into op theirs`; the first one's are taken as they are.
fn fold<T: Copy>(into: &mut Vec<T>, (index, theirs): (usize, &[T]), op: impl Fn(T, T) -> T) {
    if index == 0 {
        into.clear();
        return into.extend_from_slice(theirs);
    }
    into.iter_mut().zip(theirs).for_each(|(a, b)| *a = op(*a, *b));
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
