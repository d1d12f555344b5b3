//! The nodes and PEs that a job starts with.

use crate::settings::Fabric;

/// The nodes and PEs of a job.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Node of each PE.
    pub node_of: Vec<u32>,
    /// Number of nodes, including those of spares.
    pub nodes: u32,
    /// Node of each idle spare.
    pub spares: Vec<u32>,
    /// The transport between the nodes; never `Auto`.
    pub fabric: Fabric,
}
