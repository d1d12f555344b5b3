//! The processors that this process may use: which share a core, and which memory is near.
//!
//! From hwloc (feature `hwloc`), or from /sys without it; both leave out what the mask of this
//! process or its control group does not allow.

use rustix::thread::{CpuSet, sched_getaffinity};

/// A hardware thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its number, as the kernel counts.
    pub cpu: usize,
    /// The core it is a thread of, numbered from 0 by this library.
    pub core: usize,
    /// The NUMA node whose memory is near, as the kernel counts.
    pub numa: usize,
}

/// The usable processors of a machine, neighbours next to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Sorted by NUMA node, then by core, so that each lies in one piece.
    pub processors: Vec<Processor>,
}

/// Where the facts come from, for people.
pub const SOURCE: &str = if cfg!(feature = "hwloc") { "hwloc" } else { "/sys" };

impl Machine {
    /// What this process may use now.
    pub fn discover() -> Machine {
        let found = Machine::of(found());
        if found.processors.is_empty() { Machine::unknown() } else { found }
    }

    /// The same, if nothing is known but the mask: each processor is a core.
    pub fn unknown() -> Machine {
        let alone = |cpu| Processor { cpu, core: cpu, numa: 0 };
        Machine::of((0..CpuSet::MAX_CPU).map(alone).collect())
    }

    /// Those of `processors` that this process may use.
    fn of(mut processors: Vec<Processor>) -> Machine {
        let Ok(allowed) = sched_getaffinity(None) else { return Machine::default() };
        processors.retain(|p| p.cpu < CpuSet::MAX_CPU && allowed.is_set(p.cpu));
        Machine::new(processors)
    }

    /// A machine of these processors; `core` may be any number that tells cores apart.
    pub fn new(mut processors: Vec<Processor>) -> Machine {
        processors.sort_by_key(|p| (p.numa, p.core, p.cpu));
        let mut before = None;
        let mut core = 0;
        for processor in &mut processors {
            let own = Some((processor.numa, processor.core));
            core += usize::from(before.is_some() && before != own);
            before = own;
            processor.core = core;
        }
        Machine { processors }
    }

    /// NUMA nodes with usable processors.
    pub fn numa_nodes(&self) -> usize {
        let mut nodes: Vec<usize> = self.processors.iter().map(|p| p.numa).collect();
        nodes.dedup();
        nodes.len()
    }

    /// Cores with usable threads.
    pub fn cores(&self) -> usize {
        self.processors.last().map_or(0, |last| last.core + 1)
    }
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

/// `0-3,8`: the kernel's way to write a set of numbers.
pub fn list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// The inverse of [`list`]; the numbers ascend.
pub fn show(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last)| match first == last {
        true => format!("{first}"),
        false => format!("{first}-{last}"),
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_numbers() {
        assert_eq!(list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(show(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!((list(""), show(&[])), (Vec::new(), String::new()));
    }

    /// This machine, both ways: the same processors, and the same threads on a core.
    #[test]
    fn hwloc_and_sys_agree_on_this_machine() {
        let machine = Machine::discover();
        let mut sys = from_sys(std::path::Path::new("/sys/devices/system"));
        sys.retain(|p| machine.processors.iter().any(|own| own.cpu == p.cpu));
        assert!(!machine.processors.is_empty());
        assert_eq!(machine, Machine::new(sys));
        let mask = sched_getaffinity(None).expect("every process has one");
        assert_eq!(machine.processors.len(), mask.count() as usize);
    }

    #[test]
    fn cores_are_numbered_in_the_order_of_nearness() {
        let processor = |cpu, core, numa| Processor { cpu, core, numa };
        let mixed = vec![processor(0, 0, 0), processor(1, 7, 1), processor(2, 0, 0)];
        let machine = Machine::new(mixed);
        assert_eq!(
            machine.processors,
            [(0, 0, 0), (2, 0, 0), (1, 1, 1)].map(|(a, b, c)| { processor(a, b, c) })
        );
        assert_eq!((machine.cores(), machine.numa_nodes()), (2, 2));
    }
}
