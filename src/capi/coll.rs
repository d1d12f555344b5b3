//! Collectives that move data, barrier and sync: over teams, and over active sets.
//!
//! After a death a team's call returns a nonzero value; an active set's just returns.

use std::ffi::{c_int, c_long};

use super::constants::SYNC_SIZE;
use crate::openshmem::check::{bytes_of, misuse};
use crate::openshmem::collective::{alltoall, alltoalls, broadcast, collect, fcollect, sync};
use crate::openshmem::group::{Group, WORDS};
use crate::openshmem::memory::address::{Sym, SymIn};
use crate::openshmem::memory::strides::Strided;
use crate::openshmem::team::Team;
use raidshmem_runtime::pgas::{self, Fault};

const _: () = assert!(SYNC_SIZE == WORDS, "a pSync is as long as a group's array of words");

/// Returns the status of a call: zero, or nonzero after a death, even if all peers contributed.
pub fn status(of: Result<(), Fault>) -> c_int {
    let world = pgas::world();
    if world.prelude.is_given() {
        return 0; // the recorded result
    }
    c_int::from(of.is_err() || world.interrupted() && world.cut_short())
}

/// Runs `collect` for C, which does not pass the size of the destination.
fn collect_all(group: Group, dest: Sym<u8>, source: SymIn<u8>, bytes: usize) -> Result<(), Fault> {
    collect(group, (dest, usize::MAX), source, bytes).map(drop)
}

/// Returns the group of an active set, from the four arguments that end every such call.
pub fn set(call: &'static str, start: c_int, log: c_int, size: c_int, p: Sym<c_long>) -> Group {
    let n_pes = pgas::world().n_pes();
    let range = u32::try_from(log).ok().filter(|log| *log < 31).and_then(|log| {
        let (start, size) = (usize::try_from(start).ok()?, usize::try_from(size).ok()?);
        let last = size.checked_sub(1)?.checked_mul(1 << log)?.checked_add(start)?;
        (last < n_pes).then_some((start as isize, 1isize << log, size))
    });
    let Some(range) = range else {
        misuse(
            call,
            format_args!(
                "PE_start {start}, logPE_stride {log}, PE_size {size}: expected a set of PEs \
                 0..{}",
                n_pes - 1
            ),
        )
    };
    Group::of_set(call, range, p)
}

family! { SYNC: "Collectives: synchronisation";
    ONE "shmem_team_sync" "" (team: Team) -> c_int {
        status(sync(Group::of_team(NAME, team)))
    }
    ONE "shmem_barrier" "" [deprecated "1.5"]
    (PE_start: c_int, logPE_stride: c_int, PE_size: c_int, pSync: Sym<c_long>) {
        let group = set(NAME, PE_start, logPE_stride, PE_size, pSync);
        let _ = sync(group);
    }
    ONE "shmem_sync" "" [deprecated "1.5"]
    (PE_start: c_int, logPE_stride: c_int, PE_size: c_int, pSync: Sym<c_long>) {
        let group = set(NAME, PE_start, logPE_stride, PE_size, pSync);
        let _ = sync(group);
    }
}

family! { TEAM: "Collectives: data movement";
    RMA "shmem_" "_alltoall" [generic "shmem_alltoall"]
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize) -> c_int {
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        status(alltoall(Group::of_team(NAME, team), dest.erase(), source.erase(), bytes))
    }
    ONE "shmem_alltoallmem" ""
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize) -> c_int {
        status(alltoall(Group::of_team(NAME, team), dest, source, nelems))
    }
    RMA "shmem_" "_alltoalls" [generic "shmem_alltoalls"]
    (team: Team, dest: Sym<T>, source: SymIn<T>, dst: isize, sst: isize, nelems: usize) -> c_int {
        let shape = Strided { dst, sst, bsize: 1, nblocks: nelems, element_bytes: size_of::<T>() };
        status(alltoalls(Group::of_team(NAME, team), dest.erase(), source.erase(), shape))
    }
    ONE "shmem_alltoallsmem" ""
    (team: Team, dest: Sym<T>, source: SymIn<T>, dst: isize, sst: isize, nelems: usize) -> c_int {
        let shape = Strided { dst, sst, bsize: 1, nblocks: nelems, element_bytes: 1 };
        status(alltoalls(Group::of_team(NAME, team), dest, source, shape))
    }
    RMA "shmem_" "_broadcast" [generic "shmem_broadcast"]
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize, PE_root: c_int) -> c_int {
        let (group, bytes) = (Group::of_team(NAME, team), bytes_of(NAME, nelems, size_of::<T>()));
        status(broadcast(group, dest.erase(), source.erase(), bytes, (PE_root, true)))
    }
    ONE "shmem_broadcastmem" ""
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize, PE_root: c_int) -> c_int {
        status(broadcast(Group::of_team(NAME, team), dest, source, nelems, (PE_root, true)))
    }
    RMA "shmem_" "_collect" [generic "shmem_collect"]
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize) -> c_int {
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        status(collect_all(Group::of_team(NAME, team), dest.erase(), source.erase(), bytes))
    }
    ONE "shmem_collectmem" ""
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize) -> c_int {
        status(collect_all(Group::of_team(NAME, team), dest, source, nelems))
    }
    RMA "shmem_" "_fcollect" [generic "shmem_fcollect"]
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize) -> c_int {
        let bytes = bytes_of(NAME, nelems, size_of::<T>());
        status(fcollect(Group::of_team(NAME, team), dest.erase(), source.erase(), bytes))
    }
    ONE "shmem_fcollectmem" ""
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize) -> c_int {
        status(fcollect(Group::of_team(NAME, team), dest, source, nelems))
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
        let shape = Strided { dst, sst, bsize: 1, nblocks: nelems, element_bytes: size_of::<T>() };
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
