//! Programs generated from a seed, free of data races by construction.
//!
//! A program is a sequence of phases, separated by meetings of all PEs. In a phase a word has one
//! use: one PE writes it once, all change it atomically, its owner writes it plainly, or all read
//! it.

use super::program::{Kind, Op, Program, Value};

/// The use of a word in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Put { by: usize },
    Atomic,
    Own,
    Read,
}

/// A random number generator (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }
}

/// Number of words that a program uses on each PE.
const WORDS: usize = 2;

/// Generates the program of a seed, for two PEs.
pub(super) fn program(seed: u64) -> Program {
    let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut pes = vec![Vec::new(); 2];
    for phase in 0..2 {
        let mut uses = Vec::new();
        for _ in 0..2 * WORDS {
            uses.push(match numbers.below(5) {
                0 | 1 => Use::Put { by: numbers.below(2) },
                2 => Use::Atomic,
                3 => Use::Own,
                _ => Use::Read,
            });
        }
        for (me, calls) in pes.iter_mut().enumerate() {
            for _ in 0..2 {
                let word = numbers.below(uses.len());
                let op = access(&mut numbers, me, word, &mut uses);
                calls.extend(op);
            }
        }
        if phase == 0 {
            let meeting = match numbers.below(4) {
                0 => Op::Checkpoint,
                1 => Op::Sum { from: 0, at: 1 },
                2 => Op::Broadcast { root: 1, from: 1, at: 0 },
                _ => Op::Barrier,
            };
            // A collective does not order other words, so barriers before and after it do.
            let alone = matches!(meeting, Op::Barrier | Op::Checkpoint);
            let row = if alone { vec![meeting] } else { vec![Op::Barrier, meeting, Op::Barrier] };
            pes.iter_mut().for_each(|calls| calls.extend(&row));
        }
    }
    for calls in &mut pes {
        calls.extend([Op::Barrier, Op::Load { at: 0, into: 0 }, Op::Load { at: 1, into: 1 }]);
    }
    Program { name: "by a seed", pes, victims: vec![0, 1] }
}

/// Returns an access of PE `me` to a word (numbered consecutively, two per PE), if its use allows
/// one.
fn access(numbers: &mut Numbers, me: usize, word: usize, uses: &mut [Use]) -> Option<Op> {
    let (to, at) = (word / WORDS, word % WORDS);
    let value = match numbers.below(2) {
        0 => Value::Just(1 + numbers.below(3) as u64),
        _ => Value::Of { register: numbers.below(2), plus: 2 },
    };
    match uses[word] {
        Use::Put { by } if by == me => {
            uses[word] = Use::Put { by: usize::MAX }; // once
            let both = at == 0 && uses[word + 1] == Use::Put { by };
            if both {
                uses[word + 1] = Use::Put { by: usize::MAX };
                return Some(Op::Bulk { to, at, value });
            }
            Some(Op::Put { to, at, value })
        }
        Use::Atomic => {
            let change = [Kind::Add, Kind::Set, Kind::SwapIf(0)][numbers.below(3)];
            let into = [None, Some(0)][numbers.below(2)];
            Some(Op::Atomic { to, at, change, value, into })
        }
        Use::Own if to == me => Some(Op::Store { at, value }),
        Use::Read if to == me => Some(Op::Load { at, into: 1 }),
        Use::Read => Some(Op::Get { from: to, at, into: 1 }),
        _ => None,
    }
}
