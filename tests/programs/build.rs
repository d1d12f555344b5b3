//! Builds the programs of `examples/c` and `examples/cxx` with the wrappers just built, once each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// A language: the folder of its programs, and their compiler.
#[derive(Clone, Copy)]
pub struct Language {
    pub folder: &'static str,
    pub suffix: &'static str,
    pub compiler: &'static str,
    pub standard: &'static str,
}

/// `oshcc`
pub const C: Language = Language {
    folder: "examples/c",
    suffix: "c",
    compiler: env!("CARGO_BIN_EXE_oshcc"),
    standard: "-std=c11",
};
/// `oshc++`
pub const CXX: Language = Language {
    folder: "examples/cxx",
    suffix: "cc",
    compiler: env!("CARGO_BIN_EXE_oshcxx"),
    standard: "-std=c++17",
};

static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// Builds the program `name` and returns its path.
pub fn build(language: Language, name: &str) -> PathBuf {
    // Held during a build, so that no test runs a partial program.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    built.entry(name.to_owned()).or_insert_with(|| compile(language, name)).clone()
}

fn compile(language: Language, name: &str) -> PathBuf {
    let Language { folder, suffix, compiler, standard } = language;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(name);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    std::fs::create_dir_all(&target).expect("a folder for programs");
    let target = target.join(name);
    let output = Command::new(compiler)
        .args([standard, "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .args([&target, &source.with_extension(suffix)])
        .output();
    let output = output.expect("the wrapper runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}.{suffix}: {errors}");
    target
}
