//! CPU bindings: the processors of each PE of a machine, and the NUMA node of its memory.
//!
//! ```text
//! 2 PEs on 4 cores of 2 threads      0 0 0 0 1 1 1 1     auto: an equal share of the cores
//!                                    0 0 - - 1 1 - -     core: one core each
//! 4 PEs                              0 0 1 1 2 2 3 3
//! 6 PEs                              0 4 1 5 2 - 3 -     more PEs than cores: one thread each
//! 9 PEs                              auto: not bound; core: wraps around the threads
//! ```
//!
//! Invariants: a binding is never empty and contains only processors that the machine lists; with
//! no more PEs than threads no two PEs share a thread, and with no more PEs than cores no two share
//! a core; a share smaller than a NUMA node lies within one.
//!
//! Left out: discovering the machine, and applying the bindings.

use crate::machine::Machine;
use crate::mutant::{Mutant, breaks};
use crate::settings::Bind;

/// The CPU binding of one PE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// Its processors, ascending; empty: not bound.
    pub cpus: Vec<usize>,
    /// The NUMA node of its memory, if all its processors are on one.
    pub numa: Option<usize>,
}

/// Returns the bindings of `pes` PEs on a machine, in the order of their numbers.
pub fn bindings(machine: &Machine, pes: usize, bind: Bind) -> Vec<Binding> {
    let threads = machine.processors.len();
    let free = bind == Bind::None || threads == 0 || (bind == Bind::Auto && pes > threads);
    if free {
        return vec![Binding::default(); pes];
    }
    if pes > machine.cores() {
        let order = threads_in_turn(machine);
        return (0..pes).map(|pe| binding(machine, &[order[pe % threads]])).collect();
    }
    let cores = machine.cores();
    let share = |pe| {
        let (first, after) = (pe * cores / pes, (pe + 1) * cores / pes);
        match bind {
            Bind::Core => threads_of(machine, first..first + 1),
            _ => in_one_node(machine, threads_of(machine, first..after)),
        }
    };
    (0..pes).map(|pe| binding(machine, &share(pe))).collect()
}

/// Returns true if PEs must share processors.
pub fn oversubscribed(machine: &Machine, pes: usize) -> bool {
    pes > machine.processors.len().max(1)
}

/// Returns the indices of the processors of some cores.
fn threads_of(machine: &Machine, cores: std::ops::Range<usize>) -> Vec<usize> {
    let inside = |&at: &usize| cores.contains(&machine.processors[at].core);
    (0..machine.processors.len()).filter(inside).collect()
}

/// Returns the first thread of every core, then the second of every core that has one, and so on.
fn threads_in_turn(machine: &Machine) -> Vec<usize> {
    let core = |at: usize| machine.processors[at].core;
    let rank = |at: usize| (0..at).rev().take_while(|&other| core(other) == core(at)).count();
    let mut order: Vec<usize> = (0..machine.processors.len()).collect();
    order.sort_by_key(|&at| (rank(at), at));
    order
}

/// Limits a share that covers no whole NUMA node to the node with most of it.
fn in_one_node(machine: &Machine, share: Vec<usize>) -> Vec<usize> {
    let numa = |at: usize| machine.processors[at].numa;
    let part = |node: usize| share.iter().filter(|&&at| numa(at) == node).count();
    let whole = |node: usize| {
        machine.processors.iter().filter(|processor| processor.numa == node).count() == part(node)
    };
    if share.iter().any(|&at| whole(numa(at))) {
        return share;
    }
    let home = share.iter().rev().map(|&at| numa(at)).max_by_key(|&node| part(node));
    share.into_iter().filter(|&at| Some(numa(at)) == home).collect()
}

fn binding(machine: &Machine, share: &[usize]) -> Binding {
    let numa = |at: &usize| machine.processors[*at].numa;
    let mut cpus: Vec<usize> = share.iter().map(|&at| machine.processors[at].cpu).collect();
    if breaks(Mutant::MaskIgnored) {
        cpus = share.to_vec();
    }
    cpus.sort_unstable();
    let first = share.first().map(numa);
    Binding { cpus, numa: first.filter(|node| share.iter().all(|at| numa(at) == *node)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Processor;

    /// Builds a machine of NUMA nodes, each of cores with threads; first threads are numbered
    /// first.
    fn machine(nodes: usize, cores: usize, threads: usize) -> Machine {
        let all = (0..threads).flat_map(|t| (0..nodes * cores).map(move |core| (t, core)));
        let processor = |(t, core)| Processor {
            cpu: t * nodes * cores + core,
            core,
            numa: core / cores,
            package: 0,
        };
        Machine::new(all.map(processor).collect())
    }

    fn cpus(machine: &Machine, pes: usize, bind: Bind) -> Vec<Vec<usize>> {
        bindings(machine, pes, bind).into_iter().map(|binding| binding.cpus).collect()
    }

    #[test]
    fn the_picture_above() {
        let four = machine(1, 4, 2); // threads of core c are c and c + 4
        assert_eq!(cpus(&four, 2, Bind::Auto), [[0, 1, 4, 5], [2, 3, 6, 7]]);
        assert_eq!(cpus(&four, 2, Bind::Core), [[0, 4], [2, 6]]);
        assert_eq!(cpus(&four, 4, Bind::Auto), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(cpus(&four, 6, Bind::Auto), [[0], [1], [2], [3], [4], [5]]);
        assert_eq!(cpus(&four, 9, Bind::Auto), vec![Vec::<usize>::new(); 9]);
        assert_eq!(cpus(&four, 9, Bind::Core)[6..], [[6], [7], [0]]);
        assert_eq!(cpus(&four, 2, Bind::None), vec![Vec::<usize>::new(); 2]);
    }

    #[test]
    fn memory_is_mapped() {
        let two = machine(2, 4, 1);
        let numa = |pes, bind| -> Vec<Option<usize>> {
            bindings(&two, pes, bind).into_iter().map(|binding| binding.numa).collect()
        };
        assert_eq!(numa(1, Bind::Auto), [None], "all of the machine is its own");
        assert_eq!(numa(1, Bind::Core), [Some(0)]);
        assert_eq!(numa(2, Bind::Auto), [Some(0), Some(1)]);
        assert_eq!(cpus(&two, 3, Bind::Auto), [vec![0, 1], vec![2, 3], vec![5, 6, 7]]);
        assert_eq!(numa(3, Bind::Auto), [Some(0), Some(0), Some(1)]);
    }

    /// Every machine of up to 3 nodes of 5 cores of 3 threads, and every number of PEs.
    #[test]
    fn bindings_have_the_invariants_of_every_machine() {
        for (nodes, cores, threads) in
            (1..=3).flat_map(|n| (1..=5).flat_map(move |c| (1..=3).map(move |t| (n, c, t))))
        {
            let machine = machine(nodes, cores, threads);
            let all = machine.processors.len();
            for pes in 1..=all + 2 {
                for bind in [Bind::Auto, Bind::Core] {
                    check(&machine, &bindings(&machine, pes, bind), bind);
                }
                assert_eq!(oversubscribed(&machine, pes), pes > all);
            }
        }
    }

    fn check(machine: &Machine, bindings: &[Binding], bind: Bind) {
        let (pes, all) = (bindings.len(), machine.processors.len());
        let of = |cpu: usize| *machine.processors.iter().find(|p| p.cpu == cpu).unwrap();
        let bound = bind == Bind::Core || pes <= all;
        assert!(bindings.iter().all(|binding| binding.cpus.is_empty() != bound));
        for binding in bindings {
            assert!(binding.cpus.windows(2).all(|pair| pair[0] < pair[1]));
            let one = binding.cpus.iter().all(|&cpu| Some(of(cpu).numa) == binding.numa);
            assert!(one || binding.numa.is_none());
        }
        let mut used: Vec<usize> =
            bindings.iter().flat_map(|binding| binding.cpus.clone()).collect();
        let count = used.len();
        used.sort_unstable();
        used.dedup();
        assert!(used.len() == count || pes > all, "no thread is shared");
        let mut cores: Vec<usize> = bindings
            .iter()
            .flat_map(|binding| {
                let mut cores: Vec<usize> = binding.cpus.iter().map(|&cpu| of(cpu).core).collect();
                cores.sort_unstable();
                cores.dedup();
                cores
            })
            .collect();
        let count = cores.len();
        cores.sort_unstable();
        cores.dedup();
        assert!(cores.len() == count || pes > machine.cores(), "no core is shared");
    }

    #[test]
    fn a_mask_with_holes_is_respected() {
        let mut four = machine(2, 2, 2).processors;
        four.retain(|p| [1, 3, 7].contains(&p.cpu));
        let bindings = bindings(&Machine::new(four), 2, Bind::Auto);
        assert_eq!(bindings[0], Binding { cpus: vec![1], numa: Some(0) });
        assert_eq!(bindings[1], Binding { cpus: vec![3, 7], numa: Some(1) });
    }
}
