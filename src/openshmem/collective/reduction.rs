//! Reductions and scans, as data: the elements of members, combined one by one.
//!
//! A reduction combines those of all in one tree (`merge.rs`), a scan those of the members up to
//! this one in the order of their indices; every way of a job does so. What is combined depends on
//! who takes part alone.
//!
//! Left out: how the operands get here.

use super::merge;
use super::movement::{check, check_source};
use crate::openshmem::bits::Zero;
use crate::openshmem::check::bytes_of;
use crate::openshmem::group::Group;
use crate::openshmem::memory::address::{Sym, SymIn};
use crate::openshmem::memory::prelude;

/// The members whose elements one member combines, and their order.
#[derive(Clone, Copy)]
pub enum Order {
    /// Those of all, in the tree.
    Tree,
    /// Those before this one, itself too if `inclusive`; zeroes if there is nobody.
    Before { inclusive: bool },
}

/// A collective that combines elements, seen from one member.
pub struct Reduction<'a, T, F> {
    /// Who takes part.
    pub group: Group,
    /// Where the result goes.
    pub dest: Sym<T>,
    /// What this member brings.
    pub source: SymIn<T>,
    /// Elements of each.
    pub count: usize,
    /// Combines two elements.
    pub op: &'a F,
    /// Whose are combined.
    pub order: Order,
}

impl<T: Copy + Zero, F: Fn(T, T) -> T> Reduction<'_, T, F> {
    /// How many of `members`, indices in their order, this one combines: the first ones.
    pub fn operands(&self, members: &[usize]) -> usize {
        match self.order {
            Order::Tree => members.len(),
            Order::Before { inclusive } => {
                let end = self.group.index + usize::from(inclusive);
                members.iter().take_while(|&&index| index < end).count()
            }
        }
    }

    /// Elements of room to combine `len` elements of so many members.
    pub fn room(&self, operands: usize, len: usize) -> usize {
        match self.order {
            Order::Tree => merge::room(operands, len),
            Order::Before { .. } => 2 * len,
        }
    }

    /// Combines `len` elements of `operands` members; `read` is given the number of one of them and
    /// where its elements are to be. The result lies in `room`.
    pub fn combined<'r>(
        &self,
        (operands, len): (usize, usize),
        room: &'r mut [T],
        mut read: impl FnMut(usize, &mut [T]),
    ) -> &'r [T] {
        if let Order::Tree = self.order {
            return merge::all((operands, len), room, read, self.op);
        }
        let (sums, theirs) = room.split_at_mut(len);
        sums.fill(T::zero());
        for number in 0..operands {
            match number {
                0 => read(0, sums),
                _ => {
                    read(number, theirs);
                    merge::fold(sums, theirs, self.op);
                }
            }
        }
        sums
    }

    /// A number for its arguments that are alike on all members.
    pub fn digest(&self) -> u64 {
        let order = match self.order {
            Order::Tree => 0,
            Order::Before { inclusive } => 1 + usize::from(inclusive),
        };
        prelude::with([self.count, size_of::<T>(), order].map(|one| one as u64))
    }

    /// Refuses what is not symmetric, before any PE waits for this one; how many bytes it fills.
    pub fn checked(&self) -> usize {
        let bytes = bytes_of(self.group.call, self.count, size_of::<T>());
        check(&self.group, self.dest.erase(), bytes);
        check_source(&self.group, self.source.erase(), bytes);
        bytes
    }
}
