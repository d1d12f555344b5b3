//! A tree in which each PE has up to [`DEGREE`] children: the path of a small broadcast.
//!
//! ```text
//! PE 0 of 12 is the root, degree 8       0
//!                           1  2  3  4  5  6  7  8
//!                        9 10 11
//! ```
//!
//! Indices are relative to the root. PEs that map each other have the data of their parent as soon
//! as they wake, so a shallow tree beats a binomial one.

/// Children of a PE.
pub const DEGREE: usize = 8;

/// Returns the parent of PE `index` of `size`; the root has no parent.
pub fn parent(index: usize, size: usize, root: usize) -> Option<usize> {
    let nth = (index + size - root) % size;
    (nth > 0).then(|| ((nth - 1) / DEGREE + root) % size)
}

/// Returns the children of PE `index` of `size`.
pub fn children(index: usize, size: usize, root: usize) -> impl ExactSizeIterator<Item = usize> {
    let nth = (index + size - root) % size;
    let first = (nth * DEGREE + 1).min(size);
    (first..(first + DEGREE).min(size)).map(move |child| (child + root) % size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pe_but_the_root_is_the_child_of_its_parent() {
        for size in 1..200 {
            for root in [0, size / 3, size - 1] {
                let mut reached = vec![0; size];
                for index in 0..size {
                    for child in children(index, size, root) {
                        assert_eq!(parent(child, size, root), Some(index), "{child} of {size}");
                        reached[child] += 1;
                    }
                }
                let once = |index: usize| usize::from(index != root);
                assert!((0..size).all(|index| reached[index] == once(index)), "{root} of {size}");
                assert_eq!(parent(root, size, root), None);
            }
        }
    }
}
