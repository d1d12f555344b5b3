//! The programs under Open MPI's OSHMEM, if installed: their results do not change.
//!
//! It has the API of 1.4, so only programs that need no more are built (without the fault-tolerance
//! calls, `-DNO_FT`). A separate test binary: the other library uses `/dev/shm`, which our own
//! tests examine.

#[path = "support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that need only OpenSHMEM 1.4 and that work there: its locks do not finish under
/// contention, and its bitwise atomics cannot be linked.
const PROGRAMS: &[&str] =
    &["isort", "matmul", "transpose", "mandelbrot", "cg", "bfs", "rma", "active_sets", "threads"];
const PES: usize = 2;

/// Returns the wrapper, if the `oshcc` in the path is Open MPI's and its headers are installed.
fn their_oshcc() -> Option<&'static str> {
    let show = |what: &str| {
        let output = Command::new("oshcc").arg(format!("--showme:{what}")).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let is_theirs = show("libs")?.split_whitespace().any(|name| name == "oshmem");
    let has_header = |folder: &str| Path::new(folder).join("shmem.h").is_file();
    (is_theirs && show("incdirs")?.split_whitespace().any(has_header)).then_some("oshcc")
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

/// Returns the lines that a program printed with its own name at their beginning.
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
fn equal_sources_give_equal_results() {
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

/// Returns the lines of a program that Open MPI's `mpirun` starts, and its status.
fn started_by_mpirun(words: &[&str]) -> (Vec<String>, Option<i32>) {
    let limit = support::LIMIT.as_secs().to_string();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mpirun");
    std::fs::create_dir_all(&folder).expect("a folder for the session");
    let mut command = Command::new("timeout");
    command.args(["-k", "5", &limit, "mpirun", "--allow-run-as-root", "--oversubscribe"]);
    command.args(words).env_remove("LD_LIBRARY_PATH").env("TMPDIR", &folder);
    let names = std::env::vars().map(|(name, _)| name);
    names.filter(|name| name.starts_with("SHMEM_")).for_each(|name| _ = command.env_remove(name));
    let output = command.env("SHMEM_SYMMETRIC_SIZE", "16M").output().expect("timeout is installed");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let own = |line: &&str| line.starts_with("raidshmem: ") || line.starts_with("hello");
    let mut lines: Vec<String> = said.lines().filter(own).map(str::to_owned).collect();
    lines.sort_unstable();
    (lines, output.status.code())
}

/// mpirun ends a task that has not reported yet when another has ended with an error.
#[test]
fn tasks_of_mpirun_are_refused_and_oshrun_may_be_one() {
    let version = Command::new("mpirun").arg("--version").output();
    let is_theirs = |text: Vec<u8>| String::from_utf8_lossy(&text).contains("Open MPI");
    if !version.is_ok_and(|output| is_theirs(output.stdout)) {
        return support::skip("mpirun", "that of Open MPI is not installed");
    }
    let hello = support::program("hello");
    let hello = hello.to_str().expect("test programs have plain names");
    let (lines, status) = started_by_mpirun(&["-n", "2", hello]);
    let all = [0, 1].map(|rank| {
        format!(
            "raidshmem: OMPI_COMM_WORLD_SIZE=2 and OMPI_COMM_WORLD_RANK={rank}: mpirun started 2 \
             tasks, and each would be a job of one PE: expected oshrun -n 2 PROGRAM, or \
             SHMEM_FT_SINGLETON=1"
        )
    });
    let known = lines.iter().all(|line| all.contains(line));
    assert!(known && (1..=2).contains(&lines.len()) && status == Some(2), "{status:?}: {lines:#?}");
    assert!(lines.len() == 1 || lines[0] != lines[1], "one of each: {lines:#?}");

    let wanted = ["-x", "SHMEM_FT_SINGLETON=1", "-n", "2", hello];
    let alone = "hello from PE 0 of 1";
    assert_eq!(started_by_mpirun(&wanted), (vec![alone.to_owned(); 2], Some(0)));
    assert_eq!(started_by_mpirun(&["-n", "1", hello]), (vec![alone.to_owned()], Some(0)));
    let oshrun = ["-n", "1", env!("CARGO_BIN_EXE_oshrun"), "-n", "2", hello];
    let both = [0, 1].map(|pe| format!("hello from PE {pe} of 2"));
    assert_eq!(started_by_mpirun(&oshrun), (both.to_vec(), Some(0)));
}
