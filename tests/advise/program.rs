//! Small programs of several functions, drawn at random, and their text as LLVM IR.
//!
//! A program is a list of blocks of a few instructions, which `machine.rs` runs and `print.rs`
//! prints. Every call in which PEs may meet has its own line. Left out: exceptions, threads.

/// A pseudo-random number generator (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % end as u64) as usize
    }
}

/// Globals: scalars, arrays, pointers, a pointer to a function.
pub const SCALARS: usize = 3;
pub const ARRAYS: usize = 2;
pub const POINTERS: usize = 3;
pub const GLOBALS: usize = SCALARS + ARRAYS + POINTERS + 1;
pub const CODE: usize = GLOBALS - 1;
/// Cells of 8 bytes in an array, and in a heap block.
pub const LONG: usize = 4;
pub const FUNCTIONS: usize = 4;
/// The last pointer, to a heap block.
pub const HEAP: usize = CODE - 1;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Number(i64),
    Register(usize),
    Global(usize),
    Function(usize),
}

/// A call in which PEs meet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Meet {
    Barrier,
    /// A barrier that completes no transfer.
    Sync,
    Checkpoint,
    Restart,
    Malloc,
    Free,
}

#[derive(Clone, Debug)]
pub enum Inst {
    Alloca { to: usize, cells: usize },
    Load { to: usize, from: Value },
    Store { value: Value, to: Value },
    Element { to: usize, of: Value, cell: usize },
    At { to: usize, of: Value, cell: usize },
    Less { to: usize, of: usize, than: usize },
    Next { to: usize, of: usize, by: usize },
    Call { to: usize, callee: Value, argument: Value },
    Odd { to: usize, of: Value },
    MyPe { to: usize },
    Pointer { to: usize, of: Value, pe: usize },
    Put { to: Value, from: Value, pe: usize, nbi: bool },
    Get { to: Value, from: Value, pe: usize, nbi: bool },
    Add { at: Value, pe: usize },
    Quiet,
    Fill { to: Value },
    Copy { to: Value, from: Value },
    Meet { what: Meet, to: usize, argument: Value, line: u32 },
    Jump(usize),
    Branch { on: usize, yes: usize, no: usize },
    Return(Value),
}

#[derive(Default)]
pub struct Function {
    pub blocks: Vec<Vec<Inst>>,
    pub registers: usize,
}

pub struct Program {
    pub functions: Vec<Function>,
    pub lines: u32,
}

/// One function under construction. Register 0 is its parameter.
struct Builder<'r> {
    random: &'r mut Random,
    function: Function,
    locals: Vec<usize>,
    line: &'r mut u32,
    main: bool,
}

pub fn drawn(random: &mut Random) -> Program {
    let mut line = 0;
    let functions = (0..FUNCTIONS).map(|at| function(random, at == 0, &mut line)).collect();
    Program { functions, lines: line }
}

fn function(random: &mut Random, main: bool, line: &mut u32) -> Function {
    let function = Function { blocks: vec![Vec::new()], registers: 1 };
    let mut builder = Builder { random, function, locals: Vec::new(), line, main };
    builder.begin();
    for _ in 0..2 + builder.random.below(if main { 10 } else { 4 }) {
        builder.statement(0);
    }
    let result = builder.address();
    builder.push(Inst::Return(result));
    builder.function
}

impl Builder<'_> {
    fn push(&mut self, inst: Inst) {
        self.function.blocks.last_mut().expect("a block").push(inst);
    }

    fn register(&mut self) -> usize {
        self.function.registers += 1;
        self.function.registers - 1
    }

    fn block(&mut self) -> usize {
        self.function.blocks.push(Vec::new());
        self.function.blocks.len() - 1
    }

    /// Declares the locals and sets their first values: two scalars, an array, a loop counter for
    /// each depth, and a counter that keeps counting.
    fn begin(&mut self) {
        for cells in [1, 1, LONG, 1, 1, 1, 1] {
            let to = self.register();
            self.locals.push(to);
            self.push(Inst::Alloca { to, cells });
        }
        if !self.main {
            return;
        }
        for pointer in 0..POINTERS - 1 {
            let value = Value::Global(self.random.below(SCALARS + ARRAYS));
            self.push(Inst::Store { value, to: Value::Global(SCALARS + ARRAYS + pointer) });
        }
        self.push(Inst::Store { value: Value::Function(1), to: Value::Global(CODE) });
        self.meet(Meet::Malloc, Value::Number(0));
    }

    fn meet(&mut self, what: Meet, argument: Value) -> usize {
        let to = self.register();
        *self.line += 1;
        self.push(Inst::Meet { what, to, argument, line: *self.line });
        if what == Meet::Malloc {
            self.push(Inst::Store { value: Value::Register(to), to: Value::Global(HEAP) });
        }
        to
    }

    /// Draws an address.
    fn address(&mut self) -> Value {
        match self.random.below(6) {
            0 => Value::Register(self.locals[self.random.below(3)]),
            1 => self.loaded(),
            2 if !self.main => Value::Register(0),
            _ => Value::Global(self.random.below(SCALARS + ARRAYS)),
        }
    }

    fn loaded(&mut self) -> Value {
        let from = Value::Global(SCALARS + ARRAYS + self.random.below(POINTERS));
        let to = self.register();
        self.push(Inst::Load { to, from });
        Value::Register(to)
    }

    fn symmetric(&mut self) -> Value {
        if self.random.below(3) == 0 {
            return self.loaded();
        }
        Value::Global(self.random.below(SCALARS + ARRAYS))
    }

    fn array(&mut self) -> Value {
        Value::Global(SCALARS + self.random.below(ARRAYS))
    }

    fn statement(&mut self, depth: usize) {
        let pe = self.random.below(2);
        match self.random.below(26) {
            0..3 => {
                let (value, to) = (Value::Number(self.random.below(9) as i64), self.address());
                self.push(Inst::Store { value, to });
            }
            3..5 => self.read(),
            5 => {
                let (of, to, cell) = (self.array(), self.register(), self.random.below(LONG));
                self.push(Inst::Element { to, of, cell });
                let (at, value) = (Value::Register(to), Value::Number(3));
                if self.random.below(2) == 0 {
                    self.push(Inst::Store { value, to: at });
                } else {
                    let to = self.register();
                    self.push(Inst::Load { to, from: at });
                }
            }
            6 => {
                let value = self.address();
                let pointer = SCALARS + ARRAYS + self.random.below(POINTERS);
                self.push(Inst::Store { value, to: Value::Global(pointer) });
            }
            7..9 => self.call(),
            9 => {
                let value = Value::Function(1 + self.random.below(FUNCTIONS - 1));
                self.push(Inst::Store { value, to: Value::Global(CODE) });
            }
            10..13 if depth < 3 => self.choice(depth),
            13..15 if depth < 3 => self.repeat(depth),
            15 => {
                let (to, from) = (self.symmetric(), self.address());
                let nbi = self.random.below(3) == 0;
                self.push(Inst::Put { to, from, pe, nbi });
            }
            16 => {
                let (from, to) = (self.symmetric(), self.address());
                let nbi = self.random.below(3) == 0;
                self.push(Inst::Get { to, from, pe, nbi });
            }
            17 => {
                let at = self.symmetric();
                self.push(Inst::Add { at, pe });
            }
            18 => {
                let to = self.array();
                self.push(Inst::Fill { to });
            }
            19 => {
                let (to, from) = (self.array(), self.array());
                self.push(Inst::Copy { to, from });
            }
            20 => self.remote(pe),
            21 => self.checkpoint(),
            22 if depth == 0 && self.main => self.heap(),
            23 if depth < 3 => self.cover(depth),
            _ => match self.random.below(6) {
                0 => self.push(Inst::Quiet),
                1 | 2 => _ = self.meet(Meet::Sync, Value::Number(0)),
                _ => _ = self.meet(Meet::Barrier, Value::Number(0)),
            },
        }
    }

    /// Adds a loop that counts and overwrites an array, or misses some of it.
    fn cover(&mut self, depth: usize) {
        let counter = Value::Register(self.locals[6]);
        let odd = |random: &mut Random| random.below(5) == 0;
        self.push(Inst::Store { value: Value::Number(0), to: counter });
        if odd(self.random) {
            self.statement(depth + 1);
        }
        let before = self.function.blocks.len() - 1;
        let head = self.block();
        let (count, on) = (self.register(), self.register());
        let than = if odd(self.random) { LONG - 1 } else { LONG };
        self.push(Inst::Load { to: count, from: counter });
        self.push(Inst::Less { to: on, of: count, than });
        let body = self.block();
        if odd(self.random) {
            self.statement(depth + 1);
        }
        let leaves = odd(self.random).then(|| self.function.blocks.len() - 1);
        if leaves.is_some() {
            self.block();
        }
        let (of, cell, at) = match self.random.below(3) {
            0 => (self.loaded(), self.register(), self.register()),
            _ => (self.array(), self.register(), self.register()),
        };
        self.push(Inst::Load { to: cell, from: counter });
        self.push(Inst::At { to: at, of, cell });
        self.push(Inst::Store { value: Value::Number(2), to: Value::Register(at) });
        if odd(self.random) {
            self.statement(depth + 1);
        }
        let body_end = self.function.blocks.len() - 1;
        let last = self.block();
        let (count, next) = (self.register(), self.register());
        let by = if odd(self.random) { 2 } else { 1 };
        self.push(Inst::Load { to: count, from: counter });
        self.push(Inst::Next { to: next, of: count, by });
        self.push(Inst::Store { value: Value::Register(next), to: counter });
        let after = self.block();
        self.function.blocks[before].push(Inst::Jump(head));
        self.function.blocks[head].push(Inst::Branch { on, yes: body, no: after });
        self.function.blocks[body_end].push(Inst::Jump(last));
        self.function.blocks[last].push(Inst::Jump(head));
        if let Some(block) = leaves {
            // A branch on an unrelated condition: out of the loop, or past the write.
            let no = if self.random.below(2) == 0 { after } else { last };
            let on = self.function.registers;
            self.function.registers += 1;
            self.function.blocks[block].push(Inst::MyPe { to: on });
            self.function.blocks[block].push(Inst::Branch { on, yes: block + 1, no });
        }
    }

    fn read(&mut self) {
        let (from, to) = (self.address(), self.register());
        self.push(Inst::Load { to, from });
        let (value, to) = (Value::Register(to), Value::Register(self.locals[0]));
        self.push(Inst::Store { value, to });
    }

    fn call(&mut self) {
        let argument = self.address();
        let callee = match self.random.below(3) {
            0 => {
                let to = self.register();
                self.push(Inst::Load { to, from: Value::Global(CODE) });
                Value::Register(to)
            }
            _ => Value::Function(1 + self.random.below(FUNCTIONS - 1)),
        };
        let to = self.register();
        self.push(Inst::Call { to, callee, argument });
        if self.random.below(2) == 0 {
            let pointer = SCALARS + ARRAYS + self.random.below(POINTERS);
            let (value, to) = (Value::Register(to), Value::Global(pointer));
            self.push(Inst::Store { value, to });
        }
    }

    fn choice(&mut self, depth: usize) {
        let of = self.register();
        if self.random.below(4) == 0 {
            self.push(Inst::MyPe { to: of });
        } else {
            let from = self.address();
            self.push(Inst::Load { to: of, from });
        }
        let on = self.register();
        self.push(Inst::Odd { to: on, of: Value::Register(of) });
        let before = self.function.blocks.len() - 1;
        let yes = self.block();
        for _ in 0..1 + self.random.below(2) {
            self.statement(depth + 1);
        }
        let yes_end = self.function.blocks.len() - 1;
        let no = self.block();
        if self.random.below(2) == 0 {
            self.statement(depth + 1);
        }
        let no_end = self.function.blocks.len() - 1;
        let after = self.block();
        self.function.blocks[before].push(Inst::Branch { on, yes, no });
        self.function.blocks[yes_end].push(Inst::Jump(after));
        self.function.blocks[no_end].push(Inst::Jump(after));
    }

    /// Adds a loop that runs twice: while its counter, which toggles, is odd.
    fn repeat(&mut self, depth: usize) {
        let counter = Value::Register(self.locals[3 + depth.min(2)]);
        self.push(Inst::Store { value: Value::Number(1), to: counter });
        let before = self.function.blocks.len() - 1;
        let head = self.block();
        let (loaded, on) = (self.register(), self.register());
        for _ in 0..1 + self.random.below(3) {
            self.statement(depth + 1);
        }
        self.push(Inst::Load { to: loaded, from: counter });
        self.push(Inst::Odd { to: on, of: Value::Register(loaded) });
        self.push(Inst::Store { value: Value::Number(0), to: counter });
        let end = self.function.blocks.len() - 1;
        let after = self.block();
        self.function.blocks[before].push(Inst::Jump(head));
        self.function.blocks[end].push(Inst::Branch { on, yes: head, no: after });
    }

    /// Adds a write or a read through the address of another PE's memory.
    fn remote(&mut self, pe: usize) {
        let (of, to) = (self.symmetric(), self.register());
        self.push(Inst::Pointer { to, of, pe });
        let at = Value::Register(to);
        if self.random.below(2) == 0 {
            self.push(Inst::Store { value: Value::Number(5), to: at });
        } else {
            let to = self.register();
            self.push(Inst::Load { to, from: at });
        }
    }

    fn checkpoint(&mut self) {
        let result = self.meet(Meet::Checkpoint, Value::Number(0));
        let on = self.register();
        self.push(Inst::Odd { to: on, of: Value::Register(result) });
        let before = self.function.blocks.len() - 1;
        let yes = self.block();
        self.meet(Meet::Restart, Value::Number(0));
        let yes_end = self.function.blocks.len() - 1;
        let after = self.block();
        self.function.blocks[before].push(Inst::Branch { on, yes, no: after });
        self.function.blocks[yes_end].push(Inst::Jump(after));
    }

    fn heap(&mut self) {
        if self.random.below(2) == 0 {
            let to = self.register();
            self.push(Inst::Load { to, from: Value::Global(HEAP) });
            self.meet(Meet::Free, Value::Register(to));
        }
        self.meet(Meet::Malloc, Value::Number(0));
    }
}
