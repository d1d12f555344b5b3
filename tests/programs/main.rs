//! The programs in `examples/c` and `examples/cxx`: each is right alone and with several PEs, and
//! the applications reach the same checksum when PEs or a node are killed on the way. Those of the
//! chapter about porting print its output ([`porting`]); some applications are killed from outside
//! ([`applications`]).
//!
//! A program checks its own result and ends with `name: ok`, an application with
//! `name: ok checksum=...`, which is compared between runs.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod applications;
mod build;
mod library;
#[path = "../../benches/applications/lines.rs"]
mod lines;
mod locks;
mod plan;
mod pointers;
mod porting;
mod restarts;

use build::{C, CXX, build};
use support::{Job, Outcome};

/// A program for each family of calls.
const FAMILIES: &[&str] = &[
    "rma",
    "blocks",
    "atomics",
    "signals",
    "waits",
    "collectives",
    "teams",
    "contexts",
    "locks",
    "memory",
    "active_sets",
    "threads",
];

/// Applications, each with a checkpoint at which it is well under way on four PEs.
const APPLICATIONS: &[(&str, u32)] = &[
    ("isort", 4),
    ("matmul", 4),
    ("transpose", 5),
    ("mandelbrot", 4),
    ("cg", 6),
    ("bfs", 5),
    ("himeno", 4),
    ("hash", 4),
    ("amr", 5),
];

/// Returns the rest of the program's last line after `name: ok`.
#[track_caller]
fn ok<'a>(outcome: &'a Outcome, name: &str) -> &'a str {
    outcome.status(0);
    let begin = format!("{name}: ok");
    let mut lines = outcome.out.lines().filter_map(|line| line.strip_prefix(&begin));
    let (line, more) = (lines.next(), lines.next());
    outcome.check(line.is_some() && more.is_none(), &format!("one line `{begin}` was expected"));
    line.unwrap_or_default()
}

#[test]
fn every_family_of_calls_on_one_to_five_pes() {
    for name in FAMILIES {
        let program = build(C, name);
        let sizes: &[usize] = match *name {
            "collectives" | "teams" | "active_sets" => &[1, 2, 3, 4, 5],
            _ => &[1, 2, 4],
        };
        for &pes in sizes {
            ok(&Job::new(pes).program(&program, &[]).run(), name);
        }
    }
}

#[test]
fn programs_in_cxx() {
    for name in ["overloads", "raii", "md", "waves"] {
        let program = build(CXX, name);
        for pes in [1, 2, 4] {
            ok(&Job::new(pes).program(&program, &[]).run(), name);
        }
    }
    let job = |kill| Job::new(4).mode("raid5").args(&["--verbose"]).kill(&[kill]);
    for kill in ["1@3:encode", "0@6:copied", "2@7"] {
        recovered_once(&job(kill).program(&build(CXX, "raii"), &[]).run(), "raii");
    }
    // After the last checkpoint: the others are on their way out.
    ok(&job("2@8").program(&build(CXX, "raii"), &[]).run(), "raii");
}

/// A PE is lost between two checkpoints, in a step: the others throw, and all continue from the
/// checkpoint before the ten steps.
#[test]
fn ten_steps_in_cxx_between_checkpoints_are_repeated() {
    let program = build(CXX, "waves");
    let job = || Job::new(4).mode("raid5").args(&["--verbose", "--nodes", "4"]);
    let undisturbed = job().program(&program, &[]).run();
    let right = ok(&undisturbed, "waves");
    undisturbed.says("22 checkpoints took");
    for (pe, step, checkpoint) in
        [("0", "0", 1), ("1", "3", 1), ("0", "50", 6), ("2", "57", 6), ("3", "199", 20)]
    {
        let outcome = job().program(&program, &[pe, step]).run();
        outcome.check(recovered_once(&outcome, "waves") == right, &format!("as `{right}`"));
        outcome.says(&format!("all PEs resume from checkpoint {checkpoint} "));
        let local = job().env("SHMEM_FT_ROLLBACK", "local").program(&program, &[pe, step]).run();
        local.check(ok(&local, "waves") == right, &format!("as `{right}`"));
        local.says(&format!("PE {pe} rolled back locally to checkpoint {checkpoint} "));
    }
    for killed in [
        job().kill(&["1@3:encode"]),
        job().kill(&["0@6:copied", "3@21:before"]),
        job().kill_node(&["2@6:after"]).with_orphans(),
    ] {
        let outcome = killed.program(&program, &[]).run();
        outcome.check(ok(&outcome, "waves") == right, &format!("as `{right}`"));
        outcome.says("all PEs resume from checkpoint");
    }
    // After the last checkpoint: the others are on their way out.
    ok(&job().kill(&["2@22"]).program(&program, &[]).run(), "waves");
}

#[test]
fn molecular_dynamics_come_to_the_same_positions_whatever_is_killed() {
    let program = build(CXX, "md");
    let job = || Job::new(4).mode("raid5").args(&["--verbose", "--nodes", "4"]);
    let undisturbed = job().program(&program, &[]).run();
    let right = ok(&undisturbed, "md");
    let local = || job().env("SHMEM_FT_ROLLBACK", "local");
    for killed in [
        job().kill(&["1@3:encode"]),
        job().kill_node(&["2@6:after"]).with_orphans(),
        local().kill(&["3@5:before"]),
    ] {
        let outcome = killed.program(&program, &[]).run();
        outcome.check(ok(&outcome, "md") == right, &format!("without a loss: {right}"));
    }
}

#[test]
fn a_program_in_cxx_continues_with_fewer_pes() {
    let job = Job::new(4).env("SHMEM_FT_SUBSTITUTE", "shrink").env("SHMEM_FT_ROLLBACK", "none");
    let outcome = job.mode("raid5").program(&build(CXX, "fewer"), &[]).run();
    ok(&outcome, "fewer");
    outcome.says("PE 1 was lost, and the remaining PEs finished");
}

/// A program started without `oshrun` is a single PE.
#[test]
fn without_the_launcher_a_program_is_one_pe() {
    for name in ["collectives", "isort"] {
        let output = std::process::Command::new(build(C, name))
            .env_remove("LD_LIBRARY_PATH")
            .output()
            .expect("it was built");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.starts_with(&format!("{name}: ok")), "{text}");
    }
}

#[track_caller]
fn recovered_once<'a>(outcome: &'a Outcome, name: &str) -> &'a str {
    let sum = ok(outcome, name);
    let recoveries = outcome.count("all PEs resume from checkpoint");
    outcome.check(recoveries == 1, "one recovery was expected");
    sum
}

#[test]
fn applications_on_one_to_five_pes() {
    for &(name, _) in APPLICATIONS {
        let program = build(C, name);
        let sums: Vec<String> = (1..=5)
            .map(|pes| ok(&Job::new(pes).program(&program, &[]).run(), name).to_owned())
            .collect();
        // These compute the same sum with any number of PEs.
        if ["matmul", "mandelbrot", "bfs", "himeno", "amr"].contains(&name) {
            assert!(sums.iter().all(|sum| *sum == sums[0]), "{name}: {sums:?}");
        }
    }
}

/// All their calls are logged.
#[test]
fn applications_reach_equal_sums_with_local_rollback() {
    for &(name, checkpoint) in APPLICATIONS {
        let program = build(C, name);
        let job = || Job::new(4).mode("raid5").env("SHMEM_FT_ROLLBACK", "local");
        let undisturbed = job().args(&["--verbose"]).program(&program, &[]).run();
        let right = ok(&undisturbed, name);
        for kill in [format!("1@{checkpoint}:before"), format!("0@{}:before", checkpoint + 1)] {
            let outcome = job().args(&["--verbose"]).kill(&[&kill]).program(&program, &[]).run();
            outcome.check(ok(&outcome, name) == right, &format!("the sum without a loss: {right}"));
            outcome.check(outcome.count("rolled back locally to checkpoint") == 1, "it is local");
        }
    }
}

#[test]
fn applications_reach_equal_sums_whatever_is_killed() {
    for &(name, checkpoint) in APPLICATIONS {
        let program = build(C, name);
        let job = || Job::new(4).mode("raid5").args(&["--verbose"]);
        let undisturbed = job().program(&program, &[]).run();
        let right = ok(&undisturbed, name);
        let at = |pe: u32, step: &str| format!("{pe}@{checkpoint}:{step}");
        let nodes = ["--nodes", "4", "--spares", "1"];
        for killed in [
            job().kill(&[&at(1, "encode")]),
            job().kill(&[&at(3, "copied")]),
            job().kill(&[&at(0, "after")]),
            job().kill(&["2@2:before"]),
            job().args(&nodes).kill_node(&[&at(2, "after")]).with_orphans(),
            job().args(&nodes).kill_node(&[&at(0, "copied")]).with_orphans(),
        ] {
            let outcome = killed.program(&program, &[]).run();
            let sum = recovered_once(&outcome, name);
            outcome.check(sum == right, &format!("the sum of the undisturbed run: {right}"));
        }
        let twice = job().kill(&[&at(1, "after"), &format!("2@{}", checkpoint + 1)]);
        let outcome = twice.program(&program, &[]).run();
        outcome.check(ok(&outcome, name) == right, "the same sum after two deaths");
    }
}
