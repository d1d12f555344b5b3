//! The build of this library, by which processes find out if they have the same one.
//!
//! Left out: compatibility of builds (`raidshmem_control`).

#![forbid(unsafe_code)]

/// The version of this library, and a checksum of the sources that it is built from.
pub const BUILD: &str = env!("RAIDSHMEM_BUILD");

/// Returns the build as it lies in the executable: if a byte of it is changed there, as a test
/// does, the process has another build.
pub fn own_build() -> &'static str {
    std::hint::black_box(BUILD)
}
