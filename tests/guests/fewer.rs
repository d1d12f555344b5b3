//! Jobs in shrink mode over RDMA: the programs that run on one machine (`tests/process/fewer.rs`).

use crate::programs::alone;
use crate::support::program;

/// Each line is a program with its arguments, options of `oshrun`, and what the job prints.
const JOBS: [(&str, &str, &[&str]); 5] = [
    (
        "farm 100 1@1 3@2",
        "-n 4 --nodes 4",
        &["PEs 1,3 were lost, and the remaining PEs finished", "100 tasks done, 2 PEs at the end"],
    ),
    ("twice 0 20000000", "-n 6 --nodes 6", &["4 writers died, "]),
    ("sweep 1 400000", "-n 4 --nodes 4", &[" is left, with "]),
    ("degraded rounds 1 3", "-n 4 --nodes 4 --mode raid5", &["rounds: as it should be"]),
    (
        "degraded point",
        "-n 4 --nodes 4 --mode raid5 --kill-node 1@3:copy",
        &["node 1 was lost with PE 1", "has read checkpoint 3"],
    ),
];

#[test]
fn processes_and_nodes_are_lost_and_the_others_go_on() {
    let (_switch, mut guest) = alone("fewer", &["farm", "twice", "sweep", "degraded"]);
    let oshrun = env!("CARGO_BIN_EXE_oshrun");
    let mode = "SHMEM_FT_SUBSTITUTE=shrink SHMEM_FT_ROLLBACK=none SHMEM_SYMMETRIC_SIZE=8M";
    for (line, options, says) in JOBS {
        let (name, args) = line.split_once(' ').expect("arguments");
        let path = program(name);
        let job = format!("{oshrun} {options} --fabric verbs {} {args}", path.display());
        let said = guest.must(&format!("{mode} {job} 2>&1"));
        says.iter().for_each(|text| assert!(said.contains(text), "{text}: {said}"));
    }
}
