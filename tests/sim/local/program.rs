//! Random programs without data races, of which the final memory depends on no schedule.
//!
//! A program is a sequence of phases between barriers. In a phase, a word has one use: one PE
//! writes it, all change it atomically, its owner uses it, or all read it. Results that depend on
//! the schedule (the values of fetching operations, the number of failed tests, drawn values) are
//! used so that any error in them changes the final memory: as tickets, as sums that are constant,
//! or compared with a copy on another PE.

use raidshmem_core::update::{Change, Update};

use super::super::memory::Chance;

/// Number of words of a PE.
pub const WORDS: usize = 16;
/// Number of registers, which are private memory. No phase leaves a value in one for the next.
pub const REGISTERS: usize = 4;

/// The word that holds the results so far.
const DATA: usize = 0;
/// The first of the words for incoming data.
const IN: usize = 1;
const COUNT: usize = 5;
const TICKET: usize = 6;
const FLAG: usize = 7;
const OWN: usize = 8;
const COPY: usize = 9;
const RESULT: usize = 10;
const SLOT: usize = 11;
const POT: usize = 12;
const LOCK: usize = 13;
const GUARDED: usize = 14;

/// A value that an operation sends: a constant, or the value of a register plus a constant.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    Just(u64),
    Of { register: usize, plus: u64 },
}

/// The PE that an operation is for: a constant, or the value of a register.
#[derive(Debug, Clone, Copy)]
pub enum To {
    Pe(usize),
    Of { register: usize },
}

/// A call of a program, or a plain access to the PE's own memory.
#[derive(Debug, Clone, Copy)]
pub enum Op {
    Put {
        to: To,
        at: usize,
        value: Value,
    },
    /// Writes two words, one after the other, this many words apart.
    Bulk {
        to: usize,
        at: usize,
        value: Value,
        step: usize,
    },
    Atomic {
        to: usize,
        at: usize,
        how: Update,
        value: u64,
        into: Option<usize>,
    },
    /// Acquires a lock: repeats a compare-and-swap until it succeeds.
    Acquire {
        to: usize,
        at: usize,
    },
    Get {
        from: usize,
        at: usize,
        into: usize,
    },
    Wait {
        at: usize,
        least: u64,
    },
    /// Tests a word until it is large enough, and counts the failed tests.
    Poll {
        at: usize,
        least: u64,
        into: usize,
    },
    /// Draws a random number.
    Draw {
        into: usize,
    },
    Store {
        at: usize,
        value: Value,
    },
    Load {
        at: usize,
        into: usize,
    },
    /// Adds a register to a word.
    Raise {
        at: usize,
        register: usize,
    },
    /// Combines a word with the results so far.
    Mix {
        with: usize,
    },
    /// Spoils the results so far if a word differs from a register.
    Check {
        at: usize,
        register: usize,
    },
    Barrier,
    Broadcast {
        root: usize,
        from: usize,
        at: usize,
    },
    Sum {
        from: usize,
        at: usize,
    },
    /// Makes a checkpoint. Registers are zero afterwards.
    Checkpoint,
    Finish,
}

impl Op {
    /// Returns the change of an atomic operation.
    pub fn change(how: Update, operand: u64) -> Change {
        Change { how, operand }
    }
}

/// The calls of each PE.
#[derive(Debug, Clone)]
pub struct Program {
    pub pes: Vec<Vec<Op>>,
}

const fn of(register: usize) -> Value {
    Value::Of { register, plus: 0 }
}

/// A program under construction.
struct Writer<'a> {
    chance: &'a mut Chance,
    pes: Vec<Vec<Op>>,
    phase: u64,
}

/// Generates a program with this number of phases.
pub fn program(chance: &mut Chance, n_pes: usize, phases: u64) -> Program {
    let mut writer = Writer { chance, pes: vec![Vec::new(); n_pes], phase: 0 };
    for phase in 1..=phases {
        writer.phase = 100 * phase;
        writer.phase();
        if writer.chance.one_in(3) {
            writer.all(|_| vec![Op::Checkpoint]);
        }
    }
    writer.all(|_| vec![Op::Finish]);
    Program { pes: writer.pes }
}

impl Writer<'_> {
    fn all(&mut self, ops: impl Fn(usize) -> Vec<Op>) {
        self.pes.iter_mut().enumerate().for_each(|(me, calls)| calls.extend(ops(me)));
    }

    fn one(&mut self, me: usize, ops: Vec<Op>) {
        self.pes[me].extend(ops);
    }

    fn pe(&mut self) -> usize {
        self.chance.below(self.pes.len())
    }

    fn barrier(&mut self) {
        self.all(|_| vec![Op::Barrier]);
    }

    /// Combines words of each PE, in a part of the program in which no other PE changes them.
    fn mix(&mut self, words: &[usize]) {
        self.barrier();
        self.all(|_| words.iter().map(|&with| Op::Mix { with }).collect());
    }

    fn phase(&mut self) {
        match self.chance.below(10) {
            0 => self.neighbours(),
            1 => self.bulk(),
            2 => self.counts(),
            3 => self.tickets(),
            4 => self.pot(),
            5 => self.flags(),
            6 => self.draws(),
            7 => self.broadcast(),
            8 if self.pes.len() > 2 => self.chain(),
            _ => self.lock(),
        }
        self.barrier();
    }

    /// Returns the PE at a random distance from each PE, never the PE itself.
    fn partners(&mut self) -> Vec<usize> {
        let (n_pes, by) = (self.pes.len(), 1 + self.chance.below(self.pes.len() - 1));
        (0..n_pes).map(|me| (me + by) % n_pes).collect()
    }

    fn neighbours(&mut self) {
        let (partners, plus) = (self.partners(), self.phase);
        self.all(|me| {
            let value = Value::Of { register: 0, plus };
            let put = Op::Put { to: To::Pe(partners[me]), at: IN, value };
            vec![Op::Load { at: DATA, into: 0 }, put]
        });
        self.mix(&[IN]);
    }

    fn bulk(&mut self) {
        let (partners, plus) = (self.partners(), self.phase);
        let step = 1 + self.chance.below(3);
        self.all(|me| {
            let value = Value::Of { register: 0, plus };
            let put = Op::Bulk { to: partners[me], at: IN, value, step };
            vec![Op::Load { at: DATA, into: 0 }, put]
        });
        self.mix(&[IN, IN + step]);
    }

    fn counts(&mut self) {
        for me in 0..self.pes.len() {
            for _ in 0..=self.chance.below(3) {
                let fails = self.chance.one_in(5);
                let how = if fails { Update::CompareSwap(u64::MAX) } else { Update::Add };
                let into = self.chance.one_in(3).then_some(3);
                let (to, value) = (self.pe(), 1 + self.chance.below(9) as u64);
                self.one(me, vec![Op::Atomic { to, at: COUNT, how, value, into }]);
            }
        }
        self.mix(&[COUNT]);
    }

    fn tickets(&mut self) {
        let (root, value) = (self.pe(), Value::Just(self.phase));
        self.all(|_| {
            let (how, into) = (Update::Add, Some(1));
            let ticket = Op::Atomic { to: root, at: TICKET, how, value: 1, into };
            vec![ticket, Op::Put { to: To::Of { register: 1 }, at: SLOT, value }]
        });
        self.mix(&[SLOT]);
        self.one(root, vec![Op::Store { at: TICKET, value: Value::Just(0) }]);
    }

    /// Some PEs add to a word, and others take all that is there.
    fn pot(&mut self) {
        let root = self.pe();
        for me in 0..self.pes.len() {
            let take = Op::Atomic { to: root, at: POT, how: Update::Swap, value: 0, into: Some(1) };
            let value = 1 + self.chance.below(9) as u64;
            let add = Op::Atomic { to: root, at: POT, how: Update::Add, value, into: None };
            match self.chance.below(3) {
                0 => self.one(me, vec![take, Op::Store { at: OWN, value: of(1) }]),
                _ => self.one(me, vec![add]),
            }
        }
        self.barrier();
        let none = Value::Just(0);
        let rest = [Op::Load { at: POT, into: 1 }, Op::Raise { at: OWN, register: 1 }];
        self.one(root, rest.to_vec());
        self.one(root, vec![Op::Store { at: POT, value: none }]);
        self.all(|_| {
            let sum = Op::Sum { from: OWN, at: RESULT };
            vec![sum, Op::Mix { with: RESULT }, Op::Store { at: OWN, value: none }]
        });
    }

    fn flags(&mut self) {
        let (partners, plus) = (self.partners(), self.phase);
        let (polls, adds) = (self.chance.one_in(2), self.chance.one_in(2));
        self.all(|me| {
            let (to, value) = (partners[me], Value::Of { register: 0, plus });
            let add = Op::Atomic { to, at: FLAG, how: Update::Add, value: 1, into: None };
            let put = Op::Put { to: To::Pe(to), at: FLAG, value: Value::Just(1) };
            let poll = Op::Poll { at: FLAG, least: 1, into: 1 };
            vec![
                Op::Load { at: DATA, into: 0 },
                Op::Put { to: To::Pe(to), at: IN, value },
                if adds { add } else { put },
                if polls { poll } else { Op::Wait { at: FLAG, least: 1 } },
                Op::Store { at: FLAG, value: Value::Just(0) },
                Op::Mix { with: IN },
            ]
        });
        if polls {
            self.compare();
        }
    }

    fn draws(&mut self) {
        self.all(|_| vec![Op::Draw { into: 1 }]);
        self.compare();
    }

    /// Sends register 1 to the next PE, which compares it with what this PE holds then.
    fn compare(&mut self) {
        let n_pes = self.pes.len();
        self.all(|me| {
            let to = To::Pe((me + 1) % n_pes);
            vec![Op::Store { at: OWN, value: of(1) }, Op::Put { to, at: COPY, value: of(1) }]
        });
        self.barrier();
        self.all(|me| {
            let get = Op::Get { from: (me + n_pes - 1) % n_pes, at: OWN, into: 2 };
            vec![get, Op::Check { at: COPY, register: 2 }]
        });
        self.barrier();
        let none = Value::Just(0);
        self.all(|_| vec![Op::Store { at: OWN, value: none }, Op::Store { at: COPY, value: none }]);
    }

    fn broadcast(&mut self) {
        let root = self.pe();
        let broadcast = Op::Broadcast { root, from: DATA, at: RESULT };
        self.all(|_| vec![broadcast, Op::Mix { with: RESULT }]);
    }

    /// Two PEs write the same bytes of a third, one after the other.
    fn chain(&mut self) {
        let n_pes = self.pes.len();
        let (first, by) = (self.pe(), 1 + self.chance.below((n_pes - 1) / 2));
        let [second, third] = [1, 2].map(|times| (first + times * by) % n_pes);
        let put = |value| Op::Put { to: To::Pe(third), at: IN, value: Value::Just(value) };
        let add = Op::Atomic { to: second, at: FLAG, how: Update::Add, value: 1, into: None };
        self.one(first, vec![put(self.phase), add]);
        let reset = Op::Store { at: FLAG, value: Value::Just(0) };
        self.one(second, vec![Op::Wait { at: FLAG, least: 1 }, reset, put(self.phase + 1)]);
        self.barrier();
        self.one(third, vec![Op::Mix { with: IN }]);
    }

    fn lock(&mut self) {
        let (root, first) = (self.pe(), self.pe());
        for nth in 0..self.pes.len().min(4) {
            let me = (first + nth) % self.pes.len();
            let next = Value::Of { register: 1, plus: 1 };
            let release =
                Op::Atomic { to: root, at: LOCK, how: Update::Swap, value: 0, into: None };
            let calls = vec![
                Op::Acquire { to: root, at: LOCK },
                Op::Get { from: root, at: GUARDED, into: 1 },
                Op::Put { to: To::Pe(root), at: GUARDED, value: next },
                release,
            ];
            self.one(me, calls);
        }
        self.barrier();
        self.one(root, vec![Op::Mix { with: GUARDED }]);
    }
}
