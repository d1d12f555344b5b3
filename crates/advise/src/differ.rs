//! Values that may differ from PE to PE, and hence calls that some PEs may not reach.
//!
//! In strict mode, a value is the same on all PEs only if it is computed from constants, arguments
//! of the program, the number of PEs and results that collectives give to all. In loose mode, a
//! value differs only if it is computed from the PE number: such values are worth a warning. The
//! analysis also covers the processes of one PE, which `shmem_ft_algo_init` distinguishes.
//!
//! Invariant: in strict mode, unknown values differ. Left out: the program's output and input.

use fixedbitset::FixedBitSet as Bits;

use crate::control::decided;
use crate::ir::{Callee, Inst, Op, Operand};
use crate::library::{self, Model, Result as Given};
use crate::memory::Memory;
use crate::objects::Beyond;
use crate::points::{OUTSIDE, Object};
use crate::program::Site;
use crate::routines::{Routine, Sync, plain};
use crate::steps::{Step, Steps};

/// Routines whose results are the same on all PEs, whatever their arguments.
const SHARED: &[&str] =
    &["shmem_n_pes", "shmem_checkpoint_all", "shmemx_ft_need_checkpoint", "shmemx_ft_should_stop"];
/// Routines whose results are equivalent on all PEs, such as addresses in symmetric memory.
const ALIKE: &[&str] = &[
    "shmem_malloc",
    "shmem_calloc",
    "shmem_align",
    "shmem_realloc",
    "shmem_malloc_with_hints",
    "shmem_init_thread",
    "shmem_team_n_pes",
    "shmemx_ft_protect",
];
const OWN_NUMBER: &[&str] = &["shmem_my_pe", "_my_pe", "shmem_team_my_pe"];
/// Routines whose results differ between the processes of a PE: the first one and its substitutes.
const SUBSTITUTE: &[&str] = &["shmem_ft_algo_init"];
const TEAM_WORLD: Operand = Operand::Number(1);

/// The analysis.
pub struct Differ<'m, 'p> {
    memory: &'m Memory<'p>,
    steps: &'m Steps,
    strict: bool,
    /// Routines whose results differ.
    own: &'static [&'static str],
    values: Vec<Bits>,
    objects: Bits,
    /// Blocks that some PEs may skip when others do not, in a run of their function.
    blocks: Vec<Bits>,
    /// Functions that some PEs may not call.
    functions: Vec<bool>,
    returns: Vec<bool>,
    decided: Vec<Vec<Vec<usize>>>,
    before: Vec<Vec<Vec<usize>>>,
    grown: bool,
}

impl<'m, 'p> Differ<'m, 'p> {
    /// Finds the values that differ.
    #[must_use]
    pub fn new(memory: &'m Memory<'p>, steps: &'m Steps, strict: bool) -> Self {
        Self::of(memory, steps, strict, OWN_NUMBER)
    }

    /// Finds, in loose mode, the values that differ between the first process of a PE and its
    /// substitutes.
    #[must_use]
    pub fn of_substitutes(memory: &'m Memory<'p>, steps: &'m Steps) -> Self {
        Self::of(memory, steps, false, SUBSTITUTE)
    }

    fn of(
        memory: &'m Memory<'p>,
        steps: &'m Steps,
        strict: bool,
        own: &'static [&'static str],
    ) -> Self {
        let functions = &memory.objects.program.functions;
        let before = functions.iter().map(|function| {
            let mut before = vec![Vec::new(); function.blocks.len()];
            for (from, block) in function.blocks.iter().enumerate() {
                block.successors.iter().for_each(|to| before[*to].push(from));
            }
            before
        });
        let mut differ = Self {
            memory,
            steps,
            strict,
            own,
            values: functions.iter().map(|is| Bits::with_capacity(is.locals)).collect(),
            objects: Bits::with_capacity(memory.objects.all.len()),
            blocks: functions.iter().map(|is| Bits::with_capacity(is.blocks.len())).collect(),
            functions: vec![false; functions.len()],
            returns: vec![false; functions.len()],
            decided: functions.iter().map(decided).collect(),
            before: before.collect(),
            grown: true,
        };
        while std::mem::take(&mut differ.grown) {
            for (site, inst) in memory.objects.program.sites() {
                differ.inst(site, inst);
            }
        }
        differ
    }

    /// Returns calls that some PEs may not reach, of those that `wanted` accepts directly or in a
    /// function that they call; only the outermost ones.
    #[must_use]
    pub fn skipped(&self, wanted: impl Fn(&Step) -> bool) -> Vec<Site> {
        let leads = self.steps.leading(&wanted);
        let calls = self.steps.all().filter(|(site, step)| {
            self.is_apart(*site)
                && (wanted(step) || step.effect.callees.iter().any(|callee| leads[*callee]))
        });
        calls.map(|found| found.0).collect()
    }

    fn differs(&self, function: usize, operand: &Operand) -> bool {
        matches!(operand, Operand::Local(local) if self.values[function].contains(*local))
    }

    fn holds(&self, function: usize, operand: &Operand) -> bool {
        self.memory.points(function, operand).iter().any(|object| self.objects.contains(*object))
    }

    /// Records a value that differs.
    fn value(&mut self, function: usize, inst: &Inst, differs: bool) {
        if let (Some(local), true) = (inst.result, differs) {
            self.grown |= !self.values[function].put(local);
        }
    }

    /// Marks the memory that an operand points to as differing.
    fn write(&mut self, function: usize, to: &Operand) {
        for object in self.memory.points(function, to) {
            self.object(object);
        }
    }

    fn object(&mut self, object: Object) {
        // In loose mode, arrays are data.
        let small = self.memory.objects.all[object].bytes.is_some_and(|bytes| bytes <= 8);
        if self.strict || small {
            self.grown |= !self.objects.put(object);
        }
        if self.strict && object == OUTSIDE {
            for object in self.steps.escaped.ones() {
                self.grown |= !self.objects.put(object);
            }
        }
    }

    /// Returns true if some PEs reach the function of a site when others do not.
    #[must_use]
    pub fn is_within(&self, site: Site) -> bool {
        self.functions[site.function]
    }

    /// Returns true if some PEs reach a site when others do not, in a run of its function.
    #[must_use]
    pub fn is_apart(&self, site: Site) -> bool {
        self.blocks[site.function].contains(site.block)
    }

    fn apart(&self, site: Site) -> bool {
        self.is_within(site) || self.is_apart(site)
    }

    /// Returns true for an instruction whose result depends on the path that led to the block.
    fn chooses(&self, site: Site) -> bool {
        let function = site.function;
        let block = &self.memory.objects.program.functions[function].blocks[site.block];
        block.insts[..site.index].iter().all(|inst| matches!(inst.op, Op::Copy(_)))
            && self.before[function][site.block].iter().any(|before| {
                let ends = &self.memory.objects.program.functions[function].blocks[*before].insts;
                let branch = ends.last().is_some_and(|inst| match &inst.op {
                    Op::Branch(on) => self.differs(function, on),
                    _ => false,
                });
                branch || self.blocks[function].contains(*before)
            })
    }

    fn inst(&mut self, site: Site, inst: &Inst) {
        let function = site.function;
        let any = |this: &Self, all: &[Operand]| all.iter().any(|is| this.differs(function, is));
        match &inst.op {
            Op::Load { from, volatile, .. } => {
                let differs = self.differs(function, from)
                    || self.holds(function, from)
                    || self.strict && *volatile;
                self.value(function, inst, differs);
            }
            Op::Store { value, to, .. } => {
                let other = self.strict && self.differs(function, to);
                if self.differs(function, value) || other || self.apart(site) {
                    self.write(function, to);
                }
            }
            Op::Update { at, .. } if self.strict => {
                self.value(function, inst, true);
                self.write(function, at);
            }
            Op::Copy(all) => {
                let differs = any(self, all) || self.chooses(site);
                self.value(function, inst, differs);
            }
            Op::Compare(all) => self.value(function, inst, any(self, all)),
            Op::Caught => self.value(function, inst, self.strict),
            Op::Return(value) => {
                let value = value.as_ref().is_some_and(|value| self.differs(function, value));
                let differs = value || self.blocks[function].contains(site.block);
                if differs && !self.returns[function] {
                    self.returns[function] = true;
                    self.grown = true;
                }
            }
            Op::Branch(on) if self.differs(function, on) => {
                for block in self.decided[function][site.block].clone() {
                    self.grown |= !self.blocks[function].put(block);
                }
            }
            Op::Call { callee, args, .. } => self.call(site, inst, callee, args),
            _ => {}
        }
    }

    fn call(&mut self, site: Site, inst: &Inst, callee: &Callee, args: &[Operand]) {
        let function = site.function;
        let through = matches!(callee, Callee::Through(to) if self.differs(function, to));
        for to in self.memory.callees(site) {
            let parameters = self.memory.objects.program.functions[to].parameters;
            for (at, arg) in args.iter().enumerate().take(parameters) {
                if self.differs(function, arg) {
                    self.grown |= !self.values[to].put(at);
                }
            }
            if (through || self.apart(site)) && !self.functions[to] {
                self.functions[to] = true;
                self.grown = true;
            }
            self.value(function, inst, self.returns[to] || through);
        }
        match self.memory.objects.beyond(site) {
            Some(Beyond::Routine(routine)) => self.routine(site, inst, routine, args),
            Some(Beyond::Model(model)) => self.model(site, inst, model, args),
            Some(Beyond::Unknown) => self.unknown(function, inst, args),
            None if matches!(callee, Callee::Through(to)
                if self.memory.points(function, to).contains(&OUTSIDE)) =>
            {
                self.unknown(function, inst, args);
            }
            None => {}
        }
    }

    fn unknown(&mut self, function: usize, inst: &Inst, args: &[Operand]) {
        if self.strict {
            self.value(function, inst, true);
            args.iter().for_each(|arg| self.write(function, arg));
            self.object(OUTSIDE);
        }
    }

    fn routine(&mut self, site: Site, inst: &Inst, routine: &Routine, args: &[Operand]) {
        let function = site.function;
        let name = plain(self.memory.objects.program.called(site).unwrap_or_default());
        let given = args.iter().any(|arg| self.differs(function, arg));
        let differs = match name {
            name if self.own.contains(&name) => true,
            name if SHARED.contains(&name) => false,
            name if ALIKE.contains(&name) => given,
            _ => self.strict,
        };
        self.value(function, inst, differs);
        let parts = ["_reduce", "_broadcast", "_fcollect"];
        let for_all = parts.iter().any(|part| name.contains(part))
            && args.first() == Some(&TEAM_WORLD)
            && !self.apart(site);
        let asks = routine.sync == Sync::Restart || name == "shmem_query_fault";
        if !self.strict || for_all || asks {
            return;
        }
        for (at, arg) in args.iter().enumerate() {
            let access = routine.args.get(at).copied().unwrap_or_default();
            if access.writes || access.writes_remote {
                self.write(function, arg);
            }
        }
    }

    fn model(&mut self, site: Site, inst: &Inst, model: Model, args: &[Operand]) {
        let function = site.function;
        let name = self.memory.objects.program.called(site).unwrap_or_default();
        let given = args.iter().any(|arg| self.differs(function, arg));
        let read = |at: usize, arg: &Operand| model.reads(at) && self.holds(function, arg);
        let read = args.iter().enumerate().any(|(at, arg)| read(at, arg));
        let pure = name.starts_with("llvm.")
            || library::is_math(name)
            || matches!(model.result, Given::New | Given::First)
            || (0..args.len()).any(|at| model.reads(at)) && model.result == Given::Nothing;
        self.value(function, inst, given || read || self.strict && !pure);
        let own = name.starts_with("llvm.") || model.copies || model.result == Given::First;
        for (_, arg) in args.iter().enumerate().filter(|(at, _)| model.writes(*at)) {
            if given || read || self.apart(site) || self.strict && !own {
                self.write(function, arg);
            }
        }
    }

    /// Returns true, in strict mode, if all PEs reach the same synchronising calls in the same
    /// order.
    #[must_use]
    pub fn meet_alike(&self) -> bool {
        let program = self.memory.objects.program;
        let catches = program.sites().any(|(site, _)| {
            let name = program.called(site).unwrap_or_default();
            library::returns_twice(name)
                || name == "__cxa_begin_catch"
                    && program.functions[site.function].name != "__clang_call_terminate"
        });
        let meets = |step: &Step| !matches!(step.sync, Sync::None | Sync::Quiet);
        let through = self.steps.all().any(|(site, _)| {
            matches!(&program.inst(site).op, Op::Call { callee: Callee::Through(to), .. }
                if self.differs(site.function, to))
        });
        !catches && !through && self.skipped(meets).is_empty()
    }

    /// Returns the branch that decides whether PEs reach a call.
    #[must_use]
    pub fn branch(&self, site: Site) -> Option<Site> {
        let blocks = &self.memory.objects.program.functions[site.function].blocks;
        let found = blocks.iter().enumerate().find(|(at, block)| {
            self.decided[site.function][*at].contains(&site.block)
                && block.insts.last().is_some_and(
                    |inst| matches!(&inst.op, Op::Branch(on) if self.differs(site.function, on)),
                )
        });
        let (block, is) = found?;
        Some(Site { function: site.function, block, index: is.insts.len() - 1 })
    }
}
