//! The same sources under Open MPI's OSHMEM, where it is installed: the same results.
//!
//! It has the API of 1.4, so only programs that need no more are built (without the calls for fault
//! tolerance, `-DNO_FT`). A test binary of its own: the other library uses `/dev/shm`, and tests of
//! ours look at that.

#[path = "support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that keep to OpenSHMEM 1.4, and for which that implementation is good enough: its locks
/// do not come to an end under contention, and its bitwise atomics cannot be linked.
const PROGRAMS: &[&str] =
    &["isort", "matmul", "transpose", "mandelbrot", "cg", "bfs", "rma", "active_sets", "threads"];
const PES: usize = 2;

/// The wrapper, if the `oshcc` of the path is Open MPI's.
fn their_oshcc() -> Option<&'static str> {
    let output = Command::new("oshcc").arg("--showme:libs").output().ok()?;
    let libraries = String::from_utf8_lossy(&output.stdout).into_owned();
    libraries.split_whitespace().any(|name| name == "oshmem").then_some("oshcc")
}

fn build(compiler: &str, options: &[&str], name: &str, suffix: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/c").join(name);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{suffix}"));
    let output = Command::new(compiler)
        .args(["-std=gnu11", "-O2", "-pthread", "-o"])
        .args([&target, &source.with_extension("c")])
        .args(options)
        .output()
        .expect("the compiler runs");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    target
}

/// The lines that a program printed with its own name at their beginning.
fn own_lines(name: &str, text: &str) -> Vec<String> {
    text.lines().filter(|line| line.starts_with(&format!("{name}: "))).map(str::to_owned).collect()
}

fn theirs(program: &Path) -> String {
    let limit = support::LIMIT.as_secs().to_string();
    let output = Command::new("timeout")
        .args(["-k", "5", &limit, "oshrun", "--allow-run-as-root", "--oversubscribe"])
        .args(["--mca", "osc", "^rdma", "-n", &PES.to_string()])
        .arg(program)
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .expect("timeout is installed");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_same_sources_give_the_same_results() {
    let Some(compiler) = their_oshcc() else {
        support::skip("open-mpi", "its oshcc is not installed");
        return;
    };
    for name in PROGRAMS {
        let program = build(env!("CARGO_BIN_EXE_oshcc"), &[], name, "ours");
        let ours = support::Job::new(PES).program(&program, &[]).run();
        ours.status(0);
        let ours = own_lines(name, &ours.out);
        let theirs = own_lines(name, &theirs(&build(compiler, &["-DNO_FT"], name, "openmpi")));
        assert!(ours.len() == 1 && ours == theirs, "{name}: ours {ours:?}, theirs {theirs:?}");
    }
}
