//! Reductions and scans: over teams, and over active sets.

use std::ffi::{c_int, c_long};

use super::coll::{set, status};
use crate::openshmem::check::misuse;
use crate::openshmem::collective::{reduce, scan};
use crate::openshmem::group::Group;
use crate::openshmem::memory::address::{Sym, SymIn};
use crate::openshmem::number::{Bitwise, Number, Ordered};
use crate::openshmem::team::Team;

/// Returns the element count of the old reductions, an `int`.
fn count(call: &'static str, nreduce: c_int) -> usize {
    match usize::try_from(nreduce) {
        Ok(count) => count,
        Err(_) => misuse(call, format_args!("nreduce {nreduce}: expected 0 or more")),
    }
}

macro_rules! reductions {
    ($list:ident: $($set:ident $post:literal $generic:literal $trait:ident $op:ident;)*) => {
        family! { $list: "Collectives: reductions"; $(
            $set "shmem_" $post [generic $generic]
            (team: Team, dest: Sym<T>, source: SymIn<T>, nreduce: usize) -> c_int {
                let group = Group::of_team(NAME, team);
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
        status(scan(Group::of_team(NAME, team), dest, source, nelems, (true, T::sum)))
    }
    SUM "shmem_" "_sum_exscan" [generic "shmem_sum_exscan"]
    (team: Team, dest: Sym<T>, source: SymIn<T>, nelems: usize) -> c_int {
        status(scan(Group::of_team(NAME, team), dest, source, nelems, (false, T::sum)))
    }
}
