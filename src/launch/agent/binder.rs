//! Binds the PEs of a node to processors, and their memory to the NUMA node that is near.
//!
//! Agents that share a machine share its processors: the PEs of all of them are bound together, in
//! the order of their numbers, so that every agent comes to the same CPU bindings. A PE that comes
//! from another machine, as a substitute, is not bound: its binding is there.
//!
//! Invariant: processors outside the mask that the agent was started with are never used. What the
//! kernel refuses is left as it is, and nothing is lost but time.

use std::collections::BTreeMap;

use raidshmem_core::message::{Bound, Job};
use raidshmem_core::placement::bindings::{self, Binding};
use raidshmem_core::quantity::Pe;
use raidshmem_core::settings::Bind;

use raidshmem_sys::machine;
use raidshmem_sys::memory::{self, Part};
use raidshmem_sys::process;

/// The CPU bindings of a machine.
pub struct Binder {
    bindings: BTreeMap<Pe, Binding>,
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
        let pes = |wanted: &dyn Fn(u32) -> bool| -> Vec<Pe> {
            let nodes = Pe::all(job.node_of.len()).zip(&job.node_of);
            nodes.filter(|&(_, &at)| wanted(at)).map(|(pe, _)| pe).collect()
        };
        let here = pes(&|at| job.machine(at) == job.machine(node));
        let bindings = bindings::bindings(&machine, here.len(), job.bind);
        Binder {
            oversubscribed: bindings::oversubscribed(&machine, here.len()),
            bindings: here.into_iter().zip(bindings).collect(),
            own: pes(&|at| at == node),
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
        if let Some(node) = self.bindings.get(&pe).and_then(|binding| binding.numa) {
            let _ = memory::prefer_node(memory, node);
        }
    }

    /// Starts what is to become `pe`, so that it is bound from its first instruction on.
    pub fn start<T>(&self, pe: Option<Pe>, start: impl FnOnce() -> T) -> T {
        match pe.and_then(|pe| self.cpus(pe)) {
            Some(cpus) => process::on_processors(cpus, start),
            None => start(),
        }
    }

    /// Binds a process that became `pe`.
    pub fn bind(&self, pe: Pe, pid: u32) {
        if let Some(cpus) = self.cpus(pe) {
            process::bind(pid, cpus);
        }
    }

    fn cpus(&self, pe: Pe) -> Option<&[usize]> {
        self.bindings
            .get(&pe)
            .map(|binding| binding.cpus.as_slice())
            .filter(|cpus| !cpus.is_empty())
    }
}
