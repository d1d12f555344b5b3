//! The library on aarch64: it compiles, and under an emulator its own tests and a C program pass,
//! with the `long double` of that machine (IEEE binary128, in vector registers).
//!
//! Tools that are not installed are skipped, with a notice: Rust's library for the target, Debian's
//! cross compiler (gcc-aarch64-linux-gnu) and its emulator (qemu-user). Left out: jobs of several
//! PEs, because the emulator does not start programs for the launcher.

#[path = "support/skip.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{partly, skip};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const COMPILER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
/// The C library for aarch64.
const ROOT: &str = "/usr/aarch64-linux-gnu";

/// Runs a command to its end and returns its output.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{printed}{errors}", output.status);
    printed
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn has_target() -> bool {
    let mut rustc = Command::new("rustc");
    let answer = rustc.args(["--print", "target-libdir", "--target", TARGET]).output();
    let answer = answer.expect("rustc runs");
    Path::new(String::from_utf8_lossy(&answer.stdout).trim()).exists()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("aarch64")
}

fn cargo(command: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([command, "--quiet", "--locked", "--lib", "--target", TARGET]);
    cargo.arg("--no-default-features"); // this machine has no hwloc for aarch64
    cargo.args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    cargo.env("CARGO_TARGET_DIR", folder()).env_remove("RUSTFLAGS");
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", COMPILER);
    let runner = format!("{EMULATOR} -L {ROOT}");
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    cargo
}

#[test]
fn the_library_compiles_and_its_pure_parts_and_long_double_work() {
    if !has_target() {
        skip("aarch64-target", "Rust's library for it is not installed");
        return;
    }
    if !runs(COMPILER) || !Path::new(ROOT).exists() {
        skip("aarch64-compiler", "no gcc-aarch64-linux-gnu, for a crate in C");
        return;
    }
    if !runs(EMULATOR) {
        partly("qemu-user", "nothing but compiling");
        run(&mut cargo("check"));
        return;
    }
    // Tests that need no system: arithmetic, layouts, plans, state machines.
    let pure = ["capi::", "openshmem::", "shmem::", "heap::", "layout::", "store::", "plan::"];
    let crates = ["-p", "raidshmem", "-p", "raidshmem-core"];
    let tests = run(cargo("test").args(crates).arg("--").args(pure));
    assert!(tests.contains("test result: ok"), "{tests}");

    run(&mut cargo("build"));
    let built = folder().join(TARGET).join("debug");
    let program = folder().join("longdouble");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/longdouble.c");
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let mut compiler = Command::new(COMPILER);
    compiler.args(["-Wall", "-Werror", include, source, "-lraidshmem", "-Wl,-z,now", "-o"]);
    compiler.arg(&program).arg(format!("-L{}", built.display()));
    run(compiler.arg(format!("-Wl,-rpath,{}", built.display())));
    let printed = run(Command::new(EMULATOR).args(["-L", ROOT]).arg(&program));
    assert_eq!(printed, "longdouble ok\n");
}
