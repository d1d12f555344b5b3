//! Placement of PEs and their memory, as the kernel reports it.

use std::collections::BTreeMap;

use raidshmem_core::machine::list;
use raidshmem_sys::machine;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::support::{Job, Outcome, program};

/// The processors and NUMA node of each PE, as the program found them.
struct Bindings(BTreeMap<usize, (Vec<usize>, String)>);

impl Bindings {
    #[track_caller]
    fn of(outcome: &Outcome) -> Bindings {
        outcome.status(0);
        let line = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            outcome.check(words.len() == 14 && words[0] == "binding", line);
            let pe = words[1].parse().expect("a number");
            (pe, (list(words[3]), words[5].to_owned()))
        };
        Bindings(outcome.out.lines().map(line).collect())
    }

    fn cpus(&self, pe: usize) -> &[usize] {
        &self.0[&pe].0
    }
}

fn run(pes: usize, words: &[&str]) -> Bindings {
    let job = Job::new(pes).args(words).program(&program("binding"), &[]);
    Bindings::of(&job.run())
}

fn usable() -> Vec<usize> {
    let mut cpus: Vec<usize> =
        machine::discover().processors.iter().map(|processor| processor.cpu).collect();
    cpus.sort_unstable();
    cpus
}

#[test]
fn as_many_pes_as_processors_have_one_each() {
    let usable = usable();
    for nodes in [1, usable.len().min(2)] {
        let bindings = run(usable.len(), &["--nodes", &nodes.to_string()]);
        let mut all: Vec<usize> =
            (0..usable.len()).flat_map(|pe| bindings.cpus(pe).to_vec()).collect();
        all.sort_unstable();
        assert_eq!(all, usable, "each is used once");
    }
}

/// The program fails itself if a page is not local; here the lists are compared.
#[test]
fn one_pe_has_all_and_too_many_are_not_bound() {
    let usable = usable();
    assert_eq!(run(1, &[]).cpus(0), usable);
    let crowd = usable.len() + 1;
    let bindings = run(crowd, &[]);
    assert!((0..crowd).all(|pe| bindings.cpus(pe) == usable));
    let told = run(crowd, &["--bind", "core"]);
    assert!((0..crowd).all(|pe| told.cpus(pe).len() == 1), "unless told");
    let none = run(usable.len(), &["--bind", "none"]);
    assert!((0..usable.len()).all(|pe| none.cpus(pe) == usable));
}

#[test]
fn a_mask_is_respected() {
    let first = usable()[0];
    let before = sched_getaffinity(None).expect("every thread has one");
    let mut mask = CpuSet::new();
    mask.set(first);
    sched_setaffinity(None, &mask).expect("a part of its own");
    let bindings = ["auto", "core", "none"].map(|bind| run(2, &["--bind", bind]));
    sched_setaffinity(None, &before).expect("what it was");
    for bindings in bindings {
        assert_eq!([bindings.cpus(0), bindings.cpus(1)], [[first], [first]]);
    }
}

#[test]
fn the_placement_is_printed() {
    let text = "[rack]\nleft = ['node[0-1]']\nright = ['node[2-3]']\n";
    let name = format!("{}-report.toml", std::process::id());
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("a file for the test");
    let words = ["--nodes", "4", "--report-placement", "--bind", "none"];
    let job = Job::new(8).mode("raid5").args(&words);
    let job = job.env("SHMEM_FT_DOMAINS", path.to_str().expect("plain names"));
    let outcome = job.program(&program("binding"), &[]).run();
    let _ = std::fs::remove_file(&path);
    outcome.status(0);
    let wanted = [
        "PE  node   rack   group  cpus  NUMA",
        "0   node0  left   0      any   any",
        "7   node3  right  3      any   any",
        "raid5: 4 groups of 2, parity 1: survives the loss of any 1 PE per group, and of any one \
         node or rack",
    ];
    for line in wanted {
        outcome.check(outcome.err.lines().any(|said| said == line), line);
    }
    Job::of(&["-n", "2", "--bind", "socket", "true"])
        .run()
        .status(2)
        .says("--bind socket: expected auto, core, none");
}

/// Returns the CPU mask of each thread of each PE at the end.
fn masks(how: &str, words: &[&str], affinity: &str) -> (Vec<String>, Outcome) {
    let job = Job::new(3).mode("raid5").args(words).env("SHMEM_FT_AFFINITY", affinity);
    let outcome = job.args(&["--bind", "none"]).program(&program("affinity"), &[how]).run();
    outcome.status(0);
    let lines = outcome.out.lines().filter(|line| line.starts_with("affinity "));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort_unstable();
    outcome.check(lines.len() == 9, "three PEs of three threads");
    (lines, outcome)
}

/// A substitute does not bind its threads itself: their masks were restored.
#[test]
fn threads_of_a_substitute_get_their_processors_back() {
    let first_and_last = usable().len() > 1;
    let (before, _) = masks("once", &[], "1");
    for (how, kill) in [("once", "1@3"), ("late", "2@3"), ("once", "0@4:encode")] {
        let (after, outcome) = masks(how, &["--kill", kill], "1");
        outcome.says("was killed");
        assert_eq!(after, before, "{how}, {kill}: {outcome}");
        let (off, _) = masks(how, &["--kill", kill], "0");
        assert_eq!(off == before, !first_and_last, "switched off: {how}, {kill}");
    }
}
