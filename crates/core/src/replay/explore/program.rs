//! Small programs without data races, for the explorer: the calls of each PE.

use crate::update::{Change, Update};

/// A value that an operation sends: a constant, or the value of a register plus a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Value {
    Just(u64),
    Of { register: usize, plus: u64 },
}

/// A call of a program, or a plain access to the PE's own memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Op {
    /// Writes a whole word on a PE.
    Put {
        to: usize,
        at: usize,
        value: Value,
    },
    /// Writes two words on a PE, one after the other.
    Bulk {
        to: usize,
        at: usize,
        value: Value,
    },
    /// Changes a word on a PE; its old value goes to a register.
    Atomic {
        to: usize,
        at: usize,
        change: Kind,
        value: Value,
        into: Option<usize>,
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
    Test {
        at: usize,
        least: u64,
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
    Quiet,
    Barrier,
    /// A call that is not logged.
    Unlogged,
    /// Writes all words of a PE, one after the other, which is more than a log holds.
    Large {
        to: usize,
        value: Value,
    },
    /// Copies a word of the root to a word of each PE.
    Broadcast {
        root: usize,
        from: usize,
        at: usize,
    },
    /// Writes the sum of a word of all PEs to a word of each PE.
    Sum {
        from: usize,
        at: usize,
    },
    /// Makes a checkpoint. Registers are private memory: they are zero afterwards.
    Checkpoint,
    /// Comes to the end of the job.
    Finish,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Add,
    Set,
    SwapIf(u64),
}

impl Kind {
    pub(super) fn with(self, operand: u64) -> Change {
        let how = match self {
            Kind::Add => Update::Add,
            Kind::Set => Update::Swap,
            Kind::SwapIf(value) => Update::CompareSwap(value),
        };
        Change { how, operand }
    }
}

/// A program for each PE.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub name: &'static str,
    pub pes: Vec<Vec<Op>>,
    /// PEs that may be lost.
    pub victims: Vec<usize>,
}

const fn put(to: usize, at: usize, value: u64) -> Op {
    Op::Put { to, at, value: Value::Just(value) }
}

const fn bulk(to: usize, at: usize, value: u64) -> Op {
    Op::Bulk { to, at, value: Value::Just(value) }
}

const fn add(to: usize, at: usize, more: u64) -> Op {
    Op::Atomic { to, at, change: Kind::Add, value: Value::Just(more), into: None }
}

const fn swap(to: usize, at: usize, value: u64, into: usize) -> Op {
    Op::Atomic { to, at, change: Kind::Set, value: Value::Just(value), into: Some(into) }
}

const fn wait(at: usize, least: u64) -> Op {
    Op::Wait { at, least }
}

const fn get(from: usize, at: usize, into: usize) -> Op {
    Op::Get { from, at, into }
}

const fn load(at: usize, into: usize) -> Op {
    Op::Load { at, into }
}

const fn store(at: usize, value: Value) -> Op {
    Op::Store { at, value }
}

const fn of(register: usize, plus: u64) -> Value {
    Value::Of { register, plus }
}

use Op::{Barrier, Checkpoint, Finish, Quiet, Test, Unlogged};

/// One PE consumes the data of another: a repeated write would be visible.
pub(super) fn used_up() -> Program {
    let one = vec![put(1, 0, 1), Barrier, Barrier];
    let two = vec![Barrier, load(0, 0), store(0, of(0, 1)), Barrier];
    Program { name: "used up", pes: vec![one, two], victims: vec![0, 1] }
}

/// A PE waits for a flag and resets it.
pub(super) fn flag() -> Program {
    let one = vec![put(1, 0, 1), get(1, 2, 0)];
    let two = vec![wait(0, 1), store(0, Value::Just(0)), load(1, 0), store(1, of(0, 1))];
    Program { name: "flag", pes: vec![one, two], victims: vec![0, 1] }
}

/// Two PEs write the same bytes of a third, one after the other.
pub(super) fn two_origins() -> Program {
    let one = vec![put(2, 0, 1), Quiet, add(1, 1, 1), Barrier];
    let two = vec![wait(1, 1), put(2, 0, 2), Barrier];
    let three = vec![Barrier, load(0, 0)];
    Program { name: "two origins", pes: vec![one, two, three], victims: vec![2] }
}

/// Like [`two_origins`], with the first two PEs exchanged.
pub(super) fn two_origins_turned() -> Program {
    let one = vec![wait(1, 1), put(2, 0, 2), Barrier];
    let two = vec![put(2, 0, 1), Quiet, add(0, 1, 1), Barrier];
    let three = vec![Barrier, load(0, 0)];
    Program { name: "two origins, turned", pes: vec![one, two, three], victims: vec![2] }
}

/// Like [`two_origins_turned`], but the first writer has made more calls: its time is later unless
/// the other PE's time follows the clock.
pub(super) fn two_origins_apart() -> Program {
    let mut program = two_origins_turned();
    program.pes[1].insert(0, put(0, 0, 7));
    Program { name: "two origins, apart", ..program }
}

/// Like [`two_origins_turned`], and the third PE sends the value that it read, so that its log
/// continues after the meeting.
pub(super) fn two_origins_then_more() -> Program {
    let [one, two, _] = &two_origins_turned().pes[..] else { unreachable!("three PEs") };
    let three = vec![Barrier, load(0, 0), Op::Put { to: 0, at: 0, value: of(0, 3) }];
    let pes = vec![one.clone(), two.clone(), three];
    Program { name: "two origins, and more", pes, victims: vec![2] }
}

/// Two PEs write the same bytes of a third, ordered only by a meeting. The first writer has made an
/// observation before.
pub(super) fn met_between() -> Program {
    let one = vec![Test { at: 1, least: 1, into: 0 }, put(2, 0, 1), Barrier, Barrier];
    let two = vec![Barrier, put(2, 0, 2), Barrier];
    let three = vec![Barrier, Barrier, load(0, 0)];
    Program { name: "met between", pes: vec![one, two, three], victims: vec![2] }
}

/// All PEs swap with a word of one of them.
pub(super) fn swaps() -> Program {
    let all = |me: u64| vec![swap(0, 0, me + 1, 0), Barrier];
    let one = [all(0), vec![load(0, 1)]].concat();
    Program { name: "swaps", pes: vec![one, all(1)], victims: vec![0, 1] }
}

/// One PE adds to a word that another resets, and its owner reads it in the end.
pub(super) fn adds_and_swaps() -> Program {
    let one = vec![add(2, 0, 1), add(2, 0, 1), Barrier];
    let two = vec![swap(2, 0, 0, 0), Barrier];
    let three = vec![Barrier, load(0, 0)];
    Program { name: "adds and swaps", pes: vec![one, two, three], victims: vec![2] }
}

/// A compare-and-swap that fails, concurrent with adds.
pub(super) fn failed_swap() -> Program {
    let change = Kind::SwapIf(7);
    let cas = Op::Atomic { to: 0, at: 0, change, value: Value::Just(9), into: Some(0) };
    let one = vec![add(0, 0, 1), Barrier, load(0, 0)];
    let two = vec![cas, add(0, 0, 2), Barrier];
    Program { name: "a swap that fails", pes: vec![one, two], victims: vec![0, 1] }
}

/// The result of a test determines the value that is sent.
pub(super) fn tested() -> Program {
    let one = vec![Test { at: 0, least: 1, into: 0 }, put(1, 0, 5), Barrier];
    let mut one = one;
    one[1] = Op::Put { to: 1, at: 0, value: of(0, 5) };
    let two = vec![add(0, 0, 1), Barrier, load(0, 0)];
    Program { name: "tested", pes: vec![one, two], victims: vec![0, 1] }
}

/// The value of a get must not be read again, because it changes later.
pub(super) fn read_once() -> Program {
    let one = vec![get(1, 0, 0), Barrier, Op::Put { to: 1, at: 1, value: of(0, 4) }, Barrier];
    let two = vec![Barrier, store(0, Value::Just(2)), Barrier, load(1, 0)];
    Program { name: "read once", pes: vec![one, two], victims: vec![0, 1] }
}

/// The value of a get differs from the initial memory.
pub(super) fn read_late() -> Program {
    let one = vec![Barrier, get(1, 0, 0), store(1, of(0, 4))];
    let two = vec![store(0, Value::Just(7)), Barrier];
    Program { name: "read late", pes: vec![one, two], victims: vec![0, 1] }
}

/// A PE sees the effect of an atomic operation before the origin marks it as done.
pub(super) fn counted() -> Program {
    let one = vec![add(1, 0, 1), get(1, 2, 0)];
    let two = vec![wait(0, 1), load(0, 0), store(1, of(0, 1))];
    Program { name: "counted", pes: vec![one, two], victims: vec![0, 1] }
}

/// The result of an atomic operation implies that earlier bytes have arrived.
pub(super) fn found() -> Program {
    let one = vec![put(2, 0, 1), Quiet, add(1, 1, 1)];
    let change = Kind::Add;
    let look = Op::Atomic { to: 1, at: 1, change, value: Value::Just(0), into: Some(0) };
    let three = vec![look, load(0, 1)];
    Program { name: "found", pes: vec![one, Vec::new(), three], victims: vec![2] }
}

/// Like [`found`], and the log of the third PE continues afterwards.
pub(super) fn found_then_more() -> Program {
    let mut program = found();
    program.pes[2].push(put(0, 0, 9));
    Program { name: "found, and more", ..program }
}

/// Bytes and a signal.
pub(super) fn signalled() -> Program {
    let one = vec![bulk(1, 0, 3), add(1, 2, 1), Barrier];
    let two = vec![wait(2, 1), load(1, 0), store(1, Value::Just(8)), Barrier];
    Program { name: "signalled", pes: vec![one, two], victims: vec![0, 1] }
}

/// A PE that has adopted the view with the loss releases one that may not have.
pub(super) fn stale() -> Program {
    let one = vec![put(2, 0, 1), Quiet, add(1, 1, 1)];
    let two = vec![wait(1, 1), get(2, 0, 0)];
    let three = vec![get(0, 0, 0)];
    Program { name: "stale", pes: vec![one, two, three], victims: vec![2] }
}

/// A PE writes to itself, plainly and by calls.
pub(super) fn own_memory() -> Program {
    let one = vec![put(0, 1, 6), add(0, 0, 1), swap(0, 0, 5, 0), Barrier, load(0, 1)];
    let two = vec![add(0, 0, 2), Barrier];
    Program { name: "own memory", pes: vec![one, two], victims: vec![0] }
}

/// Makes a checkpoint between two exchanges.
pub(super) fn checkpointed() -> Program {
    let one = vec![put(1, 0, 1), Checkpoint, put(1, 1, 2), Barrier];
    let two = vec![add(0, 0, 1), Checkpoint, load(0, 0), Barrier, load(1, 1)];
    Program { name: "checkpointed", pes: vec![one, two], victims: vec![0, 1] }
}

/// All come to the end of the job, and none rolls back for another.
pub(super) fn finished() -> Program {
    let one = vec![put(1, 0, 1), Finish];
    let two = vec![add(0, 0, 1), Finish];
    Program { name: "finished", pes: vec![one, two], victims: vec![0, 1] }
}

/// Two PEs exchange values, and both may be lost.
pub(super) fn exchange() -> Program {
    let one = vec![put(1, 0, 4), swap(1, 1, 2, 0), Barrier, load(0, 1)];
    let two = vec![bulk(0, 0, 7), Barrier, get(0, 1, 0)];
    Program { name: "exchange", pes: vec![one, two], victims: vec![0, 1] }
}

/// The destination of a broadcast is used before all PEs have returned.
pub(super) fn broadcast_kept() -> Program {
    let broadcast = Op::Broadcast { root: 0, from: 1, at: 0 };
    let one = vec![store(1, Value::Just(4)), broadcast, Barrier];
    let two = vec![broadcast, load(0, 0), store(0, Value::Just(7)), Barrier];
    Program { name: "broadcast, kept", pes: vec![one, two], victims: vec![0, 1] }
}

/// The source of a sum is overwritten after the call has returned.
pub(super) fn sum_overwritten() -> Program {
    let calls = |value: u64| {
        let sum = Op::Sum { from: 1, at: 0 };
        vec![store(1, Value::Just(value)), sum, load(0, 0), store(1, of(0, 1)), sum, load(0, 1)]
    };
    Program { name: "sum, overwritten", pes: vec![calls(1), calls(2)], victims: vec![0, 1] }
}

/// A PE makes a call that is not logged, and more, before all meet.
pub(super) fn unlogged() -> Program {
    let one = vec![put(1, 0, 1), Unlogged, put(1, 1, 2), Barrier, load(0, 0)];
    let two = vec![add(0, 0, 1), Barrier, load(0, 0), load(1, 1)];
    Program { name: "unlogged", pes: vec![one, two], victims: vec![0, 1] }
}

/// The log of a PE gets full in a put.
pub(super) fn full() -> Program {
    let large = Op::Large { to: 1, value: Value::Just(5) };
    let one = vec![put(1, 0, 1), Barrier, large, Barrier, load(0, 0)];
    let two = vec![add(0, 0, 1), Barrier, Barrier, load(0, 0), load(2, 1)];
    Program { name: "full", pes: vec![one, two], victims: vec![0, 1] }
}

/// Like [`unlogged`], before a checkpoint and after it.
pub(super) fn unlogged_twice() -> Program {
    let one = vec![Unlogged, Barrier, Checkpoint, put(1, 0, 1), Unlogged, Barrier, load(0, 0)];
    let two = vec![Barrier, Checkpoint, add(0, 0, 1), Barrier, load(0, 0)];
    Program { name: "unlogged, twice", pes: vec![one, two], victims: vec![0, 1] }
}

/// Returns all programs.
pub(super) fn all() -> Vec<Program> {
    vec![
        used_up(),
        flag(),
        two_origins(),
        two_origins_turned(),
        two_origins_then_more(),
        two_origins_apart(),
        met_between(),
        swaps(),
        adds_and_swaps(),
        failed_swap(),
        tested(),
        read_once(),
        read_late(),
        counted(),
        found(),
        found_then_more(),
        signalled(),
        stale(),
        own_memory(),
        checkpointed(),
        finished(),
        exchange(),
        broadcast_kept(),
        sum_overwritten(),
        unlogged(),
        unlogged_twice(),
        full(),
    ]
}
