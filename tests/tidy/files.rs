//! The files that the rules cover.

use std::fs;
use std::path::{Path, PathBuf};

pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The folders of the `lib.rs` of each shipped crate.
pub const CRATES: &[&str] = &[
    "src",
    "codec/src",
    CORE,
    "crates/sys/src",
    "crates/segment/src",
    "crates/fabric/src",
    "crates/report/src",
    "crates/advise/src",
    "crates/archive/src",
    "crates/control/src",
    "crates/disk/src",
    "crates/engines/src",
    "crates/launch/src",
    "crates/runtime/src",
    "crates/fabric-ofi/src",
    "crates/fabric-ucx/src",
    "crates/fabric-verbs/src",
];

/// The deciding core, which has no unsafe code at all.
pub const CORE: &str = "crates/core/src";

pub struct File {
    pub path: String,
    pub text: String,
}

/// Returns every file below `folder` whose name `wanted` accepts, in order.
pub fn files(folder: &str, wanted: fn(&str) -> bool) -> Vec<File> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(ROOT).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("a folder can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().is_some_and(wanted) {
                found.push(read(path));
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

pub fn read(path: PathBuf) -> File {
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let path = path.strip_prefix(ROOT).expect("inside").to_str().expect("ASCII").to_owned();
    File { path, text }
}

pub fn rust(folders: &[&str]) -> Vec<File> {
    folders.iter().flat_map(|folder| files(folder, |name| name.ends_with(".rs"))).collect()
}

/// Returns all our Rust sources.
pub fn sources() -> Vec<File> {
    rust(CRATES)
        .into_iter()
        .chain(rust(&[
            "codec/tests",
            "codec/benches",
            "codec/examples",
            "crates/sys/tests",
            "crates/advise/tests",
            "tests",
        ]))
        .chain(rust(&["examples", "benches", "fuzz/src", "fuzz/fuzz_targets"]))
        .collect()
}

/// Returns sources other than Rust: C, scripts, the makefile and manifests.
pub fn others() -> Vec<File> {
    let c = ["examples", "tests", "python", "include"].into_iter().flat_map(|folder| {
        files(folder, |n| [".c", ".cc", ".hpp", ".sh", ".py"].iter().any(|e| n.ends_with(e)))
    });
    let single = ["Makefile", "raidshmem.pc.in"].map(|name| read(Path::new(ROOT).join(name)));
    let scripts = [".ci", "packaging"].into_iter().flat_map(|folder| files(folder, |_| true));
    c.chain(scripts).chain(manifests()).chain(single).collect()
}

/// Returns the manifest of each crate.
pub fn manifests() -> impl Iterator<Item = File> {
    let name = |root: &&str| format!("{}Cargo.toml", root.trim_end_matches("src"));
    CRATES.iter().map(name).map(|name| read(Path::new(ROOT).join(name)))
}

pub fn page(name: &str) -> String {
    read(Path::new(ROOT).join(name)).text
}

/// Fails with all complaints at once.
pub fn expect_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

pub fn snippet(text: &str) -> File {
    File { path: "src/snippet.rs".into(), text: text.into() }
}
