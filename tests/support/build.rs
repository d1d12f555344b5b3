//! Test programs, built once with the `oshcc` just built.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, Once};

static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// Builds the program `name`, from `tests/c` or else from `examples`.
pub fn program(name: &str) -> PathBuf {
    program_with(name, &[])
}

/// Like [`program`], with more compiler options.
pub fn program_with(name: &str, options: &[&str]) -> PathBuf {
    // Held during a build: a second test that wants the program waits for it. A failed build leaves
    // nothing in the map.
    let mut built = BUILT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let key = name.to_owned() + &options.concat();
    built.entry(key.clone()).or_insert_with(|| build(name, options, &key)).clone()
}

/// Builds the program `name` with another compiler: as C, or as C++ if the compiler's name implies
/// it.
pub fn program_by(compiler: &str, name: &str, options: &[&str]) -> PathBuf {
    let mut built = BUILT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let key = name.to_owned() + compiler + &options.concat();
    let make = || {
        let (source, target) = (source(name), folder().join(&key));
        if !compiler.contains("++") {
            return compile_by(Some(compiler), &source, &target, options);
        }
        let copy = target.with_extension("cc");
        std::fs::copy(&source, &copy).expect("a copy of the source");
        compile_by(Some(compiler), &copy, &target, options)
    };
    built.entry(key.clone()).or_insert_with(make).clone()
}

/// Builds an example in Rust, next to the binaries. `cargo test` builds them only for all targets.
/// Cargo's variables for tests are removed: a crate whose build depends on them (ring) would be
/// rebuilt, with everything that needs it, by each of the two in turn.
pub fn example(name: &str) -> PathBuf {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let mut cargo = Command::new(env!("CARGO"));
        let of_test = ["CARGO_PKG_", "CARGO_MANIFEST_", "OUT_DIR"];
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let names = names.filter(|name| of_test.iter().any(|begin| name.starts_with(begin)));
        names.for_each(|name| _ = cargo.env_remove(name));
        cargo.args(["build", "--quiet", "--locked", "--workspace", "--examples"]);
        cargo.args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
        let built = cargo.status();
        assert!(built.is_ok_and(|status| status.success()), "cargo build --example");
    });
    let oshrun = PathBuf::from(env!("CARGO_BIN_EXE_oshrun"));
    oshrun.parent().expect("a folder").join("examples").join(name)
}

/// Returns the first of these compilers that this machine has.
pub fn has_compiler<'a>(names: &[&'a str]) -> Option<&'a str> {
    let runs = |name: &&&str| {
        let output = Command::new(name).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    names.iter().find(runs).copied()
}

/// Links the program `name` of `tests/c` with that compiler; returns `None` if that fails.
pub fn linked_by(compiler: &str, name: &str, options: &[&str]) -> Option<PathBuf> {
    let target = folder().join(format!("{name}-{compiler}{}", options.concat()));
    let options = [&["-O1", "-g"], options].concat();
    let output = oshcc(Some(compiler), (&source(name), &target), &options);
    output.status.success().then_some(target)
}

fn build(name: &str, options: &[&str], target: &str) -> PathBuf {
    compile(&source(name), &folder().join(target), options)
}

fn source(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = ["tests/c", "examples"].map(|folder| root.join(folder).join(name));
    let source = source.iter().map(|path| path.with_extension("c")).find(|path| path.exists());
    source.unwrap_or_else(|| panic!("{name}.c is in neither tests/c nor examples"))
}

fn folder() -> PathBuf {
    // In the name of this test binary, so that two of them do not write one file.
    let own = std::env::current_exe().expect("the test has a path");
    let own = own.file_name().expect("it is a file").to_owned();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs").join(own);
    std::fs::create_dir_all(&folder).expect("a folder for programs");
    folder
}

/// Links the program `name` of `tests/c` without the options of `oshcc`: bound lazily.
pub fn lazily_bound(name: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    std::fs::create_dir_all(&folder).expect("a folder for programs");
    let target = folder.join(format!("{name}-lazy{}", options.concat()));
    let flags = |what: &str| -> Vec<String> {
        let told =
            Command::new(env!("CARGO_BIN_EXE_oshcc")).arg(what).output().expect("oshcc runs");
        let told = String::from_utf8(told.stdout).expect("options are text");
        told.split_whitespace().filter(|word| *word != "-Wl,-z,now").map(str::to_owned).collect()
    };
    let status = Command::new("cc")
        .args(["-O1", "-g", "-Wl,-z,lazy", "-o"])
        .args([&target, &source.with_extension("c")])
        .args(options)
        .args(flags("--showme:compile"))
        .args(flags("--showme:link"))
        .status();
    assert!(status.is_ok_and(|status| status.success()), "cc {}", source.display());
    target
}

/// Compiles a test's own source file.
pub fn compiled(source: &Path, target: &Path) -> PathBuf {
    compile(source, target, &[])
}

fn compile(source: &Path, target: &Path, options: &[&str]) -> PathBuf {
    compile_by(None, source, target, options)
}

fn compile_by(compiler: Option<&str>, source: &Path, target: &Path, options: &[&str]) -> PathBuf {
    let strictly = ["-O1", "-g", "-Wall", "-Wextra", "-Werror"];
    let output = oshcc(compiler, (source, target), &[&strictly, options].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "oshcc {}: {errors}", source.display());
    target.to_owned()
}

/// Compiles a source with `oshcc`, with that compiler or its default.
fn oshcc(
    compiler: Option<&str>,
    (source, target): (&Path, &Path),
    options: &[&str],
) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_oshcc"))
        .envs(compiler.map(|name| ("OSHCC_CC", name)))
        .args(options)
        .arg("-o")
        .args([target, source])
        .output()
        .expect("oshcc runs")
}

/// Copies an executable or a library, and makes the copy claim another build.
pub fn another_build(of: &Path, copy: &Path) {
    let own = raidshmem::version::BUILD;
    let mut bytes = std::fs::read(of).expect("it was built");
    let mut other = own.as_bytes().to_vec();
    other.last_mut().expect("a version").clone_from(&b'?');
    let places: Vec<usize> = bytes
        .windows(own.len())
        .enumerate()
        .filter(|(_, at)| *at == own.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "{}: it says no build", of.display());
    for at in places {
        bytes[at..at + other.len()].copy_from_slice(&other);
    }
    std::fs::write(copy, bytes).expect("a file below the target folder");
    let executable = std::fs::metadata(of).expect("it was built").permissions();
    std::fs::set_permissions(copy, executable).expect("it was just written");
}
