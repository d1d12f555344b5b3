//! The processors that this process may use, with their cores, NUMA nodes and packages; and the
//! enclosure of the machine.
//!
//! Processors come from hwloc (feature `hwloc`), or otherwise from /sys; both omit those that the
//! affinity mask of this process or its control group excludes. Serial numbers come from the files
//! that hwloc reads: the hwloc crate does not expose them.

use raidshmem_core::machine::{Machine, Processor, list};
use raidshmem_core::placement::found::{Enclosure, serial};
use rustix::thread::{CpuSet, sched_getaffinity};

/// The source of this information, for messages.
pub const SOURCE: &str = if cfg!(feature = "hwloc") { "hwloc" } else { "/sys" };

/// Returns the processors that this process may use now.
pub fn discover() -> Machine {
    let found = allowed(found());
    if found.processors.is_empty() { unknown() } else { found }
}

/// Returns the enclosure that the firmware reports; only root may read it on most machines.
pub fn enclosure() -> Enclosure {
    enclosure_from(std::path::Path::new("/sys/class/dmi/id"))
}

fn enclosure_from(folder: &std::path::Path) -> Enclosure {
    let read = |name| serial(&std::fs::read_to_string(folder.join(name)).ok()?);
    Enclosure { chassis: read("chassis_serial"), board: read("board_serial") }
}

/// Returns a machine of which only the mask is known: each processor counts as a core.
pub fn unknown() -> Machine {
    let alone = |cpu| Processor { cpu, core: cpu, numa: 0, package: 0 };
    allowed((0..CpuSet::MAX_CPU).map(alone).collect())
}

/// Returns a machine of those `processors` that this process may use.
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
    let above = |thread: &TopologyObject, wanted: fn(&ObjectType) -> bool| {
        let mut above = thread.parent();
        while let Some(object) = above {
            if wanted(&object.object_type()) {
                return Some((object.logical_index() as usize, object.os_index() as usize));
            }
            above = object.parent();
        }
        None
    };
    let near = |thread: &TopologyObject| thread.nodeset().map_or(0, |nodes| nodes.first().max(0));
    let processor = |thread: &&TopologyObject| Processor {
        cpu: thread.os_index() as usize,
        core: above(thread, |t| matches!(t, ObjectType::Core))
            .map_or(thread.logical_index() as usize, |o| o.0),
        numa: near(thread) as usize,
        package: above(thread, |t| matches!(t, ObjectType::Package)).map_or(0, |object| object.1),
    };
    threads.iter().map(processor).collect()
}

#[cfg(not(feature = "hwloc"))]
fn found() -> Vec<Processor> {
    from_sys(std::path::Path::new("/sys/devices/system"))
}

/// Returns the NUMA nodes listed in a folder such as /sys/devices/system, ascending, and the
/// processors of each.
pub(crate) fn numa_nodes(root: &std::path::Path) -> Vec<(usize, Vec<usize>)> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let near = |node| (node, list(&read(&format!("node/node{node}/cpulist"))));
    list(&read("node/online")).into_iter().map(near).collect()
}

/// Returns the processors listed in a folder such as /sys/devices/system.
#[cfg(any(test, not(feature = "hwloc")))]
fn from_sys(root: &std::path::Path) -> Vec<Processor> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let near = numa_nodes(root);
    let processor = |cpu: usize| {
        let siblings = list(&read(&format!("cpu/cpu{cpu}/topology/thread_siblings_list")));
        let core = siblings.first().copied().unwrap_or(cpu);
        let home = near.iter().find(|(_, cpus)| cpus.contains(&cpu));
        let package = list(&read(&format!("cpu/cpu{cpu}/topology/physical_package_id")));
        let package = package.first().copied().unwrap_or(0);
        Processor { cpu, core, numa: home.map_or(0, |(node, _)| *node), package }
    };
    list(&read("cpu/online")).into_iter().map(processor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both sources agree on this machine: equal processors, with equal threads on each core.
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

    #[test]
    fn an_enclosure_is_readable_and_distinguishes_machines() {
        let folder = std::env::temp_dir().join(format!("dmi-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder for the test");
        assert_eq!(enclosure_from(&folder), Enclosure::default());
        std::fs::write(folder.join("chassis_serial"), "CN7475103\n").expect("a file");
        std::fs::write(folder.join("board_serial"), "Default string\n").expect("a file");
        let found = enclosure_from(&folder);
        std::fs::remove_dir_all(&folder).expect("own files");
        assert_eq!(found, Enclosure { chassis: Some("CN7475103".into()), board: None });
    }
}
