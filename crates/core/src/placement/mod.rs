//! Placement of PEs and parity, so that a likely common failure costs no group too much.
//!
//! A *failure domain* fails as a unit: a process, a node, or a larger unit that the user names (a
//! rack, a switch, a power feed). [`domains`] holds the domains, [`mod@file`] reads those of the
//! user, and [`found`] derives others from the machines' own data. [`groups`] forms the parity
//! groups, [`substitute`] places a lost PE's substitute, [`balance`] chooses those that move to a
//! new node, [`survival`] finds the losses that the job survives now, [`moves`] records the nodes
//! of PEs over time, and [`mod@shadow`] places a second copy. [`bindings`] assigns processors to
//! PEs, [`threads`] restores those of a PE's threads, and [`pages`] the NUMA nodes of its pages.
//!
//! Every process of a job computes all of this from equal inputs, so all get equal results.
//!
//! Left out: reading files and binding processes, which the launcher and the agents do.

pub mod balance;
pub mod bindings;
mod coloring;
mod crossing;
pub mod domains;
pub mod file;
pub mod found;
pub mod groups;
pub mod moves;
pub mod pages;
pub mod shadow;
pub mod substitute;
pub mod survival;
pub mod table;
#[cfg(test)]
mod tests;
pub mod threads;

pub use domains::{DomainKind, Domains, Source};
