//! One suite over every fabric of this build: transfers, order, atomics, and deaths.
//!
//! The same programs run by themselves (one PE), on memory that all map, and over each engine with
//! a node for every PE or two: what they check does not depend on what is underneath.

#[path = "../support/mod.rs"]
mod support;

use raidshmem::fabric::{built_in, names};
use raidshmem_core::inject::Point;
use raidshmem_core::settings::Fabric;

use support::jacobi::{self, TINY};
use support::{Job, program};

/// Eight PEs on four nodes, in groups of one PE of each.
fn eight(fabric: &str, mode: &str) -> Job {
    let job = Job::new(8).args(&["--nodes", "4", "--fabric", fabric]).mode(mode);
    job.env("SHMEM_FT_GROUP_SIZE", "4")
}

fn engines() -> impl Iterator<Item = &'static str> {
    built_in().iter().filter(|fabric| **fabric != Fabric::Shm).map(|fabric| fabric.name())
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
    for fabric in built_in() {
        let apart = if *fabric == Fabric::Shm { "together" } else { "apart" };
        for (pes, nodes) in [(2, "2"), (4, "2")] {
            let job = Job::new(pes).args(&["--nodes", nodes, "--fabric", fabric.name()]);
            let job = job.program(&program("litmus"), &[apart]);
            litmus(job, "litmus: all as promised");
        }
    }
}

#[test]
fn contexts_complete_their_own_operations_over_every_fabric() {
    for fabric in built_in() {
        let apart = if *fabric == Fabric::Shm { "together" } else { "apart" };
        let job = Job::new(3).args(&["--nodes", "3", "--fabric", fabric.name()]);
        litmus(job.program(&program("streams"), &[apart]), "streams: all as promised");
    }
}

#[test]
fn a_lost_process_and_a_lost_node_cost_no_byte() {
    for fabric in built_in() {
        for (mode, kills) in [("raid5", [["2@3", "5@4"]]), ("rs", [["2@3", "5@3"]])] {
            for kill in kills {
                let job = eight(fabric.name(), mode).kill(&kill);
                jacobi::job(job, TINY).run().right_sum(TINY);
            }
            let job = eight(fabric.name(), mode).kill_node(&["2@3"]);
            jacobi::job(job, TINY).run().right_sum(TINY);
        }
    }
}

/// Every named step, a process and a node in turn, each another one.
#[test]
fn a_death_at_every_step_over_an_engine_costs_no_byte() {
    for fabric in engines() {
        for (number, point) in Point::ALL.into_iter().enumerate() {
            let recovery = matches!(
                point.name(),
                "settle" | "decided" | "verify" | "rebuild" | "restore" | "reencode" | "resume"
            );
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
}

#[test]
fn the_memory_of_a_lost_process_is_adopted_on_its_node_and_that_of_a_node_rebuilt() {
    for fabric in engines() {
        let outcome = jacobi::job(eight(fabric, "raid5").args(&["-v"]).kill(&["3@3"]), TINY).run();
        outcome.right_sum(TINY).says("PE 3: memory of the dead process adopted");
        let job = eight(fabric, "raid5").args(&["-v"]).kill_node(&["1@3"]);
        let outcome = jacobi::job(job, TINY).run();
        outcome.right_sum(TINY).says("of checkpoint 3 rebuilt from PE");
    }
}

#[test]
fn a_fabric_that_is_not_built_in_is_refused_in_a_line() {
    for fabric in Fabric::ALL.into_iter().filter(|f| *f != Fabric::Auto) {
        if built_in().contains(&fabric) {
            continue;
        }
        let job = Job::new(2).args(&["--fabric", fabric.name()]).program(&program("litmus"), &[]);
        let outcome = job.run();
        let there = names(built_in());
        let line = format!("oshrun: fabric {}: not built in; there are {there}", fabric.name());
        outcome.status(2).check(outcome.err.trim_end() == line, &format!("`{line}` expected"));
    }
}

/// The libraries of a network do nothing to a program that is only linked with them, unless its
/// user wants it.
#[cfg(feature = "ucx")]
#[test]
fn signals_and_memory_of_a_program_are_its_own_whatever_the_fabric() {
    for fabric in [Fabric::Shm, Fabric::Ucx] {
        let job = || Job::new(2).args(&["--nodes", "2", "--fabric", fabric.name()]).mode("none");
        let exits = |job: Job, how: &str| job.program(&program("exits"), &[how, "0", "1"]).run();
        for (how, signal, name) in [("segfault", 11, "SIGSEGV"), ("divide", 8, "SIGFPE")] {
            let outcome = exits(job(), how);
            outcome.status(128 + signal).says(&format!("PE 1 was killed by {name}"));
            let ours = |line: &str| line.starts_with("oshrun: ");
            outcome.check(outcome.err.lines().all(ours), "no other word was expected");
        }
        let outcome = exits(job().env("UCX_HANDLE_ERRORS", "bt"), "segfault");
        outcome.says("Caught signal 11").says("PE 1 was killed by SIGSEGV");
        let outcome = exits(job().env("UCX_MEM_EVENTS", "try"), "show");
        outcome.status(0);
        let has = |word: &str| outcome.out.lines().any(|line| line == word);
        for word in ["UCX_HANDLE_ERRORS=none", "UCX_MEM_MMAP_HOOK_MODE=none", "UCX_MEM_EVENTS=try"]
        {
            outcome.check(has(word), &format!("`{word}` was expected"));
        }
        let of_the_engine = has("UCX_TLS=tcp");
        outcome.check(of_the_engine == (fabric == Fabric::Ucx), "settings are for who uses them");
    }
}
