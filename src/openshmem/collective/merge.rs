//! Reduction on one PE: combines the operands of all PEs, one after another, in the tree of
//! reductions (`core/schedule/reduction.rs`) with a stack of partial results.
//!
//! Invariant: the bits of the result depend only on the operands and their number.
//!
//! Left out: reading the operands, and storing the result.

use raidshmem_core::schedule::reduction::{self, Side};

use crate::openshmem::bits::Zero;

/// The operator of a reduction, on elements side by side: one type, whatever combines two elements,
/// so that the rest of a reduction is compiled once for each type of element.
pub trait Operator<T> {
    /// Sets `left := left op right`.
    fn onto_left(&self, left: &mut [T], right: &[T]);

    /// Sets `right := left op right`.
    fn onto_right(&self, left: &[T], right: &mut [T]);

    /// Combines `other`, which is on `side` of `own`, with `own`.
    fn combine(&self, own: &mut [T], other: &[T], side: Side) {
        match side {
            Side::Lower => self.onto_right(other, own),
            Side::Upper => self.onto_left(own, other),
        }
    }
}

impl<T: Copy, F: Fn(T, T) -> T> Operator<T> for F {
    fn onto_left(&self, left: &mut [T], right: &[T]) {
        left.iter_mut().zip(right).for_each(|(a, b)| *a = self(*a, *b));
    }

    fn onto_right(&self, left: &[T], right: &mut [T]) {
        left.iter().zip(right).for_each(|(a, b)| *b = self(*a, *b));
    }
}

/// Scratch elements on the stack. They are zeroed on each use, hence two sizes.
const FEW: usize = 64;
const MANY: usize = 512;

/// Provides scratch for `len` elements while `run` runs: on the stack if they are few, else on the
/// heap.
pub fn with_scratch<T: Copy + Zero, R>(len: usize, run: impl FnOnce(&mut [T]) -> R) -> R {
    match len {
        0..=FEW => run(&mut [T::zero(); FEW][..len]),
        _ if len <= MANY => run(&mut [T::zero(); MANY][..len]),
        _ => run(&mut vec![T::zero(); len]),
    }
}

/// Returns the scratch elements needed to combine `operands` of `len` elements.
pub fn scratch_len(operands: usize, len: usize) -> usize {
    (1 + reduction::depth(operands)) * len
}

/// Combines `operands` of `len` elements each; `read` receives an operand's number and the buffer
/// for its elements. The result is in `scratch`.
pub fn all<'a, T: Copy>(
    (operands, len): (usize, usize),
    scratch: &'a mut [T],
    mut read: impl FnMut(usize, &mut [T]),
    op: &dyn Operator<T>,
) -> &'a [T] {
    let (theirs, stack) = scratch.split_at_mut(len);
    let mut top = 0;
    for number in 0..operands {
        let (below, rest) = stack.split_at_mut(top);
        let merges = reduction::merges(number, operands);
        // An operand that is not combined at once is read directly into its place on the stack.
        let into = if merges == 0 { &mut rest[..len] } else { &mut *theirs };
        read(number, into);
        top = if merges == 0 { top + len } else { merge(below, into, merges, op) };
    }
    &stack[..top]
}

/// Combines `upper` with the topmost partial result of a stack, that result with the one below, and
/// so on; returns the new height of the stack.
fn merge<T: Copy>(mut stack: &mut [T], upper: &[T], merges: usize, op: &dyn Operator<T>) -> usize {
    let len = upper.len();
    let mut upper = upper;
    for _ in 0..merges {
        let (below, lower) = stack.split_at_mut(stack.len() - len);
        op.onto_left(lower, upper);
        (stack, upper) = (below, lower);
    }
    stack.len() + len
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operand `n` is the pair of `n` and `n + 1`; neighboring pairs become one.
    #[test]
    fn every_operand_is_in_the_result_once_and_in_order() {
        for operands in 1..=40 {
            let (len, zero) = (3, (0u32, 0u32));
            let mut scratch = vec![zero; scratch_len(operands, len)];
            let read = |number: usize, into: &mut [(u32, u32)]| {
                into.fill((number as u32, number as u32 + 1));
            };
            let join = |a: (u32, u32), b: (u32, u32)| {
                assert_eq!(a.1, b.0, "neighbours, of {operands}");
                (a.0, b.1)
            };
            let result = all((operands, len), &mut scratch, read, &join);
            assert_eq!(result, vec![(0, operands as u32); len]);
        }
    }
}
