//! The files built with a test, under the names that `make install` expects.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Returns the library built with this test: in the same folder, or one up; the newer.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let candidates = test.ancestors().skip(1).take(2).map(|folder| folder.join("libraidshmem.so"));
    let age = |path: &PathBuf| path.metadata().and_then(|meta| meta.modified());
    let found = candidates.filter(|path| path.exists());
    found.max_by_key(|path| age(path).unwrap_or(SystemTime::UNIX_EPOCH)).expect("it was built")
}

/// Makes a folder in `into` with links to the programs and the library.
pub fn gather(into: &Path) -> PathBuf {
    let built = into.join("built");
    fs::create_dir_all(&built).expect("a folder below the target folder");
    let programs = [
        ("oshrun", env!("CARGO_BIN_EXE_oshrun")),
        ("oshcc", env!("CARGO_BIN_EXE_oshcc")),
        ("oshcxx", env!("CARGO_BIN_EXE_oshcxx")),
        ("oshinfo", env!("CARGO_BIN_EXE_oshinfo")),
        ("oshreport", env!("CARGO_BIN_EXE_oshreport")),
        ("oshadvise", env!("CARGO_BIN_EXE_oshadvise")),
    ];
    for (name, path) in programs {
        symlink(path, built.join(name)).expect("a link below the target folder");
    }
    symlink(library(), built.join("libraidshmem.so")).expect("a link below the target folder");
    built
}
