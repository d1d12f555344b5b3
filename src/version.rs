//! The build of this library, by which processes detect that they use different ones.
//!
//! Left out: the compatibility of builds (`raidshmem_control`).

#![forbid(unsafe_code)]

/// The version of this library, and a checksum of the sources that it is built from.
pub const BUILD: &str = env!("RAIDSHMEM_BUILD");

/// Returns the build as stored in the executable: a test that changes a byte of it there makes
/// another build.
pub fn own_build() -> &'static str {
    std::hint::black_box(BUILD)
}
