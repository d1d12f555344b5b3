//! The command line: what a job is, and its checks before anything is started.

pub mod args;
pub mod hosts;
pub mod ready;
pub mod starter;
