//! What every call checks before it touches anything, and how it ends the job when a check fails.
//!
//! A misuse is one line on standard error, `raidshmem: PE 1: shmem_putmem: ...`, that names what is
//! allowed, and the end of the whole job with status 2. Checks without which an access could go
//! astray (PE in range, symmetric range, alignment, sizes that overflow) are always made, they cost
//! a few compares; the others are made when `World::checks` says so.
//!
//! Not here: pointers become accesses in `memory_ops.rs` only.

use std::ffi::c_int;
use std::fmt::Display;

use super::context::{self, Given, Using};
use super::team::{Team, to_world};
use crate::pgas::stream::{Id, Target};
use crate::pgas::{self, World};

/// The status with which a job ends after a misuse.
const STATUS_MISUSE: i32 = 2;

/// Ends the job: `call` was misused.
#[cold]
#[inline(never)]
pub fn misuse(call: &str, what: impl Display) -> ! {
    pgas::complain(&format!("{call}: {what}"));
    pgas::global_exit(STATUS_MISUSE)
}

/// A context handle as C holds it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Ctx(pub usize);

impl Ctx {
    /// `SHMEM_CTX_INVALID`.
    pub const INVALID: Ctx = Ctx(0);
    /// `SHMEM_CTX_DEFAULT`.
    pub const DEFAULT: Ctx = Ctx(1);

    /// The context in its slot; a handle that was never given out or is destroyed is a misuse.
    #[inline]
    fn given(self, call: &str) -> Given {
        match context::given(self) {
            Some(given) => given,
            None => misuse(call, "the context is SHMEM_CTX_INVALID, destroyed, or none at all"),
        }
    }

    /// Begins a call that uses the context: refuses what is none, and, with checks, who promised
    /// not to use it.
    #[inline]
    pub fn begin(self, call: &'static str) -> Using {
        let world = pgas::world_for(call);
        if self == Ctx::DEFAULT {
            return Using::nothing();
        }
        let given = self.given(call);
        if world.checks() { context::begin(call, given) } else { Using::nothing() }
    }

    /// The same for a call that does nothing with `SHMEM_CTX_INVALID`.
    pub fn begin_if_any(self, call: &'static str) -> Option<Using> {
        let begin = || self.begin(call);
        (self != Ctx::INVALID).then(begin)
    }

    /// The team that counts its PEs.
    pub fn team(self) -> Team {
        context::given(self).map_or(Team::WORLD, |given| given.team)
    }

    /// The stream of its operations.
    pub fn stream(self) -> Id {
        context::given(self).map_or(0, Given::stream)
    }

    /// The PE of the world that `pe` is in this context, and the stream of its operations.
    #[inline]
    pub fn pe(self, call: &'static str, pe: c_int) -> Target {
        if self == Ctx::DEFAULT { pe.into() } else { self.team_pe(call, pe) }
    }

    fn team_pe(self, call: &'static str, pe: c_int) -> Target {
        let given = self.given(call);
        match to_world(given.team, pe) {
            Some(pe) => Target { pe: pe as c_int, stream: given.stream(), later: false },
            None => {
                misuse(call, format_args!("pe {pe}: allowed are the PEs of the context's team"))
            }
        }
    }
}

/// A PE number from C, checked.
#[inline]
pub fn pe(call: &'static str, world: &World, pe: c_int) -> usize {
    match usize::try_from(pe) {
        Ok(number) if number < world.n_pes() => number,
        _ => misuse(call, format_args!("pe {pe}: allowed are 0..{}", world.n_pes() - 1)),
    }
}

/// `count` elements in bytes; a count that no memory holds is a misuse.
#[inline]
pub fn bytes_of(call: &'static str, count: usize, element_bytes: usize) -> usize {
    match count.checked_mul(element_bytes) {
        Some(bytes) if isize::try_from(bytes).is_ok() => bytes,
        _ => misuse(call, format_args!("nelems {count}: more than any memory holds")),
    }
}

/// A strided transfer: `blocks` blocks of `block` bytes, their starts this many bytes apart.
#[derive(Clone, Copy)]
pub struct Strides {
    /// How many blocks.
    pub blocks: usize,
    /// Bytes in each.
    pub block_bytes: usize,
    /// From start to start where it is written.
    pub dest_bytes: usize,
    /// From start to start where it is read.
    pub source_bytes: usize,
}

/// What a C call says about a strided transfer, in elements.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Stride of `dest`.
    pub dst: isize,
    /// Stride of `source`.
    pub sst: isize,
    /// Elements in a block.
    pub bsize: usize,
    /// Blocks.
    pub nblocks: usize,
    /// Bytes in an element.
    pub element_bytes: usize,
}

impl Shape {
    /// In bytes, checked; `None` when nothing is to be moved.
    pub fn strides(self, call: &'static str) -> Option<Strides> {
        if self.nblocks == 0 || self.bsize == 0 {
            return None;
        }
        let block_bytes = bytes_of(call, self.bsize, self.element_bytes);
        let stride = |name: &str, stride: isize| match usize::try_from(stride) {
            Ok(elements) if elements >= self.bsize => bytes_of(call, elements, self.element_bytes),
            _ => misuse(call, format_args!("{name} {stride}: allowed are {} and more", self.bsize)),
        };
        let (dest_bytes, source_bytes) = (stride("dst", self.dst), stride("sst", self.sst));
        Some(Strides { blocks: self.nblocks, block_bytes, dest_bytes, source_bytes })
    }
}

impl Strides {
    /// First byte to last byte when the blocks start `stride_bytes` apart.
    pub fn extent(&self, call: &'static str, stride_bytes: usize) -> usize {
        let gaps = bytes_of(call, self.blocks - 1, stride_bytes);
        match gaps.checked_add(self.block_bytes) {
            Some(bytes) if isize::try_from(bytes).is_ok() => bytes,
            _ => misuse(call, "the strided range is larger than any memory"),
        }
    }
}
