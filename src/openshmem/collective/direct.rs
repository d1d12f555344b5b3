//! Collectives of PEs that read each other's memory, or pass on data that is not mapped.
//!
//! ```text
//! mapped            barrier (all sources ready), each PE reads its data, barrier (all have read)
//! .. if small       a broadcast or a reduction passes through slots, without a barrier (`push.rs`)
//! for all           between nodes, the leaders relay data that is for all PEs (`relay.rs`)
//! for one           data for one PE is put there, or relayed in small blocks (`exchange.rs`)
//! reduction         each PE reduces a share of the elements: it reads them from all sources, in
//!                   PE order, and stores the result into all destinations. So the work is
//!                   distributed, and the source may be the destination: no other PE reads or
//!                   writes the elements of a share
//! .. between nodes  partial results are exchanged (`exchange.rs`). If the tree fits, the PEs of a
//!                   node first reduce into the destination of their leader, and copy the result
//!                   from there; on other nodes every PE acts for itself
//! scan              as between mapped PEs: each PE stores a different result
//! ```
//!
//! Invariant: all PEs combine in one tree (`schedule::reduction`), so the bits of a result depend
//! only on the number of PEs.

use std::ops::Range;

use raidshmem_core::layout::WORK_SLOT;
use raidshmem_core::schedule::{self, Nodes, reduction as tree};
use raidshmem_runtime::pgas::Fault;

use super::exchange::{self, Actors};
use super::merge::{self, Operator, with_scratch};
use super::movement::{Move, Movement};
use super::push;
use super::reduction::{Order, Reduction};
use super::relay::{Relay, joined};
use crate::openshmem::bits::Zero;
use crate::openshmem::check::bytes_of;
use crate::openshmem::group::Group;
use crate::openshmem::memory::address::SymIn;
use crate::openshmem::memory::rma;

/// Elements reduced at a time, few enough that the accumulator and a block of a source stay in
/// cache.
const PIECE: usize = 1024;

/// PEs whose elements are read at a time.
const READS: usize = 8;

/// Moves bytes; returns the total if members contribute different lengths, else 0.
pub fn movement(of: &Movement) -> Result<usize, Fault> {
    if of.has_lengths() {
        return with_lengths(of);
    }
    match of.is_for_all() {
        true => for_all(of),
        false => for_each(of),
    }
    .map(|()| 0)
}

/// Reads this member's share of another member's source into its destination.
fn take(of: &Movement, one: Move) {
    let (call, pe) = (of.group.call, of.group.pe(one.giver));
    let (to, from) = (of.dest.element(one.to).as_out(), of.source.element(one.from));
    rma::get_blocks(call, to, from, one.by, pe);
}

/// Puts this member's data for `taker` into the destination of `taker`.
fn give(of: &Movement, taker: usize, one: Move) {
    let (call, pe) = (of.group.call, of.group.pe(taker));
    let (to, from) = (of.dest.element(one.to), of.source.element(one.from).as_in());
    rma::put_blocks(call, to, from, one.by, pe);
}

/// Moves the same data to all members.
fn for_all(of: &Movement) -> Result<(), Fault> {
    let group = &of.group;
    let nodes = group.nodes(of.root().map(|(root, _)| root));
    if let Some(nodes) = nodes.as_deref() {
        group.meet_by(Some(nodes))?;
        let relay = Relay { group, nodes, dest: of.dest };
        let bytes = of.block.bytes();
        return match of.root() {
            Some(root) => relay.broadcast(of.source, bytes, root),
            None => {
                let block = |index: usize| index * bytes..(index + 1) * bytes;
                pass_on(of, &relay, group.size * bytes, &block)
            }
        };
    }
    if let Some(root) = of.root()
        && let Some(slots) = push::slots_of(group, of.block.bytes())
    {
        return push::broadcast(&slots, of, root);
    }
    group.meet()?;
    match of.root() {
        Some((root, _)) => of.taken_from(root).into_iter().for_each(|one| take(of, one)),
        None => take_of_each(of),
    }
    group.meet()
}

fn take_of_each(of: &Movement) {
    of.group.partners().filter_map(|giver| of.taken_from(giver)).for_each(|one| take(of, one));
}

/// Passes on each member's contribution to all: `all` bytes in total, each in its part of the
/// destination.
fn pass_on(
    of: &Movement,
    relay: &Relay,
    all: usize,
    part: &dyn Fn(usize) -> Range<usize>,
) -> Result<(), Fault> {
    relay.give(of.source, part(of.group.index));
    let on = |node: usize| joined(relay.nodes.members[node].iter().map(|&index| part(index)));
    relay.complete(all, &on)
}

/// Gathers contributions of different lengths to all members; returns the total.
fn with_lengths(of: &Movement) -> Result<usize, Fault> {
    let group = &of.group;
    let lengths = exchange::gather(group, of.block.block_bytes as u64)?;
    let all = lengths.iter().fold(0usize, |all, length| all.saturating_add(*length as usize));
    of.check_capacity(all);
    let brought = lengths.iter().map(|length| *length as usize).enumerate();
    let moves: Vec<Move> = of.moves(brought).collect();
    if let Some(nodes) = group.nodes(None).as_deref() {
        let part = |index: usize| moves[index].to..moves[index].to + moves[index].by.bytes();
        pass_on(of, &Relay { group, nodes, dest: of.dest }, all, &part)?;
        return Ok(all);
    }
    moves.into_iter().for_each(|one| take(of, one));
    group.meet()?;
    Ok(all)
}

/// Moves different data to each member.
fn for_each(of: &Movement) -> Result<(), Fault> {
    let (group, bytes) = (&of.group, of.block.bytes());
    let by_nodes = group.nodes(None).is_some();
    let long = group.is_long(bytes_of(group.call, group.size, bytes), group.size);
    if by_nodes && of.is_packed() && !long && exchange::fit_slots(group, bytes) {
        return exchange::blocks(group, (of.dest, of.source), bytes);
    }
    group.meet()?;
    if by_nodes {
        // The puts to all PEs are in flight together; the meeting completes them.
        for taker in group.partners() {
            of.given_to(taker).into_iter().for_each(|one| give(of, taker, one));
        }
    } else {
        take_of_each(of);
    }
    group.meet()
}

/// PEs that divide the elements among themselves: this one has index `own` of `size`, and `pe` maps
/// an index to a PE.
struct Sharers<F> {
    call: &'static str,
    own: usize,
    size: usize,
    pe: F,
}

impl<F: Fn(usize) -> i32> Sharers<F> {
    /// Iterates over this PE's share, block by block.
    fn pieces(&self, count: usize) -> impl Iterator<Item = Range<usize>> {
        let share = schedule::share(count, self.own, self.size);
        let end = share.end;
        share.step_by(PIECE).map(move |first| first..end.min(first + PIECE))
    }

    /// Reduces this PE's share in the tree and passes each block, with the index of its first
    /// element, to `give`.
    fn reduce<T: Copy + Zero>(
        &self,
        source: SymIn<T>,
        count: usize,
        op: &dyn Operator<T>,
        give: impl Fn(usize, &[T]),
    ) {
        let longest = self.pieces(count).next().map_or(0, |piece| piece.len());
        with_scratch(merge::scratch_len(self.size, longest), |scratch| {
            for piece in self.pieces(count) {
                let read = |index: usize, into: &mut [T]| {
                    rma::fetch(self.call, into, source.element(piece.start), (self.pe)(index));
                };
                let scratch = &mut scratch[..merge::scratch_len(self.size, piece.len())];
                give(piece.start, merge::all((self.size, piece.len()), scratch, read, op));
            }
        });
    }

    /// Visits this PE's share block by block. `each` receives the index of the block's first
    /// element, the index of a PE, and that PE's elements, in the order of the PEs.
    fn in_turn<T: Copy + Zero>(
        &self,
        source: SymIn<T>,
        count: usize,
        mut each: impl FnMut(usize, usize, &[T]),
    ) {
        let longest = self.pieces(count).next().map_or(0, |piece| piece.len());
        let at_a_time = self.size.min(READS);
        with_scratch(at_a_time * longest, |scratch| {
            for piece in self.pieces(count) {
                for index in (0..self.size).step_by(at_a_time) {
                    let n = at_a_time.min(self.size - index);
                    let pes: [i32; READS] =
                        std::array::from_fn(|more| (self.pe)(index + more.min(n - 1)));
                    let theirs = &mut scratch[..n * piece.len()];
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

/// Combines elements.
pub fn reduction<T: Copy + Zero>(of: &Reduction<T>) -> Result<(), Fault> {
    let group = &of.group;
    if let Order::Before { inclusive } = of.order {
        return scan(of, inclusive);
    }
    if let Some(nodes) = group.nodes(None).as_deref() {
        return reduce_by_passing(of, nodes);
    }
    if let Some(slots) = push::slots_of(group, of.count * size_of::<T>()) {
        return Actors::all(&slots).double((of.dest, of.source), of.count, slots.turn(), of.op);
    }
    group.meet()?;
    all_of(group).reduce(of.source, of.count, of.op, |first, result| {
        for index in group.partners() {
            rma::send(group.call, of.dest.element(first), result, group.pe(index));
        }
    });
    group.meet()
}

/// Divides the elements among all members of a group.
fn all_of(group: &Group) -> Sharers<impl Fn(usize) -> i32> {
    let (call, own, size) = (group.call, group.index, group.size);
    Sharers { call, own, size, pe: |index| group.pe(index) }
}

/// Reduces when not all PEs map each other.
fn reduce_by_passing<T: Copy + Zero>(of: &Reduction<T>, nodes: &Nodes) -> Result<(), Fault> {
    let Reduction { group, dest, source, count, op, .. } = of;
    let bytes = count * size_of::<T>();
    let doubles = group.has_slots() && bytes <= WORK_SLOT && !group.is_long(bytes, group.size);
    let set = if doubles { group.turn() } else { 0 };
    let pass = |actors: Actors, source| match doubles {
        true => actors.double((*dest, source), *count, set, *op),
        false => actors.halve((*dest, source), *count, *op),
    };
    let here = &nodes.members[nodes.own];
    if !tree::fits(&nodes.members) || here.len() == 1 {
        return pass(Actors::all(group), *source);
    }
    group.meet_node(nodes)?;
    let leader = group.pe(nodes.leaders[nodes.own]);
    let own = group.index - here[0];
    let pe = |index: usize| group.pe(here[index]);
    let sharers = Sharers { call: group.call, own, size: here.len(), pe };
    sharers.reduce(*source, *count, *op, |first, result| {
        rma::send(group.call, dest.element(first), result, leader);
    });
    let relay = Relay { group, nodes, dest: dest.erase() };
    relay.through_leader(bytes, || pass(Actors::leaders(group, nodes), SymIn::at(dest.addr())))
}

fn scan<T: Copy + Zero>(of: &Reduction<T>, inclusive: bool) -> Result<(), Fault> {
    let group = &of.group;
    group.meet()?;
    let mut sums = Vec::new();
    let add = |first: usize, index: usize, theirs: &[T]| {
        let send = |sums: &[T]| {
            rma::send(group.call, of.dest.element(first), sums, group.pe(index));
        };
        if !inclusive && index == 0 {
            send(&vec![T::zero(); theirs.len()]);
        } else if !inclusive {
            send(&sums);
        }
        match index {
            0 => sums = theirs.to_vec(),
            _ => of.op.onto_left(&mut sums, theirs),
        }
        if inclusive {
            send(&sums);
        }
    };
    all_of(group).in_turn(of.source, of.count, add);
    group.meet()
}
