//! The processors that this process may use: which share a core, and which memory is near.
//!
//! From hwloc (feature `hwloc`), or from /sys without it; both leave out what the mask of this
//! process or its control group does not allow.

#[cfg(any(test, not(feature = "hwloc")))]
use raidshmem_core::machine::list;
use raidshmem_core::machine::{Machine, Processor};
use rustix::thread::{CpuSet, sched_getaffinity};

/// Where the facts come from, for people.
pub const SOURCE: &str = if cfg!(feature = "hwloc") { "hwloc" } else { "/sys" };

/// What this process may use now.
pub fn discover() -> Machine {
    let found = allowed(found());
    if found.processors.is_empty() { unknown() } else { found }
}

/// The same, if nothing is known but the mask: each processor is a core.
pub fn unknown() -> Machine {
    let alone = |cpu| Processor { cpu, core: cpu, numa: 0 };
    allowed((0..CpuSet::MAX_CPU).map(alone).collect())
}

/// The machine, with those of `processors` that this process may use.
fn allowed(mut processors: Vec<Processor>) -> Machine {
    let Ok(mask) = sched_getaffinity(None) else { return Machine::default() };
    processors.retain(|p| p.cpu < CpuSet::MAX_CPU && mask.is_set(p.cpu));
    Machine::new(processors)
}

#[cfg(feature = "hwloc")]
fn found() -> Vec<Processor> {
    use hwloc2::{ObjectType, Topology, TopologyObject};
    let Some(topology) = Topology::new() else { return Vec::new() };
    let Ok(threads) = topology.objects_with_type(&ObjectType::PU) else { return Vec::new() };
    let core = |thread: &TopologyObject| {
        let mut above = thread.parent();
        while let Some(object) = above {
            if matches!(object.object_type(), ObjectType::Core) {
                return object.logical_index() as usize;
            }
            above = object.parent();
        }
        thread.logical_index() as usize
    };
    let near = |thread: &TopologyObject| thread.nodeset().map_or(0, |nodes| nodes.first().max(0));
    let processor = |thread: &&TopologyObject| Processor {
        cpu: thread.os_index() as usize,
        core: core(thread),
        numa: near(thread) as usize,
    };
    threads.iter().map(processor).collect()
}

#[cfg(not(feature = "hwloc"))]
fn found() -> Vec<Processor> {
    from_sys(std::path::Path::new("/sys/devices/system"))
}

/// The processors that a folder such as /sys/devices/system tells of.
#[cfg(any(test, not(feature = "hwloc")))]
fn from_sys(root: &std::path::Path) -> Vec<Processor> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let nodes = list(&read("node/online"));
    let near: Vec<(usize, Vec<usize>)> = nodes
        .into_iter()
        .map(|node| (node, list(&read(&format!("node/node{node}/cpulist")))))
        .collect();
    let processor = |cpu: usize| {
        let siblings = list(&read(&format!("cpu/cpu{cpu}/topology/thread_siblings_list")));
        let core = siblings.first().copied().unwrap_or(cpu);
        let home = near.iter().find(|(_, cpus)| cpus.contains(&cpu));
        Processor { cpu, core, numa: home.map_or(0, |(node, _)| *node) }
    };
    list(&read("cpu/online")).into_iter().map(processor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This machine, both ways: the same processors, and the same threads on a core.
    #[test]
    fn hwloc_and_sys_agree_on_this_machine() {
        let machine = discover();
        let mut sys = from_sys(std::path::Path::new("/sys/devices/system"));
        sys.retain(|p| machine.processors.iter().any(|own| own.cpu == p.cpu));
        assert!(!machine.processors.is_empty());
        assert_eq!(machine, Machine::new(sys));
        let mask = sched_getaffinity(None).expect("every process has one");
        assert_eq!(machine.processors.len(), mask.count() as usize);
    }
}
