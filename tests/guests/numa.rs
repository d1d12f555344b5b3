//! A machine with two NUMA nodes: PEs are bound, their memory is local to them, and groups span
//! both when each is a node of the job.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::image;
use crate::machine::{Guest, Plan};
use crate::support::program;
use crate::switch::Switch;

/// Two nodes of two processors.
const NODES: &[&str] = &[
    "-object",
    "memory-backend-ram,id=m0,size=384M",
    "-object",
    "memory-backend-ram,id=m1,size=384M",
    "-numa",
    "node,nodeid=0,cpus=0-1,memdev=m0",
    "-numa",
    "node,nodeid=1,cpus=2-3,memdev=m1",
];
/// Pages of the heap that the program examines, all of which are saved.
const PAGES: usize = 256;

/// Boots a guest with two NUMA nodes, `oshrun` and the program `name`.
pub fn boot(switch: &Switch, name: &str) -> (Guest, PathBuf) {
    let program = program(name);
    let oshrun = Path::new(env!("CARGO_BIN_EXE_oshrun"));
    let payload = image::add(&format!("numa-{name}"), &[oshrun, &program]);
    let words = NODES.iter().map(|word| (*word).to_owned()).collect();
    let plan = Plan { cpus: 4, memory: 768, words, ..Plan::new(1) };
    let mut guest = plan.with(&payload).boot(switch);
    guest.ready();
    (guest, program)
}

/// The program's report on a PE: its processor, its NUMA node, pages of its heap and store.
#[derive(Debug)]
struct Binding {
    cpu: usize,
    near: usize,
    heap: usize,
    store: usize,
}

/// Runs the program on `nodes` nodes. It fails itself if a page is not local to its PE.
fn bindings(guest: &mut Guest, binding: &Path, words: &str) -> (BTreeMap<usize, Binding>, String) {
    let settings = "SHMEM_SYMMETRIC_SIZE=8M SHMEM_FT_BACKUP_MODE=raid5 SHMEM_FT_GROUP_SIZE=2";
    let oshrun = env!("CARGO_BIN_EXE_oshrun");
    let said = guest.must(&format!("{settings} {oshrun} -n 4 {words} {}", binding.display()));
    let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("{word}: {said}"));
    let lines = said.lines().filter(|line| line.starts_with("binding "));
    let bindings = lines.map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [cpu, near, heap, store] = [3, 5, 9, 13].map(|at| number(words[at]));
        (number(words[1]), Binding { cpu, near, heap, store })
    });
    (bindings.collect(), said)
}

#[test]
fn memory_and_store_are_near_the_processors_of_their_pe() {
    let switch = Switch::new();
    let (mut guest, binding) = boot(&switch, "binding");
    guest.must("test -d /sys/devices/system/node/node1");
    let mut report = String::new();
    for words in ["", "--nodes 2 --report-placement"] {
        let (bindings, said) = bindings(&mut guest, &binding, words);
        let cpus: BTreeSet<usize> = bindings.values().map(|binding| binding.cpu).collect();
        assert_eq!(cpus, BTreeSet::from([0, 1, 2, 3]), "a processor each: {said}");
        for (pe, binding) in &bindings {
            assert_eq!((binding.near, binding.heap), (binding.cpu / 2, PAGES), "PE {pe}: {said}");
            // A snapshot, and parity of at least half its size.
            assert!(binding.store >= PAGES + PAGES / 2, "PE {pe}: {said}");
        }
        report = said;
    }
    // If each NUMA node is a node of the job, each group has one member in each.
    let mut near: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in report.lines() {
        let cells: Vec<&str> = row.split_whitespace().collect();
        if let [_, "node0" | "node1", group, _, numa] = cells[..] {
            near.entry(group.to_owned()).or_default().insert(numa.to_owned());
        }
    }
    let both = BTreeSet::from(["0".to_owned(), "1".to_owned()]);
    let wanted = ["0", "1"].map(|group| (group.to_owned(), both.clone()));
    assert_eq!(near, BTreeMap::from(wanted), "{report}");
}

/// A PE lost with its process or its node keeps its place, and so do its pages.
#[test]
fn after_a_loss_a_pe_and_its_pages_are_where_they_were() {
    let switch = Switch::new();
    let (mut guest, program) = boot(&switch, "moved");
    let mode = "SHMEM_SYMMETRIC_SIZE=8M SHMEM_FT_BACKUP_MODE=raid5 SHMEM_FT_GROUP_SIZE=2";
    let oshrun = env!("CARGO_BIN_EXE_oshrun");
    for faults in ["", "--kill 3@3", "--kill-node 1@3"] {
        let words = format!("-n 4 --nodes 2 {faults}");
        let said = guest.must(&format!("{mode} {oshrun} {words} {}", program.display()));
        let mut lines: Vec<Vec<&str>> = said
            .lines()
            .filter(|line| line.starts_with("moved "))
            .map(|line| line.split_whitespace().collect())
            .collect();
        lines.sort_unstable();
        assert_eq!(lines.len(), 4, "{said}");
        for (pe, words) in lines.iter().enumerate() {
            let number = |at: usize| -> usize { words[at].parse().expect("a number") };
            assert_eq!((number(1), number(3), number(5)), (pe, pe, pe / 2), "{faults}: {said}");
            let (pages, there, migrations) = (number(7), number(9), number(11));
            assert!(pages == PAGES && there * 100 >= pages * 99, "{faults}: {said}");
            assert_eq!(migrations, 0, "bound to one processor: {faults}: {said}");
        }
    }
}

/// Pages of a PE whose threads run on both NUMA nodes are where they were, though its memory is
/// made again: by the loss of its process or its node, or by a job that begins from disk. Without
/// the table of them they are not.
#[test]
fn pages_of_a_pe_on_two_numa_nodes_are_on_them_again() {
    let switch = Switch::new();
    let (mut guest, program) = boot(&switch, "spread");
    let mode = "SHMEM_SYMMETRIC_SIZE=16M SHMEM_FT_BACKUP_MODE=raid5 SHMEM_FT_GROUP_SIZE=2";
    let oshrun = env!("CARGO_BIN_EXE_oshrun");
    let program = program.display();
    let mut run = |settings: &str, words: &str, folder: &str| {
        let words = format!("-n 2 --nodes 2 --bind none -v {words}");
        let said =
            guest.must(&format!("{mode} {settings} {oshrun} {words} {program} {folder} 2>&1"));
        let lines = said.lines().filter(|line| line.starts_with("spread "));
        let number = |line: &str, at| -> usize {
            line.split_whitespace().nth(at).and_then(|it| it.parse().ok()).expect("a number")
        };
        let counts = lines.map(|line| [3, 5, 7, 8].map(|at| number(line, at)));
        let counts: Vec<[usize; 4]> = counts.collect();
        assert_eq!(counts.len(), 2, "{said}");
        (counts, said)
    };
    let apart = |counts: &[[usize; 4]], said: &str| {
        for [pages, there, first, second] in counts {
            assert!(there * 100 >= pages * 99, "{said}");
            assert!(*first >= 1037 && *second >= 1037, "both nodes have a half: {said}");
        }
    };
    let losses =
        [("", ""), ("", "--kill 1@3"), ("SHMEM_FT_ADOPT=0", "--kill 1@3"), ("", "--kill-node 1@3")];
    for (settings, fault) in losses {
        let (counts, said) = run(settings, fault, "");
        apart(&counts, &said);
    }
    let (off, elsewhere) =
        ("SHMEM_FT_AFFINITY=0", |[pages, there, ..]: &[usize; 4]| there * 100 < pages * 99);
    for (settings, folder) in [("", "/tmp/with"), (off, "/tmp/without")] {
        let store = format!("{settings} SHMEM_FT_STORE={folder} SHMEM_FT_STORE_EVERY=1");
        let (counts, said) = run(&store, "", folder);
        apart(&counts, &said);
        let (counts, said) = run(settings, &format!("--resume {folder}@1"), "");
        match settings {
            "" => apart(&counts, &said),
            _ => assert!(counts.iter().any(elsewhere), "{said}"),
        }
    }
    // Without the tables pages come from the nodes of the threads that restore them.
    let (counts, said) = run(&format!("{off} SHMEM_FT_ADOPT=0"), "--kill 1@3", "");
    assert!(counts.iter().any(elsewhere), "{said}");
}
