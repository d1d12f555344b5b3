//! The library compiles for aarch64: a cheap check, if Rust's library for that target and a C
//! compiler are installed. `make test-arm` installs them and runs tests and jobs.

#[path = "support/skip.rs"]
mod support;

use std::path::Path;
use std::process::Command;

use support::skip;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const COMPILER: &str = "aarch64-linux-gnu-gcc";

fn has_target() -> bool {
    let mut rustc = Command::new("rustc");
    let answer = rustc.args(["--print", "target-libdir", "--target", TARGET]).output();
    let answer = answer.expect("rustc runs");
    Path::new(String::from_utf8_lossy(&answer.stdout).trim()).exists()
}

fn has_compiler() -> bool {
    let mut compiler = Command::new(COMPILER);
    compiler.args(["-E", "-include", "pthread.h", "-x", "c", "/dev/null"]);
    compiler.output().is_ok_and(|output| output.status.success())
}

#[test]
fn the_library_compiles() {
    if !has_target() {
        skip("aarch64-target", "Rust's library for it is not installed");
        return;
    }
    if !has_compiler() {
        skip("aarch64-compiler", "no gcc-aarch64-linux-gnu, for a crate in C");
        return;
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["check", "--quiet", "--locked", "--lib", "--bins", "--target", TARGET]);
    cargo.arg("--no-default-features"); // this machine has no hwloc for aarch64
    cargo.args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("aarch64");
    cargo.env("CARGO_TARGET_DIR", folder).env_remove("RUSTFLAGS");
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", COMPILER);
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
