//! Loops that overwrite an object whole, element by element.
//!
//! ```text
//!        before: i = 0
//!           |
//!   head: i < n ----------> after
//!    |        ^
//!   yes       |
//!    |        |
//!   body: a[i] = x   last: i = i + 1
//! ```
//!
//! Loops may be nested: `a[i * 16 + j]`, or `a[i][j]`. The contents of the object on the edge from
//! `before` to `head` are never read, so the object is dead there.
//!
//! Invariants: control enters the loop only through `head`, and leaves it only there, when every
//! element has been written; nothing in the loop may read the object, meet other PEs, or jump;
//! nothing but `last` writes the counter. Of a block of the heap there is only one instance, and
//! the pointer to it does not change.
//!
//! Left out: non-constant bounds, steps other than 1, static counters.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fixedbitset::FixedBitSet as Bits;

use crate::cycles::Cycles;
use crate::ir::{Exact, Function, Local, Op, Operand};
use crate::memory::Memory;
use crate::objects::ObjectKind;
use crate::points::Object;
use crate::program::Site;
use crate::routines::{Gives, Sync};
use crate::steps::{Step, Steps};

/// The memory overwritten beyond an edge between two blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// The objects.
    pub objects: BTreeSet<Object>,
    /// True if there are calls in the loop, which may end in an exception.
    pub calls: bool,
}

/// Filled objects, by function and edge.
pub type Fills = Vec<HashMap<(usize, usize), Filled>>;

/// Maximum size of an object: no sum of indices overflows.
const LARGEST: u64 = 1 << 31;

/// Finds all filled objects.
#[must_use]
pub fn fills(memory: &Memory<'_>, steps: &Steps) -> Fills {
    let writes = steps.transitive(|step| step.effect.writes.iter().copied().collect());
    let reads = steps.transitive(|step| step.effect.reads.iter().copied().collect());
    let meets = meeting(steps);
    let pointed = pointed(memory);
    let cycles = Cycles::new(memory, steps);
    let whole = Whole { memory, steps, writes, reads, meets, pointed, cycles };
    (0..steps.blocks.len()).map(|function| whole.function(function)).collect()
}

/// Returns the functions that may do something other than compute.
fn meeting(steps: &Steps) -> Vec<bool> {
    let mut meets = vec![false; steps.blocks.len()];
    for group in &steps.groups {
        let any = group.iter().flat_map(|at| steps.of(*at)).any(|step| {
            is_meeting(step) || step.effect.callees.iter().any(|callee| meets[*callee])
        });
        group.iter().for_each(|at| meets[*at] = any);
    }
    meets
}

fn is_meeting(step: &Step) -> bool {
    step.sync != Sync::None || step.effect.unknown || step.twice
}

/// Returns the objects whose addresses are stored in memory.
fn pointed(memory: &Memory<'_>) -> Bits {
    let mut found = Bits::with_capacity(memory.objects.all.len());
    for object in 0..memory.objects.all.len() {
        found.extend(memory.flow.solution.contents(object).iter().copied());
    }
    found
}

struct Whole<'m, 'p> {
    memory: &'m Memory<'p>,
    steps: &'m Steps,
    writes: Vec<Bits>,
    reads: Vec<Bits>,
    meets: Vec<bool>,
    pointed: Bits,
    cycles: Cycles,
}

/// A counting loop.
struct Loop {
    head: usize,
    before: usize,
    last: usize,
    yes: usize,
    no: usize,
    counter: Object,
    times: u64,
    blocks: BTreeSet<usize>,
}

/// An address: its object, and the distance by which each counter moves it.
struct Address {
    object: Object,
    moves: BTreeMap<Object, u64>,
}

/// A number or an address, as a sum.
#[derive(Clone, Default)]
struct Sum {
    base: Option<Object>,
    /// Variables that the sum was computed from.
    from: Vec<Object>,
    constant: u64,
    moves: BTreeMap<Object, u64>,
}

impl Whole<'_, '_> {
    fn function(&self, function: usize) -> HashMap<(usize, usize), Filled> {
        let of = &self.memory.objects.program.functions[function];
        let mut found: HashMap<(usize, usize), Filled> = HashMap::new();
        let view = View::new(self, function, of);
        let loops: Vec<Loop> = (0..of.blocks.len()).filter_map(|head| view.counted(head)).collect();
        for (block, own) in self.steps.blocks[function].iter().enumerate() {
            let around: Vec<&Loop> = loops.iter().filter(|of| of.blocks.contains(&block)).collect();
            if around.is_empty() {
                continue;
            }
            for step in own {
                let site = Site { function, block, index: step.index };
                if let Some((outermost, object)) = view.fills(site, &around) {
                    let filled = found.entry((outermost.before, outermost.head)).or_default();
                    filled.objects.insert(object);
                    filled.calls |= view.steps_in(outermost).any(|step| step.call);
                }
            }
        }
        found
    }

    /// Returns true if there is only ever one instance of the object.
    fn alone(&self, object: Object) -> bool {
        let known = &self.memory.objects.all[object];
        match (known.kind, known.site) {
            (ObjectKind::Static(_), _) => known.single,
            (ObjectKind::Symmetric, Some(site)) => {
                let gives = self.memory.objects.routine(site).map(|routine| routine.gives);
                let chain = self.cycles.chain(site);
                let functions: BTreeSet<usize> = chain.iter().map(|at| at.function).collect();
                gives == Some(Gives::Symmetric)
                    && !self.cycles.repeated(site)
                    && functions.len() == chain.len()
                    && !functions.iter().any(|at| self.steps.recursive[*at])
            }
            _ => false,
        }
    }

    /// Returns true if a routine of OpenSHMEM may write the object, in any process.
    fn written_by_peers(&self, object: Object) -> bool {
        let mut all = self.steps.all();
        all.any(|(site, step)| {
            step.effect.writes.contains(&object) && self.memory.objects.routine(site).is_some()
        })
    }

    /// Returns true if a step, or a function that it calls, may write the object.
    fn step_writes(&self, step: &Step, object: Object) -> bool {
        step.effect.writes.contains(&object)
            || step.effect.writes.contains(&crate::points::OUTSIDE)
            || step.effect.callees.iter().any(|callee| self.writes[*callee].contains(object))
    }

    fn step_reads(&self, step: &Step, object: Object) -> bool {
        step.effect.reads.contains(&object)
            || step.effect.reads.contains(&crate::points::OUTSIDE)
            || step.effect.callees.iter().any(|callee| self.reads[*callee].contains(object))
    }
}

/// One function while it is searched for loops.
struct View<'a, 'm, 'p> {
    whole: &'a Whole<'m, 'p>,
    number: usize,
    of: &'a Function,
    defined: HashMap<Local, (usize, usize)>,
    before: Vec<Vec<usize>>,
}

impl<'a, 'm, 'p> View<'a, 'm, 'p> {
    fn new(whole: &'a Whole<'m, 'p>, number: usize, of: &'a Function) -> Self {
        let mut defined = HashMap::new();
        let mut before = vec![Vec::new(); of.blocks.len()];
        for (at, block) in of.blocks.iter().enumerate() {
            block.successors.iter().for_each(|to| before[*to].push(at));
            let results = block.insts.iter().enumerate();
            defined.extend(results.filter_map(|(index, inst)| Some((inst.result?, (at, index)))));
        }
        Self { whole, number, of, defined, before }
    }

    fn inst(&self, local: Local) -> Option<&'a crate::ir::Inst> {
        let (block, index) = self.defined.get(&local)?;
        Some(&self.of.blocks[*block].insts[*index])
    }

    fn steps_in(&self, of: &'a Loop) -> impl Iterator<Item = &'a Step> + use<'a, 'm, 'p> {
        let blocks = &self.whole.steps.blocks[self.number];
        of.blocks.iter().flat_map(move |block| &blocks[*block])
    }

    fn direct(&self, operand: &Operand) -> Option<Object> {
        self.whole.memory.objects.direct(self.number, operand)
    }

    /// Returns the loop whose head is this block.
    fn counted(&self, head: usize) -> Option<Loop> {
        let block = &self.of.blocks[head];
        let [yes, no] = block.successors[..] else { return None };
        let Op::Branch(Operand::Local(on)) = block.insts.last()?.op else { return None };
        let Exact::Less(count, Operand::Number(times)) = &self.inst(on)?.exact else {
            return None;
        };
        let counter = self.loaded(count, head)?;
        let known = &self.whole.memory.objects.all[counter];
        let times = u64::try_from(*times).ok().filter(|times| *times > 0)?;
        let private = matches!(known.kind, ObjectKind::Frame(_)) && known.single;
        if !private || self.whole.pointed.contains(counter) || self.defined[&on].0 != head {
            return None;
        }
        let [one, other] = self.before[head][..] else { return None };
        let inside = |last: usize| self.natural(head, last).filter(|of| of.contains(&yes));
        let (before, last, blocks) = match (inside(one), inside(other)) {
            (Some(blocks), None) => (other, one, blocks),
            (None, Some(blocks)) => (one, other, blocks),
            _ => return None,
        };
        let of = Loop { head, before, last, yes, no, counter, times, blocks };
        (self.begins(&of) && self.steps_on(&of) && !of.blocks.contains(&no)).then_some(of)
    }

    /// Returns the variable that a value was just read from, in this block.
    fn loaded(&self, value: &Operand, block: usize) -> Option<Object> {
        let Operand::Local(local) = value else { return None };
        let inst = self.inst(*local)?;
        match (&inst.op, &inst.exact) {
            (Op::Load { from, volatile: false, .. }, _) if self.defined[local].0 == block => {
                self.direct(from)
            }
            (_, Exact::Same(of)) => self.loaded(of, block),
            _ => None,
        }
    }

    /// Returns the blocks from which `last` is reached without `head`, and these two; `None` if the
    /// entry of the function is among them.
    fn natural(&self, head: usize, last: usize) -> Option<BTreeSet<usize>> {
        let (mut found, mut waiting) = (BTreeSet::from([head]), vec![last]);
        while let Some(block) = waiting.pop() {
            if found.insert(block) {
                waiting.extend(&self.before[block]);
            }
        }
        (!found.contains(&0)).then_some(found)
    }

    /// Returns true if the counter is 0 when the loop is entered.
    fn begins(&self, of: &Loop) -> bool {
        let steps = self.whole.steps.blocks[self.number][of.before].iter().rev();
        let mut writes = steps.filter(|step| self.whole.step_writes(step, of.counter));
        let Some(step) = writes.next() else { return false };
        let inst = &self.of.blocks[of.before].insts[step.index];
        let zero = matches!(&inst.op, Op::Store { value: Operand::Number(0), volatile: false, .. });
        zero && self.of.blocks[of.before].successors.len() == 1
    }

    /// Returns true if the counter is written once in the loop, at its end, and grows by 1.
    fn steps_on(&self, of: &Loop) -> bool {
        let steps = of.blocks.iter().flat_map(|block| {
            let own = self.whole.steps.blocks[self.number][*block].iter();
            own.map(move |step| (*block, step))
        });
        let mut writes = steps.filter(|(_, step)| self.whole.step_writes(step, of.counter));
        let (Some((block, step)), None) = (writes.next(), writes.next()) else { return false };
        let next = match &self.of.blocks[block].insts[step.index].op {
            Op::Store { value: Operand::Local(next), volatile: false, .. } => *next,
            _ => return false,
        };
        let sum = match self.inst(next).map(|inst| &inst.exact) {
            Some(Exact::Add(of, Operand::Number(1))) => of.clone(),
            _ => return false,
        };
        block == of.last && self.loaded(&sum, block) == Some(of.counter)
    }

    /// Returns the outermost loop in which the step fills an object, and the object.
    fn fills<'l>(&self, site: Site, around: &[&'l Loop]) -> Option<(&'l Loop, Object)>
    where
        'l: 'a,
    {
        let inst = &self.of.blocks[site.block].insts[site.index];
        let Op::Store { to, bytes: Some(bytes), volatile: false, .. } = &inst.op else {
            return None;
        };
        let address = self.address(to, around)?;
        let counts = |of: &&&Loop| address.moves.contains_key(&of.counter);
        let mut nest: Vec<&Loop> = around.iter().filter(counts).copied().collect();
        nest.sort_by_key(|of| of.blocks.len());
        let counters: BTreeSet<Object> = nest.iter().map(|of| of.counter).collect();
        if nest.len() != address.moves.len() || counters.len() != nest.len() {
            return None;
        }
        let mut moves: Vec<(u64, u64)> =
            nest.iter().map(|of| (address.moves[&of.counter], of.times)).collect();
        moves.sort_unstable();
        let end = moves.iter().try_fold(*bytes, |reached, (by, times)| {
            (*by == reached).then(|| by.checked_mul(*times)).flatten()
        })?;
        let object = address.object;
        let known = &self.whole.memory.objects.all[object];
        let all = known.bytes == Some(end) && end < LARGEST && self.whole.alone(object);
        let outermost = nest.last().copied()?;
        let quiet = self.steps_in(outermost).all(|step| {
            !is_meeting(step)
                && !self.whole.step_reads(step, object)
                && !step.effect.callees.iter().any(|callee| self.whole.meets[*callee])
        });
        let seen = !self.whole.steps.shared.contains(object);
        (all && quiet && seen && self.passes(site.block, &nest)).then_some((outermost, object))
    }

    /// Returns true if every iteration of every loop passes the block, and every loop runs to its
    /// end.
    fn passes(&self, block: usize, nest: &[&Loop]) -> bool {
        let mut inner: Option<&Loop> = None;
        for of in nest {
            let within = inner.is_none_or(|inner| inner.blocks.is_subset(&of.blocks));
            let leaves = of.blocks.iter().any(|at| {
                let ends = self.of.blocks[*at].successors.is_empty();
                let out = |to: &usize| !of.blocks.contains(to);
                ends || *at != of.head && self.of.blocks[*at].successors.iter().any(out)
            });
            if !within || leaves || self.may_skip(of, block, inner) {
                return false;
            }
            inner = Some(of);
        }
        true
    }

    /// Returns true if an iteration may skip the block, or part of the inner loop.
    fn may_skip(&self, of: &Loop, block: usize, inner: Option<&Loop>) -> bool {
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![of.yes]);
        while let Some(at) = waiting.pop() {
            if inner.is_none() && at == block {
                continue;
            }
            if at == of.last {
                return true;
            }
            if !seen.insert(at) {
                continue;
            }
            let over = |to: &usize| inner.is_some_and(|inner| at == inner.head && *to == inner.no);
            waiting.extend(self.of.blocks[at].successors.iter().filter(|to| !over(to)));
        }
        false
    }

    /// Returns the address that an operand denotes, if only counters of these loops move it.
    fn address(&self, operand: &Operand, around: &[&Loop]) -> Option<Address> {
        let sum = self.sum(operand, around, 0)?;
        let object = sum.base.filter(|_| sum.constant == 0)?;
        // The pointer must be the same in all iterations.
        let changes = |variable: &Object| {
            let known = &self.whole.memory.objects.all[*variable];
            let private = matches!(known.kind, ObjectKind::Frame(_)) && known.single;
            let quiet = known.single && !self.whole.written_by_peers(*variable);
            !(private || matches!(known.kind, ObjectKind::Static(_)) && quiet)
                || around.iter().any(|of| {
                    self.steps_in_any(of).any(|step| self.whole.step_writes(step, *variable))
                })
        };
        (!sum.from.iter().any(changes)).then_some(Address { object, moves: sum.moves })
    }

    fn steps_in_any<'b>(&'b self, of: &'b Loop) -> impl Iterator<Item = &'b Step> {
        let blocks = &self.whole.steps.blocks[self.number];
        of.blocks.iter().flat_map(move |block| &blocks[*block])
    }

    fn sum(&self, operand: &Operand, around: &[&Loop], depth: usize) -> Option<Sum> {
        const DEEPEST: usize = 24;
        let local = match operand {
            Operand::Number(number) => {
                let constant = u64::try_from(*number).ok()?;
                return Some(Sum { constant, ..Sum::default() });
            }
            Operand::Global(_) => {
                return Some(Sum { base: Some(self.direct(operand)?), ..Sum::default() });
            }
            Operand::Local(local) if depth < DEEPEST => *local,
            _ => return None,
        };
        let deeper = |of: &Operand| self.sum(of, around, depth + 1);
        let inst = self.inst(local)?;
        match (&inst.exact, &inst.op) {
            (Exact::Same(of), _) => deeper(of),
            (Exact::Add(one, other), _) => deeper(one)?.add(deeper(other)?, 1),
            (Exact::Times(one, other), _) => match (deeper(one)?, deeper(other)?) {
                (one, by) if by.is_number() => Sum::default().add(one, by.constant),
                (by, other) if by.is_number() => Sum::default().add(other, by.constant),
                _ => None,
            },
            (Exact::Element(of, steps), _) => {
                let begin = deeper(of)?;
                steps.iter().try_fold(begin, |sum, (bytes, index)| sum.add(deeper(index)?, *bytes))
            }
            (_, Op::Load { from, volatile: false, .. }) => self.read(local, from, around),
            _ => None,
        }
    }

    /// Returns the value read from a variable: a counter, or a pointer to one object.
    fn read(&self, local: Local, from: &Operand, around: &[&Loop]) -> Option<Sum> {
        let variable = self.direct(from)?;
        if let Some(of) = around.iter().find(|of| of.counter == variable) {
            // Before it is incremented, in the same iteration.
            let block = self.defined[&local].0;
            let inside = of.blocks.contains(&block) && block != of.last && block != of.head;
            return inside.then(|| Sum { moves: [(variable, 1)].into(), ..Sum::default() });
        }
        let points = self.whole.memory.points(self.number, &Operand::Local(local));
        let mut points = points.into_iter();
        let (Some(object), None) = (points.next(), points.next()) else { return None };
        let one = object != crate::points::OUTSIDE;
        one.then(|| Sum { base: Some(object), from: vec![variable], ..Sum::default() })
    }
}

impl Sum {
    fn is_number(&self) -> bool {
        self.base.is_none() && self.moves.is_empty()
    }

    /// Adds `other`, multiplied by `times`.
    fn add(mut self, other: Sum, times: u64) -> Option<Sum> {
        if other.base.is_some() && (self.base.is_some() || times != 1) {
            return None;
        }
        self.base = self.base.or(other.base);
        self.from.extend(other.from);
        self.constant = self.constant.checked_add(other.constant.checked_mul(times)?)?;
        for (counter, by) in other.moves {
            let moved = self.moves.entry(counter).or_default();
            *moved = moved.checked_add(by.checked_mul(times)?)?;
        }
        Some(self)
    }
}
