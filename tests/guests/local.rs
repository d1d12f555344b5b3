//! Local rollback over RDMA: a process dies before some of its calls, or a node is lost with one or
//! two PEs that no other maps. Only these roll back, and all bytes are those of a run without a
//! loss.

use std::path::Path;

use crate::machine::Guest;
use crate::programs::alone;
use crate::support::program;

/// Each program with the calls before which PE 1 dies.
const PROGRAMS: [(&str, &[u32]); 3] = [
    ("local_rollback", &[1, 23]),
    ("local_rollback_words", &[11]),
    ("local_rollback_teams", &[12]),
];

/// Three PEs on nodes of their own, or four on two nodes.
const PLACES: [&str; 2] = ["-n 3 --nodes 3", "-x SHMEM_FT_MAP=0 -n 4 --nodes 2 --group 2"];

/// Runs a job in which PE 1 is lost before a call, 0 for none. Returns its output and its sum.
fn run(guest: &mut Guest, (places, program): (&str, &Path), how: &str) -> (String, String) {
    let oshrun = env!("CARGO_BIN_EXE_oshrun");
    let settings = "SHMEM_FT_ROLLBACK=local SHMEM_FT_BACKUP_MODE=raid5 SHMEM_SYMMETRIC_SIZE=4M";
    let options = format!("{places} --fabric verbs");
    let program = program.display();
    let said = guest.must(&format!("{settings} {oshrun} {options} {program} 1 {how} 2>&1"));
    let sum = said.lines().find(|line| line.starts_with("sum ")).map(str::to_owned);
    let sum = sum.unwrap_or_else(|| panic!("no sum: {said}"));
    (said, sum)
}

#[test]
fn pes_that_are_lost_roll_back_alone() {
    let (_switch, mut guest) = alone("local", &PROGRAMS.map(|(name, _)| name));
    for (nth, (name, calls)) in PROGRAMS.into_iter().enumerate() {
        let program = program(name);
        for (places, lost) in PLACES.into_iter().zip([1, 2]) {
            let on = (places, &*program);
            let (_, whole) = run(&mut guest, on, "0");
            let process = |&call: &u32| (call.to_string(), 1);
            let deaths = calls.iter().map(process).filter(|_| lost == 1);
            for (how, lost) in deaths.chain([(format!("{} node", 20 + 3 * nth), lost)]) {
                let (said, sum) = run(&mut guest, on, &how);
                assert_eq!(sum, whole, "{how}: {said}");
                let alone = said.matches("rolled back locally").count();
                assert_eq!(alone, lost, "{places}, {how}: {said}");
                assert!(!said.contains("all PEs roll back"), "{places}, {how}: {said}");
            }
        }
    }
}
