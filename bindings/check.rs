// What the build scripts of ucx-sys and rdma-sys do with `layout.rs`.

/// Ends the build if a header of this machine has another layout or value than `texts`.
fn check(header: &str, includes: &[std::path::PathBuf], texts: &[&str], grow: &[&str]) {
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("set by cargo"));
    let file = out.join("layout.c");
    std::fs::write(&file, program(header, texts, grow)).expect("cargo's folder can be written");
    let compiled = cc::Build::new()
        .cargo_metadata(false)
        .warnings(false)
        .includes(includes)
        .file(&file)
        .try_compile("layout");
    if let Err(error) = compiled {
        println!("cargo::error=<{header}> of this machine does not fit the bindings: {error}");
    }
}
