//! An interpreter that runs a program of `program.rs` on two PEs and records each read, after a
//! meeting, of a value written before it: the known answer.
//!
//! Each cell of symmetric memory carries the lines of the meetings that its value has passed. A
//! read, on any PE, records them. A restart restores the cells of the last checkpoint with the
//! lines that they carried then. Undefined behaviour ends the run; reads recorded until then count.

use std::collections::{BTreeMap, BTreeSet};

use crate::program::{ARRAYS, CODE, GLOBALS, Inst, LONG, Meet, Program, Random, SCALARS, Value};

const PES: usize = 2;
const STEPS: usize = 3_000;
const DEEPEST: usize = 8;

/// The name of symmetric memory in a report: a global, or the line of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Global(usize),
    Block(u32),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Held {
    Number(i64),
    Address { pe: usize, object: usize, cell: usize },
    Function(usize),
}

#[derive(Clone)]
struct Cell {
    held: Held,
    passed: BTreeSet<u32>,
}

#[derive(Clone)]
struct Object {
    /// `None` if the memory is private.
    name: Option<Name>,
    cells: Vec<Cell>,
    there: bool,
}

#[derive(Clone)]
struct Frame {
    function: usize,
    block: usize,
    at: usize,
    registers: Vec<Option<Held>>,
    own: Vec<usize>,
    /// The caller's register for the result.
    result: usize,
}

#[derive(Default)]
struct Process {
    frames: Vec<Frame>,
    meets: Option<(Meet, u32, Held, usize)>,
    /// Transfers in progress: from, to.
    pending: Vec<(Held, Held)>,
}

/// The observations of a run.
#[derive(Default)]
pub struct Seen {
    /// For each line of a meeting: memory whose value at that point was read later.
    pub read: BTreeSet<(u32, Name)>,
    /// Lines of the meetings that were passed.
    pub passed: BTreeSet<u32>,
}

pub struct Machine<'p> {
    program: &'p Program,
    objects: Vec<Vec<Object>>,
    processes: Vec<Process>,
    saved: Option<Vec<Vec<Object>>>,
    /// True if all PEs must roll back.
    lost: bool,
    pub seen: Seen,
}

/// Undefined behaviour, which ends the run.
struct Undefined;
type Done<T = ()> = Result<T, Undefined>;

pub fn run(program: &Program, random: &mut Random) -> Seen {
    let mut machine = Machine {
        program,
        objects: vec![Vec::new(); PES],
        processes: (0..PES).map(|_| Process::default()).collect(),
        saved: None,
        lost: false,
        seen: Seen::default(),
    };
    for pe in 0..PES {
        for global in 0..GLOBALS {
            let long = (SCALARS..SCALARS + ARRAYS).contains(&global);
            machine.make(pe, Some(Name::Global(global)), if long { LONG } else { 1 });
        }
        machine.enter(pe, 0, Held::Number(0), 0);
    }
    for _ in 0..STEPS {
        let ready: Vec<usize> = (0..PES).filter(|pe| machine.is_ready(*pe)).collect();
        let done = match ready.len() {
            0 => machine.meet(random),
            _ => machine.step(ready[random.below(ready.len())]),
        };
        if done.is_err() {
            break;
        }
    }
    machine.seen
}

impl Machine<'_> {
    fn is_ready(&self, pe: usize) -> bool {
        self.processes[pe].meets.is_none() && !self.processes[pe].frames.is_empty()
    }

    fn make(&mut self, pe: usize, name: Option<Name>, cells: usize) -> usize {
        let cell = Cell { held: Held::Number(0), passed: BTreeSet::new() };
        self.objects[pe].push(Object { name, cells: vec![cell; cells], there: true });
        self.objects[pe].len() - 1
    }

    fn enter(&mut self, pe: usize, function: usize, argument: Held, result: usize) {
        let mut registers = vec![None; self.program.functions[function].registers];
        registers[0] = Some(argument);
        let own = Vec::new();
        let frame = Frame { function, block: 0, at: 0, registers, own, result };
        self.processes[pe].frames.push(frame);
    }

    fn cell(&mut self, at: Held, more: usize) -> Done<&mut Cell> {
        let Held::Address { pe, object, cell } = at else {
            return Err(Undefined);
        };
        let object = &mut self.objects[pe][object];
        if !object.there {
            return Err(Undefined);
        }
        object.cells.get_mut(cell + more).ok_or(Undefined)
    }

    fn load(&mut self, at: Held, more: usize) -> Done<Held> {
        let cell = self.cell(at, more)?;
        let (held, passed) = (cell.held, cell.passed.clone());
        if let Held::Address { pe, object, .. } = at
            && let Some(name) = self.objects[pe][object].name
        {
            self.seen.read.extend(passed.into_iter().map(|line| (line, name)));
        }
        Ok(held)
    }

    fn store(&mut self, at: Held, more: usize, held: Held) -> Done {
        *self.cell(at, more)? = Cell { held, passed: BTreeSet::new() };
        Ok(())
    }

    fn value(&self, pe: usize, value: Value) -> Done<Held> {
        match value {
            Value::Number(number) => Ok(Held::Number(number)),
            Value::Function(at) => Ok(Held::Function(at)),
            Value::Global(object) => Ok(Held::Address { pe, object, cell: 0 }),
            Value::Register(at) => {
                let frame = self.processes[pe].frames.last().ok_or(Undefined)?;
                frame.registers[at].ok_or(Undefined)
            }
        }
    }

    fn set(&mut self, pe: usize, register: usize, held: Held) {
        if let Some(frame) = self.processes[pe].frames.last_mut() {
            frame.registers[register] = Some(held);
        }
    }

    /// Returns the same location in another PE's memory.
    fn there(&self, at: Held, pe: usize) -> Done<Held> {
        let Held::Address { pe: own, object, cell } = at else {
            return Err(Undefined);
        };
        let is = &self.objects[own][object];
        let index = match is.name.filter(|_| is.there).ok_or(Undefined)? {
            Name::Global(_) => object,
            Name::Block(_) => {
                // Blocks correspond by the order of their allocation.
                let blocks = |of: usize| {
                    let all = self.objects[of].iter().enumerate();
                    all.filter(|(_, object)| matches!(object.name, Some(Name::Block(_))))
                        .map(|found| found.0)
                        .collect::<Vec<_>>()
                };
                let number = blocks(own).iter().position(|at| *at == object).ok_or(Undefined)?;
                *blocks(pe).get(number).ok_or(Undefined)?
            }
        };
        Ok(Held::Address { pe, object: index, cell })
    }

    fn transfer(&mut self, pe: usize, from: Held, to: Held, later: bool) -> Done {
        if later {
            self.processes[pe].pending.push((from, to));
            return Ok(());
        }
        let held = self.load(from, 0)?;
        self.store(to, 0, held)
    }

    fn quiet(&mut self, pe: usize) -> Done {
        for (from, to) in std::mem::take(&mut self.processes[pe].pending) {
            self.transfer(pe, from, to, false)?;
        }
        Ok(())
    }

    fn step(&mut self, pe: usize) -> Done {
        let program = self.program;
        let frame = self.processes[pe].frames.last_mut().ok_or(Undefined)?;
        let inst = &program.functions[frame.function].blocks[frame.block][frame.at];
        frame.at += 1;
        match *inst {
            Inst::Alloca { to, cells } => {
                let object = self.make(pe, None, cells);
                self.set(pe, to, Held::Address { pe, object, cell: 0 });
                self.processes[pe].frames.last_mut().ok_or(Undefined)?.own.push(object);
            }
            Inst::Load { to, from } => {
                let held = self.load(self.value(pe, from)?, 0)?;
                self.set(pe, to, held);
            }
            Inst::Store { value, to } => {
                self.store(self.value(pe, to)?, 0, self.value(pe, value)?)?;
            }
            Inst::Element { to, of, cell: more } => match self.value(pe, of)? {
                Held::Address { pe: of, object, cell } => {
                    self.set(pe, to, Held::Address { pe: of, object, cell: cell + more });
                }
                _ => return Err(Undefined),
            },
            Inst::Call { to, callee, argument } => {
                let (callee, argument) = (self.value(pe, callee)?, self.value(pe, argument)?);
                match callee {
                    Held::Function(at) if self.processes[pe].frames.len() < DEEPEST => {
                        self.enter(pe, at, argument, to);
                    }
                    _ => return Err(Undefined),
                }
            }
            Inst::Odd { to, of } => {
                let odd = match self.value(pe, of)? {
                    Held::Number(number) => number & 1,
                    _ => 0,
                };
                self.set(pe, to, Held::Number(odd));
            }
            Inst::MyPe { to } => self.set(pe, to, Held::Number(pe as i64)),
            Inst::Meet { what, to, argument, line } => {
                let argument = self.value(pe, argument)?;
                self.processes[pe].meets = Some((what, line, argument, to));
            }
            Inst::Jump(to) => self.jump(pe, to),
            Inst::Branch { on, yes, no } => {
                let odd = self.value(pe, Value::Register(on))? == Held::Number(1);
                self.jump(pe, if odd { yes } else { no });
            }
            Inst::Return(value) => {
                let held = self.value(pe, value)?;
                let frame = self.processes[pe].frames.pop().ok_or(Undefined)?;
                frame.own.into_iter().for_each(|object| self.objects[pe][object].there = false);
                self.set(pe, frame.result, held);
            }
            ref other @ (Inst::At { .. } | Inst::Less { .. } | Inst::Next { .. }) => {
                return self.count(pe, other);
            }
            ref other => return self.act(pe, other),
        }
        Ok(())
    }

    /// Executes arithmetic on numbers and cell addresses.
    fn count(&mut self, pe: usize, inst: &Inst) -> Done {
        let number = |machine: &Self, at: usize| match machine.value(pe, Value::Register(at))? {
            Held::Number(number) => Ok(number),
            _ => Err(Undefined),
        };
        match *inst {
            Inst::At { to, of, cell } => match (self.value(pe, of)?, number(self, cell)?) {
                (Held::Address { pe: of, object, cell }, more @ 0..) => {
                    let cell = cell + more as usize;
                    self.set(pe, to, Held::Address { pe: of, object, cell });
                }
                _ => return Err(Undefined),
            },
            Inst::Less { to, of, than } => {
                let less = number(self, of)? < than as i64;
                self.set(pe, to, Held::Number(i64::from(less)));
            }
            Inst::Next { to, of, by } => {
                let next = number(self, of)? + by as i64;
                self.set(pe, to, Held::Number(next));
            }
            _ => return Err(Undefined),
        }
        Ok(())
    }

    /// Executes transfers and copies.
    fn act(&mut self, pe: usize, inst: &Inst) -> Done {
        match *inst {
            Inst::Pointer { to, of, pe: other } => {
                let there = self.there(self.value(pe, of)?, other)?;
                self.set(pe, to, there);
            }
            Inst::Put { to, from, pe: other, nbi } => {
                let to = self.there(self.value(pe, to)?, other)?;
                self.transfer(pe, self.value(pe, from)?, to, nbi)?;
            }
            Inst::Get { to, from, pe: other, nbi } => {
                let from = self.there(self.value(pe, from)?, other)?;
                self.transfer(pe, from, self.value(pe, to)?, nbi)?;
            }
            Inst::Add { at, pe: other } => {
                let at = self.there(self.value(pe, at)?, other)?;
                match self.load(at, 0)? {
                    Held::Number(number) => self.store(at, 0, Held::Number(number + 1))?,
                    _ => return Err(Undefined),
                }
            }
            Inst::Quiet => self.quiet(pe)?,
            Inst::Fill { to } => {
                let to = self.value(pe, to)?;
                (0..LONG).try_for_each(|cell| self.store(to, cell, Held::Number(0)))?;
            }
            Inst::Copy { to, from } => {
                let (to, from) = (self.value(pe, to)?, self.value(pe, from)?);
                for cell in 0..LONG {
                    let held = self.load(from, cell)?;
                    self.store(to, cell, held)?;
                }
            }
            _ => return Err(Undefined),
        }
        Ok(())
    }

    fn jump(&mut self, pe: usize, to: usize) {
        if let Some(frame) = self.processes[pe].frames.last_mut() {
            (frame.block, frame.at) = (to, 0);
        }
    }

    /// Completes a meeting, or the end, that all PEs have reached.
    fn meet(&mut self, random: &mut Random) -> Done {
        let meets: Option<Vec<_>> = self.processes.iter_mut().map(|is| is.meets.take()).collect();
        let meets = meets.ok_or(Undefined)?;
        let what = meets[0].0;
        if meets.iter().any(|meet| meet.0 != what) {
            return Err(Undefined);
        }
        match what {
            Meet::Sync => {}
            Meet::Restart => self.processes.iter_mut().for_each(|is| is.pending.clear()),
            _ => (0..PES).try_for_each(|pe| self.quiet(pe))?,
        }
        let fails = what == Meet::Checkpoint && self.saved.is_some() && random.below(3) == 0;
        self.lost |= fails;
        for (pe, meet) in meets.iter().enumerate() {
            self.seen.passed.insert(meet.1);
            if !fails && what != Meet::Restart {
                self.pass(pe, meet.1);
            }
            match what {
                Meet::Malloc => {
                    let object = self.make(pe, Some(Name::Block(meet.1)), LONG);
                    self.set(pe, meet.3, Held::Address { pe, object, cell: 0 });
                }
                Meet::Free => match meet.2 {
                    Held::Address { pe: of, object, cell: 0 } if of == pe => {
                        let is = &mut self.objects[pe][object];
                        if !is.there || !matches!(is.name, Some(Name::Block(_))) {
                            return Err(Undefined);
                        }
                        is.there = false;
                    }
                    _ => return Err(Undefined),
                },
                _ => self.set(pe, meet.3, Held::Number(i64::from(fails))),
            }
        }
        match what {
            Meet::Checkpoint if !fails => self.saved = Some(self.objects.clone()),
            Meet::Restart if self.lost => self.restore()?,
            _ => {}
        }
        Ok(())
    }

    fn pass(&mut self, pe: usize, line: u32) {
        let symmetric = self.objects[pe].iter_mut().filter(|is| is.name.is_some() && is.there);
        for cell in symmetric.flat_map(|object| &mut object.cells) {
            cell.passed.insert(line);
        }
    }

    fn restore(&mut self) -> Done {
        self.lost = false;
        let saved = self.saved.as_ref().ok_or(Undefined)?;
        for (now, then) in self.objects.iter_mut().zip(saved) {
            for (at, object) in now.iter_mut().enumerate().filter(|(_, is)| is.name.is_some()) {
                match then.get(at) {
                    Some(then) => *object = then.clone(),
                    None => object.there = false,
                }
            }
        }
        Ok(())
    }
}

/// The code pointer is a number to the interpreter only before main sets it.
const _: () = assert!(CODE < GLOBALS);

/// By line, the memory that a report lists there.
pub type Told = BTreeMap<u32, BTreeSet<Name>>;
