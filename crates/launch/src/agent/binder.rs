//! Binds the PEs of a node to processors, and their memory to the NUMA node that is near.
//!
//! Agents that share a machine share its processors: the PEs of all of them are bound together, in
//! the order of their numbers, so that every agent comes to the same CPU bindings. A PE that comes
//! from another machine, as a substitute, is bound here as it was there: by its place among the PEs
//! of that machine, over the topology of this one. (Saini, affinity-aware restart.)
//!
//! Invariant: processors outside the mask that the agent was started with are never used. What the
//! kernel refuses is left as it is, and nothing is lost but time.

use std::collections::BTreeMap;

use raidshmem_core::machine::Machine;
use raidshmem_core::message::{Bound, Job};
use raidshmem_core::placement::bindings::{self, Binding};
use raidshmem_core::quantity::Pe;
use raidshmem_core::settings::Bind;

use raidshmem_sys::machine;
use raidshmem_sys::memory::{self, Part};
use raidshmem_sys::process;

/// The CPU bindings of a machine.
pub struct Binder {
    machine: Machine,
    bind: Bind,
    /// Of the PEs whose home this machine is.
    bindings: BTreeMap<Pe, Binding>,
    /// Of every other PE: its place among the PEs of its machine, and how many those are.
    elsewhere: BTreeMap<Pe, (usize, usize)>,
    oversubscribed: bool,
    own: Vec<Pe>,
}

impl Binder {
    /// The CPU bindings of the machine that `node` is on.
    pub fn new(job: &Job, node: u32) -> Binder {
        let machine = match job.bind {
            Bind::None => machine::unknown(), // how many there are is enough
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
        let bindings = bindings::bindings(&machine, here.len(), job.bind);
        let at_home = |&pe: &Pe| job.node_of[pe.at()] == node;
        Binder {
            oversubscribed: bindings::oversubscribed(&machine, here.len()),
            own: here.iter().copied().filter(at_home).collect(),
            bindings: here.into_iter().zip(bindings).collect(),
            elsewhere: homes.into_values().flat_map(places).collect(),
            bind: job.bind,
            machine,
        }
    }

    /// True if the PEs of the machine have to take turns.
    pub fn oversubscribed(&self) -> bool {
        self.oversubscribed
    }

    /// Where the PEs of this node run, for people.
    pub fn bindings(&self) -> Vec<Bound> {
        let bound = |&pe: &Pe| {
            let binding = self.bindings.get(&pe)?;
            let cpus = binding.cpus.iter().map(|&cpu| cpu as u32).collect();
            Some(Bound { pe, cpus, numa: binding.numa.map(|node| node as u32) })
        };
        self.own.iter().filter_map(bound).collect()
    }

    /// Puts the memory of `pe` near its processors, before it is touched.
    pub fn place_memory(&self, pe: Pe, memory: &Part) {
        if let Some(node) = self.binding(pe).numa {
            let _ = memory::prefer_node(memory, node);
        }
    }

    /// Starts what is to become `pe`, so that it is bound from its first instruction on.
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

    /// Where a PE runs on this machine, wherever its home is.
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
        Binder::new(&job, node)
    }

    #[test]
    fn a_substitute_on_another_machine_has_the_place_that_it_had() {
        let (home, spare) = (binder(0), binder(3));
        assert!(spare.bindings().is_empty(), "nobody's home");
        for pe in [0, 1].map(Pe::of) {
            // Both are this machine, so the equivalent by topology is the same processors.
            assert_eq!(spare.binding(pe), home.binding(pe));
            assert!(home.oversubscribed() || !spare.binding(pe).cpus.is_empty());
        }
        assert_eq!(spare.binding(Pe::of(2)), binder(1).binding(Pe::of(2)));
        assert_eq!(home.binding(Pe::of(2)).cpus, binder(2).binding(Pe::of(3)).cpus);
    }
}
