//! What launcher, agents and PEs say to each other, and the page on which an agent shows the view.

pub mod link;
pub mod message;
pub mod noise;
pub mod page;
pub mod view;

/// Exit status of a job that fault tolerance could not carry on.
pub const UNRECOVERABLE: i32 = 3;

/// Environment name under which a PE finds the descriptor of its control connection.
pub const CONTROL_FD: &str = "RAIDSHMEM_CONTROL_FD";
