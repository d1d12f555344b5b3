//! Jobs in a container: under the default system-call rules of Docker and Podman (listed in
//! `tests/c/contained.c`), which refuse the agent's call that gives every PE the same addresses.

use std::path::Path;

use super::support::{Job, Outcome, program, program_with};

/// The profile, and its answer to calls that it does not name.
const PROFILES: [[&str; 2]; 4] =
    [["docker", "EPERM"], ["docker", "ENOSYS"], ["podman", "EPERM"], ["podman", "ENOSYS"]];

fn printed(outcome: &Outcome) -> Vec<&str> {
    outcome.status(0);
    let mut lines: Vec<&str> = outcome.out.lines().collect();
    lines.sort_unstable();
    lines
}

/// Returns a job under a profile, after these shell commands.
fn contained(before: &str, [profile, answer]: [&str; 2], words: &[&str]) -> Job {
    let contained = program("contained");
    let words = [&["-n", "4", "--nodes", "4"], words].concat();
    let enter = format!("{before}; set -- {} {profile} {answer} \"$@\"", contained.display());
    Job::of(&words).env("SHMEM_SYMMETRIC_SIZE", "16M").mode("raid5").after(&enter)
}

fn undisturbed(program: &Path, words: &[&str]) -> Outcome {
    Job::new(4).args(&["--nodes", "4"]).mode("raid5").program(program, words).run()
}

/// Addresses of functions, tables and variables are valid in the substitute.
#[test]
fn a_lost_node_resumes_with_the_addresses_that_its_memory_holds() {
    let tables = program("tables");
    let expected = undisturbed(&tables, &[]);
    for profile in PROFILES {
        for loss in [["--kill-node", "2@3"], ["--kill", "1@4:copy"]] {
            let outcome = contained(":", profile, &loss).program(&tables, &[]).run();
            assert_eq!(printed(&outcome), printed(&expected), "{profile:?} {loss:?}\n{outcome}");
            outcome.check(!outcome.err.contains("random addresses"), "the addresses are not ours");
        }
    }
}

/// With a limit on its address space a program keeps the kernel's addresses.
const LIMITED: &str = "ulimit -v 1000000000";

#[test]
fn a_substitute_whose_addresses_differ_is_refused_with_a_line() {
    for loss in [["--kill-node", "2@3"], ["--kill", "2@3"]] {
        let outcome =
            contained(LIMITED, PROFILES[0], &loss).program(&program("tables"), &["plain"]).run();
        outcome.status(3).says("lie at random addresses, because personality(ADDR_NO_RANDOMIZE)");
        outcome.says("PE 2 cannot roll back to checkpoint 3: memory may hold at 0x");
        outcome.check(outcome.count("unrecoverable") == 1, "one line");
        outcome.check(outcome.out.is_empty(), "no results");
    }
}

#[test]
fn a_program_that_keeps_no_addresses_in_libraries_continues_at_random_ones() {
    let tables = program_with("tables", &["-fno-pie", "-no-pie"]);
    let expected = undisturbed(&tables, &["plain"]);
    for profile in PROFILES {
        let outcome =
            contained(LIMITED, profile, &["--kill-node", "2@3"]).program(&tables, &["plain"]).run();
        outcome.says("lie at random addresses");
        assert_eq!(printed(&outcome), printed(&expected), "{outcome}");
    }
}
