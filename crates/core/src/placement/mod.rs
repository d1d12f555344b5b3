//! Placement of PEs and parity, so that a likely common failure costs no group too much.
//!
//! A *failure domain* is a set of things that fail together: a process, a node, and larger units
//! named by the user (a rack, a switch, a power feed). [`domains`] holds them, [`mod@file`] parses
//! the user's, and [`found`] derives those that machines report. [`groups`] chooses the PEs that
//! protect each other, [`substitute`] the node for a lost PE, [`mod@shadow`] the place of a second
//! copy, and [`bindings`] the processors of each PE; [`threads`] restores those of its threads.
//! [`survival`] computes which losses are survivable now.
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
pub mod shadow;
pub mod substitute;
pub mod survival;
pub mod table;
#[cfg(test)]
mod tests;
pub mod threads;

pub use domains::{DomainKind, Domains, Source};
