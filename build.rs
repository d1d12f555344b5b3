//! Build script: linking of the C library, its name in the target folder, and a checksum of the
//! sources.
//!
//! The library is `libraidshmem.so.0`: a program is bound to that name and to the version of all
//! its symbols, so that a library with another interface is never loaded in its place. Only GNU ld
//! can assign a version to symbols listed by rustc, so it links this library. In the target folder
//! a link leads from the name that programs look for to the file that cargo makes.
//!
//! The checksum lets `oshrun` and a program detect that they use different libraries. A published
//! package has none: there is only one library per version.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The library's name; its number grows when programs must be relinked.
const SONAME: &str = "libraidshmem.so.0";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let options = [
        // Threads and exit handlers of the library live as long as the process, even after a
        // dlclose.
        "-z,nodelete",
        "-soname,libraidshmem.so.0",
        "--default-symver",
        // Lets a debugger find the separate debug symbols.
        "--build-id",
    ];
    println!("cargo::rustc-link-arg-cdylib=-fuse-ld=bfd");
    for option in options {
        println!("cargo::rustc-link-arg-cdylib=-Wl,{option}");
    }
    // target/PROFILE/build/raidshmem-HASH/out
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let profile = out.ancestors().nth(3).expect("cargo's folders");
    for folder in [profile.to_owned(), profile.join("deps")] {
        // It may already exist; if this fails, a program reports the missing library at its start.
        let _ = symlink("libraidshmem.so", folder.join(SONAME));
    }
    let mut build = std::env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    if Path::new("crates").is_dir() {
        build += &format!("-{:016x}", sources());
    }
    println!("cargo::rustc-env=RAIDSHMEM_BUILD={build}");
}

/// Returns a checksum (FNV-1a) of the sources of all crates that end up in the library.
fn sources() -> u64 {
    let mut folders = vec![PathBuf::from("src"), PathBuf::from("codec/src")];
    let crates = fs::read_dir("crates").into_iter().flatten().flatten();
    folders.extend(crates.map(|entry| entry.path().join("src")));
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        println!("cargo::rerun-if-changed={}", folder.display());
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => files.push(path),
            }
        }
    }
    files.sort();
    let mut sum = 0xcbf2_9ce4_8422_2325;
    for file in files {
        let name = file.to_string_lossy().into_owned().into_bytes();
        for byte in name.into_iter().chain(fs::read(&file).unwrap_or_default()) {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    sum
}
