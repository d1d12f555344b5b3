//! Waiting for and testing sets of words: all, any, some, each against one value or its own.
//!
//! Nonzero entries of `status` exclude words from the set; a null `status` excludes none. For an
//! empty set `all` returns true, `any` returns `SIZE_MAX`, `some` returns 0.

use std::ffi::c_int;

use super::claims::{read_at, write_at};
use super::wait::comparison;
use crate::openshmem::bits::Bits;
use crate::openshmem::memory::address::{In, Out, Sym};
use crate::openshmem::wait_set::WaitSet;

/// The values to compare with: one for all words, or one for each.
enum Than<T> {
    One(T),
    Each(In<T>),
}

/// Returns the set that a call names.
fn set<T: Bits>(
    call: &'static str,
    ivars: (Sym<T>, usize),
    status: In<c_int>,
    cmp: c_int,
    than: Than<T>,
) -> WaitSet {
    let taken_out = |index| status.addr() != 0 && read_at(status, index) != 0;
    let than = |index| match than {
        Than::One(value) => value,
        Than::Each(values) => read_at(values, index),
    };
    WaitSet::new(call, ivars, &taken_out, comparison(call, cmp), &than)
}

/// Returns a function that stores found indices in the caller's list.
fn into(indices: Out<usize>) -> impl Fn(usize, usize) {
    move |at, index| write_at(indices, at, index)
}

family! { WAIT_MANY: "Point-to-point synchronisation";
    AMO "shmem_" "_wait_until_all" [generic "shmem_wait_until_all"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_value: T) {
        set(NAME, (ivars, nelems), status, cmp, Than::One(cmp_value)).wait_all()
    }
    AMO "shmem_" "_wait_until_any" [generic "shmem_wait_until_any"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_value: T) -> usize {
        let set = set(NAME, (ivars, nelems), status, cmp, Than::One(cmp_value));
        set.wait_any().unwrap_or(usize::MAX)
    }
    AMO "shmem_" "_wait_until_some" [generic "shmem_wait_until_some"]
    (ivars: Sym<T>, nelems: usize, indices: Out<usize>, status: In<c_int>, cmp: c_int,
     cmp_value: T) -> usize {
        set(NAME, (ivars, nelems), status, cmp, Than::One(cmp_value)).wait_some(&into(indices))
    }
    AMO "shmem_" "_wait_until_all_vector" [generic "shmem_wait_until_all_vector"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_values: In<T>) {
        set(NAME, (ivars, nelems), status, cmp, Than::Each(cmp_values)).wait_all()
    }
    AMO "shmem_" "_wait_until_any_vector" [generic "shmem_wait_until_any_vector"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_values: In<T>) -> usize {
        let set = set(NAME, (ivars, nelems), status, cmp, Than::Each(cmp_values));
        set.wait_any().unwrap_or(usize::MAX)
    }
    AMO "shmem_" "_wait_until_some_vector" [generic "shmem_wait_until_some_vector"]
    (ivars: Sym<T>, nelems: usize, indices: Out<usize>, status: In<c_int>, cmp: c_int,
     cmp_values: In<T>) -> usize {
        let set = set(NAME, (ivars, nelems), status, cmp, Than::Each(cmp_values));
        set.wait_some(&into(indices))
    }
    AMO "shmem_" "_test_all" [generic "shmem_test_all"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_value: T) -> c_int {
        c_int::from(set(NAME, (ivars, nelems), status, cmp, Than::One(cmp_value)).all())
    }
    AMO "shmem_" "_test_any" [generic "shmem_test_any"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_value: T) -> usize {
        let set = set(NAME, (ivars, nelems), status, cmp, Than::One(cmp_value));
        set.any().unwrap_or(usize::MAX)
    }
    AMO "shmem_" "_test_some" [generic "shmem_test_some"]
    (ivars: Sym<T>, nelems: usize, indices: Out<usize>, status: In<c_int>, cmp: c_int,
     cmp_value: T) -> usize {
        set(NAME, (ivars, nelems), status, cmp, Than::One(cmp_value)).some(&into(indices))
    }
    AMO "shmem_" "_test_all_vector" [generic "shmem_test_all_vector"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_values: In<T>) -> c_int {
        c_int::from(set(NAME, (ivars, nelems), status, cmp, Than::Each(cmp_values)).all())
    }
    AMO "shmem_" "_test_any_vector" [generic "shmem_test_any_vector"]
    (ivars: Sym<T>, nelems: usize, status: In<c_int>, cmp: c_int, cmp_values: In<T>) -> usize {
        let set = set(NAME, (ivars, nelems), status, cmp, Than::Each(cmp_values));
        set.any().unwrap_or(usize::MAX)
    }
    AMO "shmem_" "_test_some_vector" [generic "shmem_test_some_vector"]
    (ivars: Sym<T>, nelems: usize, indices: Out<usize>, status: In<c_int>, cmp: c_int,
     cmp_values: In<T>) -> usize {
        set(NAME, (ivars, nelems), status, cmp, Than::Each(cmp_values)).some(&into(indices))
    }
}
