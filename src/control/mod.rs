//! What launcher, agents and PEs say to each other, and the page on which an agent shows the view.

pub mod link;
pub mod noise;
pub mod page;

/// Environment name under which a PE finds the descriptor of its control connection.
pub const CONTROL_FD: &str = "RAIDSHMEM_CONTROL_FD";
