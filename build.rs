//! How the C library is linked, and its name in the target folder.
//!
//! The library is `libraidshmem.so.0`: a program is bound to that name and to the version that all
//! of its symbols bear, so that a library with another interface is never loaded in its place. GNU
//! ld alone can give a version to symbols whose list rustc has written; so it links this one
//! library. In the target folder a link leads from the name that programs look for to the file that
//! cargo makes.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// Grows when a program must be linked anew.
const SONAME: &str = "libraidshmem.so.0";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let options = [
        // Threads and exit handlers of the library live as long as the process, whoever loaded it.
        "-z,nodelete",
        "-soname,libraidshmem.so.0",
        "--default-symver",
        // By this a debugger finds the symbols that are kept apart.
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
        // It may be there; where it cannot be made, a program says at its start what is missing.
        let _ = symlink("libraidshmem.so", folder.join(SONAME));
    }
}
