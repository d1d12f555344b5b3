//! Reductions and scans, described as data: elements of members, combined one by one.
//!
//! A reduction combines the elements of all members in one tree (`merge.rs`); a scan combines those
//! of the members up to this one, in the order of their indices. This holds on every path of a job:
//! the order of combination depends only on the members.
//!
//! Left out: the transfer of the operands.

use super::merge::{self, Operator};
use super::movement::{check, check_source};
use crate::openshmem::bits::Zero;
use crate::openshmem::check::bytes_of;
use crate::openshmem::group::Group;
use crate::openshmem::memory::address::{Sym, SymIn};
use crate::openshmem::memory::prelude;

/// The members whose elements one member combines, and their order.
#[derive(Clone, Copy)]
pub enum Order {
    /// All members, in the tree.
    Tree,
    /// The members before this one, including itself if `inclusive`; zeroes for an empty range.
    Before { inclusive: bool },
}

/// A collective that combines elements, seen from one member.
pub struct Reduction<'a, T> {
    /// The members.
    pub group: Group,
    /// The destination of the result.
    pub dest: Sym<T>,
    /// This member's contribution.
    pub source: SymIn<T>,
    /// Elements per member.
    pub count: usize,
    /// Combines two elements.
    pub op: &'a dyn Operator<T>,
    /// The members combined, and their order.
    pub order: Order,
}

impl<T: Copy + Zero> Reduction<'_, T> {
    /// Returns how many of `members` (indices, in order) this member combines: the first ones.
    pub fn operands(&self, members: &[usize]) -> usize {
        match self.order {
            Order::Tree => members.len(),
            Order::Before { inclusive } => {
                let end = self.group.index + usize::from(inclusive);
                members.iter().take_while(|&&index| index < end).count()
            }
        }
    }

    /// Returns the scratch elements needed to combine `len` elements of `operands` members.
    pub fn scratch_len(&self, operands: usize, len: usize) -> usize {
        match self.order {
            Order::Tree => merge::scratch_len(operands, len),
            Order::Before { .. } => 2 * len,
        }
    }

    /// Combines `len` elements of `operands` members; `read` receives an operand's number and the
    /// buffer for its elements. The result is in `scratch`.
    pub fn combined<'r>(
        &self,
        (operands, len): (usize, usize),
        scratch: &'r mut [T],
        mut read: impl FnMut(usize, &mut [T]),
    ) -> &'r [T] {
        if let Order::Tree = self.order {
            return merge::all((operands, len), scratch, read, self.op);
        }
        let (sums, theirs) = scratch.split_at_mut(len);
        sums.fill(T::zero());
        for number in 0..operands {
            match number {
                0 => read(0, sums),
                _ => {
                    read(number, theirs);
                    self.op.onto_left(sums, theirs);
                }
            }
        }
        sums
    }

    /// Returns a hash of the arguments that are equal on all members.
    pub fn digest(&self) -> u64 {
        let order = match self.order {
            Order::Tree => 0,
            Order::Before { inclusive } => 1 + usize::from(inclusive),
        };
        prelude::with([self.count, size_of::<T>(), order].map(|one| one as u64))
    }

    /// Rejects arguments that are not symmetric, before any PE waits for this one; returns the
    /// bytes that the reduction fills.
    pub fn checked(&self) -> usize {
        let bytes = bytes_of(self.group.call, self.count, size_of::<T>());
        check(&self.group, self.dest.erase(), bytes);
        check_source(&self.group, self.source.erase(), bytes);
        bytes
    }
}
