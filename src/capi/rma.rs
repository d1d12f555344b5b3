//! Contiguous transfers: put, get, p, g, and their non-blocking forms.
//!
//! Non-blocking forms may complete early and on mapped memory complete at once; elsewhere they are
//! deferred (`pgas::stream`). By-value forms of `long double` are in `longdouble.rs`.

use std::ffi::c_int;

use crate::openshmem::memory::address::{In, Out, Sym, SymIn};
use crate::openshmem::memory::elements::{get_elements, get_value, put_elements, put_value};

family! { BLOCKING: "RMA, blocking";
    RMA "shmem_" "_put" ctx("shmem_ctx_") [generic "shmem_put"]
    (dest: Sym<T>, source: In<T>, nelems: usize, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        put_elements(NAME, dest, source, nelems, pe)
    }
    SIZED "shmem_put" "" ctx("shmem_ctx_put")
    (dest: Sym<T>, source: In<T>, nelems: usize, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        put_elements(NAME, dest, source, nelems, pe)
    }
    VALUE "shmem_" "_p" ctx("shmem_ctx_") [generic "shmem_p"]
    (dest: Sym<T>, value: T, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        put_value(NAME, dest, value, pe)
    }
    RMA "shmem_" "_get" ctx("shmem_ctx_") [generic "shmem_get"]
    (dest: Out<T>, source: SymIn<T>, nelems: usize, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        get_elements(NAME, dest, source, nelems, pe)
    }
    SIZED "shmem_get" "" ctx("shmem_ctx_get")
    (dest: Out<T>, source: SymIn<T>, nelems: usize, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        get_elements(NAME, dest, source, nelems, pe)
    }
    VALUE "shmem_" "_g" ctx("shmem_ctx_") [generic "shmem_g"]
    (source: SymIn<T>, pe: c_int) -> T {
        let pe = ctx.pe(NAME, pe);
        get_value(NAME, source, pe)
    }
}

family! { NONBLOCKING: "RMA, nonblocking";
    RMA "shmem_" "_put_nbi" ctx("shmem_ctx_") [generic "shmem_put_nbi"]
    (dest: Sym<T>, source: In<T>, nelems: usize, pe: c_int) {
        let pe = ctx.pe(NAME, pe).later();
        put_elements(NAME, dest, source, nelems, pe)
    }
    SIZED "shmem_put" "_nbi" ctx("shmem_ctx_put")
    (dest: Sym<T>, source: In<T>, nelems: usize, pe: c_int) {
        let pe = ctx.pe(NAME, pe).later();
        put_elements(NAME, dest, source, nelems, pe)
    }
    RMA "shmem_" "_get_nbi" ctx("shmem_ctx_") [generic "shmem_get_nbi"]
    (dest: Out<T>, source: SymIn<T>, nelems: usize, pe: c_int) {
        let pe = ctx.pe(NAME, pe).later();
        get_elements(NAME, dest, source, nelems, pe)
    }
    SIZED "shmem_get" "_nbi" ctx("shmem_ctx_get")
    (dest: Out<T>, source: SymIn<T>, nelems: usize, pe: c_int) {
        let pe = ctx.pe(NAME, pe).later();
        get_elements(NAME, dest, source, nelems, pe)
    }
}
