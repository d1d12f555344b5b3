//! Keeps the library loaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Threads and exit handlers of the library live as long as the process, whoever loaded it.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
}
