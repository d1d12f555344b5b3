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
    build_with(language, name, &[])
}

/// Builds the program `name` with these options of the preprocessor, and returns its path.
pub fn build_with(language: Language, name: &str, options: &[&str]) -> PathBuf {
    // Held during a build, so that no test runs a partial program.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let target = [name].iter().chain(options).copied().collect::<String>();
    let compile = || compile(language, (name, &target), options);
    built.entry(target.clone()).or_insert_with(compile).clone()
}

fn compile(language: Language, (name, target): (&str, &str), options: &[&str]) -> PathBuf {
    let Language { folder, suffix, compiler, standard } = language;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(name);
    let programs = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    std::fs::create_dir_all(&programs).expect("a folder for programs");
    let target = programs.join(target);
    let output = Command::new(compiler)
        .args([standard, "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pthread"])
        .args(options)
        .arg("-o")
        .args([&target, &source.with_extension(suffix)])
        .output();
    let output = output.expect("the wrapper runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}.{suffix}: {errors}");
    target
}
