//! Control dependence: the blocks of a function that a branch decides about.
//!
//! A block depends on a branch if one side of it always leads there and another need not. Paths
//! that end the program do not count: control does not continue there. Left out: exceptions.

use petgraph::algo::dominators::simple_fast;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::ir::{Function, Op};

/// Returns, by block, the blocks that its branch decides about.
#[must_use]
pub fn decided(function: &Function) -> Vec<Vec<usize>> {
    let count = function.blocks.len();
    let mut backwards = DiGraph::<(), ()>::new();
    let nodes: Vec<NodeIndex> = (0..=count).map(|_| backwards.add_node(())).collect();
    for (from, block) in function.blocks.iter().enumerate() {
        for to in &block.successors {
            backwards.update_edge(nodes[*to], nodes[from], ());
        }
        if matches!(block.insts.last().map(|inst| &inst.op), Some(Op::Return(_))) {
            backwards.update_edge(nodes[count], nodes[from], ());
        }
    }
    let after = simple_fast(&backwards, nodes[count]);
    let next = |block: usize| after.immediate_dominator(nodes[block]).map(NodeIndex::index);
    let mut found = vec![Vec::new(); count];
    for (from, block) in
        function.blocks.iter().enumerate().filter(|(_, is)| is.successors.len() > 1)
    {
        let Some(meet) = next(from) else {
            found[from] = reachable(function, from);
            continue;
        };
        for to in &block.successors {
            let mut at = *to;
            while at != meet && at < count {
                found[from].push(at);
                match next(at) {
                    Some(up) => at = up,
                    None => break,
                }
            }
        }
    }
    found
}

/// Returns the blocks that control may reach from a block.
fn reachable(function: &Function, from: usize) -> Vec<usize> {
    let (mut found, mut waiting) = (Vec::new(), function.blocks[from].successors.clone());
    let mut seen = vec![false; function.blocks.len()];
    while let Some(block) = waiting.pop() {
        if !std::mem::replace(&mut seen[block], true) {
            found.push(block);
            waiting.extend(&function.blocks[block].successors);
        }
    }
    found
}
