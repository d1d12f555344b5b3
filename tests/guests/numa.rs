//! A machine with two NUMA nodes: PEs are bound, their memory is local to them, and groups span
//! both when each is a node of the job.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::machine::{self, Guest, Plan};
use crate::programs::archive;
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
/// The settings of jobs of the program `spread`.
const SPREAD: &str = "SHMEM_SYMMETRIC_SIZE=16M SHMEM_FT_BACKUP_MODE=raid5 SHMEM_FT_GROUP_SIZE=2";
/// Pages of the heap that the program examines, all of which are saved.
const PAGES: usize = 256;

/// Boots a guest with two NUMA nodes, `oshrun` and the program `name`.
pub fn boot(switch: &Switch, name: &str) -> (Guest, PathBuf) {
    let program = program(name);
    let payload = archive(&format!("numa-{name}"), &[name]);
    let mut guest = plan(1, &payload).boot(switch);
    guest.ready();
    (guest, program)
}

/// Returns the plan of a guest with two NUMA nodes and these files.
fn plan(number: u8, payload: &Path) -> Plan {
    let words = NODES.iter().map(|word| (*word).to_owned()).collect();
    Plan { cpus: 4, memory: 768, words, ..Plan::new(number) }.with(payload)
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

/// Pages of a PE on each NUMA node, at least, in the program `spread`.
const HALF: usize = 1037;

/// The program's report on the pages of a PE.
#[derive(Debug)]
struct Spread {
    pages: usize,
    /// Those on the NUMA node where they were before the loss.
    there: usize,
    /// Those on each NUMA node.
    on: [usize; 2],
}

impl Spread {
    /// Reads the reports of two PEs.
    #[track_caller]
    fn of(said: &str) -> [Spread; 2] {
        let number = |words: &[&str], at: usize| words[at].parse().expect("a number");
        let lines = said.lines().filter(|line| line.starts_with("spread "));
        let spreads = lines.map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [pages, there, first, second] = [3, 5, 7, 8].map(|at| number(&words, at));
            Spread { pages, there, on: [first, second] }
        });
        let spreads: Vec<Spread> = spreads.collect();
        spreads.try_into().unwrap_or_else(|_| panic!("not two PEs: {said}"))
    }

    fn is_restored(&self) -> bool {
        self.there * 100 >= self.pages * 99 && self.on.iter().all(|&on| on >= HALF)
    }
}

/// Pages of a PE whose threads run on both NUMA nodes are where they were, though its memory is
/// made again: by the loss of its process or its node, or by a job that begins from disk. Without
/// the table of them they are not.
#[test]
fn pages_of_a_pe_on_two_numa_nodes_are_on_them_again() {
    let switch = Switch::new();
    let (mut guest, program) = boot(&switch, "spread");
    let (oshrun, program) = (env!("CARGO_BIN_EXE_oshrun"), program.display());
    let mut run = |settings: &str, words: &str, folder: &str| {
        let words = format!("-n 2 --nodes 2 --bind none {words}");
        guest.must(&format!("{SPREAD} {settings} {oshrun} {words} {program} {folder} 2>&1"))
    };
    for (settings, fault) in
        [("", ""), ("", "--kill 1@3"), ("SHMEM_FT_ADOPT=0", "--kill 1@3"), ("", "--kill-node 1@3")]
    {
        let said = run(settings, fault, "");
        assert!(Spread::of(&said).iter().all(Spread::is_restored), "{settings} {fault}: {said}");
    }
    let off = "SHMEM_FT_AFFINITY=0";
    for (settings, folder, version) in [("", "/tmp/with", 6), (off, "/tmp/without", 3)] {
        let store = format!("{settings} SHMEM_FT_STORE={folder} SHMEM_FT_STORE_EVERY=1");
        let shown = format!("echo version $(od -An -tu1 -j8 -N1 {folder}/set-1/manifest)");
        let said = run(&store, "", &format!("{folder} && {shown}"));
        assert!(said.contains(&format!("version {version}\n")), "{said}");
        let said = run(settings, &format!("--resume {folder}@1"), "");
        let restored = Spread::of(&said).iter().all(Spread::is_restored);
        assert_eq!(restored, settings.is_empty(), "{settings}: {said}");
    }
    // Without the tables pages come from the nodes of the threads that restore them.
    let said = run(&format!("{off} SHMEM_FT_ADOPT=0"), "--kill 1@3", "");
    assert!(!Spread::of(&said).iter().all(Spread::is_restored), "{said}");
}

/// The pages of a PE that is lost with its host are on the same NUMA nodes of another one.
#[test]
fn pages_are_on_their_numa_nodes_on_another_host() {
    let (payload, program) = (archive("spread", &["spread"]), program("spread"));
    let switch = Switch::new();
    let mut guests = [1, 2, 3].map(|number| plan(number, &payload).boot(&switch));
    guests.iter_mut().for_each(|guest| guest.ready());
    let [first, second, spare] = [1, 2, 3].map(machine::address);
    let hosts = format!("--hosts {first}:1,{second}:1,{spare}:0 --launch-agent 'on {{host}}'");
    let (oshrun, program) = (env!("CARGO_BIN_EXE_oshrun"), program.display());
    for (settings, restores) in [("", true), ("SHMEM_FT_AFFINITY=0", false)] {
        let words = format!("{hosts} --fabric verbs --kill-node 1@3");
        let said = guests[0].must(&format!("{SPREAD} {settings} {oshrun} {words} {program} 2>&1"));
        let restored = Spread::of(&said).iter().all(Spread::is_restored);
        assert_eq!(restored, restores, "{settings}: {said}");
    }
}
