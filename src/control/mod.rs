//! What launcher, agents and PEs say to each other, and the page on which an agent shows the view.

pub mod message;
pub mod page;
pub mod view;
