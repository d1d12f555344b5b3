//! Strided transfers: iput and iget are ibput and ibget with blocks of one element.
//!
//! A stride counts elements from the start of one block to the start of the next and must not be
//! smaller than a block: overlapping blocks have no defined result.

use std::ffi::c_int;

use raidshmem_runtime::pgas::stream::Target;

use crate::openshmem::memory::address::{In, Out, Sym, SymIn};
use crate::openshmem::memory::elements::{get_blocks, put_blocks};
use crate::openshmem::memory::strides::Strided;

fn put(call: &'static str, dest: Sym<u8>, source: In<u8>, shape: Strided, pe: Target) {
    put_blocks(call, dest, source, shape.strides(call), pe);
}

/// Reads the blocks that `shape` describes.
pub fn get(call: &'static str, dest: Out<u8>, source: SymIn<u8>, shape: Strided, pe: Target) {
    get_blocks(call, dest, source, shape.strides(call), pe);
}

family! { STRIDED: "RMA, blocking";
    RMA "shmem_" "_iput" ctx("shmem_ctx_") [generic "shmem_iput"]
    (dest: Sym<T>, source: In<T>, dst: isize, sst: isize, nelems: usize, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let shape = Strided { dst, sst, bsize: 1, nblocks: nelems, element_bytes: size_of::<T>() };
        put(NAME, dest.erase(), source.erase(), shape, pe)
    }
    SIZES "shmem_iput" "" ctx("shmem_ctx_iput")
    (dest: Sym<T>, source: In<T>, dst: isize, sst: isize, nelems: usize, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let shape = Strided { dst, sst, bsize: 1, nblocks: nelems, element_bytes: size_of::<T>() };
        put(NAME, dest.erase(), source.erase(), shape, pe)
    }
    RMA "shmem_" "_ibput" ctx("shmem_ctx_") [generic "shmem_ibput"]
    (dest: Sym<T>, source: In<T>, dst: isize, sst: isize, bsize: usize, nblocks: usize, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let shape = Strided { dst, sst, bsize, nblocks, element_bytes: size_of::<T>() };
        put(NAME, dest.erase(), source.erase(), shape, pe)
    }
    SIZES "shmem_ibput" "" ctx("shmem_ctx_ibput")
    (dest: Sym<T>, source: In<T>, dst: isize, sst: isize, bsize: usize, nblocks: usize, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let shape = Strided { dst, sst, bsize, nblocks, element_bytes: size_of::<T>() };
        put(NAME, dest.erase(), source.erase(), shape, pe)
    }
    RMA "shmem_" "_iget" ctx("shmem_ctx_") [generic "shmem_iget"]
    (dest: Out<T>, source: SymIn<T>, dst: isize, sst: isize, nelems: usize, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let shape = Strided { dst, sst, bsize: 1, nblocks: nelems, element_bytes: size_of::<T>() };
        get(NAME, dest.erase(), source.erase(), shape, pe)
    }
    SIZES "shmem_iget" "" ctx("shmem_ctx_iget")
    (dest: Out<T>, source: SymIn<T>, dst: isize, sst: isize, nelems: usize, pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let shape = Strided { dst, sst, bsize: 1, nblocks: nelems, element_bytes: size_of::<T>() };
        get(NAME, dest.erase(), source.erase(), shape, pe)
    }
    RMA "shmem_" "_ibget" ctx("shmem_ctx_") [generic "shmem_ibget"]
    (dest: Out<T>, source: SymIn<T>, dst: isize, sst: isize, bsize: usize, nblocks: usize,
     pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let shape = Strided { dst, sst, bsize, nblocks, element_bytes: size_of::<T>() };
        get(NAME, dest.erase(), source.erase(), shape, pe)
    }
    SIZES "shmem_ibget" "" ctx("shmem_ctx_ibget")
    (dest: Out<T>, source: SymIn<T>, dst: isize, sst: isize, bsize: usize, nblocks: usize,
     pe: c_int) {
        let pe = ctx.pe(NAME, pe);
        let shape = Strided { dst, sst, bsize, nblocks, element_bytes: size_of::<T>() };
        get(NAME, dest.erase(), source.erase(), shape, pe)
    }
}
