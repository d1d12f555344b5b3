//! The command line: the definition of a job, and its checks before anything is started.

pub mod args;
pub mod environment;
mod foreign;
pub mod hosts;
pub mod outputs;
pub mod prepare;
pub mod protected;
pub mod ready;
pub mod refused;
pub mod resume;
pub mod starter;
pub mod words;
