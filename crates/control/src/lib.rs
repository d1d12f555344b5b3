//! What launcher, agents and PEs say to each other, and what each of them did last.
//!
//! Invariant: nothing here decides; messages are those of `raidshmem_core::message`.
//!
//! Left out: who sends what (`raidshmem-launch`, and the start of a PE in `raidshmem`).
//!
//! Layers, each importing only from those above it or to the left of it:
//!
//! ```text
//! noise   messages between nodes, sealed
//! link    the connection between launcher and agent
//! page    the page on which an agent shows the view
//! trace   the last events of a process (beside)
//! ```

// Modules explain themselves by what is private to them.
#![allow(rustdoc::private_intra_doc_links)]

pub mod link;
pub mod noise;
pub mod page;
pub mod trace;

/// True if the libraries of these builds understand each other. A build is a version and, but for a
/// published package, a checksum of the sources.
pub fn is_same_build(own: &str, other: &str) -> bool {
    let version =
        |build: &str| build.split_once('-').map_or(build.to_owned(), |(v, _)| v.to_owned());
    let published = !other.contains('-') || !own.contains('-');
    other == own || published && version(other) == version(own)
}

/// Environment name under which a PE finds the descriptor of its control connection.
pub const CONTROL_FD: &str = raidshmem_sys::startup::CONTROL_FD;
