//! Finds libibverbs through pkg-config, and compares the committed bindings with its headers.

include!("../bindings/layout.rs");

/// The library is told how long it is here, or fills the old part of it only.
const GROW: &[&str] = &["ibv_port_attr"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/bindings.rs");
    println!("cargo::rerun-if-changed=src/types.rs");
    println!("cargo::rerun-if-changed=../bindings/layout.rs");
    let mut config = pkg_config::Config::new();
    let found = config.atleast_version("1.8.28").statik(false).probe("libibverbs");
    let verbs = found.unwrap_or_else(|error| {
        eprintln!("{error}");
        panic!("libibverbs 1.8.28 or newer is needed (Debian: apt-get install libibverbs-dev)")
    });
    let texts = [include_str!("src/bindings.rs"), include_str!("src/types.rs")];
    check("infiniband/verbs.h", &verbs.include_paths, &texts, GROW);
}
