//! Collectives that move data: broadcast, collect, fcollect, alltoall, alltoalls; and sync.
//!
//! Where sources are mapped everybody reads what it needs straight from where it lies: meet (all
//! sources are ready), read, meet (all have read). Between nodes that do not share memory the
//! leaders of nodes pass on what is for all (`relay.rs`), and what is for one is put there (the
//! pairwise exchange) or, in small blocks, passed on (`exchange.rs`). Teams and active sets share
//! the code (`group.rs`).

use super::relay::{Relay, joined};
use super::{carry_out, exchange, living, logged};
use crate::openshmem::check::{bytes_of, misuse};
use crate::openshmem::group::Group;
use crate::openshmem::memory::address::{Sym, SymIn};
use crate::openshmem::memory::place::SegmentRange;
use crate::openshmem::memory::prelude;
use crate::openshmem::memory::rma;
use crate::openshmem::memory::strides::{Strided, Strides};
use crate::pgas::{self, Fault};

/// Reads `bytes` at `offset` of a PE's source to `to` of the own destination.
fn read(
    group: &Group,
    (dest, to): (Sym<u8>, usize),
    (source, offset): (SymIn<u8>, usize),
    bytes: usize,
    index: usize,
) {
    let (dest, source) = (dest.element(to).as_out(), source.element(offset));
    rma::get(group.call, dest, source, bytes, group.pe(index));
}

/// The numbers of all PEs, by index, from the number of each.
pub fn gather(group: &Group, number: u64) -> Result<Vec<u64>, Fault> {
    match living::applies() {
        true => living::gather(group, number),
        false => exchange::gather(group, number),
    }
}

/// Refuses a destination that is not symmetric, before any PE waits for this one.
pub fn check(group: &Group, dest: Sym<u8>, bytes: usize) {
    if bytes > 0 {
        SegmentRange::new(group.call, "dest", dest, bytes, group.pe(group.index));
    }
}

/// The same for what is collected, of which there is a length only when all have come.
fn check_room(group: &Group, dest: Sym<u8>, all: usize, room: usize) {
    if all > room {
        misuse(group.call, format_args!("{all} bytes are collected: expected {room}, all of dest"));
    }
    check(group, dest, all);
}

/// The same for a source, also of a PE that nobody reads from: all PEs pass the same object.
pub fn check_source(group: &Group, source: SymIn<u8>, bytes: usize) {
    if bytes > 0 {
        SegmentRange::source(group.call, source, bytes, group.pe(group.index));
    }
}

/// The PEs of a group meet.
pub fn sync(group: Group) -> Result<(), Fault> {
    if pgas::world().prelude.is_given() {
        return Ok(());
    }
    let meet = || group.meet();
    carry_out(&group, meet, || logged::barrier(group.call, 0), meet)
}

/// Makes a collective by `act`, which fills so many bytes of the own destination, or fills them as
/// before in a substitute that makes the call again.
pub fn made(
    group: &Group,
    dest: Sym<u8>,
    bytes: usize,
    act: impl FnOnce() -> Result<(), Fault>,
) -> Result<(), Fault> {
    made_of(group, dest, bytes, || act().map(|()| bytes)).map(drop)
}

/// The same for one that says how many bytes it has filled; `own` stands for its arguments.
fn made_of(
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

/// From the root to all; `to_root` says whether the root's destination is written too.
pub fn broadcast(
    group: Group,
    dest: Sym<u8>,
    source: SymIn<u8>,
    bytes: usize,
    (root, to_root): (i32, bool),
) -> Result<(), Fault> {
    let root = match usize::try_from(root) {
        Ok(root) if root < group.size => root,
        _ => misuse(group.call, format_args!("PE_root {root}: expected 0..{}", group.size - 1)),
    };
    check(&group, dest, bytes);
    check_source(&group, source, bytes);
    let filled = if group.index != root || to_root { bytes } else { 0 };
    made(&group, dest, filled, || {
        carry_out(
            &group,
            || living::broadcast(&group, (dest, source), bytes, (root, to_root)),
            || logged::broadcast(&group, (dest, source), bytes, (root, to_root)),
            || broadcast_directly(&group, (dest, source), bytes, (root, to_root)),
        )
    })
}

fn broadcast_directly(
    group: &Group,
    (dest, source): (Sym<u8>, SymIn<u8>),
    bytes: usize,
    (root, to_root): (usize, bool),
) -> Result<(), Fault> {
    if let Some(nodes) = group.nodes(Some(root)).as_deref() {
        group.meet_by(Some(nodes))?;
        return Relay { group, nodes, dest }.broadcast(source, bytes, (root, to_root));
    }
    group.meet()?;
    if group.index != root || to_root {
        read(group, (dest, 0), (source, 0), bytes, root);
    }
    group.meet()
}

/// The same number of bytes from each, by index.
pub fn fcollect(group: Group, dest: Sym<u8>, source: SymIn<u8>, bytes: usize) -> Result<(), Fault> {
    let all = bytes_of(group.call, group.size, bytes);
    check(&group, dest, all);
    check_source(&group, source, bytes);
    made(&group, dest, all, || {
        carry_out(
            &group,
            || living::blocks(&group, (dest, source), bytes, 0),
            || logged::fcollect(&group, (dest, source), bytes),
            || fcollect_directly(&group, (dest, source), bytes),
        )
    })
}

fn fcollect_directly(
    group: &Group,
    (dest, source): (Sym<u8>, SymIn<u8>),
    bytes: usize,
) -> Result<(), Fault> {
    group.meet()?;
    if let Some(nodes) = group.nodes(None).as_deref() {
        let relay = Relay { group, nodes, dest };
        let block = |index: usize| index * bytes..(index + 1) * bytes;
        relay.give(source, block(group.index));
        let of = |node: usize| joined(nodes.members[node].iter().map(|i| block(*i)));
        return relay.complete(group.size * bytes, &of);
    }
    for index in group.partners() {
        read(group, (dest, index * bytes), (source, 0), bytes, index);
    }
    group.meet()
}

/// From each as many bytes as it says, one after another by index; hands back how many in all.
///
/// `room` is how many bytes `dest` has, where that is known.
pub fn collect(
    group: Group,
    (dest, room): (Sym<u8>, usize),
    source: SymIn<u8>,
    bytes: usize,
) -> Result<usize, Fault> {
    check_source(&group, source, bytes);
    let fits = |all| check_room(&group, dest, all, room);
    made_of(&group, dest, bytes, || {
        carry_out(
            &group,
            || living::collect(&group, (dest, source), bytes, fits),
            || logged::collect(&group, (dest, source), bytes, fits),
            || collect_directly(&group, (dest, source), bytes, fits),
        )
    })
}

fn collect_directly(
    group: &Group,
    (dest, source): (Sym<u8>, SymIn<u8>),
    bytes: usize,
    fits: impl Fn(usize),
) -> Result<usize, Fault> {
    let lengths = exchange::gather(group, bytes as u64)?;
    let all = lengths.iter().fold(0usize, |all, length| all.saturating_add(*length as usize));
    fits(all);
    let mut end = 0;
    let block = |length: &u64| {
        let start = end;
        end += *length as usize;
        start..end
    };
    let blocks: Vec<_> = lengths.iter().map(block).collect();
    if let Some(nodes) = group.nodes(None).as_deref() {
        let relay = Relay { group, nodes, dest };
        relay.give(source, blocks[group.index].clone());
        let of = |node: usize| joined(nodes.members[node].iter().map(|i| blocks[*i].clone()));
        return relay.complete(all, &of).map(|()| all);
    }
    for (index, block) in blocks.into_iter().enumerate() {
        read(group, (dest, block.start), (source, 0), block.len(), index);
    }
    group.meet()?;
    Ok(all)
}

/// Block `i` of each goes to PE `i`, there by index.
pub fn alltoall(group: Group, dest: Sym<u8>, source: SymIn<u8>, bytes: usize) -> Result<(), Fault> {
    let all = bytes_of(group.call, group.size, bytes);
    check(&group, dest, all);
    check_source(&group, source, all);
    made(&group, dest, all, || {
        carry_out(
            &group,
            || living::blocks(&group, (dest, source), bytes, group.index * bytes),
            || logged::alltoall(&group, (dest, source), bytes),
            || alltoall_directly(&group, (dest, source), bytes),
        )
    })
}

fn alltoall_directly(
    group: &Group,
    (dest, source): (Sym<u8>, SymIn<u8>),
    bytes: usize,
) -> Result<(), Fault> {
    let by_nodes = group.nodes(None).is_some();
    let long = group.is_long(bytes_of(group.call, group.size, bytes), group.size);
    if by_nodes && !long && exchange::fit_slots(group, bytes) {
        return exchange::blocks(group, (dest, source), bytes);
    }
    group.meet()?;
    for index in group.partners() {
        if by_nodes {
            // Puts to all are under way at a time; the meeting completes them.
            let (to, from) = (dest.element(group.index * bytes), source.element(index * bytes));
            rma::put(group.call, to, from.as_in(), bytes, group.pe(index));
        } else {
            read(group, (dest, index * bytes), (source, group.index * bytes), bytes, index);
        }
    }
    group.meet()
}

/// The same with elements that are `dst` and `sst` elements apart; `shape` is that of one block.
pub fn alltoalls(
    group: Group,
    dest: Sym<u8>,
    source: SymIn<u8>,
    shape: Strided,
) -> Result<(), Fault> {
    let strides = shape.strides(group.call).unwrap_or(Strides::NOTHING);
    let step = |stride_bytes| bytes_of(group.call, strides.blocks, stride_bytes);
    let (dest_step, source_step) = (step(strides.dest_bytes), step(strides.source_bytes));
    bytes_of(group.call, group.size, dest_step.max(source_step));
    let extent = |step: usize, stride_bytes: usize| match strides.blocks {
        0 => 0,
        _ => step * (group.size - 1) + strides.extent(group.call, stride_bytes),
    };
    check(&group, dest, extent(dest_step, strides.dest_bytes));
    check_source(&group, source, extent(source_step, strides.source_bytes));
    let steps = (dest_step, source_step);
    made(&group, dest, extent(dest_step, strides.dest_bytes), || {
        carry_out(
            &group,
            || living::strided(&group, (dest, source), strides, steps),
            || logged::alltoalls(&group, (dest, source), strides, steps),
            || alltoalls_directly(&group, (dest, source), strides, steps),
        )
    })
}

fn alltoalls_directly(
    group: &Group,
    (dest, source): (Sym<u8>, SymIn<u8>),
    strides: Strides,
    (dest_step, source_step): (usize, usize),
) -> Result<(), Fault> {
    let by_nodes = group.nodes(None).is_some();
    group.meet()?;
    for index in group.partners() {
        if by_nodes {
            let to = dest.element(group.index * dest_step);
            let from = source.element(index * source_step).as_in();
            rma::put_blocks(group.call, to, from, strides, group.pe(index));
            continue;
        }
        let to = dest.element(index * dest_step).as_out();
        let from = source.element(group.index * source_step);
        rma::get_blocks(group.call, to, from, strides, group.pe(index));
    }
    group.meet()
}
