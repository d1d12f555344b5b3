//! A machine with control groups of version 2: a checkpoint has the memory that they leave. Version
//! 1 is tested on the machine that the tests run on.

use std::path::Path;

use crate::image;
use crate::machine::Plan;
use crate::support::program;
use crate::switch::Switch;

const GROUPS: &str = "/sys/fs/cgroup";

/// Four PEs take 263 MiB for a checkpoint.
#[test]
fn limits_of_the_own_group_and_of_those_above_it_are_honoured() {
    let switch = Switch::new();
    let (oshrun, large) = (env!("CARGO_BIN_EXE_oshrun"), program("large"));
    let payload = image::add("groups", &[Path::new(oshrun), &large]);
    let mut guest = Plan { memory: 1536, ..Plan::new(1) }.with(&payload).boot(&switch);
    guest.ready();
    let made = format!("mount -t cgroup2 groups {GROUPS} && mkdir -p {GROUPS}/above/own");
    let handed = [GROUPS.to_owned(), format!("{GROUPS}/above")]
        .map(|group| format!("echo +memory > {group}/cgroup.subtree_control"));
    guest.must(&format!("{made} && {}", handed.join(" && ")));
    let enter = format!("echo $$ > {GROUPS}/above/own/cgroup.procs");
    let job = format!("exec {oshrun} -n 4 {} ask 24", large.display());
    let settings = "SHMEM_SYMMETRIC_SIZE=32M SHMEM_FT_BACKUP_MODE=raid5";
    for (file, limit, fits) in [
        ("above/own/memory.max", "220M", false),
        ("above/own/memory.max", "700M", true),
        ("above/own/memory.high", "220M", false),
        ("above/memory.max", "220M", false),
        ("above/memory.high", "700M", true),
    ] {
        guest.must(&format!("echo {limit} > {GROUPS}/{file}"));
        let said = guest.must(&format!("{settings} sh -c '{enter} && {job}'"));
        guest.must(&format!("echo max > {GROUPS}/{file}"));
        let count = |what: &dyn Fn(&str) -> bool| said.lines().filter(|line| what(line)).count();
        assert_eq!(count(&|line| line.ends_with(" is done")), 4, "{file}: {said}");
        let refused = "is refused: checkpoint refused: PEs 0-3 need 2";
        let expected = if fits { 0 } else { 4 };
        assert_eq!(count(&|line| line.contains(refused)), expected, "{file}, {limit}: {said}");
    }
}
