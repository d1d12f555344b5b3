//! Collectives of all PEs in a job with logs: once, at the level of the call.
//!
//! Each PE leaves what it brings in its log and comes to a meeting. What comes out each works out
//! for itself from what all left there. So nobody has to make a collective again for a PE that goes
//! back alone, and one that was broken off goes on when its substitute comes to it.
//!
//! Where a PE has no room in its log any more, or called what is not logged, all go the way of jobs
//! without logs.
//!
//! Left out: teams other than that of all PEs, and active sets, which are not logged.

use raidshmem_core::quantity::Pe;

use super::exchange::with_room;
use super::merge;
use crate::openshmem::bits::Zero;
use crate::openshmem::group::Group;
use crate::openshmem::memory::address::{Sym, SymIn};
use crate::openshmem::memory::logged::{self, elements, fill, source};
use crate::openshmem::memory::rma;
use crate::openshmem::memory::strides::Strides;
use crate::pgas::gathering::Met;
use crate::pgas::local::Call;
use crate::pgas::{self, Fault, World};

/// Elements reduced at a time.
const PIECE: usize = 1024;

/// What became of a collective: its outcome, or None if it goes the way of jobs without logs.
pub type Outcome = Option<Result<(), Fault>>;

/// True if the group is that of all PEs and its collectives are logged now.
pub fn applies(group: &Group) -> bool {
    if !logged::applies() {
        return false;
    }
    if !group.is_world() {
        logged::unlogged(group.call);
    }
    pgas::world().logs() && group.is_world()
}

/// Meets all with `what`, and has `make` work out what comes out of what all brought.
fn meet(
    call: &'static str,
    with: u64,
    what: &[u8],
    mut make: impl FnMut(&World, &[(usize, usize)]),
) -> Outcome {
    let world = pgas::world();
    match world.meet_logged(Call { name: call, with }, what) {
        Met::Cut => Some(Err(Fault)),
        Met::Plain => {
            world.is_met();
            None
        }
        Met::Together(parts) => {
            let is_made = world.work_out(parts, |parts| make(world, parts));
            world.is_met();
            Some(if is_made { Ok(()) } else { Err(Fault) })
        }
    }
}

fn part<'a>(world: &'a World, parts: &[(usize, usize)], index: usize) -> &'a [u8] {
    let (at, len) = parts[index];
    let near = world.segments.near(Pe::of(index)).unwrap_or_else(|| world.segments.own());
    near.bytes(at, len)
}

/// A barrier of all PEs.
pub fn barrier(call: &'static str, with: u64) -> Outcome {
    meet(call, with, &[], |_, _| {})
}

/// What a call is compared by: its arguments that are the same in each process.
fn with(arguments: [usize; 3]) -> u64 {
    arguments.iter().fold(0, |all: u64, &one| all.wrapping_mul(0x100_0001).wrapping_add(one as u64))
}

/// From the root to all.
pub fn broadcast(
    group: &Group,
    (dest, from): (Sym<u8>, SymIn<u8>),
    bytes: usize,
    (root, to_root): (usize, bool),
) -> Outcome {
    let is_root = group.index == root;
    let what = if is_root { source(group.call, from, bytes) } else { &[] };
    meet(group.call, with([bytes, root, usize::from(to_root)]), what, |world, parts| {
        if !is_root || to_root {
            fill(group.call, dest, part(world, parts, root));
        }
    })
}

/// The same number of bytes from each, by index.
pub fn fcollect(group: &Group, (dest, from): (Sym<u8>, SymIn<u8>), bytes: usize) -> Outcome {
    meet(group.call, with([bytes, 0, 0]), source(group.call, from, bytes), |world, parts| {
        for index in 0..group.size {
            fill(group.call, dest.element(index * bytes), part(world, parts, index));
        }
    })
}

/// Block `i` of each goes to PE `i`, there by index.
pub fn alltoall(group: &Group, (dest, from): (Sym<u8>, SymIn<u8>), bytes: usize) -> Outcome {
    let what = source(group.call, from, bytes * group.size);
    meet(group.call, with([bytes, 1, 0]), what, |world, parts| {
        for index in 0..group.size {
            let block = &part(world, parts, index)[group.index * bytes..][..bytes];
            fill(group.call, dest.element(index * bytes), block);
        }
    })
}

/// From each as many bytes as it says, one after another by index; `fits` is told how many those
/// are in all, which are handed back.
pub fn collect(
    group: &Group,
    (dest, from): (Sym<u8>, SymIn<u8>),
    bytes: usize,
    fits: impl Fn(usize),
) -> Option<Result<usize, Fault>> {
    let mut end = 0;
    let what = source(group.call, from, bytes);
    let outcome = meet(group.call, with([0, 4, 0]), what, |world, parts| {
        fits(parts.iter().map(|(_, len)| len).sum());
        end = 0;
        for index in 0..group.size {
            let part = part(world, parts, index);
            fill(group.call, dest.element(end), part);
            end += part.len();
        }
    });
    outcome.map(|outcome| outcome.map(|()| end))
}

/// Block `i` of each goes to PE `i`, there by index; elements are apart, and blocks by the steps.
pub fn alltoalls(
    group: &Group,
    (dest, from): (Sym<u8>, SymIn<u8>),
    by: Strides,
    (dest_step, source_step): (usize, usize),
) -> Outcome {
    let extent = match by.blocks {
        0 => 0,
        _ => source_step * (group.size - 1) + by.extent(group.call, by.source_bytes),
    };
    let all = source(group.call, from, extent);
    let starts = |index: usize, step: usize, stride: usize| {
        (0..by.blocks).map(move |block| index * step + block * stride)
    };
    let of_all = (0..group.size).flat_map(|index| starts(index, source_step, by.source_bytes));
    let packed: Vec<u8> = of_all.flat_map(|at| &all[at..at + by.block_bytes]).copied().collect();
    let bytes = by.blocks * by.block_bytes;
    meet(group.call, with([by.blocks, by.block_bytes, 5]), &packed, |world, parts| {
        for index in 0..group.size {
            let block = &part(world, parts, index)[group.index * bytes..][..bytes];
            let to = starts(index, dest_step, by.dest_bytes);
            for (at, element) in to.zip(block.chunks_exact(by.block_bytes.max(1))) {
                fill(group.call, dest.element(at), element);
            }
        }
    })
}

/// The elements of all PEs from the first to `last`, combined in the tree or one after another, as
/// collectives without logs do.
pub fn reduce<T: Copy + Zero>(
    group: &Group,
    (dest, from): (Sym<T>, SymIn<T>),
    count: usize,
    op: &impl Fn(T, T) -> T,
) -> Outcome {
    let what = source(group.call, from.erase(), count * size_of::<T>());
    meet(group.call, with([count, 2, 0]), what, |world, parts| {
        for first in (0..count).step_by(PIECE) {
            let len = PIECE.min(count - first);
            let read = |index: usize, into: &mut [T]| {
                let at = parts[index].0 + first * size_of::<T>();
                elements(world, Pe::of(index), at, into);
            };
            with_room(merge::room(group.size, len), |room| {
                put_back(
                    group.call,
                    dest.element(first),
                    merge::all((group.size, len), room, read, op),
                );
            });
        }
    })
}

/// The same over the PEs up to this one, itself included if `inclusive`; zero before the first.
pub fn scan<T: Copy + Zero>(
    group: &Group,
    (dest, from): (Sym<T>, SymIn<T>),
    count: usize,
    (inclusive, op): (bool, &impl Fn(T, T) -> T),
) -> Outcome {
    let what = source(group.call, from.erase(), count * size_of::<T>());
    meet(group.call, with([count, 3, usize::from(inclusive)]), what, |world, parts| {
        let mut sums = vec![T::zero(); count];
        let mut theirs = vec![T::zero(); count];
        let upto = group.index + usize::from(inclusive);
        for (index, part) in parts.iter().enumerate().take(upto) {
            elements(world, Pe::of(index), part.0, &mut theirs);
            match index {
                0 => sums.copy_from_slice(&theirs),
                _ => sums.iter_mut().zip(&theirs).for_each(|(a, b)| *a = op(*a, *b)),
            }
        }
        put_back(group.call, dest, &sums);
    })
}

fn put_back<T: Copy + Zero>(call: &'static str, dest: Sym<T>, result: &[T]) {
    rma::send(call, dest, result, pgas::world().me().0 as i32);
}
