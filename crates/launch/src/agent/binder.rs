//! Binding of a node's PEs to processors, and of their memory to the local NUMA node.
//!
//! Agents on one machine share its processors: the PEs of all of them are bound together, in order
//! of PE number, so every agent computes the same bindings. A substitute for a PE of another
//! machine is bound as the PE was there: by its rank among the PEs of that machine, over the
//! topology of this one. (Saini, affinity-aware restart.)
//!
//! Invariant: no processor outside the agent's initial mask is ever used. If the kernel rejects a
//! binding, the PE runs unbound, which only costs time.

use std::collections::BTreeMap;

use raidshmem_core::machine::Machine;
use raidshmem_core::message::{Bound, Job};
use raidshmem_core::placement::bindings::{self, Binding};
use raidshmem_core::placement::pages::PageRuns;
use raidshmem_core::quantity::Pe;
use raidshmem_core::settings::Bind;

use raidshmem_sys::machine;
use raidshmem_sys::memory::Part;
use raidshmem_sys::{numa, process};

/// The CPU bindings of a machine.
pub struct Binder {
    machine: Machine,
    bind: Bind,
    /// Bindings of the PEs whose home is this machine.
    bindings: BTreeMap<Pe, Binding>,
    /// For every other PE: its rank among the PEs of its machine, and their number.
    elsewhere: BTreeMap<Pe, (usize, usize)>,
    oversubscribed: bool,
    own: Vec<Pe>,
}

impl Binder {
    /// Computes the bindings of the machine that runs `node`.
    pub fn new(job: &Job, bind: Bind, node: u32) -> Binder {
        let machine = match bind {
            Bind::None => machine::unknown(), // the number of processors suffices
            _ => machine::discover(),
        };
        let mut homes: BTreeMap<u32, Vec<Pe>> = BTreeMap::new();
        for (pe, &at) in Pe::all(job.node_of.len()).zip(&job.node_of) {
            homes.entry(job.machine(at)).or_default().push(pe);
        }
        let here = homes.remove(&job.machine(node)).unwrap_or_default();
        let places = |pes: Vec<Pe>| {
            let count = pes.len();
            pes.into_iter().enumerate().map(move |(place, pe)| (pe, (place, count)))
        };
        let bindings = bindings::bindings(&machine, here.len(), bind);
        let at_home = |&pe: &Pe| job.node_of[pe.at()] == node;
        Binder {
            oversubscribed: bindings::oversubscribed(&machine, here.len()),
            own: here.iter().copied().filter(at_home).collect(),
            bindings: here.into_iter().zip(bindings).collect(),
            elsewhere: homes.into_values().flat_map(places).collect(),
            bind,
            machine,
        }
    }

    /// Returns true if the machine has fewer processors than PEs.
    pub fn oversubscribed(&self) -> bool {
        self.oversubscribed
    }

    /// Returns the bindings of this node's PEs, for messages.
    pub fn bindings(&self) -> Vec<Bound> {
        let bound = |&pe: &Pe| {
            let binding = self.bindings.get(&pe)?;
            let cpus = binding.cpus.iter().map(|&cpu| cpu as u32).collect();
            Some(Bound { pe, cpus, numa: binding.numa.map(|node| node as u32) })
        };
        self.own.iter().filter_map(bound).collect()
    }

    /// Places the memory of `pe` on the NUMA node of its processors. If these are on several, its
    /// pages go to the nodes where they were, as far as this machine has nodes of these numbers,
    /// and otherwise to that of the thread that touches them first. Must precede the first access.
    pub fn place_memory(&self, pe: Pe, memory: &Part, pages: &PageRuns) {
        if let Some(node) = self.binding(pe).numa {
            let _ = numa::prefer_node(memory, 0..memory.len(), node);
        } else if !pages.is_empty() {
            let _ = numa::prefer_none(memory); // it may have an older table
            for (range, node) in pages.places(memory.len()) {
                let _ = numa::prefer_node(memory, range, node);
            }
        }
    }

    /// Runs `start`, which starts a process for `pe`, so that it is bound from its first
    /// instruction.
    pub fn start<T>(&self, pe: Option<Pe>, start: impl FnOnce() -> T) -> T {
        let cpus = pe.map(|pe| self.binding(pe).cpus).unwrap_or_default();
        match cpus.is_empty() {
            false => process::on_processors(&cpus, start),
            true => start(),
        }
    }

    /// Binds a process that became `pe`.
    pub fn bind(&self, pe: Pe, pid: u32) {
        let cpus = self.binding(pe).cpus;
        if !cpus.is_empty() {
            process::bind(pid, &cpus);
        }
    }

    /// Returns the binding of a PE on this machine, wherever its home is.
    fn binding(&self, pe: Pe) -> Binding {
        let at_home = || self.bindings.get(&pe).cloned();
        let as_there = || {
            let &(place, pes) = self.elsewhere.get(&pe)?;
            bindings::bindings(&self.machine, pes, self.bind).into_iter().nth(place)
        };
        at_home().or_else(as_there).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four PEs on three hosts: two, one and one.
    fn binder(node: u32) -> Binder {
        let job = super::super::tests::job_on(vec![0, 0, 1, 2], vec![0, 1, 2, 3]);
        Binder::new(&job, Bind::Auto, node)
    }

    #[test]
    fn a_substitute_on_another_machine_has_the_place_that_it_had() {
        let (home, spare) = (binder(0), binder(3));
        assert!(spare.bindings().is_empty(), "nobody's home");
        for pe in [0, 1].map(Pe::of) {
            // Both hosts are this machine, so the equivalent binding is the identical processors.
            assert_eq!(spare.binding(pe), home.binding(pe));
            assert!(home.oversubscribed() || !spare.binding(pe).cpus.is_empty());
        }
        assert_eq!(spare.binding(Pe::of(2)), binder(1).binding(Pe::of(2)));
        assert_eq!(home.binding(Pe::of(2)).cpus, binder(2).binding(Pe::of(3)).cpus);
    }
}
