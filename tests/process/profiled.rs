//! Programs that are built for a profiler: its run-time library keeps what it has in each process,
//! and what the program has comes back.

use super::support::{Job, program_with};

fn printed(job: Job) -> Vec<String> {
    let outcome = job.run();
    outcome.status(0);
    let mut lines: Vec<String> = outcome.out.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// With a kill, and with one in the recovery from it.
fn comes_back(options: &[&str]) {
    let program = program_with("profiled", options);
    let folder = program.with_extension("profile");
    let folder = folder.to_str().expect("a plain name");
    let job = || {
        let job = Job::new(3).mode("raid5").env("GCOV_PREFIX", folder);
        let job = job.env("GMON_OUT_PREFIX", &format!("{folder}.gmon"));
        job.env("LLVM_PROFILE_FILE", &format!("{folder}/%p.profraw"))
    };
    let undisturbed = printed(job().program(&program, &[]));
    for rules in [&["1@3"][..], &["0@2:copy", "2@4"]] {
        assert_eq!(printed(job().kill(rules).program(&program, &[])), undisturbed, "{rules:?}");
    }
}

#[test]
fn counters_of_gcc_are_left_to_each_process() {
    for options in [["-fprofile-generate"], ["--coverage"], ["-pg"]] {
        comes_back(&options);
    }
}
