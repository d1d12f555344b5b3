//! Private memory that changes from one checkpoint to the next.
//!
//! A substitute starts at the top of `main` and repeats all one-time computations. Memory written
//! on a path from a checkpoint back to the same call is different: its value belongs to the
//! checkpoint, but no checkpoint holds it.
//!
//! Invariant: the writes of a function count where it is called. Left out: values, and the number
//! of writes.

use fixedbitset::FixedBitSet as Bits;
use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

use crate::memory::Memory;
use crate::program::Site;
use crate::steps::Steps;

/// The loops of each function, by block.
pub struct Cycles {
    /// By function and block: the number of the cycle of blocks that contains it, if any.
    cycles: Vec<Vec<Option<usize>>>,
    /// By function and cycle: the memory written in it.
    writes: Vec<Vec<Bits>>,
    /// Calls that lead to each function.
    callers: Vec<Vec<Site>>,
}

impl Cycles {
    /// Finds all loops.
    #[must_use]
    pub fn new(memory: &Memory<'_>, steps: &Steps) -> Self {
        let functions = &memory.objects.program.functions;
        let mut callers = vec![Vec::new(); functions.len()];
        for (site, step) in steps.all() {
            step.effect.callees.iter().for_each(|callee| callers[*callee].push(site));
        }
        let cycles: Vec<_> = functions.iter().map(cycles).collect();
        let all = steps.transitive(|step| step.effect.writes.iter().copied().collect());
        let writes = (0..functions.len()).map(|at| writes(steps, at, &cycles[at], &all)).collect();
        Self { cycles, writes, callers }
    }

    /// Returns the calls that may lead to an instruction, and the instruction itself.
    #[must_use]
    pub fn chain(&self, site: Site) -> Vec<Site> {
        let (mut found, mut waiting) = (vec![site], vec![site.function]);
        let mut seen = vec![false; self.callers.len()];
        while let Some(function) = waiting.pop() {
            if std::mem::replace(&mut seen[function], true) {
                continue;
            }
            for caller in &self.callers[function] {
                found.push(*caller);
                waiting.push(caller.function);
            }
        }
        found
    }

    /// Returns true if the instruction may run again before its function returns.
    #[must_use]
    pub fn repeats(&self, site: Site) -> bool {
        self.cycles[site.function][site.block].is_some()
    }

    /// Returns true if some call that leads to the instruction is in a loop.
    #[must_use]
    pub fn repeated(&self, site: Site) -> bool {
        self.chain(site).into_iter().any(|site| self.repeats(site))
    }

    /// Returns the memory that may be written between two runs of an instruction.
    #[must_use]
    pub fn written(&self, steps: &Steps, site: Site) -> Bits {
        let mut found = Bits::with_capacity(steps.escaped.len());
        for call in self.chain(site) {
            if let Some(cycle) = self.cycles[call.function][call.block] {
                found.union_with(&self.writes[call.function][cycle]);
            }
        }
        if found.contains(crate::points::OUTSIDE) {
            found.union_with(&steps.escaped);
        }
        found
    }
}

/// Returns the memory written in each cycle of a function; `all` is the memory that functions
/// write.
fn writes(steps: &Steps, function: usize, cycles: &[Option<usize>], all: &[Bits]) -> Vec<Bits> {
    let count = cycles.iter().flatten().max().map_or(0, |last| last + 1);
    let mut found = vec![Bits::with_capacity(steps.escaped.len()); count];
    for (block, own) in steps.blocks[function].iter().enumerate() {
        let Some(cycle) = cycles[block] else {
            continue;
        };
        for step in own {
            found[cycle].extend(step.effect.writes.iter().copied());
            for callee in &step.effect.callees {
                found[cycle].union_with(&all[*callee]);
            }
        }
    }
    found
}

fn cycles(function: &crate::ir::Function) -> Vec<Option<usize>> {
    let mut graph = DiGraph::<(), ()>::new();
    let nodes: Vec<_> = function.blocks.iter().map(|_| graph.add_node(())).collect();
    for (from, block) in function.blocks.iter().enumerate() {
        for to in &block.successors {
            graph.update_edge(nodes[from], nodes[*to], ());
        }
    }
    let mut found = vec![None; nodes.len()];
    for (number, part) in tarjan_scc(&graph).into_iter().enumerate() {
        if part.len() > 1 || graph.contains_edge(part[0], part[0]) {
            part.iter().for_each(|node| found[node.index()] = Some(number));
        }
    }
    found
}
