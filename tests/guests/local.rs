//! Local rollback over RDMA: a process dies before some of its calls, rolls back alone, and all
//! bytes are those of a run without a loss.

use std::path::Path;

use crate::machine::Guest;
use crate::programs::alone;
use crate::support::program;

/// Each program with the calls before which PE 1 dies.
const PROGRAMS: [(&str, &[u32]); 3] = [
    ("local_rollback", &[1, 9, 23]),
    ("local_rollback_words", &[2, 11]),
    ("local_rollback_teams", &[12]),
];

/// Runs a job in which PE 1 dies before a call, 0 for none. Returns its output and its sum.
fn run(guest: &mut Guest, program: &Path, call: u32) -> (String, String) {
    let oshrun = env!("CARGO_BIN_EXE_oshrun");
    let settings = "SHMEM_FT_ROLLBACK=local SHMEM_FT_BACKUP_MODE=raid5 SHMEM_SYMMETRIC_SIZE=4M";
    let options = "-n 3 --nodes 3 --fabric verbs";
    let program = program.display();
    let said = guest.must(&format!("{settings} {oshrun} {options} {program} 1 {call} 2>&1"));
    let sum = said.lines().find(|line| line.starts_with("sum ")).map(str::to_owned);
    let sum = sum.unwrap_or_else(|| panic!("no sum: {said}"));
    (said, sum)
}

#[test]
fn a_process_that_dies_rolls_back_alone() {
    let (_switch, mut guest) = alone("local", &PROGRAMS.map(|(name, _)| name));
    for (name, calls) in PROGRAMS {
        let program = program(name);
        let (_, whole) = run(&mut guest, &program, 0);
        for &call in calls {
            let (said, sum) = run(&mut guest, &program, call);
            assert_eq!(sum, whole, "call {call}: {said}");
            assert!(said.contains("PE 1 rolled back locally"), "call {call}: {said}");
            assert!(!said.contains("all PEs roll back"), "call {call}: {said}");
        }
    }
}
