//! Locks.

use std::ffi::{c_int, c_long};

use crate::openshmem::lock::Lock;
use crate::openshmem::memory::address::Sym;

family! { LOCKS: "Locks";
    ONE "shmem_clear_lock" "" (lock: Sym<c_long>) {
        Lock::new(NAME, lock).clear()
    }
    ONE "shmem_set_lock" "" (lock: Sym<c_long>) {
        Lock::new(NAME, lock).set()
    }
    ONE "shmem_test_lock" "" (lock: Sym<c_long>) -> c_int {
        c_int::from(!Lock::new(NAME, lock).try_set())
    }
}
