//! The paths of control through a program between its checkpoints, call by call.
//!
//! Functions that may reach a checkpoint or a restart are walked where they are called, each call
//! by itself; other functions are one step. Constants in local variables are tracked, so that the
//! result of a wrapper of the checkpoint decides where its caller continues.
//!
//! Invariant: a branch whose condition is unknown goes both ways. Left out: recursion through a
//! checkpoint, and programs with more paths than `MOST`.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::ir::{Exact, Inst, Local, Op, Operand};
use crate::memory::Memory;
use crate::objects::ObjectKind;
use crate::points::{OUTSIDE, Object};
use crate::program::Site;
use crate::routines::{Sync, plain};
use crate::steps::{Step, Steps};

/// Maximum number of instructions examined per program.
const MOST: usize = 4_000_000;
/// Maximum count of calls; higher counts are not distinguished.
const COUNTED: u8 = 3;

/// An error: there are too many paths, or a function on them calls itself.
#[derive(Debug)]
pub struct TooMany;

/// A call of a function: its index among the calls encountered.
pub type CallNumber = usize;

/// An instruction, in one call of its function.
pub type Spot = (CallNumber, Site);

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Cell {
    Value(Local),
    Variable(Object),
}

/// A position of control, with the known constants.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Position {
    context: CallNumber,
    block: usize,
    index: usize,
    known: BTreeMap<(CallNumber, Cell), i64>,
    /// The number of counted calls, up to `COUNTED`.
    pub calls: u8,
}

impl Position {
    /// Returns the position with no calls counted.
    pub fn uncounted(&self) -> Position {
        Position { calls: 0, ..self.clone() }
    }
}

/// An event on a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The program writes memory that checkpoints hold, or meets other PEs.
    Work,
    /// A checkpoint.
    Checkpoint,
    /// A restart.
    Restart,
    /// The program asks whether it is not a substitute.
    Asks,
    /// The end of `main`.
    End,
}

/// The reaction to an event: whether control continues, and the result of a call.
pub enum Go {
    /// Stops here.
    Stop,
    /// Continues.
    On,
    /// Continues after a call that returned this.
    With(i64),
    /// Continues like [`Go::With`], and counts the call.
    Counted(i64),
}

/// The ways of a program.
pub struct Ways<'m, 'p> {
    memory: &'m Memory<'p>,
    steps: &'m Steps,
    /// Functions that may reach a checkpoint or a restart.
    leads: Vec<bool>,
    /// Functions that may do work.
    works: Vec<bool>,
    saved: HashSet<Object>,
    /// By call: its function, and its call site.
    contexts: Vec<(usize, Option<Spot>)>,
    numbers: HashMap<(Spot, usize), CallNumber>,
    left: usize,
}

impl<'m, 'p> Ways<'m, 'p> {
    /// Returns `None` if there is no `main`.
    pub fn new(memory: &'m Memory<'p>, steps: &'m Steps) -> Option<Self> {
        let main = memory.objects.program.functions.iter().position(|of| of.name == "main")?;
        let ends = |step: &Step| matches!(step.sync, Sync::Checkpoint | Sync::Restart);
        let saved = memory.saved().collect();
        let mut ways = Self {
            memory,
            steps,
            leads: steps.leading(&ends),
            works: Vec::new(),
            saved,
            contexts: vec![(main, None)],
            numbers: HashMap::new(),
            left: MOST,
        };
        ways.works = steps.leading(&|step| ways.is_work(step));
        Some(ways)
    }

    /// Returns the beginning of the program.
    pub fn start(&self) -> Position {
        Position { context: 0, block: 0, index: 0, known: BTreeMap::new(), calls: 0 }
    }

    /// Returns the spot of a position.
    pub fn spot(&self, state: &Position) -> Spot {
        let function = self.contexts[state.context].0;
        (state.context, Site { function, block: state.block, index: state.index })
    }

    /// Returns the calls from a spot up to `main`, the spot first.
    pub fn chain(&self, spot: Spot) -> Vec<Site> {
        let mut chain = vec![spot.1];
        let mut context = spot.0;
        while let Some((outer, site)) = self.contexts[context].1 {
            chain.push(site);
            context = outer;
        }
        chain
    }

    /// Returns the position after a call that has returned `result`.
    pub fn after(&self, state: &Position, result: Option<i64>) -> Position {
        let mut next = Position { index: state.index + 1, ..state.clone() };
        let inst = self.memory.objects.program.inst(self.spot(state).1);
        self.set(&mut next, inst.result.map(Cell::Value), result);
        next
    }

    /// Follows control from these states; `react` receives each event, with its state.
    pub fn follow(
        &mut self,
        from: Vec<Position>,
        react: &mut dyn FnMut(Event, Spot, &Position) -> Go,
    ) -> Result<(), TooMany> {
        let mut seen: HashSet<Position> = from.iter().cloned().collect();
        let mut waiting = from;
        while let Some(state) = waiting.pop() {
            for next in self.run(state, react)? {
                if seen.insert(next.clone()) {
                    waiting.push(next);
                }
            }
        }
        Ok(())
    }

    /// Runs to the end of a block, or to a call that is walked.
    fn run(
        &mut self,
        mut state: Position,
        react: &mut dyn FnMut(Event, Spot, &Position) -> Go,
    ) -> Result<Vec<Position>, TooMany> {
        let (function, caller) = self.contexts[state.context];
        let block = &self.memory.objects.program.functions[function].blocks[state.block];
        while let Some(inst) = block.insts.get(state.index) {
            self.left = self.left.checked_sub(1).ok_or(TooMany)?;
            match &inst.op {
                Op::Return(value) => {
                    let Some((context, site)) = caller else {
                        react(Event::End, self.spot(&state), &state);
                        return Ok(Vec::new());
                    };
                    let result = value.as_ref().and_then(|value| self.value(&state, value));
                    state.known.retain(|(of, _), _| *of != state.context);
                    let Site { block, index, .. } = site;
                    let back = Position { context, block, index, ..state };
                    return Ok(vec![self.after(&back, result)]);
                }
                Op::Branch(on) => return Ok(self.branch(&state, on, &block.successors)),
                Op::Call { .. } => {
                    let (inside, on) = self.call(&mut state, inst, react)?;
                    if !inside.is_empty() || !on {
                        return Ok(inside);
                    }
                }
                _ => {
                    if let Go::Stop = self.plain(&mut state, inst, react) {
                        return Ok(Vec::new());
                    }
                }
            }
            state.index += 1;
        }
        Ok(block.successors.iter().map(|to| self.enter(&state, *to)).collect())
    }

    fn step(&self, site: Site) -> Option<&'m Step> {
        let own = &self.steps.blocks[site.function][site.block];
        own.binary_search_by_key(&site.index, |step| step.index).ok().map(|at| &own[at])
    }

    /// Handles a call. Returns the positions inside it, and true if control continues after it.
    fn call(
        &mut self,
        state: &mut Position,
        inst: &Inst,
        react: &mut dyn FnMut(Event, Spot, &Position) -> Go,
    ) -> Result<(Vec<Position>, bool), TooMany> {
        let spot = self.spot(state);
        let Some(step) = self.step(spot.1) else { return Ok((Vec::new(), true)) };
        let inner: Vec<usize> =
            step.effect.callees.iter().copied().filter(|at| self.leads[*at]).collect();
        if !inner.is_empty() {
            let inside = inner.into_iter().map(|to| self.inside(state, spot, to, inst));
            return Ok((inside.collect::<Result<_, _>>()?, true));
        }
        let name = self.memory.objects.program.called(spot.1).unwrap_or_default();
        let event = match step.sync {
            Sync::Checkpoint => Some(Event::Checkpoint),
            Sync::Restart => Some(Event::Restart),
            _ if plain(name) == "shmem_ft_algo_init" => Some(Event::Asks),
            _ if self.is_work(step) => Some(Event::Work),
            _ => None,
        };
        let result = match event.map(|event| react(event, spot, state)) {
            Some(Go::Stop) => return Ok((Vec::new(), false)),
            Some(Go::With(result)) => Some(result),
            Some(Go::Counted(result)) => {
                state.calls = COUNTED.min(state.calls + 1);
                Some(result)
            }
            Some(Go::On) | None => None,
        };
        self.forget(state, step);
        self.set(state, inst.result.map(Cell::Value), result);
        Ok((Vec::new(), true))
    }

    /// Returns the beginning of a called function.
    fn inside(
        &mut self,
        state: &Position,
        spot: Spot,
        to: usize,
        inst: &Inst,
    ) -> Result<Position, TooMany> {
        if self.steps.recursive[to] {
            return Err(TooMany);
        }
        let next = self.contexts.len();
        let context = *self.numbers.entry((spot, to)).or_insert(next);
        if context == next {
            self.contexts.push((to, Some(spot)));
        }
        let mut inside = Position { context, block: 0, index: 0, ..state.clone() };
        if let Op::Call { args, .. } = &inst.op {
            let parameters = self.memory.objects.program.functions[to].parameters;
            for (at, arg) in args.iter().enumerate().take(parameters) {
                let value = self.value(state, arg);
                self.set(&mut inside, Some(Cell::Value(at)), value);
            }
        }
        Ok(inside)
    }

    /// Handles any instruction but a call or the end of a block.
    fn plain(
        &self,
        state: &mut Position,
        inst: &Inst,
        react: &mut dyn FnMut(Event, Spot, &Position) -> Go,
    ) -> Go {
        let spot = self.spot(state);
        let site = spot.1;
        if let Some(step) = self.step(site)
            && !matches!(inst.op, Op::Load { .. })
        {
            if self.is_work(step)
                && let Go::Stop = react(Event::Work, spot, state)
            {
                return Go::Stop;
            }
            self.forget(state, step);
        }
        if let Op::Store { value, to, bytes, .. } = &inst.op {
            let value = self.value(state, value);
            let cell = self.variable(site.function, to, *bytes);
            self.set(state, cell, value);
        } else if !matches!(inst.exact, Exact::Joined(_)) {
            let value = self.result(state, site.function, inst);
            self.set(state, inst.result.map(Cell::Value), value);
        }
        Go::On
    }

    /// Returns the local variable that an access of `bytes` covers completely.
    fn variable(&self, function: usize, at: &Operand, bytes: Option<u64>) -> Option<Cell> {
        let object = self.memory.objects.direct(function, at)?;
        let known = &self.memory.objects.all[object];
        let whole = known.single && bytes.is_some() && known.bytes == bytes;
        (matches!(known.kind, ObjectKind::Frame(_)) && whole).then_some(Cell::Variable(object))
    }

    fn value(&self, state: &Position, operand: &Operand) -> Option<i64> {
        match operand {
            Operand::Number(number) => Some(*number),
            Operand::Local(local) => {
                state.known.get(&(state.context, Cell::Value(*local))).copied()
            }
            _ => None,
        }
    }

    fn result(&self, state: &Position, function: usize, inst: &Inst) -> Option<i64> {
        let two = |one, other| Some((self.value(state, one)?, self.value(state, other)?));
        match (&inst.op, &inst.exact) {
            (Op::Load { from, bytes, volatile: false }, _) => {
                let cell = self.variable(function, from, *bytes)?;
                state.known.get(&(state.context, cell)).copied()
            }
            (_, Exact::Same(of)) => self.value(state, of),
            (_, Exact::Bit(of)) => Some(self.value(state, of)? & 1),
            (_, Exact::Less(one, other)) => two(one, other).map(|(a, b)| i64::from(a < b)),
            (_, Exact::Equal(one, other)) => two(one, other).map(|(a, b)| i64::from(a == b)),
            (_, Exact::Unlike(one, other)) => two(one, other).map(|(a, b)| i64::from(a != b)),
            _ => None,
        }
    }

    fn set(&self, state: &mut Position, cell: Option<Cell>, value: Option<i64>) {
        let Some(cell) = cell else { return };
        match value {
            Some(value) => state.known.insert((state.context, cell), value),
            None => state.known.remove(&(state.context, cell)),
        };
    }

    /// Forgets the values of memory that a step may write.
    fn forget(&self, state: &mut Position, step: &Step) {
        let all = step.effect.writes.contains(&OUTSIDE) || !step.effect.callees.is_empty();
        state.known.retain(|(_, cell), _| match cell {
            Cell::Value(_) => true,
            Cell::Variable(object) => {
                let unknown = all && self.memory.flow.solution.escaped().contains(object);
                !(unknown || step.effect.writes.contains(object))
            }
        });
    }

    fn branch(&self, state: &Position, on: &Operand, to: &[usize]) -> Vec<Position> {
        let site = self.spot(state).1;
        let blocks = &self.memory.objects.program.functions[site.function].blocks;
        let condition = |local: &Local| {
            let all = blocks.iter().flat_map(|block| &block.insts);
            let defines = |inst: &&Inst| inst.result == Some(*local);
            let exact = all.into_iter().find(defines).map(|inst| &inst.exact);
            let truth = |exact: &&Exact| {
                use Exact::{Bit, Equal, Joined, Less, Unlike};
                matches!(exact, Bit(_) | Equal(..) | Joined(_) | Less(..) | Unlike(..))
            };
            exact.filter(truth).is_some()
        };
        match (to, on, self.value(state, on)) {
            ([yes, no], Operand::Local(local), Some(value)) if condition(local) => {
                vec![self.enter(state, if value == 0 { *no } else { *yes })]
            }
            _ => to.iter().map(|to| self.enter(state, *to)).collect(),
        }
    }

    /// Returns the beginning of a block that control enters from the one of `state`.
    fn enter(&self, state: &Position, to: usize) -> Position {
        let function = self.contexts[state.context].0;
        let blocks = &self.memory.objects.program.functions[function].blocks;
        let mut next = Position { block: to, index: 0, ..state.clone() };
        let is_call = |local: &Local| {
            let mut insts = blocks[state.block].insts.iter().rev();
            insts
                .find(|i| i.result == Some(*local))
                .is_some_and(|i| matches!(i.op, Op::Call { .. }))
        };
        next.known.retain(|(context, cell), _| match cell {
            Cell::Value(local) => *context != state.context || is_call(local),
            Cell::Variable(_) => true,
        });
        for inst in &blocks[to].insts {
            if let Exact::Joined(values) = &inst.exact {
                let value = values.iter().find(|(from, _)| *from == state.block);
                let value = value.and_then(|(_, value)| self.value(state, value));
                self.set(&mut next, inst.result.map(Cell::Value), value);
            }
        }
        next
    }

    /// Returns true if it writes memory that checkpoints hold, or involves other PEs.
    fn is_work(&self, step: &Step) -> bool {
        let meets =
            !matches!(step.sync, Sync::None | Sync::Quiet | Sync::Checkpoint | Sync::Restart);
        let calls = step.effect.callees.iter().any(|at| self.works.get(*at) == Some(&true));
        let writes = || step.effect.writes.iter().any(|object| self.saved.contains(object));
        let ends = matches!(step.sync, Sync::Checkpoint | Sync::Restart);
        meets || calls || step.effect.unknown || !ends && writes()
    }
}
