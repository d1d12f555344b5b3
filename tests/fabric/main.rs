//! One suite over every fabric of this machine: transfers, order, atomics, and deaths; and the
//! libraries loaded for each of them ([`loading`]).
//!
//! The same programs run alone (one PE), on memory that all map, and over each engine with one or
//! two PEs per node: their checks do not depend on the fabric.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod loading;

use raidshmem_core::inject::Point;

use support::jacobi::{self, TINY};
use support::{Job, networks, program};

/// Returns a job of eight PEs on four nodes, with groups of one PE from each.
fn eight(fabric: &str, mode: &str) -> Job {
    let job = Job::new(8).args(&["--nodes", "4", "--fabric", fabric]).mode(mode);
    job.env("SHMEM_FT_GROUP_SIZE", "4")
}

/// Returns the fabrics that this machine supports.
fn fabrics() -> impl Iterator<Item = &'static str> {
    ["shm"].into_iter().chain(networks())
}

#[track_caller]
fn litmus(job: Job, says: &str) {
    let outcome = job.run();
    outcome.status(0).check(outcome.out.contains(says), &format!("`{says}` expected"));
}

#[test]
fn a_pe_alone_reaches_itself() {
    litmus(Job::new(1).program(&program("litmus"), &[]), "litmus: all as promised");
}

#[test]
fn transfers_order_and_atomics_are_as_promised_over_every_fabric() {
    for fabric in fabrics() {
        let apart = if fabric == "shm" { "together" } else { "apart" };
        for (pes, nodes) in [(2, "2"), (4, "2")] {
            let job = Job::new(pes).args(&["--nodes", nodes, "--fabric", fabric]);
            let job = job.program(&program("litmus"), &[apart]);
            litmus(job, "litmus: all as promised");
        }
    }
}

#[test]
fn contexts_complete_their_own_operations_over_every_fabric() {
    for fabric in fabrics() {
        let apart = if fabric == "shm" { "together" } else { "apart" };
        let job = Job::new(3).args(&["--nodes", "3", "--fabric", fabric]);
        litmus(job.program(&program("streams"), &[apart]), "streams: all as promised");
    }
}

/// Neither the path from the call to the library nor the library allocates on a program's thread.
#[test]
fn puts_of_a_word_to_another_node_take_no_memory() {
    for fabric in networks() {
        let job = Job::new(2).args(&["--nodes", "2", "--fabric", fabric]).mode("none");
        litmus(job.program(&program("short"), &[]), "short: all as promised");
    }
}

#[test]
fn a_lost_process_and_a_lost_node_lose_no_byte() {
    for fabric in fabrics() {
        for (mode, kills) in [("raid5", [["2@3", "5@4"]]), ("rs", [["2@3", "5@3"]])] {
            for kill in kills {
                let job = eight(fabric, mode).kill(&kill);
                jacobi::job(job, TINY).run().right_sum(TINY);
            }
            let job = eight(fabric, mode).kill_node(&["2@3"]);
            jacobi::job(job, TINY).run().right_sum(TINY);
        }
    }
}

/// Every named step, a process and a node in turn, a different one each time.
#[test]
fn a_death_at_every_step_over_an_engine_loses_no_byte() {
    let networks = networks();
    let is_passed = |point: &Point| point.is_checkpoint() || point.is_recovery();
    for (number, point) in Point::ALL.into_iter().filter(is_passed).enumerate() {
        let Some(fabric) = networks.get(number / 2 % networks.len().max(1)) else { return };
        let recovery = point.is_recovery();
        let (pe, node) = (number % 8, number % 4);
        let mut job = eight(fabric, "rs");
        if recovery {
            job = job.kill(&[&format!("{}@3", (pe + 1) % 8)]);
        }
        let checkpoint = if recovery { 3 } else { 4 };
        let job = if number % 2 == 0 {
            job.kill(&[&format!("{pe}@{checkpoint}:{}", point.name())])
        } else {
            job.kill_node(&[&format!("{node}@{checkpoint}:{}", point.name())])
        };
        jacobi::job(job, TINY).run().right_sum(TINY);
    }
}

#[test]
fn the_memory_of_a_lost_process_is_adopted_on_its_node_and_that_of_a_node_rebuilt() {
    for fabric in networks() {
        let job = || eight(fabric, "raid5").args(&["-v"]);
        let outcome = jacobi::job(job().kill(&["3@3"]), TINY).run();
        outcome.right_sum(TINY).says("PE 3: memory of the dead process adopted");
        let outcome = jacobi::job(job().kill_node(&["1@3"]), TINY).run();
        outcome.right_sum(TINY).says("of checkpoint 3 rebuilt from PE");
    }
}

/// A network library has no effect on a program that runs over another fabric, and only the
/// necessary effects over its own, unless the user enables more.
#[test]
fn signals_and_memory_of_a_program_are_its_own_whatever_the_fabric() {
    for fabric in fabrics() {
        let job = || Job::new(2).args(&["--nodes", "2", "--fabric", fabric]).mode("none");
        let exits = |job: Job, how: &str| job.program(&program("exits"), &[how, "0", "1"]).run();
        for (how, signal, name) in [("segfault", 11, "SIGSEGV"), ("divide", 8, "SIGFPE")] {
            let outcome = exits(job(), how);
            outcome.status(128 + signal).says(&format!("PE 1 was killed by {name}"));
            let ours = |line: &str| line.starts_with("oshrun: ");
            outcome.check(outcome.err.lines().all(ours), "no other word was expected");
        }
        let over_it = fabric == "ucx";
        let outcome = exits(job().env("UCX_HANDLE_ERRORS", "bt"), "segfault");
        outcome.says("PE 1 was killed by SIGSEGV");
        let caught = outcome.count("Caught signal 11") > 0;
        outcome.check(caught == over_it, "who asks UCX for it and runs over it has it");
        let outcome = exits(job().env("UCX_MEM_EVENTS", "try"), "show");
        outcome.status(0);
        let has = |word: &str| outcome.out.lines().any(|line| line == word);
        outcome.check(has("UCX_MEM_EVENTS=try"), "what the user sets holds");
        for word in ["UCX_HANDLE_ERRORS=none", "UCX_MEM_MMAP_HOOK_MODE=none", "UCX_TLS=tcp"] {
            outcome.check(has(word) == over_it, &format!("`{word}` is for who uses it"));
        }
    }
}
