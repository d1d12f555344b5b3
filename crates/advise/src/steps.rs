//! A program as flow analyses walk it: per block, the instructions that have an effect.
//!
//! Invariant: an omitted step neither reads, writes nor calls. Left out: order between functions,
//! except the strongly connected components of the call graph.

use fixedbitset::FixedBitSet as Bits;
use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

use crate::ir::{Callee, Op};
use crate::library::{may_jump, returns_twice};
use crate::memory::{Effect, Memory};
use crate::points::OUTSIDE;
use crate::program::Site;
use crate::routines::Sync;

/// One instruction that has an effect.
pub struct Step {
    /// Its place in the block.
    pub index: usize,
    /// Its effects.
    pub effect: Effect,
    /// Its synchronisation.
    pub sync: Sync,
    /// True if it is a call by which control may leave the function.
    pub call: bool,
    /// True if control may come here again without a jump.
    pub twice: bool,
}

/// The steps of all functions.
pub struct Steps {
    /// By function and block, in order.
    pub blocks: Vec<Vec<Vec<Step>>>,
    /// Functions, callees first, in groups that call each other.
    pub groups: Vec<Vec<usize>>,
    /// Functions that may be active more than once.
    pub recursive: Vec<bool>,
    /// Objects that other code can reach.
    pub escaped: Bits,
    /// Objects that any PE or another thread may read: no write of one PE ends their use.
    pub shared: Bits,
}

impl Steps {
    /// Builds the steps of a program.
    #[must_use]
    pub fn new(memory: &Memory<'_>) -> Self {
        let functions = memory.objects.program.functions.len();
        let blocks = (0..functions).map(|at| steps(memory, at)).collect();
        let objects = memory.objects.all.len();
        let mut steps = Self {
            blocks,
            groups: Vec::new(),
            recursive: vec![false; functions],
            escaped: Bits::with_capacity(objects),
            shared: Bits::with_capacity(objects),
        };
        steps.escaped.extend(memory.flow.solution.escaped().iter().copied());
        steps.find_groups(memory);
        steps.find_shared();
        steps
    }

    /// Returns every step with its site.
    pub fn all(&self) -> impl Iterator<Item = (Site, &Step)> {
        self.blocks.iter().enumerate().flat_map(|(function, blocks)| {
            blocks.iter().enumerate().flat_map(move |(block, steps)| {
                let site = move |step: &Step| Site { function, block, index: step.index };
                steps.iter().map(move |step| (site(step), step))
            })
        })
    }

    /// Returns the steps of a function.
    pub fn of(&self, function: usize) -> impl Iterator<Item = &Step> {
        self.blocks[function].iter().flatten()
    }

    fn find_groups(&mut self, memory: &Memory<'_>) {
        let mut graph = DiGraph::<usize, ()>::new();
        let nodes: Vec<_> = (0..self.blocks.len()).map(|at| graph.add_node(at)).collect();
        let outside = memory.flow.called_from_outside(&memory.objects);
        for (site, step) in self.all() {
            // Unknown code may call back.
            let back = if step.effect.unknown { outside.as_slice() } else { &[] };
            for callee in step.effect.callees.iter().chain(back) {
                graph.update_edge(nodes[site.function], nodes[*callee], ());
            }
        }
        let groups = tarjan_scc(&graph);
        for group in groups {
            let group: Vec<usize> = group.into_iter().map(|node| graph[node]).collect();
            let itself = group.len() > 1 || graph.contains_edge(nodes[group[0]], nodes[group[0]]);
            for function in &group {
                self.recursive[*function] = itself || outside.contains(function);
            }
            self.groups.push(group);
        }
    }

    fn find_shared(&mut self) {
        let mut shared = Bits::with_capacity(self.shared.len());
        let mut unknown = false;
        for (_, step) in self.all() {
            unknown |= step.effect.unknown || step.effect.remote.contains(&OUTSIDE);
            shared.extend(step.effect.remote.iter().copied());
        }
        if unknown {
            shared.union_with(&self.escaped);
        }
        self.shared = shared;
    }

    /// Returns the functions that may reach a step that is `wanted`.
    #[must_use]
    pub fn leading(&self, wanted: &impl Fn(&Step) -> bool) -> Vec<bool> {
        let mut leads = vec![false; self.blocks.len()];
        for group in &self.groups {
            let mut steps = group.iter().flat_map(|at| self.of(*at));
            let any = steps.any(|step| {
                wanted(step) || step.effect.callees.iter().any(|callee| leads[*callee])
            });
            group.iter().for_each(|function| leads[*function] = any);
        }
        leads
    }

    /// Returns the objects that `what` gathers from a function and those that it calls.
    pub fn transitive(&self, what: impl Fn(&Step) -> Vec<usize>) -> Vec<Bits> {
        let objects = self.escaped.len();
        let mut found = vec![Bits::with_capacity(objects); self.blocks.len()];
        for group in &self.groups {
            let mut all = Bits::with_capacity(objects);
            for step in group.iter().flat_map(|at| self.of(*at)) {
                for object in what(step) {
                    match object {
                        OUTSIDE => all.union_with(&self.escaped),
                        object => all.insert(object),
                    }
                }
                for callee in step.effect.callees.iter().filter(|callee| !group.contains(callee)) {
                    all.union_with(&found[*callee]);
                }
            }
            for function in group {
                found[*function] = all.clone();
            }
        }
        found
    }
}

fn steps(memory: &Memory<'_>, function: usize) -> Vec<Vec<Step>> {
    let program = memory.objects.program;
    let blocks = program.functions[function].blocks.iter().enumerate();
    let block = |(block, of): (usize, &crate::ir::Block)| {
        let sites = (0..of.insts.len()).map(|index| Site { function, block, index });
        sites.filter_map(|site| step(memory, site)).collect()
    };
    blocks.map(block).collect()
}

fn step(memory: &Memory<'_>, site: Site) -> Option<Step> {
    let op = &memory.objects.program.inst(site).op;
    let call = match op {
        Op::Load { .. } | Op::Store { .. } | Op::Update { .. } => false,
        Op::Call { callee: Callee::Named(name), .. } => may_jump(name),
        Op::Call { .. } => true,
        _ => return None,
    };
    let name = memory.objects.program.called(site).unwrap_or_default();
    Some(Step {
        index: site.index,
        effect: memory.effect(site),
        sync: memory.objects.routine(site).map(|routine| routine.sync).unwrap_or_default(),
        call,
        twice: returns_twice(name),
    })
}
