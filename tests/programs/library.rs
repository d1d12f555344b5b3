//! The shared library of `examples/library`, built and run as `docs/library.md` describes: its
//! private and its symmetric state survive.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::Job;

/// Runs `oshcc` in the folder of the example.
fn oshcc(arguments: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/library");
    let output = Command::new(env!("CARGO_BIN_EXE_oshcc"))
        .current_dir(folder)
        .args(["-Wall", "-Wextra", "-Werror"])
        .args(arguments)
        .output()
        .expect("oshcc runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "oshcc {arguments:?}: {errors}");
}

fn built() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("library");
    std::fs::create_dir_all(&folder).expect("a folder for the library");
    let path = folder.to_str().expect("test programs have plain names");
    let (library, program) = (format!("{path}/libtally.so"), format!("{path}/tally"));
    oshcc(&["-shared", "-fPIC", "-o", &library, "tally.c"]);
    let run_time = format!("-Wl,-rpath,{path}");
    oshcc(&["-o", &program, "main.c", &format!("-L{path}"), "-ltally", &run_time]);
    PathBuf::from(program)
}

#[test]
fn the_state_of_a_shared_library_survives() {
    let program = built();
    for losses in ["", "--kill 0@5", "--nodes 4 --kill-node 0@9", "--nodes 4 --kill-node 2@9"] {
        let outcome =
            Job::line(&format!("-n 4 {losses}")).mode("raid5").program(&program, &[]).run();
        outcome.status(0);
        outcome.check(outcome.out == "total 760, 20 calls of each PE\n", "the right figures");
        let lost = outcome.err.contains("oshrun: lost 1");
        outcome.check(lost != losses.is_empty(), "each loss was expected");
    }
}
