//! The targets of pointers: Andersen's analysis, inclusion-based, flow- and field-insensitive.
//!
//! One object, `OUTSIDE`, is all memory that code without a body can reach: its contents are the
//! objects that escaped to it, and pointers in them may point outside. A node that points to
//! `OUTSIDE` may point to everything that escaped, so sets stay small however much escapes.
//!
//! Invariant: every set only grows, so the order of work does not matter. Left out: indirect calls;
//! the caller adds the constraints of a new callee and solves again.

use std::collections::BTreeSet;

/// A value.
pub type Node = usize;
/// Memory, or a function.
pub type Object = usize;

/// All memory that other code can reach.
pub const OUTSIDE: Object = 0;

/// The program's operations on pointers.
#[derive(Clone, Debug, Default)]
pub struct Constraints {
    /// The number of values.
    pub nodes: usize,
    /// The number of objects, including `OUTSIDE`.
    pub objects: usize,
    /// Nodes that hold the address of an object; that of `OUTSIDE` is any address from outside.
    pub addresses: Vec<(Node, Object)>,
    /// Copies from the first node to the second.
    pub copies: Vec<(Node, Node)>,
    /// Loads through the first node into the second.
    pub loads: Vec<(Node, Node)>,
    /// Stores of the first node through the second.
    pub stores: Vec<(Node, Node)>,
    /// Nodes whose targets other code knows from the start, or receives.
    pub escapes: Vec<Node>,
}

/// The targets of all pointers.
#[derive(Clone, Debug)]
pub struct Solution {
    /// The values first, then the contents of the objects.
    sets: Vec<BTreeSet<Object>>,
    nodes: usize,
}

/// The remaining work.
struct Solver {
    sets: Vec<BTreeSet<Object>>,
    /// Nodes that each node flows to.
    flows: Vec<BTreeSet<Node>>,
    /// By pointer: the destinations of loads through it, and the sources of stores through it.
    loads: Vec<Vec<Node>>,
    stores: Vec<Vec<Node>>,
    /// Objects that reached a node and were not passed on yet.
    fresh: Vec<BTreeSet<Object>>,
    waiting: Vec<Node>,
    nodes: usize,
}

impl Solver {
    fn new(constraints: &Constraints) -> Self {
        let (nodes, all) = (constraints.nodes, constraints.nodes + constraints.objects.max(1));
        let mut solver = Self {
            sets: vec![BTreeSet::new(); all],
            flows: vec![BTreeSet::new(); all],
            loads: vec![Vec::new(); all],
            stores: vec![Vec::new(); all],
            fresh: vec![BTreeSet::new(); all],
            waiting: Vec::new(),
            nodes,
        };
        for &(pointer, into) in &constraints.loads {
            solver.loads[pointer].push(into);
        }
        for &(value, pointer) in &constraints.stores {
            solver.stores[pointer].push(value);
        }
        let escapes = constraints.escapes.iter().map(|&node| (node, nodes + OUTSIDE));
        for (from, to) in constraints.copies.iter().copied().chain(escapes) {
            solver.flow(from, to);
        }
        solver.add(nodes + OUTSIDE, OUTSIDE);
        for &(node, object) in &constraints.addresses {
            solver.add(node, object);
        }
        solver
    }

    fn add(&mut self, node: Node, object: Object) {
        if self.sets[node].insert(object) {
            if self.fresh[node].is_empty() {
                self.waiting.push(node);
            }
            self.fresh[node].insert(object);
        }
    }

    fn flow(&mut self, from: Node, to: Node) {
        if from != to && self.flows[from].insert(to) {
            for object in self.sets[from].clone() {
                self.add(to, object);
            }
        }
    }

    /// Applies the consequences of a new object that a node may point to.
    fn follow(&mut self, node: Node, object: Object) {
        for to in self.flows[node].clone() {
            self.add(to, object);
        }
        for into in self.loads[node].clone() {
            match object {
                OUTSIDE => self.add(into, OUTSIDE),
                _ => self.flow(self.nodes + object, into),
            }
        }
        for value in self.stores[node].clone() {
            self.flow(value, self.nodes + object);
        }
        if node == self.nodes + OUTSIDE && object != OUTSIDE {
            self.add(self.nodes + object, OUTSIDE);
            self.flow(self.nodes + object, node);
        }
    }
}

impl Constraints {
    /// Returns the smallest sets that satisfy all constraints.
    ///
    /// # Panics
    ///
    /// If a constraint names a node or an object that does not exist.
    #[must_use]
    pub fn solve(&self) -> Solution {
        let mut solver = Solver::new(self);
        while let Some(node) = solver.waiting.pop() {
            for object in std::mem::take(&mut solver.fresh[node]) {
                solver.follow(node, object);
            }
        }
        Solution { sets: solver.sets, nodes: self.nodes }
    }
}

impl Solution {
    /// Returns the targets of a value; `OUTSIDE` represents itself and all escaped objects.
    #[must_use]
    pub fn of(&self, node: Node) -> &BTreeSet<Object> {
        &self.sets[node]
    }

    /// Returns the targets of the pointers in an object.
    #[must_use]
    pub fn contents(&self, object: Object) -> &BTreeSet<Object> {
        &self.sets[self.nodes + object]
    }

    /// Returns every object that other code can reach, including `OUTSIDE`.
    #[must_use]
    pub fn escaped(&self) -> &BTreeSet<Object> {
        self.contents(OUTSIDE)
    }
}
