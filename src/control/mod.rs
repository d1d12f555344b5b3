//! What launcher, agents and PEs say to each other, and the page on which an agent shows the view.

pub mod link;
pub mod noise;
pub mod page;

/// The version of this library, and a checksum of the sources that it is built from.
pub const BUILD: &str = env!("RAIDSHMEM_BUILD");

/// The same, read where it lies in the executable: whoever changes a byte of it there, as a test
/// does, has another build.
pub fn own_build() -> String {
    std::hint::black_box(BUILD).to_owned()
}

/// True if the library of build `other` understands this one. A published package says its version
/// alone.
pub fn is_same_build(other: &str) -> bool {
    let version =
        |build: &str| build.split_once('-').map_or(build.to_owned(), |(v, _)| v.to_owned());
    let published = !other.contains('-') || !BUILD.contains('-');
    other == BUILD || published && version(other) == version(BUILD)
}

/// Environment name under which a PE finds the descriptor of its control connection.
pub const CONTROL_FD: &str = raidshmem_sys::startup::CONTROL_FD;
