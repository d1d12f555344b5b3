//! The build of this library, by which a process finds out whether others have the same one.
//!
//! Left out: which builds understand each other (`raidshmem_control`).

#![forbid(unsafe_code)]

/// The version of this library, and a checksum of the sources that it is built from.
pub const BUILD: &str = env!("RAIDSHMEM_BUILD");

/// The build, read where it lies in the executable: whoever changes a byte of it there, as a test
/// does, has another one.
pub fn own_build() -> &'static str {
    std::hint::black_box(BUILD)
}
