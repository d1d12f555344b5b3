//! Programs built for a profiler: its run-time library keeps its own data in each process, and the
//! program's data is restored.

use std::path::Path;

use super::support::{Job, has_compiler, linked_by, partly, program_with};

/// Returns the program's output lines, sorted, after checking that one line names `named` as left
/// to each process.
fn printed(job: Job, named: &[&str]) -> Vec<String> {
    let outcome = job.run();
    outcome.status(0);
    let left = outcome.lines("oshrun: variables of a profiler are left to each process: ");
    let left: Vec<&str> = left.collect();
    outcome.check(left.len() == usize::from(!named.is_empty()), "one line, if anything is left");
    let has = |name: &&str| left[0].split(", ").any(|word| word.split(' ').next() == Some(*name));
    outcome.check(named.iter().all(has), &format!("{named:?} were expected"));
    let mut lines: Vec<String> = outcome.out.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Compares a run without losses to one with a kill, and to one with another kill in the recovery.
fn comes_back(program: &Path, named: &[&str]) {
    let folder = program.with_extension("profile");
    let _ = std::fs::remove_dir_all(&folder);
    let text = folder.to_str().expect("a plain name");
    let job = || {
        let job = Job::new(3).args(&["-v"]).mode("raid5").env("GCOV_PREFIX", text);
        let job = job.env("GMON_OUT_PREFIX", &format!("{text}.gmon"));
        job.env("LLVM_PROFILE_FILE", &format!("{text}/%p.profraw"))
    };
    let undisturbed = printed(job().program(program, &[]), named);
    for rules in [&["1@3"][..], &["0@2:copy", "2@4"]] {
        let killed = printed(job().kill(rules).program(program, &[]), named);
        assert_eq!(killed, undisturbed, "{rules:?}");
    }
    assert!(named.is_empty() || folder.exists(), "{}: a profile is written", program.display());
}

#[test]
fn counters_of_gcc_are_left_to_each_process() {
    const OWN: &[&str] = &["__gcov0", "__gcov_root"];
    for (option, named) in [("-fprofile-generate", OWN), ("--coverage", OWN), ("-pg", &[])] {
        comes_back(&program_with("profiled", &[option]), named);
    }
}

#[test]
fn counters_of_clang_are_left_to_each_process() {
    const COUNTERS: &[&str] = &["__llvm_prf_cnts", "__llvm_prf_data"];
    let Some(clang) = has_compiler(&["clang-22", "clang-21", "clang-20", "clang-19"]) else {
        return partly("clang", "there is no clang");
    };
    for (options, named) in [
        (&["-fprofile-instr-generate"][..], COUNTERS),
        (&["-fprofile-generate"], &["__llvm_prf_cnts", "__llvm_prf_vnds"]),
        (&["-fprofile-instr-generate", "-fcoverage-mapping"], COUNTERS),
        (&["--coverage"], &["writeout_fn_list"]),
    ] {
        match linked_by(clang, "profiled", options) {
            Some(program) => comes_back(&program, named),
            None => return partly("clang-runtime", "clang has no library for profiles"),
        }
    }
}
