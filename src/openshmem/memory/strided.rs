//! Strided transfers as called by the program; logged if the job has logs.

use super::address::{In, Out, Sym, SymIn};
use super::logged;
use super::place::SegmentRange;
use super::prelude;
use super::rma::{check_buffer, get_blocks, put_blocks};
use super::strides::Strides;
use raidshmem_runtime::pgas::stream::Target;

/// Copies blocks of a caller's buffer to a PE.
pub fn put(call: &'static str, dest: Sym<u8>, source: In<u8>, by: Strides, pe: Target) {
    if logged::applies() {
        let range = SegmentRange::new(call, "dest", dest, by.extent(call, by.dest_bytes), pe);
        by.extent(call, by.source_bytes);
        check_buffer(call, "source", source.addr(), range.world);
        if logged::is_logged(call, &range) {
            return logged::put_blocks(call, range, source, by);
        }
    }
    put_blocks(call, dest, source, by, pe);
}

/// Copies blocks from a PE to a caller's buffer.
pub fn get(call: &'static str, dest: Out<u8>, source: SymIn<u8>, by: Strides, pe: Target) {
    if !prelude::applies() {
        return get_now(call, dest, source, by, pe);
    }
    let extent = by.extent(call, by.source_bytes);
    let range = SegmentRange::new(call, "source", source.as_sym(), extent, pe);
    by.extent(call, by.dest_bytes);
    check_buffer(call, "dest", dest.addr(), range.world);
    let of = [by.blocks, by.block_bytes, by.source_bytes, range.offset].map(|of| of as u64);
    let with = prelude::with([prelude::with(of), u64::from(range.pe.0)]);
    prelude::read(call, with, (dest, by), || get_now(call, dest, source, by, pe));
}

fn get_now(call: &'static str, dest: Out<u8>, source: SymIn<u8>, by: Strides, pe: Target) {
    if logged::applies() {
        let extent = by.extent(call, by.source_bytes);
        let range = SegmentRange::source(call, source, extent, pe);
        by.extent(call, by.dest_bytes);
        check_buffer(call, "dest", dest.addr(), range.world);
        if logged::is_logged(call, &range) {
            return logged::get_blocks(call, range, dest, by);
        }
    }
    get_blocks(call, dest, source, by, pe);
}
