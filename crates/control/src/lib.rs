//! Control messages between launcher, agents and PEs, and the event trace of each process.
//!
//! Invariant: this crate makes no decisions; messages are those of `raidshmem_core::message`.
//!
//! Left out: which process sends which message (`raidshmem-launch`, and the start of a PE in
//! `raidshmem`).
//!
//! Layers, each importing only from those above it or to the left of it:
//!
//! ```text
//! atomic  view_words  the atomics; the view in words of memory
//! noise   encrypted messages between nodes
//! link    the connection between launcher and agent
//! page    the page on which an agent publishes the view
//! trace   the last events of a process
//! ```

// The module documentation links to private items.
#![allow(rustdoc::private_intra_doc_links)]

mod atomic;
pub mod link;
pub mod noise;
pub mod page;
pub mod trace;
mod view_words;

/// Returns true if libraries of these two builds are compatible. A build is a version and, except
/// for a published package, a checksum of the sources.
pub fn is_same_build(own: &str, other: &str) -> bool {
    let version =
        |build: &str| build.split_once('-').map_or(build.to_owned(), |(v, _)| v.to_owned());
    let published = !other.contains('-') || !own.contains('-');
    other == own || published && version(other) == version(own)
}

/// Environment variable through which a PE finds the descriptor of its control connection.
pub const CONTROL_FD: &str = raidshmem_sys::startup::CONTROL_FD;
