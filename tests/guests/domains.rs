//! Failure domains without configuration: guests whose firmware reports the same chassis, and
//! agents that share the NUMA nodes of a guest.

use std::path::Path;

use crate::machine::{self, Guest, Plan};
use crate::support::{jacobi, program};
use crate::switch::Switch;
use crate::{image, numa};

/// Returns what `--report-placement` prints for a job of the example program.
fn report(guest: &mut Guest, program: &Path, words: &str) -> String {
    let oshrun = env!("CARGO_BIN_EXE_oshrun");
    let mode = "SHMEM_FT_BACKUP_MODE=raid5 SHMEM_SYMMETRIC_SIZE=4M";
    let (program, args) = (program.display(), jacobi::TINY.join(" "));
    guest.must(&format!("{mode} {oshrun} --report-placement {words} {program} {args}"))
}

/// Returns the cells of the column `name` for each PE.
fn column<'a>(report: &'a str, name: &str) -> Vec<&'a str> {
    let mut rows = report.lines().skip_while(|line| !line.starts_with("PE"));
    let head = rows.next().unwrap_or_else(|| panic!("no table: {report}"));
    let start = head.find(name).unwrap_or_else(|| panic!("no column {name}: {report}"));
    let row = |line: &'a str| line.get(start..)?.split_whitespace().next();
    rows.take_while(|line| line.starts_with(|c: char| c.is_ascii_digit())).filter_map(row).collect()
}

#[test]
fn blades_of_one_chassis_are_a_domain() {
    let program = program("jacobi");
    let payload = image::add("domains", &[Path::new(env!("CARGO_BIN_EXE_oshrun")), &program]);
    let switch = Switch::new();
    let boot = |(number, chassis): (u8, &str)| {
        let words = vec!["-smbios".to_owned(), format!("type=3,serial={chassis}")];
        Plan { words, ..Plan::new(number) }.with(&payload).boot(&switch)
    };
    let mut guests = [(1, "ENC-7"), (2, "ENC-7"), (3, "ENC-9")].map(boot);
    guests.iter_mut().for_each(Guest::ready);
    let hosts = [1, 2, 3].map(machine::address).join(",");
    let words = format!("-n 3 --hosts {hosts} --launch-agent 'on {{host}}' --fabric verbs");
    let said = report(&mut guests[0], &program, &words);
    assert_eq!(column(&said, "chassis"), ["ENC-7", "ENC-7", "ENC-9"], "{said}");
    let sources = "failure domains: node, chassis (by the serial numbers of firmware)";
    assert!(said.contains(sources), "{said}");
    assert!(said.contains("not of a whole chassis"), "{said}");
}

#[test]
fn agents_that_share_a_numa_node_are_a_domain() {
    let switch = Switch::new();
    let (mut guest, program) = numa::boot(&switch, "jacobi");
    let said = report(&mut guest, &program, "-n 4 --nodes 4");
    assert_eq!(column(&said, "NUMA node"), ["0", "0", "1", "1"], "{said}");
    assert!(said.contains("failure domains: node, "), "{said}");
    // Each group has a member on both NUMA nodes.
    let said = report(&mut guest, &program, "-x SHMEM_FT_GROUP_SIZE=2 -n 4 --nodes 4");
    let groups = column(&said, "group");
    assert!(groups[0] != groups[1] && groups[2] != groups[3], "{said}");
    assert!(said.contains("and of any one node or NUMA node"), "{said}");
}
