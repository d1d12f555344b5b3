//! The safe Rust API (first part).
