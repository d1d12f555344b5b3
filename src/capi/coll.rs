//! Collectives that move data: broadcast, collect, fcollect, alltoall, alltoalls; barrier and sync.
//!
//! Where sources are mapped everybody reads what it needs straight from where it lies: meet (all
//! sources are ready), read, meet (all have read). Between nodes that do not share memory the
//! leaders of nodes pass on what is for all (`relay.rs`), and what is for one is put there (the
//! pairwise exchange) or, in small blocks, passed on (`exchange.rs`). Teams and active sets share
//! the code (`group.rs`). After a death a team's call returns a nonzero value; an active set's just
//! returns.

use std::ffi::{c_int, c_long};

use super::exchange;
use super::group::{ActiveSet, Group};
use super::guard::{Shape, bytes_of, misuse};
use super::memory_ops::{self, Place, Sym, SymIn};
use super::relay::{Relay, joined};
use super::team::{self, Team};
use crate::pgas::{self, Fault};

/// What a call returns: zero, or something else after a death, though all were heard of.
pub fn status(of: Result<(), Fault>) -> c_int {
    let world = pgas::world();
    c_int::from(of.is_err() || world.interrupted() && world.cut_short())
}

/// Reads `bytes` at `offset` of a PE's source to `to` of the own destination.
fn read(
    group: &Group,
    (dest, to): (Sym<u8>, usize),
    (source, offset): (SymIn<u8>, usize),
    bytes: usize,
    index: usize,
) {
    let (dest, source) = (dest.element(to).as_out(), source.element(offset));
    memory_ops::get(group.call, dest, source, bytes, group.pe(index));
}

/// Refuses a destination that is not symmetric, before any PE waits for this one.
pub fn check(group: &Group, dest: Sym<u8>, bytes: usize) {
    if bytes > 0 {
        Place::new(group.call, "dest", dest, bytes, group.pe(group.index));
    }
}

/// The same for a source, also of a PE that nobody reads from: all PEs pass the same object.
pub fn check_source(group: &Group, source: SymIn<u8>, bytes: usize) {
    if bytes > 0 {
        Place::new(group.call, "source", source.as_sym(), bytes, group.pe(group.index));
    }
}

/// From the root to all; `to_root` says whether the root's destination is written too.
pub fn broadcast(
    group: Group,
    dest: Sym<u8>,
    source: SymIn<u8>,
    bytes: usize,
    (root, to_root): (c_int, bool),
) -> Result<(), Fault> {
    let root = match usize::try_from(root) {
        Ok(root) if root < group.size => root,
        _ => misuse(group.call, format_args!("PE_root {root}: allowed are 0..{}", group.size - 1)),
    };
    check(&group, dest, bytes);
    check_source(&group, source, bytes);
    if let Some(nodes) = group.nodes(Some(root)).as_deref() {
        group.meet_by(Some(nodes))?;
        return Relay { group: &group, nodes, dest }.broadcast(source, bytes, (root, to_root));
    }
    group.meet()?;
    if group.index != root || to_root {
        read(&group, (dest, 0), (source, 0), bytes, root);
    }
    group.meet()
}

/// The same number of bytes from each, by index.
pub fn fcollect(group: Group, dest: Sym<u8>, source: SymIn<u8>, bytes: usize) -> Result<(), Fault> {
    let all = bytes_of(group.call, group.size, bytes);
    check(&group, dest, all);
    check_source(&group, source, bytes);
    group.meet()?;
    if let Some(nodes) = group.nodes(None).as_deref() {
        let relay = Relay { group: &group, nodes, dest };
        let block = |index: usize| index * bytes..(index + 1) * bytes;
        relay.give(source, block(group.index));
        let of = |node: usize| joined(nodes.members[node].iter().map(|i| block(*i)));
        return relay.complete(all, &of);
    }
    for index in group.partners() {
        read(&group, (dest, index * bytes), (source, 0), bytes, index);
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
    let lengths = exchange::gather(&group, bytes as u64)?;
    let all = lengths.iter().fold(0usize, |all, length| all.saturating_add(*length as usize));
    if all > room {
        misuse(
            group.call,
            format_args!("{all} bytes are collected: allowed are {room}, all of dest"),
        );
    }
    check(&group, dest, all);
    let mut end = 0;
    let block = |length: &u64| {
        let start = end;
        end += *length as usize;
        start..end
    };
    let blocks: Vec<_> = lengths.iter().map(block).collect();
    if let Some(nodes) = group.nodes(None).as_deref() {
        let relay = Relay { group: &group, nodes, dest };
        relay.give(source, blocks[group.index].clone());
        let of = |node: usize| joined(nodes.members[node].iter().map(|i| blocks[*i].clone()));
        return relay.complete(all, &of).map(|()| all);
    }
    for (index, block) in blocks.into_iter().enumerate() {
        read(&group, (dest, block.start), (source, 0), block.len(), index);
    }
    group.meet()?;
    Ok(all)
}

/// `collect` for C, which does not say how large the destination is.
fn collect_all(group: Group, dest: Sym<u8>, source: SymIn<u8>, bytes: usize) -> Result<(), Fault> {
    collect(group, (dest, usize::MAX), source, bytes).map(drop)
}

/// Block `i` of each goes to PE `i`, there by index.
pub fn alltoall(group: Group, dest: Sym<u8>, source: SymIn<u8>, bytes: usize) -> Result<(), Fault> {
    let all = bytes_of(group.call, group.size, bytes);
    check(&group, dest, all);
    check_source(&group, source, all);
    let by_nodes = group.nodes(None).is_some();
    let long = group.is_long(bytes_of(group.call, group.size, bytes), group.size);
    if by_nodes && !long && exchange::fit_slots(&group, bytes) {
        return exchange::blocks(&group, (dest, source), bytes);
    }
    group.meet()?;
    for index in group.partners() {
        if by_nodes {
            // Puts to all are under way at a time; the meeting completes them.
            let (to, from) = (dest.element(group.index * bytes), source.element(index * bytes));
            memory_ops::put(group.call, to, from.as_in(), bytes, group.pe(index));
        } else {
            read(&group, (dest, index * bytes), (source, group.index * bytes), bytes, index);
        }
    }
    group.meet()
}

/// The same with elements that are `dst` and `sst` elements apart; `shape` is that of one block.
pub fn alltoalls(
    group: Group,
    dest: Sym<u8>,
    source: SymIn<u8>,
    shape: Shape,
) -> Result<(), Fault> {
    let Some(strides) = shape.strides(group.call) else {
        return group.meet();
    };
    let step = |stride_bytes| bytes_of(group.call, strides.blocks, stride_bytes);
    let (dest_step, source_step) = (step(strides.dest_bytes), step(strides.source_bytes));
    bytes_of(group.call, group.size, dest_step.max(source_step));
    let rest = strides.extent(group.call, strides.dest_bytes);
    check(&group, dest, dest_step * (group.size - 1) + rest);
    let rest = strides.extent(group.call, strides.source_bytes);
    check_source(&group, source, source_step * (group.size - 1) + rest);
    let by_nodes = group.nodes(None).is_some();
    group.meet()?;
    for index in group.partners() {
        if by_nodes {
            let to = dest.element(group.index * dest_step);
            let from = source.element(index * source_step).as_in();
            memory_ops::put_blocks(group.call, to, from, strides, group.pe(index));
            continue;
        }
        let to = dest.element(index * dest_step).as_out();
        let from = source.element(group.index * source_step);
        memory_ops::get_blocks(group.call, to, from, strides, group.pe(index));
    }
    group.meet()
}

/// The group of an active set, from the four arguments that end every such call.
pub fn set(call: &'static str, start: c_int, log: c_int, size: c_int, p: Sym<c_long>) -> Group {
    Group::of_set(call, ActiveSet { start, log_stride: log, size }, p)
}

family! { SYNC: "Collectives: synchronisation";
    ONE "shmem_team_sync" "" (team: Team) -> c_int {
        status(team::group(NAME, team).meet())
    }
    ONE "shmem_barrier" "" [deprecated "1.5"]
    (PE_start: c_int, logPE_stride: c_int, PE_size: c_int, pSync: Sym<c_long>) {
        let _ = set(NAME, PE_start, logPE_stride, PE_size, pSync).meet();
    }
    ONE "shmem_sync" "" [deprecated "1.5"]
    (PE_start: c_int, logPE_stride: c_int, PE_size: c_int, pSync: Sym<c_long>) {
        let _ = set(NAME, PE_start, logPE_stride, PE_size, pSync).meet();
    }
}

family! { TEAM: "Collectives: data movement";
    RMA "shmem_" "_alltoall" [generic "shmem_alltoall"]
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize) -> c_int {
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        status(alltoall(team::group(NAME, team), dest.erase(), source.erase(), bytes))
    }
    ONE "shmem_alltoallmem" ""
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize) -> c_int {
        status(alltoall(team::group(NAME, team), dest, source, nelems))
    }
    RMA "shmem_" "_alltoalls" [generic "shmem_alltoalls"]
    (team: Team, dest: Sym<T>, source: SymIn<T>, dst: isize, sst: isize, nelems: usize) -> c_int {
        let shape = Shape { dst, sst, bsize: 1, nblocks: nelems, element_bytes: size_of::<T>() };
        status(alltoalls(team::group(NAME, team), dest.erase(), source.erase(), shape))
    }
    ONE "shmem_alltoallsmem" ""
    (team: Team, dest: Sym<T>, source: SymIn<T>, dst: isize, sst: isize, nelems: usize) -> c_int {
        let shape = Shape { dst, sst, bsize: 1, nblocks: nelems, element_bytes: 1 };
        status(alltoalls(team::group(NAME, team), dest, source, shape))
    }
    RMA "shmem_" "_broadcast" [generic "shmem_broadcast"]
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize, PE_root: c_int) -> c_int {
        let (group, bytes) = (team::group(NAME, team), bytes_of(NAME, nelems, size_of::<T>()));
        status(broadcast(group, dest.erase(), source.erase(), bytes, (PE_root, true)))
    }
    ONE "shmem_broadcastmem" ""
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize, PE_root: c_int) -> c_int {
        status(broadcast(team::group(NAME, team), dest, source, nelems, (PE_root, true)))
    }
    RMA "shmem_" "_collect" [generic "shmem_collect"]
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize) -> c_int {
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        status(collect_all(team::group(NAME, team), dest.erase(), source.erase(), bytes))
    }
    ONE "shmem_collectmem" ""
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize) -> c_int {
        status(collect_all(team::group(NAME, team), dest, source, nelems))
    }
    RMA "shmem_" "_fcollect" [generic "shmem_fcollect"]
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize) -> c_int {
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        status(fcollect(team::group(NAME, team), dest.erase(), source.erase(), bytes))
    }
    ONE "shmem_fcollectmem" ""
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize) -> c_int {
        status(fcollect(team::group(NAME, team), dest, source, nelems))
    }
}

family! { SETS: "Collectives: data movement";
    SIZES_SET "shmem_alltoall" "" [deprecated "1.5"]
    (dest: Sym<T>, source: SymIn<T>, nelems: usize, PE_start: c_int, logPE_stride: c_int,
     PE_size: c_int, pSync: Sym<c_long>) {
        let group = set(NAME, PE_start, logPE_stride, PE_size, pSync);
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        let _ = alltoall(group, dest.erase(), source.erase(), bytes);
    }
    SIZES_SET "shmem_alltoalls" "" [deprecated "1.5"]
    (dest: Sym<T>, source: SymIn<T>, dst: isize, sst: isize, nelems: usize, PE_start: c_int,
     logPE_stride: c_int, PE_size: c_int, pSync: Sym<c_long>) {
        let group = set(NAME, PE_start, logPE_stride, PE_size, pSync);
        let shape = Shape { dst, sst, bsize: 1, nblocks: nelems, element_bytes: size_of::<T>() };
        let _ = alltoalls(group, dest.erase(), source.erase(), shape);
    }
    SIZES_SET "shmem_broadcast" "" [deprecated "1.5"]
    (dest: Sym<T>, source: SymIn<T>, nelems: usize, PE_root: c_int, PE_start: c_int,
     logPE_stride: c_int, PE_size: c_int, pSync: Sym<c_long>) {
        let group = set(NAME, PE_start, logPE_stride, PE_size, pSync);
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        let _ = broadcast(group, dest.erase(), source.erase(), bytes, (PE_root, false));
    }
    SIZES_SET "shmem_collect" "" [deprecated "1.5"]
    (dest: Sym<T>, source: SymIn<T>, nelems: usize, PE_start: c_int, logPE_stride: c_int,
     PE_size: c_int, pSync: Sym<c_long>) {
        let group = set(NAME, PE_start, logPE_stride, PE_size, pSync);
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        let _ = collect_all(group, dest.erase(), source.erase(), bytes);
    }
    SIZES_SET "shmem_fcollect" "" [deprecated "1.5"]
    (dest: Sym<T>, source: SymIn<T>, nelems: usize, PE_start: c_int, logPE_stride: c_int,
     PE_size: c_int, pSync: Sym<c_long>) {
        let group = set(NAME, PE_start, logPE_stride, PE_size, pSync);
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        let _ = fcollect(group, dest.erase(), source.erase(), bytes);
    }
}
