//! Build script: reports in one line if the library for the feature `hwloc` is missing, more
//! clearly and earlier than the linker would.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_HWLOC").is_none() {
        return;
    }
    let probed =
        pkg_config::Config::new().atleast_version("2.0").cargo_metadata(false).probe("hwloc");
    // Without pkg-config the library may still exist.
    if let Err(error) = probed
        && !matches!(error, pkg_config::Error::Command { .. })
    {
        println!(
            "cargo::error=libhwloc 2 is missing: install it (Debian: apt-get install \
             libhwloc-dev), or build without it (--no-default-features)"
        );
    }
}
