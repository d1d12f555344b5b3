//! Reductions and scans.
//!
//! All PEs combine in one tree (`schedule::reduction`), whichever way they go:
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

use std::ops::Range;

use raidshmem_core::layout::WORK_SLOT;
use raidshmem_core::schedule::{self, Nodes, reduction};

use super::exchange::{Actors, with_room};
use super::merge;
use super::movement::{check, check_source, made};
use super::relay::Relay;
use super::{carry_out, living, logged};
use crate::openshmem::bits::Zero;
use crate::openshmem::check::bytes_of;
use crate::openshmem::group::Group;
use crate::openshmem::memory::address::{Sym, SymIn};
use crate::openshmem::memory::rma;
use crate::pgas::Fault;

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

impl<F: Fn(usize) -> i32> Sharers<F> {
    /// The share of this PE, in pieces.
    fn pieces(&self, count: usize) -> impl Iterator<Item = Range<usize>> {
        let share = schedule::share(count, self.own, self.size);
        let end = share.end;
        share.step_by(PIECE).map(move |first| first..end.min(first + PIECE))
    }

    /// Reduces the share of this PE in the tree; `give` gets the first element of a piece, and it.
    fn reduce<T: Copy + Zero>(
        &self,
        source: SymIn<T>,
        count: usize,
        op: &impl Fn(T, T) -> T,
        give: impl Fn(usize, &[T]),
    ) {
        let longest = self.pieces(count).next().map_or(0, |piece| piece.len());
        with_room(merge::room(self.size, longest), |room| {
            for piece in self.pieces(count) {
                let read = |index: usize, into: &mut [T]| {
                    rma::fetch(self.call, into, source.element(piece.start), (self.pe)(index));
                };
                let room = &mut room[..merge::room(self.size, piece.len())];
                give(piece.start, merge::all((self.size, piece.len()), room, read, op));
            }
        });
    }

    /// Goes through the share of this PE piece by piece. `each` is given the first element of a
    /// piece, the number of a PE and its piece, in the order of the PEs.
    fn in_turn<T: Copy + Zero>(
        &self,
        source: SymIn<T>,
        count: usize,
        mut each: impl FnMut(usize, usize, &[T]),
    ) {
        let longest = self.pieces(count).next().map_or(0, |piece| piece.len());
        let at_a_time = self.size.min(READS);
        with_room(at_a_time * longest, |room| {
            for piece in self.pieces(count) {
                for index in (0..self.size).step_by(at_a_time) {
                    let n = at_a_time.min(self.size - index);
                    let pes: [i32; READS] =
                        std::array::from_fn(|more| (self.pe)(index + more.min(n - 1)));
                    let theirs = &mut room[..n * piece.len()];
                    let from = source.element(piece.start);
                    rma::fetch_from_each(self.call, theirs, from, &pes[..n]);
                    for (more, theirs) in theirs.chunks_exact(piece.len()).enumerate() {
                        each(piece.start, index + more, theirs);
                    }
                }
            }
        });
    }
}

/// Refuses what is not symmetric, before any PE waits for this one.
fn check_both<T>(group: &Group, dest: Sym<T>, source: SymIn<T>, count: usize) {
    let bytes = bytes_of(group.call, count, size_of::<T>());
    check(group, dest.erase(), bytes);
    check_source(group, source.erase(), bytes);
}

/// Reduces the elements of all members one by one; all get the result.
pub fn reduce<T: Copy + Zero>(
    group: Group,
    dest: Sym<T>,
    source: SymIn<T>,
    count: usize,
    op: impl Fn(T, T) -> T,
) -> Result<(), Fault> {
    check_both(&group, dest, source, count);
    let bytes = count * size_of::<T>();
    made(&group, dest.erase(), bytes, || {
        carry_out(
            &group,
            || living::reduce(&group, (dest, source), count, &op),
            || logged::reduce(&group, (dest, source), count, &op),
            || reduce_directly(&group, (dest, source), count, &op),
        )
    })
}

fn reduce_directly<T: Copy + Zero>(
    group: &Group,
    (dest, source): (Sym<T>, SymIn<T>),
    count: usize,
    op: &impl Fn(T, T) -> T,
) -> Result<(), Fault> {
    if let Some(nodes) = group.nodes(None).as_deref() {
        return reduce_by_passing((group, nodes), (dest, source), count, op);
    }
    group.meet()?;
    let (call, own, size) = (group.call, group.index, group.size);
    let sharers = Sharers { call, own, size, pe: |index| group.pe(index) };
    sharers.reduce(source, count, op, |first, result| {
        for index in group.partners() {
            rma::send(group.call, dest.element(first), result, group.pe(index));
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
        rma::send(group.call, dest.element(first), result, leader);
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
    check_both(&group, dest, source, count);
    let bytes = count * size_of::<T>();
    made(&group, dest.erase(), bytes, || {
        carry_out(
            &group,
            || living::scan(&group, (dest, source), count, (inclusive, &op)),
            || logged::scan(&group, (dest, source), count, (inclusive, &op)),
            || scan_directly(&group, (dest, source), count, (inclusive, &op)),
        )
    })
}

fn scan_directly<T: Copy + Zero>(
    group: &Group,
    (dest, source): (Sym<T>, SymIn<T>),
    count: usize,
    (inclusive, op): (bool, &impl Fn(T, T) -> T),
) -> Result<(), Fault> {
    group.meet()?;
    let mut sums = Vec::new();
    let add = |first: usize, index: usize, theirs: &[T]| {
        let send = |sums: &[T]| {
            rma::send(group.call, dest.element(first), sums, group.pe(index));
        };
        if !inclusive && index == 0 {
            send(&vec![T::zero(); theirs.len()]);
        } else if !inclusive {
            send(&sums);
        }
        fold(&mut sums, (index, theirs), op);
        if inclusive {
            send(&sums);
        }
    };
    let (call, own, size) = (group.call, group.index, group.size);
    let sharers = Sharers { call, own, size, pe: |index| group.pe(index) };
    sharers.in_turn(source, count, add);
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
