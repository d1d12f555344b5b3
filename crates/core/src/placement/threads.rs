//! The processors of a program's threads, preserved across a restart.
//!
//! ```text
//! binding of the PE   4 5 6 7      recorded: thread 1 has the second and the third CPU
//! thread 1            5 6
//! new binding         0 1 2 3      thread 1 gets 1 2
//! ```
//!
//! Threads are matched by the order of their creation. A mask inside the PE's binding is stored as
//! ranks, so that a substitute on another machine gets the equivalent; one that reaches beyond the
//! binding is stored unchanged. Source: Saini, affinity-aware restart.
//!
//! Invariants: a stored mask is never empty; a mask that was inside the old binding never yields
//! processors outside the new one.
//!
//! Left out: querying and setting affinity in the kernel.

use crate::mutant::{Mutant, breaks};

/// Number of threads of a PE whose masks are stored; further threads have none.
pub const THREADS: usize = 64;
/// Words of a mask, of 64 processors each.
pub const WORDS: usize = 16;

/// The processors of a thread, stored in a checkpoint. The default is empty: no such thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadMask {
    /// 0: empty; 1: `bits` are ranks in the binding; 2: numbers of processors.
    pub kind: u64,
    /// The set.
    pub bits: [u64; WORDS],
}

const IN_BINDING: u64 = 1;
const AS_IT_IS: u64 = 2;

impl ThreadMask {
    /// Encodes the mask `cpus` of a thread of a PE bound to `binding`; both ascend.
    pub fn of(cpus: &[usize], binding: &[usize]) -> ThreadMask {
        let rank = |cpu: &usize| binding.binary_search(cpu).ok();
        match cpus.iter().map(rank).collect::<Option<Vec<usize>>>() {
            Some(ranks) => ThreadMask::set(IN_BINDING, ranks),
            None => ThreadMask::set(AS_IT_IS, cpus.to_vec()),
        }
    }

    fn set(kind: u64, numbers: Vec<usize>) -> ThreadMask {
        let mut bits = [0; WORDS];
        for number in numbers {
            match bits.get_mut(number / 64) {
                Some(word) => *word |= 1 << (number % 64),
                None => return ThreadMask::default(), // no masks of larger machines
            }
        }
        if bits == [0; WORDS] { ThreadMask::default() } else { ThreadMask { kind, bits } }
    }

    /// Returns the processors of the thread in `binding`, ascending; None if no mask was stored or
    /// `binding` is empty. Ranks wrap around in a smaller binding.
    pub fn on(&self, binding: &[usize]) -> Option<Vec<usize>> {
        let numbers = (0..WORDS * 64).filter(|at| self.bits[at / 64] >> (at % 64) & 1 == 1);
        let mut cpus: Vec<usize> = match self.kind {
            IN_BINDING if breaks(Mutant::ThreadPlaceIgnored) => binding.to_vec(),
            IN_BINDING if !binding.is_empty() => {
                numbers.map(|rank| binding[rank % binding.len()]).collect()
            }
            AS_IT_IS => numbers.collect(),
            _ => Vec::new(),
        };
        cpus.sort_unstable();
        cpus.dedup();
        (!cpus.is_empty()).then_some(cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_picture_above() {
        let kept = ThreadMask::of(&[5, 6], &[4, 5, 6, 7]);
        assert_eq!(kept.on(&[0, 1, 2, 3]), Some(vec![1, 2]));
        assert_eq!(kept.on(&[4, 5, 6, 7]), Some(vec![5, 6]));
        assert_eq!(kept.on(&[8, 9]), Some(vec![8, 9]), "a smaller binding is gone round");
        assert_eq!(kept.on(&[]), None);
    }

    #[test]
    fn a_mask_beyond_the_binding_is_unchanged() {
        let kept = ThreadMask::of(&[3, 4], &[4, 5]);
        assert_eq!(kept.on(&[0, 1]), Some(vec![3, 4]));
        assert_eq!(ThreadMask::default().on(&[0]), None);
        assert_eq!(ThreadMask::of(&[], &[0]).on(&[0]), None);
        let far = ThreadMask::of(&[WORDS * 64], &[0]);
        assert_eq!(far, ThreadMask::default(), "no machine is that large");
    }

    proptest! {
        /// Any bytes of a checkpoint are a value: they yield processors of the binding, or none.
        #[test]
        fn any_bytes_lead_to_processors(kind in 0u64..4, word in any::<u64>(), at in 0..WORDS) {
            let mut bits = [0; WORDS];
            bits[at] = word;
            let binding = [1, 4, 9];
            if let Some(cpus) = (ThreadMask { kind, bits }).on(&binding) {
                prop_assert!(kind == AS_IT_IS || cpus.iter().all(|cpu| binding.contains(cpu)));
                prop_assert!(!cpus.is_empty() && cpus.is_sorted());
            }
        }

        #[test]
        fn equal_bindings_give_equal_processors(
            binding in proptest::collection::btree_set(0usize..1024, 1..20),
            cpus in proptest::collection::btree_set(0usize..1024, 1..20),
        ) {
            let binding: Vec<_> = binding.into_iter().collect();
            let cpus: Vec<_> = cpus.into_iter().collect();
            prop_assert_eq!(ThreadMask::of(&cpus, &binding).on(&binding), Some(cpus));
        }
    }
}
