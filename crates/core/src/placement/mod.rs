//! Placement of PEs and parity, so that a likely common failure costs no group too much.
//!
//! A *failure domain* is what dies together: a process, a node, and what the user names above the
//! node (a rack, a switch, a power feed). [`domains`] holds them, [`mod@file`] reads the user's,
//! [`found`] works out what machines say of themselves,
//! [`groups`] decides which PEs protect each other, [`substitute`] where a lost PE goes on,
//! [`survival`] which losses are survived now, [`moves`] where PEs have been,
//! [`mod@shadow`] where a second copy lies, and
//! [`bindings`] on which processors each runs, and [`threads`] what its threads get back.
//!
//! Every process of a job computes all of this from equal inputs, so all get equal results.
//!
//! Left out: reading files and binding processes, which the launcher and the agents do.

pub mod bindings;
mod coloring;
mod crossing;
pub mod domains;
pub mod file;
pub mod found;
pub mod groups;
pub mod moves;
pub mod shadow;
pub mod substitute;
pub mod survival;
pub mod table;
#[cfg(test)]
mod tests;
pub mod threads;

pub use domains::{DomainKind, Domains, Source};
